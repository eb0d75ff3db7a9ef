"""Noisy descent of which only the last models are seen: bounds against exact chains, densities, and measured noise."""

import math

import numpy as np
import pytest
from examples import LOGISTIC, SIGMOID, SQUARED, jayaraman, wang, wddp
from scipy.special import expit
from scipy.stats import norm
from test_kang2019 import problem_of, proven

from dpml.audit.neighbours import turned_label
from dpml.privacy import Budget, Problem
from dpml.sums import single_imprecision

BUDGET = Budget(0.25, 1e-3)
ADULT = 45_222


def chains(c: float, sizes, noises, rounds: int, others: float, G: float = 1.0) -> float:
    """The largest mu of the average of affine chains, one per client, from mean and variance round by round.

    The chain in which a row is replaced moves by 2G/N_k a round, G with what floating point adds to it, and contracts
    by c, the others by `others`.
    """
    shares, worst = np.asarray(sizes) / np.sum(sizes), 0.0
    for k in range(len(sizes)):
        apart, variance = 0.0, np.zeros(len(sizes))
        factors = np.where(np.arange(len(sizes)) == k, c, others)
        for _ in range(rounds):
            apart, variance = c * apart + 2 * G / sizes[k], factors**2 * variance + noises**2
        worst = max(worst, shares[k] * apart / math.sqrt(np.sum(shares**2 * variance)))
    return worst


@pytest.mark.parametrize("lam", [0.0, 0.01, 1.0])
@pytest.mark.parametrize(
    "options", [{}, {"calibration": "tight", "calibrate_for": "client", "clip": 0.2}], ids=["published", "tight"]
)
@pytest.mark.parametrize("sizes", [[30, 10, 40, 12], [20, 20, 20], [50]], ids=["unequal", "equal", "one"])
def test_the_average_of_local_rounds_is_bounded_and_the_bound_is_reached(lam, options, sizes):
    """By chains of which all others forget their own past; remembered noise only helps. Every client is tried."""
    problem = problem_of(sizes)
    G = options.get("clip", 1.0) * (1 + single_imprecision(problem.N, problem.d))
    for rounds in (1, 2, 30):
        algorithm = wddp(LOGISTIC, rounds=rounds, lam=lam, step=0.5, **options)
        mus, c = algorithm.mus(BUDGET, problem), 1 - 0.5 * lam
        noises = algorithm.layout.client_noise(problem, np.array(sizes, float)) * algorithm.per_rows(BUDGET, problem)[0]
        for view in ("release", "aggregate"):
            assert mus[view] == pytest.approx(chains(c, sizes, noises, rounds, others=0.0, G=G), rel=1e-9)
            assert mus[view] >= chains(c, sizes, noises, rounds, others=1.0, G=G) * (1 - 1e-9)
        for view in ("client", "colluders"):
            alone = max(chains(c, [n], np.array([s]), rounds, 0.0, G) for n, s in zip(sizes, noises, strict=True))
            assert mus[view] == pytest.approx(alone, rel=1e-9)


CUT = {"calibration": "tight", "calibrate_for": "aggregate"}


@pytest.mark.parametrize(
    ("kind", "loss", "smoothness", "options"),
    [
        *((kind, LOGISTIC, 0.25, {}) for kind in (wang, jayaraman)),
        *((wang, LOGISTIC, clip * (1 - clip), CUT | {"clip": clip}) for clip in (0.1, 0.3)),
        (wang, LOGISTIC, 0.25, CUT | {"clip": 0.7}),
        (wang, SQUARED, 2, CUT | {"clip": 0.3}),
    ],
)
@pytest.mark.parametrize("share", [0.4, 0.7, 1.0])
def test_the_last_model_of_one_place_stops_leaking_with_rounds(kind, loss, smoothness, options, share):
    """mu = sqrt((1 - c^T)/(1 + c^T) (1 + c)/(1 - c)) times that of a round, of which others see sqrt(T) times."""
    problem, lam = problem_of([30, 20]), 0.1
    step = share / (smoothness + lam)
    for rounds in (1, 10, 1000, 100_000):
        mus = kind(loss, lam=lam, step=step, rounds=rounds, **options).mus(BUDGET, problem)
        c = max(abs(1 - step * lam), abs(1 - step * (smoothness + lam)))
        factor = math.sqrt((1 - c**rounds) / (1 + c**rounds) * (1 + c) / (1 - c))
        assert mus["release"] == pytest.approx(factor / math.sqrt(rounds) * mus["aggregate"], rel=1e-8)


