"""Releases in step, on rows that change their places, against each one alone, on rows that keep them."""

import numpy as np
import pytest
from examples import LOGISTIC, SIGMOID, jayaraman, wang, wddp

from dpml.algorithms.descent.in_step import in_step
from dpml.algorithms.descent.noisy_descent import STEP_SELECTIONS, LocalRounds
from dpml.data import Files
from dpml.data.partition import Equal, Fractions, partition
from dpml.data.sets.synthetic import Synthetic
from dpml.mechanism.carriers import Carrier
from dpml.privacy import Budget

BUDGETS = [Budget(eps, 1e-3) for eps in (0.05, 0.5, 5.0)]


@pytest.mark.parametrize(
    ("M", "rule"), [(1, Equal()), (5, Fractions(fractions=(0.1, 0.2, 0.3, 0.2, 0.2))), (60, Equal())]
)
@pytest.mark.parametrize("loss", [LOGISTIC, SIGMOID], ids=lambda loss: loss.name)
def test_releases_in_step_are_those_of_each_alone(M, rule, loss) -> None:
    """The same steps are chosen, from the same streams of noise."""
    data = Synthetic("logistic", d=6, rows=2000, scale=3.0).load(Files(), None, np.random.default_rng(1))
    parties = partition(data, rule, M, np.random.default_rng(2))
    alone, carriers = [], []
    for selection in STEP_SELECTIONS:
        options = {"rounds": 20, "step_selection": selection, "lam": 0.01}
        algorithms = [make(loss, **options) for make in (wang, jayaraman, wddp)]
        algorithms += [wddp(loss, variant="once", **options), LocalRounds(loss, sites="clients", **options)]
        for number, algorithm in enumerate(algorithms):
            assert algorithm.in_step
            prepared, draws = algorithm.prepare(parties, np.random.default_rng(0)), 1 + number % 2
            alone.append(prepared.release(BUDGETS, np.random.default_rng(len(alone)), draws))
            carriers.append(Carrier(prepared, BUDGETS, np.random.default_rng(len(carriers)), draws, None))
    for one, other in zip(alone, in_step(carriers), strict=True):
        assert one.metrics.keys() == other.metrics.keys()
        for key, values in one.metrics.items():
            np.testing.assert_array_equal(values, other.metrics[key])
        np.testing.assert_allclose(one.weights, other.weights, rtol=1e-5, atol=1e-6 * np.abs(one.weights).max())
