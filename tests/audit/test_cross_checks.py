"""Independent accountants on compositions."""

import pytest
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from examples import LOGISTIC

from dpml.algorithms.descent.network import Network
from dpml.algorithms.descent.noisy_descent import NoisyDescent
from dpml.algorithms.descent.private_sgd import PrivateSGD
from dpml.optim.losses import LOSSES
from dpml.packs.frontier import audits  # noqa: F401 - registers neighbours
from dpml.privacy import Budget, Problem

BUDGET, PROBLEM = Budget(1.0, 1e-5), Problem(3, 12, 2, auxiliary=4, classes=2)


@pytest.mark.parametrize(
    ("algorithm", "rounds", "noise_of_a_round"),
    [
        (NoisyDescent(LOGISTIC, rounds=50), 50, lambda a: a.per_rows(BUDGET, PROBLEM)[0] / 2),
        (
            NoisyDescent(LOGISTIC, sites="mpc", rounds=200, calibration="tight", clip=0.3),
            200,
            lambda a: a.per_rows(BUDGET, PROBLEM)[0] / 0.6,
        ),
        (PrivateSGD(LOGISTIC, rounds=30, calibration="tight"), 30, lambda a: a.messages(BUDGET, PROBLEM)[0].noise / 2),
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
