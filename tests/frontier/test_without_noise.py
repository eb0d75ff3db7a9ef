"""Without noise, a private minimiser is the minimiser, and nothing is proven."""

import math

import numpy as np
import pytest
from examples import LOGISTIC, SQUARED, binary_parties, release_of

from dpml.optim.convex import optimum
from dpml.packs.frontier.amp import ApproximateMinima
from dpml.packs.frontier.newton import CURVATURES, NoisyNewton
from dpml.packs.frontier.outpert import GaussianOutput
from dpml.privacy import Budget

ROUNDS = {"bound": 1000}
CASES = [
    *((ApproximateMinima(LOGISTIC, lam=0.05, calibration=each), 3e-5) for each in ("published", "tight")),
    (ApproximateMinima(LOGISTIC, lam=0.05, calibration="tight", shift=2.0), 3e-5),
    *((GaussianOutput(LOGISTIC, lam=lam), 1e-6) for lam in (0.0, 0.1)),
    (GaussianOutput(SQUARED, radius=100.0), 1e-6),
    *(
        (NoisyNewton(LOGISTIC, rounds=ROUNDS.get(curvature, 60), curvature=curvature, lam=lam), 2e-3)
        for curvature in CURVATURES
        for lam in (0.0, 0.05)
    ),
]


@pytest.mark.parametrize(("algorithm", "off"), CASES, ids=lambda value: getattr(value, "name", ""))
def test_it_is_the_minimiser(algorithm, off) -> None:
    parties, budget = binary_parties(), Budget(math.inf, 1e-3)
    weights = release_of(algorithm, parties, [budget], 2, seed=0).weights
    best = optimum(getattr(algorithm, "trained", algorithm.loss), parties.X, parties.y, algorithm.lam)
    assert np.allclose(weights, best, rtol=0, atol=off)
    assert all(math.isinf(g.eps) for g in algorithm.guarantees(budget, parties.problem))
