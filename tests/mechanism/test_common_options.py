"""What algorithms refuse, in one sentence: every wrong value of every option that several of them have."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest
from examples import capefm
from harness import algorithms

from dpml.algorithms.perturbation import ObjectivePerturbation
from dpml.data import Dataset
from dpml.data.partition import Equal, partition
from dpml.errors import UserError
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget, Problem

POSITIVE, NOT_NEGATIVE = "{key} must be a positive number, got", "{key} must be a number >= 0, got"
FROM, CANNOT = "{key} must be from", "{key} cannot be {value}: "
WRONG = [
    ("calibration", "best", CANNOT),
    ("unit", "row", CANNOT),
    ("protocol", "secag", CANNOT + "did you mean 'secagg'"),
    ("noise", "discreet", CANNOT + "did you mean 'discrete'"),
    ("variant", 3, CANNOT),
    *(("lam", value, FROM) for value in (-1.0, math.nan, math.inf)),
    *(("shift", value, NOT_NEGATIVE) for value in (-1.0, math.nan)),
    ("ridge", -1.0, NOT_NEGATIVE),
    *(("rounds", value, FROM) for value in (0, 10**8)),
    *(("budget_share", value, "{key} must be strictly between 0 and 1") for value in (0.0, 1.0)),
    *(("clip", value, f"{FROM}|{POSITIVE}") for value in (-1.0, 0.0, math.inf)),
    *((key, 0.0, POSITIVE) for key in ("radius", "model_norm", "noise_step", "noise_constant", "rate")),
    *((key, 0, POSITIVE) for key in ("hidden", "epochs", "batch")),
    ("model_norm", math.inf, POSITIVE),
    ("step", math.nan, POSITIVE),
    ("steps", (0.1, 0.0), POSITIVE),
    ("step_selection", "orcale", CANNOT + "did you mean 'oracle'"),
    ("calibrate_for", "collders", CANNOT),
    ("curvature", "bond", CANNOT + "did you mean 'bound'"),
]
NEEDS_LAM = {"avg", "batch", "gop", "indiv", "la", "psgd", "soft", "vote"}
UNCHECKED = {("constant", "variant"), ("jayaraman_local", "variant")}  # has none; has a sentence of its own

ANY = "ceiling constant nonpriv"
SQUARED = f"{ANY} adassp capefm conv dpfm fm jayaraman local objpert outpert ssp ssp_descent wang wddp dpgd wdgd"
NOT_LOGISTIC = {"adassp"}
SOFTMAX = f"{ANY} avg batch dpgd indiv soft ssp vote wdgd"
SIGMOID = f"{ANY} jayaraman jayaraman_local wang wddp"
# of the squared loss noisy descent has to clip the slopes, for which only tight noise is there
CLIPPED = {"wang", "jayaraman", "wddp"}
OTHERWISE = {("jayaraman_local", "squared")}  # refused with a sentence of its own

TIGHT_ONLY = {"dpgd", "newton", "outpert", "ssp", "ssp_descent", "wdgd"}
NO_DELTA = set(f"{ANY} avg batch dpfm indiv la nn_nonpriv objpert soft vote".split())


@pytest.mark.parametrize("name", algorithms())
def test_every_wrong_value_is_a_sentence(name: str) -> None:
    algorithm = algorithms()[name]
    options = {field.name for field in fields(algorithm)}
    for key, value, said in WRONG:
        if key in options and (name, key) not in UNCHECKED:
            with pytest.raises(UserError, match=said.format(key=key, name=name, value=value)) as caught:
                replace(algorithm, **{key: value})
            assert str(value) in str(caught.value) or key == "steps"


@pytest.mark.parametrize("name", [name for name, each in algorithms().items() if "lam" in vars(each)])
def test_a_regulariser_of_zero_is_taken_where_none_is_needed(name: str) -> None:
    if name not in NEEDS_LAM:
        replace(algorithms()[name], lam=0.0)
        return
    with pytest.raises(UserError, match=r"algo\.lam must be a positive number"):
        replace(algorithms()[name], lam=0.0)


def test_no_wrong_value_is_of_an_option_that_nobody_has() -> None:
    assert {key for key, *_ in WRONG} <= {field.name for each in algorithms().values() for field in fields(each)}


@pytest.mark.parametrize("name", algorithms())
def test_a_loss_that_it_does_not_know_is_a_sentence(name: str) -> None:
    takes = {"squared": SQUARED.split(), "softmax": SOFTMAX.split(), "sigmoid": SIGMOID.split()}
    for loss in LOSSES.values():
        known = name not in NOT_LOGISTIC if loss.name == "logistic" else name in takes[loss.name]
        options = {"calibration": "tight"} if name in CLIPPED and loss.name == "squared" else {}
        if known and (name, loss.name) not in OTHERWISE:
            replace(algorithms()[name], loss=loss, **options)
        elif (name, loss.name) not in OTHERWISE:
            with pytest.raises(UserError, match=rf"algo={name} needs loss=.*, not loss={loss.name}\."):
                replace(algorithms()[name], loss=loss)


@pytest.mark.parametrize("name", algorithms())
def test_gaussian_noise_needs_a_delta(name: str) -> None:
    problem = Problem(2, 90, 2, auxiliary=9)
    if name in NO_DELTA:
        assert {g.delta for g in algorithms()[name].guarantees(Budget(1.0), problem)} == {0.0}
        return
    with pytest.raises(UserError, match=f"^algo={name} adds Gaussian noise and needs a delta: set delta="):
        algorithms()[name].guarantees(Budget(1.0), problem)


@pytest.mark.parametrize("name", [name for name, each in algorithms().items() if "noise" in vars(each)])
def test_published_noise_is_continuous(name: str) -> None:
    said = rf"noise=discrete of algo={name} .* set calibration=tight|cannot be published|is for algo=fm and algo=capefm"
    with pytest.raises(UserError, match=said):
        replace(algorithms()[name], calibration="published", noise="discrete")


@pytest.mark.parametrize("name", sorted(TIGHT_ONLY))
def test_what_no_paper_has_is_tight(name: str) -> None:
    with pytest.raises(UserError, match="calibration cannot be published: choose one of tight"):
        replace(algorithms()[name], calibration="published")
    assert getattr(algorithms()[name], "variant", "paper") == "paper"


@pytest.mark.parametrize("name", sorted(set(algorithms()) - set(f"{ANY} batch indiv".split())))
def test_rows_outside_the_unit_ball_are_refused_by_name(name: str) -> None:
    algorithm = algorithms()[name]
    X = np.array([[0.1, 0.2], [0.9, 0.9], [0.0, 0.1], [0.0, 0.2]])
    task = "regression" if algorithm.loss is LOSSES["squared"] else "binary"
    data = Dataset("mine", task, X, np.array([-1.0, 1.0, 1.0, -1.0]), X[:0], X[:0, 0])
    parties = partition(data, Equal(auxiliary=algorithm.auxiliary and 0.25), 1, np.random.default_rng(2))
    with pytest.raises(UserError, match=r"row 1 of dataset=mine has norm 1\.273, .* rows in the unit ball"):
        algorithm.prepare(parties, np.random.default_rng(0))


def test_a_row_that_is_no_number_is_refused_too() -> None:
    X = np.array([[0.1, 0.2], [np.nan, np.nan], [0.0, 0.1]])
    parties = partition(
        Dataset("mine", "regression", X, X[:, 0], X[:0], X[:0, 0]), Equal(), 1, np.random.default_rng(0)
    )
    for kind in (capefm, ObjectivePerturbation):
        with pytest.raises(UserError, match="training row 1 of dataset=mine has norm nan"):
            kind(LOSSES["squared"]).prepare(parties, np.random.default_rng(0))
