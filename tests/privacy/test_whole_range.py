"""Every guarantee over the whole range that the command line admits: no exception, no NaN, monotone in the budget."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from harness import algorithms

from dpml.config.compose import options
from dpml.errors import UserError
from dpml.privacy import CALIBRATIONS, Budget, Problem

EPS = (1e-30, 1e-6, 1e-3, 0.1, 1.0, 10.0, 1e3, 1e6, 1e30, math.inf)
DELTA = (1e-12, 1e-5, 0.05, 0.5)
SIZES = (  # M, N, d
    (1, 1, 1),
    (2, 3, 1),
    (5, 455, 30),
    (1000, 10**6, 10),
    (10**6, 2 * 10**6, 561),
    (10**6, 10**9, 10**4),
)
LAM = (0.0, 1e-9, 1e-4, 1.0)
ROUNDS = (1, 1000, 10**6)


# How many corners are tried, where a proof takes long. Those proofs have a test of their own over their whole range,
# and psgd with published noise none here: one corner of it takes seconds.
FEW = {"psgd": 1, "gop": 6, "jayaraman": 2, "jayaraman_local": 2, "wang": 2, "wddp": 2}


def settings(algorithm, rng, many):
    """The algorithm with extreme hyper-parameters, and extreme sizes: the corners' combinations in random order."""
    fields = {field.name for field in dataclasses.fields(algorithm)}
    axes = {"lam": LAM} if "lam" in fields else {}
    axes |= {"rounds": ROUNDS} if "rounds" in fields else {}
    axes |= {"epochs": ROUNDS} if "epochs" in fields else {}
    corners = list(itertools.product(SIZES, DELTA, *axes.values()))
    for number in rng.permutation(len(corners))[:many]:
        sizes, delta, *values = corners[number]
        M, N, d = sizes
        changed = dict(zip(axes, values, strict=True))
        if changed.get("lam") == 0 and algorithm.lam > 0:
            continue  # it needs a regulariser
        yield dataclasses.replace(algorithm, **changed), Problem(M, N, d, auxiliary=max(1, N // 10)), delta


@pytest.mark.slow_cases("jayaraman-published", "jayaraman-tight", "jayaraman_local-published", "wddp-published")
@pytest.mark.parametrize("calibration", CALIBRATIONS)
@pytest.mark.parametrize("name", options("algo"))
def test_guarantees_are_numbers_and_grow_with_the_budget(name, calibration) -> None:
    try:
        base = dataclasses.replace(algorithms()[name], calibration=calibration)
    except UserError:  # there is no such noise
        return
    if (name, calibration) == ("psgd", "published"):
        return
    rng = np.random.default_rng([len(name), len(calibration)])
    for algorithm, problem, delta in settings(base, rng, FEW.get(name, 8)):
        before: dict[str, float] = {}
        for eps in EPS[::3] if name in FEW else EPS:
            try:
                given = algorithm.guarantees(Budget(eps, delta), problem)
            except UserError:
                continue
            where = (algorithm, problem, eps, delta)
            proven = {g.view: g for g in given if g.basis == "proven"}
            assert proven, where
            for view, guarantee in proven.items():
                assert guarantee.eps >= 0, where  # catches NaN
                assert guarantee.delta in (0.0, delta), where
                assert guarantee.eps >= before.get(view, 0.0) * (1 - 1e-6), where
                before[view] = guarantee.eps
                if math.isinf(eps):
                    assert math.isinf(guarantee.eps), where
