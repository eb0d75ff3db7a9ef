"""What algorithms refuse: wrong values of every option that several of them have, and rows outside the unit ball."""

import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from harness import algorithms

from dpml.data import Dataset
from dpml.data.partition import Equal, partition
from dpml.errors import UserError
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget, Problem

WRONG = [  # a key, a wrong value, and the value that is suggested
    ("calibration", "tigth", "tight"),
    ("unit", "sampel", "sample"),
    ("protocol", "secag", "secagg"),
    ("noise", "discreet", "discrete"),
    ("step_selection", "orcale", "oracle"),
    ("calibrate_for", "collders", ""),
    ("curvature", "bond", "bound"),
    ("variant", 3, "paper"),
    *(("lam", value, "") for value in (-1.0, math.nan, math.inf)),
    *(("shift", value, "") for value in (-1.0, math.nan)),
    *(("rounds", value, "") for value in (0, 10**8)),
    *(("budget_share", value, "") for value in (0.0, 1.0)),
    *(("clip", value, "") for value in (-1.0, 0.0, math.inf)),
    *((key, 0.0, "") for key in ("radius", "model_norm", "noise_step", "noise_constant", "rate")),
    *((key, 0, "") for key in ("hidden", "epochs", "batch")),
    ("ridge", -1.0, ""),
    ("model_norm", math.inf, ""),
    ("step", math.nan, ""),
    ("steps", (0.1, 0.0), ""),
]
NEEDS_LAM = {"avg", "batch", "gop", "indiv", "la", "psgd", "soft", "vote"}
UNCHECKED = {("constant", "variant")}  # has none

ANY = "ceiling constant nonpriv"
SQUARED = (
    f"{ANY} regression adassp capefm conv dpfm fm jayaraman local objpert outpert ssp ssp_descent wang wddp dpgd wdgd"
)
NOT_LOGISTIC = {"adassp"}
SOFTMAX = f"{ANY} avg batch dpgd indiv soft ssp vote wdgd"
SIGMOID = f"{ANY} jayaraman jayaraman_local wang wddp"
# of the squared loss noisy descent has to clip the slopes, for which only tight noise is there
CLIPPED = {"wang", "jayaraman", "wddp"}

TIGHT_ONLY = {"dpgd", "newton", "outpert", "regression", "ssp", "ssp_descent", "wdgd"}
NO_DELTA = set(f"{ANY} avg batch dpfm indiv la nn_nonpriv objpert soft vote".split())


@pytest.mark.parametrize("name", algorithms())
def test_every_wrong_value_is_refused_by_the_name_of_its_key(name: str) -> None:
    algorithm = algorithms()[name]
    options = {field.name for field in fields(algorithm)}
    for key, value, suggested in WRONG:
        if key in options and (name, key) not in UNCHECKED:
            with pytest.raises(UserError) as caught:
                replace(algorithm, **{key: value})
            assert key in str(caught.value)
            assert suggested in str(caught.value)
    if name in NEEDS_LAM:
        with pytest.raises(UserError, match=r"algo\.lam"):
            replace(algorithm, lam=0.0)
    elif "lam" in vars(algorithm):
        replace(algorithm, lam=0.0)


@pytest.mark.parametrize(
    ("name", "options", "key"),
    [
        ("wang", {"clip": 0.1}, "clip"),
        ("wang", {"clip": 0.1, "calibration": "tight", "loss": LOSSES["sigmoid"]}, "clip"),
        ("wang", {"step": 0.1, "step_selection": "oracle"}, "step"),
        ("wddp", {"calibration": "tight", "variant": "once", "calibrate_for": "client"}, "calibrate_for"),
        ("jayaraman_local", {"calibration": "tight"}, "tight"),
        ("psgd", {"variant": "halving", "rounds": 401}, "rounds"),
        ("psgd", {"variant": "halving", "calibration": "tight"}, "variant"),
        ("avg", {"variant": "sum", "calibration": "tight"}, "variant"),
    ],
)
def test_values_that_exclude_each_other_are_refused_by_name(name: str, options: dict[str, Any], key: str) -> None:
    with pytest.raises(UserError, match=key):
        replace(algorithms()[name], **options)


@pytest.mark.parametrize("name", ["soft", "vote"])
def test_votes_need_auxiliary_rows(name: str) -> None:
    with pytest.raises(UserError, match=r"partition\.auxiliary"):
        algorithms()[name].guarantees(Budget(1.0), Problem(2, 90, 2, auxiliary=0))


@pytest.mark.parametrize("name", algorithms())
def test_a_loss_that_it_does_not_know_is_refused(name: str) -> None:
    takes = {"squared": SQUARED.split(), "softmax": SOFTMAX.split(), "sigmoid": SIGMOID.split()}
    for loss in LOSSES.values():
        known = name not in NOT_LOGISTIC if loss.name == "logistic" else name in takes[loss.name]
        options = {"calibration": "tight"} if name in CLIPPED and loss.name == "squared" else {}
        if known:
            replace(algorithms()[name], loss=loss, **options)
        else:
            with pytest.raises(UserError, match="loss"):
                replace(algorithms()[name], loss=loss)


@pytest.mark.parametrize("name", algorithms())
def test_gaussian_noise_needs_a_delta(name: str) -> None:
    problem = Problem(2, 90, 2, auxiliary=9)
    if name in NO_DELTA:
        assert {g.delta for g in algorithms()[name].guarantees(Budget(1.0), problem)} == {0.0}
        return
    with pytest.raises(UserError, match="delta"):
        algorithms()[name].guarantees(Budget(1.0), problem)


@pytest.mark.parametrize("name", algorithms())
def test_noise_of_a_paper_is_continuous_and_what_no_paper_has_is_tight(name: str) -> None:
    algorithm = algorithms()[name]
    if name in TIGHT_ONLY:
        with pytest.raises(UserError, match="calibration"):
            replace(algorithm, calibration="published")
    elif "noise" in vars(algorithm):
        with pytest.raises(UserError, match="noise"):
            replace(algorithm, calibration="published", noise="discrete")


@pytest.mark.parametrize("bad", [0.9, math.nan])
@pytest.mark.parametrize("name", sorted(set(algorithms()) - set(f"{ANY} batch indiv".split())))
def test_rows_outside_the_unit_ball_are_refused_by_number(name: str, bad: float) -> None:
    algorithm = algorithms()[name]
    X = np.array([[0.1, 0.2], [bad, bad], [0.0, 0.1], [0.0, 0.2]])
    task = "regression" if algorithm.loss is LOSSES["squared"] else "binary"
    data = Dataset("mine", task, X, np.array([-1.0, 1.0, 1.0, -1.0]), X[:0], X[:0, 0])
    parties = partition(data, Equal(auxiliary=algorithm.auxiliary and 0.25), 1, np.random.default_rng(2))
    with pytest.raises(UserError, match="row 1 of dataset=mine"):
        algorithm.prepare(parties, np.random.default_rng(0))
