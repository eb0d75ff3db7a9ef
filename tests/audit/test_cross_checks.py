"""Independent accountants on compositions, and neighbours that hypothesis makes up."""

from functools import cache

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from examples import LOGISTIC, SOFTMAX, SQUARED
from hypothesis import given, settings
from hypothesis import strategies as st

from dpml.algorithms.descent.network import Network
from dpml.algorithms.descent.noisy_descent import NoisyDescent
from dpml.algorithms.descent.private_sgd import PrivateSGD
from dpml.algorithms.ensemble import Average, LocalAggregation, Soft, Vote
from dpml.algorithms.perturbation import ObjectivePerturbation
from dpml.algorithms.quadratic.functional_mechanism import FunctionalMechanism
from dpml.algorithms.quadratic.laplace_functional_mechanism import LaplaceFunctionalMechanism
from dpml.algorithms.quadratic.sufficient_statistics import SufficientStatistics
from dpml.audit.views import exposures
from dpml.audit.worst_cases import distance, moved, worst_case
from dpml.errors import UserError
from dpml.optim.losses import LOSSES
from dpml.packs.frontier import audits  # noqa: F401 - registers neighbours
from dpml.packs.frontier.adassp import AdaptiveStatistics
from dpml.packs.frontier.outpert import GaussianOutput
from dpml.privacy import Budget, Problem, gdp

BUDGET, PROBLEM = Budget(1.0, 1e-5), Problem(3, 12, 2, auxiliary=4, classes=2)


@pytest.mark.slow_cases("nn_conv-40-<lambda>")
@pytest.mark.parametrize(
    ("algorithm", "rounds", "noise_of_a_round"),
    [
        (NoisyDescent(LOGISTIC, rounds=50), 50, lambda a: a.per_rows(BUDGET, PROBLEM)[0] / 2),
        (
            NoisyDescent(LOGISTIC, sites="mpc", rounds=200, calibration="tight", clip=0.3),
            200,
            lambda a: a.per_rows(BUDGET, PROBLEM)[0] / 0.6,
        ),
        (
            PrivateSGD(LOGISTIC, rounds=30, calibration="tight"),
            30,
            lambda a: a.messages(BUDGET, PROBLEM)[0].noise / 2,
        ),
        (
            NoisyDescent(LOSSES["sigmoid"], sites="mpc", rounds=7),
            7,
            lambda a: a.per_rows(BUDGET, PROBLEM)[0] / (2 * a.lipschitz),
        ),
        (Network(LOGISTIC, epochs=40, sites="independent"), 40, lambda a: a.scale(BUDGET, PROBLEM, PROBLEM.N) / 2),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_rounds_against_two_accountants(algorithm, rounds, noise_of_a_round) -> None:
    """Privacy loss distributions agree with what a view of all sums is proven; Renyi accounting is looser."""
    guarantees = {g.view: g for g in algorithm.guarantees(BUDGET, PROBLEM) if g.basis == "proven"}
    proven = guarantees.get("aggregate") or guarantees["transcript"]
    event = SelfComposedDpEvent(GaussianDpEvent(noise_of_a_round(algorithm)), rounds)
    assert PLDAccountant().compose(event).get_epsilon(proven.delta) == pytest.approx(proven.eps, rel=2e-3)
    assert RdpAccountant().compose(event).get_epsilon(proven.delta) >= proven.eps


# ---- sensitivities

MECHANISMS = [
    *(FunctionalMechanism(loss, sites=s) for s in ("curator", "last", "cape") for loss in (SQUARED, LOGISTIC)),
    FunctionalMechanism(LOGISTIC, sites="cape", calibration="tight"),
    FunctionalMechanism(SQUARED, sites="independent", calibration="tight"),
    *(LaplaceFunctionalMechanism(loss, calibration=c) for loss in (SQUARED, LOGISTIC) for c in ("published", "tight")),
    SufficientStatistics(SQUARED),
    SufficientStatistics(LOGISTIC, unit="party"),
    *(AdaptiveStatistics(SQUARED, calibration=c) for c in ("published", "tight")),
    ObjectivePerturbation(SQUARED, variant="authors"),
    *(kind(loss, lam=0.1) for kind in (Vote, Soft, Average) for loss in (LOGISTIC, SOFTMAX)),
    LocalAggregation(LOGISTIC, lam=0.1, calibration="tight"),
    *(GaussianOutput(loss) for loss in (LOGISTIC, SQUARED)),
]


@cache
def worst(algorithm):
    """The proof's own worst neighbours: finding those of `soft` takes longer than a test of many others."""
    return worst_case(algorithm, BUDGET, PROBLEM)


ALIKE = [a for a in MECHANISMS if a.loss is SOFTMAX or (a.name in ("adassp", "dpfm") and a.calibration == "published")]


@pytest.mark.slow_cases(
    "outpert-logistic-tight", "outpert-squared-tight", "soft-logistic-published", "vote-logistic-published"
)
@pytest.mark.parametrize(
    "algorithm",
    [pytest.param(a, marks=[pytest.mark.slow] if a in ALIKE else []) for a in MECHANISMS],
    ids=lambda a: f"{a.name}-{a.loss.name}-{a.calibration}",
)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 12))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_no_neighbours_move_a_release_further_than_is_proven(algorithm, seed, steps) -> None:
    """From the proof's own worst neighbours, and from far away of them."""
    rng = np.random.default_rng(seed)
    pair = worst(algorithm)
    for _ in range(steps):
        pair = moved(pair, rng)
    try:
        far = distance(algorithm, pair, BUDGET)
    except UserError:
        return
    proven = max(g.eps for g in algorithm.guarantees(BUDGET, PROBLEM) if g.basis == "proven")
    normal = any(exposure.normal for exposure in exposures(algorithm, pair, BUDGET))
    assert (gdp.eps_of(far, 1e-5) if normal else far) <= proven * (1 + 1e-6)
