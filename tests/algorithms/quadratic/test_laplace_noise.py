"""`dpfm` with exact noise: what is proven, what is drawn, and how far its integers move."""

import math

import numpy as np
import pytest
from examples import LOGISTIC, SQUARED, release_of, some_parties
from numpy.random import PCG64, Generator
from quick import quick_first

from dpml.algorithms.quadratic.laplace_functional_mechanism import LaplaceFunctionalMechanism
from dpml.data import Dataset
from dpml.data.partition import Equal, partition
from dpml.privacy import Budget, Problem

BUDGET = Budget(1.0, 1e-5)
each_loss = pytest.mark.parametrize("loss", [LOGISTIC, SQUARED], ids=lambda loss: loss.name)


def dpfm(loss, noise: str = "discrete") -> LaplaceFunctionalMechanism:
    return LaplaceFunctionalMechanism(loss, calibration="tight", noise=noise)


@each_loss
def test_what_is_proven_is_what_was_asked_for_and_hardly_less(loss) -> None:
    for problem in (Problem(1, 1, 1), Problem(4, 400, 10), Problem(3, 10**7, 1000)):
        for eps in (0.1, 1.0, 30.0, 1e6):
            (proven,) = [g for g in dpfm(loss).guarantees(Budget(eps), problem) if g.basis == "proven"]
            assert eps * (1 - 2e-5) <= proven.eps <= eps


@each_loss
def test_without_noise_it_is_the_continuous_release(loss) -> None:
    one, other = (
        release_of(dpfm(loss, noise), some_parties(loss), [Budget(math.inf)]).weights
        for noise in ("discrete", "continuous")
    )
    np.testing.assert_allclose(one, other, atol=2e-4)


class OnlyBytes(Generator):
    """A generator of which no floating-point number is drawn."""

    def __init__(self) -> None:
        super().__init__(PCG64(0))

    def __getattribute__(self, name: str):
        if name in ("standard_normal", "laplace", "gamma", "standard_gamma", "exponential", "random", "normal"):
            raise AssertionError(name)
        return super().__getattribute__(name)


@each_loss
def test_no_floating_point_noise_is_drawn(loss) -> None:
    mechanism = dpfm(loss).prepare(some_parties(loss), np.random.default_rng(0))
    assert np.isfinite(mechanism.release([BUDGET], OnlyBytes(), 2).weights).all()


@each_loss
@pytest.mark.parametrize("d", quick_first([1, 2, 6], 2))
def test_no_neighbours_integers_move_farther_than_is_proven(loss, d: int) -> None:
    """The eps of pairs of rows, from their integers and the scales of the noise; the worst come near."""
    algorithm, rng, budget = dpfm(loss), np.random.default_rng(6), Budget(2.0)
    problem = Problem(1, 2, d)
    (sent,) = algorithm.messages(budget, problem)
    bits = sent.of.resolution(sent.block_widths(), problem)
    steps = np.abs(sent.of.steps(bits, problem))
    scales = np.repeat(np.array(sent.block_widths()) / steps, sent.of.lengths(d))
    (proven,) = [g for g in algorithm.guarantees(budget, problem) if g.basis == "proven"]
    most = 0.0
    for number in range(400):
        rows = rng.standard_normal((3, d)) if number % 2 else np.sign(rng.standard_normal((3, d)))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True) * (1 + 1e-15)
        y = rng.choice([-1.0, 1.0], 3)
        sums = []
        for own in ([0, 1], [0, 2]):
            data = Dataset(
                "made", "regression" if algorithm.loss is SQUARED else "binary", rows[own], y[own], rows[:0], y[:0]
            )
            parties = partition(data, Equal(), 1, rng)
            sums.append(sent.of.on(parties).integers(np.array([bits]), False)[0, 0])
        most = max(most, float(np.sum(np.abs(sums[0] - sums[1]) / scales)))
    assert most <= proven.eps
    assert most > 0.6 * proven.eps
