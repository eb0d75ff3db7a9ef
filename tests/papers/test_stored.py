"""Whether stored values are ours: within a factor, within the standard errors, or not to be told with these seeds."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

from dpml.reporting.claim_tests import agrees, by_chance
from dpml.reporting.claims import Claim, Evidence, Reading

PLOTTED = Reading("plotted", "authors", "noisy_objective")
BLOCK = {"d20_eps": "s"}


def decide(found):
    test = partial(agrees, series=BLOCK, algorithms=["capefm"])
    return Claim("X", "x/x", "text", "criterion", test, (PLOTTED,)).judge(found).decision


def published(factors, std=0.0, n=10):
    grid = np.geomspace(0.1, 100, len(factors))
    about = {"series": "s", "algo": "capefm", "metric": "noisy_objective", "std": std, "n": n}
    return pd.DataFrame([about | {"x": at, "mean": 2 * factor} for at, factor in zip(grid, factors, strict=True)])


def flat(points, spread=0.0, seeds=2, draws=1):
    """A mean of -2 at every x of some points; seeds (draws, if there is one seed) lie `spread` off it, both ways."""
    lines = [
        {"block": "d20_eps", "algo": "capefm", "variant": "authors", "metric": "noisy_objective", "eps": x,
         "seed": seed, "draw": draw, "value": -2.0 + spread * (-1) ** (seed + draw)}
        for x in points["x"].unique() for seed in range(seeds) for draw in range(draws)
    ]  # fmt: skip
    return Evidence(pd.DataFrame(lines), points, {"d20_eps": "eps"})


@pytest.mark.parametrize(
    ("factors", "decision"),
    [
        ([1.9] * 5 + [1 / 1.9] * 4 + [9], "reproduced"),  # nine in ten, either way
        ([1] * 8 + [9, 9], "not reproduced"),
        ([1] * 8 + [2.2, 2.2], "not reproduced"),
        ([1] * 8 + [1 / 2.2, 1 / 2.2], "not reproduced"),
    ],
)
def test_a_factor_of_two(factors, decision):
    assert decide(flat(published(factors))) == decision


@pytest.mark.parametrize(
    ("std", "spread", "seeds", "draws", "decision"),
    [
        (0.0, 0.0, 10, 1, "not reproduced"),
        (4.3, 0.0, 10, 1, "reproduced"),  # 4 apart, 3 * 4.3 / sqrt(10) = 4.08
        (4.1, 0.0, 10, 1, "not reproduced"),
        (0.0, 4.2, 10, 1, "undecided with these seeds"),  # 3 * 4.2 / sqrt(9)
        (0.0, 3.8, 10, 1, "not reproduced"),
        (0.0, 4.2, 1, 10, "undecided with these seeds"),  # of one seed the draws count
        (0.0, 4.2, 10, 10, "not reproduced"),  # of many their means
        (3.0, 3.0, 10, 1, "undecided with these seeds"),  # 4.1, of both
        (3.0, 2.5, 10, 1, "not reproduced"),
    ],
)
def test_three_standard_errors_of_the_difference(std, spread, seeds, draws, decision):
    points = published([1] * 8 + [3, 3], std)  # two points at 6, where ours is 2
    assert decide(flat(points, spread, seeds, draws)) == decision


@pytest.mark.parametrize("heavy", [False, True])
def test_false_alarms(heavy):
    """Runs of the same distribution, 10 of theirs and 10 seeds of ours: how often a point, and a claim, is called off.

    By Welch's quantile of 3, 0.8 to 1.5 % of normal points; of claims with 24 points, 3 of which must fail, below 1 %.
    """
    rng = np.random.default_rng(0)

    def mean_and_error(shape):
        values = rng.standard_normal((*shape, 10))
        values = values**2 if heavy else values
        return values.mean(axis=-1), values.std(axis=-1, ddof=1) / np.sqrt(10)

    (ours, error), (theirs, other) = mean_and_error((4000, 24)), mean_and_error((4000, 24))
    off = np.abs(ours - theirs) > 3 * np.sqrt(error**2 + other**2)
    assert off.mean() < 0.015
    assert np.mean(off.sum(axis=1) >= 3) < 0.01
    seeds = pd.MultiIndex.from_product([range(10), [0]], names=["seed", "draw"])
    for number in range(300):  # and by_chance says the same
        a, b = rng.standard_normal(10) + 3, rng.standard_normal(10) + 3 + number / 100
        spread = np.sqrt(a.var(ddof=1) / 10 + b.var(ddof=1) / 10)
        found = by_chance(pd.Series(a, seeds), b.mean(), b.std(ddof=1) / np.sqrt(10))
        assert (found is False) == (abs(a.mean() - b.mean()) > 3 * spread)


def test_means_are_compared_with_their_signs():
    """Runs of either sign: the published points are means of these, drawn in size."""
    points = published([0.05] * 3)
    found = flat(points)
    cancelling = found.rows.assign(value=np.where(found.rows["seed"] == 0, 2.1, -1.9))
    assert decide(Evidence(cancelling, points, found.axes)) == "reproduced"
