"""What is true of the releases of all algorithms: many budgets at once, any budget, real secure sums, pooled rows."""

import math
from dataclasses import replace

import numpy as np
import pytest
from examples import binary_parties, fm

from dpml.algorithms.descent.clipped import ClippedDescent
from dpml.algorithms.descent.newton import NoisyNewton
from dpml.algorithms.descent.preconditioned import PreconditionedDescent
from dpml.algorithms.descent.private_sgd import PrivateSGD
from dpml.algorithms.descent.whitened import WhitenedDescent
from dpml.algorithms.perturbation.approximate_minima import ApproximateMinima
from dpml.algorithms.perturbation.gaussian_output import GaussianOutput
from dpml.algorithms.quadratic.sufficient_statistics import SufficientStatistics
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget

LOGISTIC, SQUARED = LOSSES["logistic"], LOSSES["squared"]
SUMS = [
    ClippedDescent(LOGISTIC, rounds=6),
    ClippedDescent(SQUARED, unit="party", rounds=6),
    PreconditionedDescent(LOGISTIC, rounds=6),
    PreconditionedDescent(SQUARED, unit="party", rounds=6),
    WhitenedDescent(LOGISTIC, rounds=3),
    PrivateSGD(LOGISTIC, lam=0.1, rounds=20),
    PrivateSGD(LOGISTIC, "tight", lam=0.1, rounds=20),
    SufficientStatistics(LOGISTIC),
]
POOLED = [NoisyNewton(LOGISTIC, rounds=3), GaussianOutput(LOGISTIC), ApproximateMinima(LOGISTIC, "tight")]


def named(algorithm) -> str:
    return f"{algorithm.name}-{algorithm.loss.name}-{getattr(algorithm, 'unit', 'sample')}-{algorithm.calibration}"


def models(algorithm, eps, draws: int = 3, M: int = 5) -> np.ndarray:
    prepared = algorithm.prepare(binary_parties(M=M), np.random.default_rng(0))
    return prepared.release([Budget(each, 1e-5) for each in eps], np.random.default_rng(5), draws).weights


@pytest.mark.parametrize("algorithm", [*SUMS, *POOLED, fm(LOGISTIC)], ids=named)
def test_budgets_share_noise_and_do_not_depend_on_each_other(algorithm) -> None:
    together = models(algorithm, (0.3, 3.0))
    for found, eps in zip(together, (0.3, 3.0), strict=True):
        np.testing.assert_allclose(found, models(algorithm, [eps])[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("algorithm", [*SUMS, *POOLED, fm(LOGISTIC)], ids=named)
def test_every_budget_has_finite_models(algorithm) -> None:
    assert np.isfinite(models(algorithm, (1e-30, 1e-6, 1e3, 1e30), draws=2)).all()


@pytest.mark.parametrize("algorithm", SUMS, ids=named)
def test_without_noise_the_real_protocol_gives_the_same_model(algorithm) -> None:
    found = [models(replace(algorithm, protocol=protocol), [math.inf], 1) for protocol in ("simulate", "secagg")]
    np.testing.assert_allclose(*found, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("algorithm", POOLED, ids=named)
def test_who_holds_the_rows_changes_nothing(algorithm) -> None:
    np.testing.assert_allclose(models(algorithm, [1.0]), models(algorithm, [1.0], M=1), rtol=1e-6, atol=1e-6)
