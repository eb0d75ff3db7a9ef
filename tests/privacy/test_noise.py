"""The noise as drawn: laws, independence and bounded memory. Each test of a law: false-alarm rate 1e-6, seeded."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from dpml.privacy import noise


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def uncorrelated(*columns: np.ndarray) -> bool:
    """No pair of columns (n,) is correlated by more than five standard errors: 6e-7 for each pair."""
    correlation = np.corrcoef(np.stack(columns)) - np.eye(len(columns))
    return bool(np.abs(correlation).max() < 5 / math.sqrt(len(columns[0])))


@pytest.mark.parametrize(
    ("draw", "law"),
    [
        (noise.gaussian, "norm"),
        (noise.single_gaussian, "norm"),
        (noise.laplace, "laplace"),
        (lambda rng, shape: noise.gaussian_messages(rng, *shape, 1)[..., 0], "norm"),
    ],
    ids=["gaussian", "single_gaussian", "laplace", "gaussian_messages"],
)
def test_independent_entries_of_scale_one(draw: Callable[..., np.ndarray], law: str) -> None:
    drawn = draw(rng(), (40_000, 3))
    assert drawn.shape == (40_000, 3)
    for column in drawn.T:
        assert stats.kstest(column.astype(float), law).pvalue > 1e-6
    assert uncorrelated(*drawn.T)
    assert uncorrelated(*np.abs(drawn.T))


@pytest.mark.parametrize(("shared", "own"), [(20.0, 0.5), (1.0, 0.0)])
def test_cape_messages_have_the_covariance_of_the_definition(shared: float, own: float) -> None:
    """``shared^2 (I - 1/M) + own^2 I`` between the parties, and shared (I - 1/M) with their ehat.

    Entries are means of n products of correlated Gaussians a, b, whose variance is at most 2 Var a Var b / n.
    """
    n, M = 40_000, 4
    messages, ehat = noise.cape_messages(rng(2), n, M, 2, shared, own)
    centred = np.eye(M) - 1 / M
    within, across = shared**2 * centred + own**2 * np.eye(M), shared * centred
    for j in range(2):
        found = messages[:, :, j].T @ messages[:, :, j] / n
        assert np.abs(found - within).max() < 5 * math.sqrt(2 / n) * within[0, 0]
        found = messages[:, :, j].T @ ehat[:, :, j] / n
        assert np.abs(found - across).max() < 5 * math.sqrt(2 / n * within[0, 0])
    found = messages[:, :, 0].T @ messages[:, :, 1] / n  # coordinates are independent
    assert np.abs(found).max() < 5 * math.sqrt(1 / n) * within[0, 0]


def characteristic(sample: np.ndarray, t: float) -> np.ndarray:
    """The real part of the sample's characteristic function at t e for the axes e and the diagonal, (d + 1,)."""
    d = sample.shape[1]
    directions = np.vstack([np.eye(d), np.full(d, 1 / math.sqrt(d))])
    return np.cos(t * sample @ directions.T).mean(axis=0)


@pytest.mark.parametrize(("parties", "d"), [(1, 1), (3, 2), (7, 20)])
def test_l2_laplace_sums_have_the_characteristic_function(parties: int, d: int) -> None:
    """Of density exp(-||x||) in R^d: ``(1 + ||t||^2)^(-(d + 1)/2)``, and for a sum its power.

    A mean of n cosines has a standard deviation of at most sqrt(1/n); five of them: 6e-7 each.
    """
    n = 40_000
    sample = noise.l2_laplace_total(rng(5), n, parties, d)
    assert sample.shape == (n, d)
    for t in np.array([0.3, 1.0, 2.0]) / math.sqrt(parties * (d + 1)):
        due = (1 + t * t) ** (-parties * (d + 1) / 2)
        assert np.abs(characteristic(sample, t) - due).max() < 5 / math.sqrt(n)
    assert np.abs(sample.mean(axis=0)).max() < 5 * math.sqrt(parties * (d + 1) / n)  # each variance is d + 1
    energy = np.sum(sample**2, axis=1)
    assert abs(energy.mean() - parties * d * (d + 1)) < 5 * energy.std() / math.sqrt(n)


@pytest.mark.parametrize("d", [1, 2, 3, 7])
def test_lengths_and_directions(d: int) -> None:
    """Length Gamma(d, 1) or Exponential(1), direction uniform and independent of it, draw by draw."""
    n = 40_000
    for draw, law in ((noise.l2_laplace, stats.gamma(d)), (noise.radial, stats.expon())):
        sample = draw(rng(7), n, d)
        length = np.linalg.norm(sample, axis=1)
        unit = sample / length[:, None]
        assert stats.kstest(length, law.cdf).pvalue > 1e-6
        # the first coordinate of a uniform direction: its sign is a coin, its square Beta(1/2, (d - 1)/2)
        for column in unit.T:
            assert abs(np.sign(column).mean()) < 5 / math.sqrt(n)
            if d > 1:
                assert stats.kstest(column**2, stats.beta(0.5, (d - 1) / 2).cdf).pvalue > 1e-6
        assert uncorrelated(length, *unit.T)