def masses_of_last_models(algorithm, budget: Budget, points: int = 1001) -> list[np.ndarray]:
    """On a grid, for two neighbours of one-dimensional rows, by carrying the density from round to round."""
    pair = turned_label(Problem(1, 3, 1))
    step, per_row = (values(budget, pair[0].problem)[0] for values in (algorithm.tried, algorithm.per_rows))
    width = step * per_row / 3
    densities = []
    for parties in pair:
        grid = np.linspace(-12 * width - 8, 12 * width + 8, points)
        steepness = np.minimum(expit(-parties.y * np.outer(grid, parties.X[:, 0])), algorithm.clip)
        slope = -parties.y * steepness @ parties.X[:, 0] / 3
        means = grid - step * (slope + algorithm.lam * grid)
        carry = norm.pdf(grid[:, None], means, width) * (grid[1] - grid[0])
        density = norm.pdf(grid, means[points // 2], width)  # from w = 0
        for _ in range(algorithm.rounds - 1):
            density = carry @ density
        assert density.sum() * (grid[1] - grid[0]) == pytest.approx(1, abs=1e-3)
        densities.append(density * (grid[1] - grid[0]))
    return densities


def hockey_stick(first: np.ndarray, second: np.ndarray, eps: float) -> float:
    """delta at eps, of the worse direction."""
    return max(np.maximum(a - math.exp(eps) * b, 0).sum() for a, b in ((first, second), (second, first)))


@pytest.mark.parametrize("lam", [0.0, 0.2])
@pytest.mark.parametrize(("step", "clip"), [(0.5, 1.0), (3.0, 1.0), (4.0, 0.3)])
def test_exact_densities_of_the_last_model_stay_below_delta(lam, step, clip):
    """Logistic regression on a line, a label turned; 12 rounds, noise for (1, 0.01) of the last model."""
    budget = Budget(1.0, 0.01)
    algorithm = wang(LOGISTIC, calibration="tight", lam=lam, step=step, clip=clip, rounds=12)
    (eps,) = proven(algorithm, budget, problem_of([3], 1)).values()
    assert eps == pytest.approx(1, rel=1e-9)
    masses = masses_of_last_models(algorithm, budget)
    assert hockey_stick(*masses, 0.0) > 0  # there is something to see
    assert hockey_stick(*masses, eps) <= 0.01


def test_tight_noise_is_for_the_view_that_is_protected_and_lists_no_other():
    problem = problem_of([30, 20])
    options = {"calibration": "tight", "lam": 0.05}
    assert proven(wang(LOGISTIC, **options), problem=problem) == {"release": pytest.approx(0.25, rel=1e-9)}
    assert proven(jayaraman(LOGISTIC, calibrate_for="release", **options), problem=problem).keys() == {"release"}
    for kind in (wang, jayaraman):
        found = proven(kind(LOGISTIC, calibrate_for="aggregate", **options), problem=problem)
        assert found.pop("release") < 0.25
        assert all(eps == pytest.approx(0.25, rel=1e-9) for eps in found.values())
    large = Problem(1, ADULT, 5)
    noises = [
        wang(LOGISTIC, calibrate_for=view, **options).per_rows(BUDGET, large)[0] for view in ("release", "aggregate")
    ]
    assert noises[0] < noises[1] / 3


def test_where_rounds_may_expand_it_is_composition():
    problem = problem_of([30, 20])
    for algorithm in (wang(SIGMOID, lam=0.01), wang(LOGISTIC, step=20.0)):  # not convex; a step above 2/(L + lam)
        found = proven(algorithm, problem=problem)
        assert found["release"] == pytest.approx(found["aggregate"], rel=1e-9)
    contracting = proven(wang(SIGMOID, lam=0.2), problem=problem)  # lam exceeds the loss's smoothness
    assert contracting["release"] < contracting["aggregate"]
