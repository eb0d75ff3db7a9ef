"""Noisy descent: every view against its definition, the noise as drawn, and the published bounds."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
from examples import LOGISTIC, SIGMOID, SQUARED, jayaraman, release_of, wang, wddp
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import norm

from dpml.algorithms.descent.layouts import MeanGradients
from dpml.algorithms.descent.noisy_descent import LocalRounds
from dpml.audit.neighbours import synthetic_parties, turned_label
from dpml.data.partition import Equal, PerParty, Simplex, TwoGroup, partition, party_sizes
from dpml.optim.gradients import Rows
from dpml.privacy import Budget, Problem, gdp
from dpml.sums import single_imprecision

BUDGET = Budget(0.25, 1e-3)
SIZES = np.array([30, 10, 40, 10, 25, 60, 15])


def dealt(sizes=SIZES, d: int = 5, loss=LOGISTIC):
    rng, n = np.random.default_rng(0), int(np.sum(sizes))
    X = rng.standard_normal((n, d))
    X *= (rng.uniform(0.2, 1, n) / np.linalg.norm(X, axis=1))[:, None]
    scores = X @ np.linspace(-3, 5, d) + 0.2 * rng.standard_normal(n)
    if loss is SQUARED:
        return synthetic_parties("regression", X, np.clip(scores / 4, -1, 1), np.asarray(sizes))
    return synthetic_parties("binary", X, np.where(scores > 0, 1.0, -1.0), np.asarray(sizes))


def problem_of(sizes=SIZES, d: int = 5) -> Problem:
    return Problem(len(sizes), int(np.sum(sizes)), d).of_sizes(np.asarray(sizes))


local_rounds = partial(LocalRounds, sites="clients")


def proven(algorithm, budget=BUDGET, problem=None) -> dict[str, float]:
    given = algorithm.guarantees(budget, problem or problem_of())
    return {g.view: g.eps for g in given if g.basis == "proven"}


def noise_of_clients(algorithm, sizes=SIZES, budget=BUDGET):
    problem = problem_of(sizes)
    return (
        algorithm.layout.client_noise(problem, np.asarray(sizes, dtype=float)) * algorithm.per_rows(budget, problem)[0]
    )


def everything_seen(algorithm, sizes, view: str, budget=BUDGET) -> float:
    """The largest mu of a view, from the covariance of all that is seen: a matrix times the noise of every source."""
    T, M, N = algorithm.rounds, len(sizes), sum(sizes)
    if algorithm.variant == "once":  # all that anybody sees: T sums, of one source of noise each, moved by 2G/N
        variance = per_row_of(algorithm, budget, sizes) ** 2 / N**2
        return gdp.correlated(variance * np.eye(T), np.full(T, moved_by(algorithm, sizes) / N))
    shares = np.asarray(sizes) / N
    widths = noise_of_clients(algorithm, sizes, budget)
    honest = problem_of(sizes).honest
    coalitions = itertools.combinations(range(M), M - honest) if view == "colluders" else [()]
    worst = 0.0
    for coalition, k in itertools.product(coalitions, range(M)):
        if k in coalition:
            continue
        seen = []  # (coefficients over (client, round) of the noisy gradients)
        for t in range(T):
            average, own = np.zeros((M, T)), np.zeros((M, T))
            average[:, t], own[k, t] = shares, 1.0
            if view in ("aggregate", "colluders") or (view == "release" and algorithm.layout.synchronous):
                seen.append(average)
            if view == "client":
                seen.append(own)
        if view == "release" and not algorithm.layout.synchronous:
            seen.append(np.repeat(shares[:, None], T, axis=1))  # the average of last models: all rounds added up
        known = []
        for j, t in itertools.product(coalition, range(T)):
            their = np.zeros((M, T))
            their[j, t] = 1.0
            known.append(their)
        A = np.array([entry.ravel() for entry in (*seen, *known)])
        shift = np.zeros((M, T))
        shift[k] = moved_by(algorithm, sizes) / sizes[k]
        covariance = (A * np.repeat(widths**2, T)) @ A.T
        moved = A @ shift.ravel()
        worst = max(worst, gdp.correlated(covariance, moved))
    return worst


def moved_by(algorithm, sizes) -> float:
    return 2 * algorithm.lipschitz * (1 + single_imprecision(sum(sizes), problem_of(sizes).d))


def per_row_of(algorithm, budget, sizes=SIZES) -> float:
    """G sqrt(c T ln(1/delta)) / eps as printed; tight: sqrt(T) 2G over the mu of the budget."""
    if algorithm.calibration == "tight":
        return math.sqrt(algorithm.rounds) * moved_by(algorithm, sizes) / gdp.mu_of(budget.eps, budget.delta)
    return algorithm.lipschitz * math.sqrt(16 * algorithm.rounds * math.log(1 / budget.delta)) / budget.eps


KINDS = {
    "paper": {},
    "synchronous": {"variant": "synchronous"},
    "once": {"variant": "once"},
    "tight once": {"variant": "once", "calibration": "tight"},
    "tight once, colluders": {"variant": "once", "calibration": "tight", "calibrate_for": "colluders"},
    "tight aggregate": {"calibration": "tight"},
    "tight colluders": {"calibration": "tight", "calibrate_for": "colluders"},
    "tight client": {"calibration": "tight", "calibrate_for": "client"},
    "tight client, synchronous": {"calibration": "tight", "calibrate_for": "client", "variant": "synchronous"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [SIZES, np.full(6, 20), np.array([9, 1])], ids=["unequal", "equal", "two"])
@pytest.mark.parametrize("loss", [LOGISTIC, SIGMOID], ids=lambda loss: loss.name)
def test_views_against_the_covariance_of_everything_seen(kind, sizes, loss):
    for T in (1, 4):
        algorithm = wddp(loss, rounds=T, **KINDS[kind])
        for view, mu in algorithm.mus(BUDGET, problem_of(sizes)).items():
            if not algorithm.layout.synchronous and view in ("aggregate", "colluders"):
                continue  # bounded by the client's chain, which they are made of
            expected = everything_seen(algorithm, sizes, view)
            if view == "release" and not algorithm.layout.synchronous and T > 1:
                assert mu > expected  # the bound holds for gradients that do depend on the model, too
            else:
                assert mu == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *((kind, {"calibration": calibration}) for kind in (wang, jayaraman) for calibration in ("published", "tight")),
        *((wddp, options) for options in KINDS.values()),
        (local_rounds, {}),
    ],
)
def test_the_noise_as_drawn_is_the_noise_that_is_counted(kind, options):
    problem, algorithm, draws = problem_of(), kind(LOGISTIC, rounds=1, **options), 4000
    n = problem.N if kind in (wang, wddp) else problem.M * problem.smallest
    weights = release_of(algorithm, dealt(), [BUDGET], draws).weights[0]
    measured = math.sqrt(weights.var(axis=0, ddof=1).mean()) / algorithm.tried(BUDGET, problem)[0]
    # a false alarm in 16,000
    assert 2 * algorithm.lipschitz / (n * measured) == pytest.approx(
        algorithm.mus(BUDGET, problem)["release"], rel=4 / math.sqrt(2 * (draws - 1) * weights.shape[1])
    )


@pytest.mark.parametrize("eps", [0.01, 0.25, 3.0])
def test_tight_makes_the_view_that_it_is_for_exact(eps):
    budget = Budget(eps, 1e-3)
    for algorithm in (wang(LOGISTIC, calibration="tight"), jayaraman(SIGMOID, calibration="tight")):
        assert all(found == pytest.approx(eps, rel=1e-9) for found in proven(algorithm, budget).values())
    for kind in (wang, jayaraman):
        contracting = partial(kind, LOGISTIC, calibration="tight", lam=0.05)
        assert proven(contracting(calibrate_for="release"), budget) == {"release": pytest.approx(eps, rel=1e-9)}
        found = proven(contracting(calibrate_for="aggregate"), budget)
        assert found.pop("release") < eps
        assert all(other == pytest.approx(eps, rel=1e-9) for other in found.values())
    for view in ("aggregate", "colluders", "client"):
        for variant in ("paper", "synchronous", "once"):
            if (view, variant) == ("client", "once"):
                continue
            algorithm = wddp(LOGISTIC, calibration="tight", calibrate_for=view, variant=variant)
            assert proven(algorithm, budget)[view] == pytest.approx(eps, rel=1e-9)
            if view != "aggregate":
                assert max(proven(algorithm, budget).values()) == pytest.approx(eps, rel=1e-9)


def test_party_sizes_are_those_of_the_partition():
    data = dealt([200]).data
    for rule in (TwoGroup(u=3.0, auxiliary=0.1), Simplex(floor=3), PerParty(n=7), Equal()):
        sizes = party_sizes(rule, 200, 4, np.random.default_rng(7))
        np.testing.assert_array_equal(sizes, partition(data, rule, 4, np.random.default_rng(7)).sizes)


@pytest.mark.parametrize(("loss", "clip"), [(LOGISTIC, 0.1), (SQUARED, 0.3), (LOGISTIC, 0.7)])
@pytest.mark.parametrize("kind", [wang, jayaraman])
def test_a_row_moves_a_clipped_mean_gradient_by_2_clip_over_n_and_no_less(kind, loss, clip):
    algorithm = kind(loss, clip=clip, rounds=3, calibration="tight")
    weight = next(MeanGradients(algorithm.slopes, kind is jayaraman).on(dealt([2, 3], 2, loss)).weighted())[2][:1]
    most, rng = 0.0, np.random.default_rng(0)
    for labels in ((1.0, 1.0), (-1.0, 1.0)):  # the others are these with turned rows

        def moved(v, labels=labels):
            gradients = np.empty((2, 1, 2))
            for i, row in enumerate(v[:4].reshape(2, 1, 2)):
                row = row / max(1, np.linalg.norm(row))
                rows = Rows.of(loss, row, np.array(labels[i : i + 1]), weight, np.float64, clip)
                gradients[i] = rows.gradient(3 * v[None, 4:])
            return -float(np.linalg.norm(gradients[0] - gradients[1]))

        found = minimize(moved, rng.standard_normal(6), method="Nelder-Mead", options={"maxiter": 200})
        most = max(most, -found.fun)
    n = 5 if kind is wang else 4
    assert algorithm.lipschitz == clip
    assert 0.98 * 2 * clip / n <= most <= 2 * clip / n * (1 + 1e-9)


def test_eq_2_without_noise_is_the_plain_mean_of_local_descents():
    parties = dealt(SIZES)
    prepared = local_rounds(LOGISTIC, rounds=30, step=0.5, lam=0.1).prepare(parties, np.random.default_rng(0))
    found = prepared.release([Budget(math.inf, 1e-3)], np.random.default_rng(1), 1).weights[0, 0]
    models = []
    for k in range(len(SIZES)):
        X, y, w = parties.X[parties.of(k)], parties.y[parties.of(k)], prepared.start.copy()
        for _ in range(30):
            w -= 0.5 * (-(X.T @ (y / (1 + np.exp(y * (X @ w))))) / len(y) + 0.1 * w)
        models.append(w)
    assert found == pytest.approx(np.mean(models, axis=0), abs=1e-6)


def chains(c: float, sizes, shares, noises, rounds: int, others: float, G: float) -> float:
    """The largest mu of the average of affine chains: that of the replaced row contracts by c, others by `others`."""
    worst = 0.0
    for k in range(len(sizes)):
        apart, variance = 0.0, np.zeros(len(sizes))
        factors = np.where(np.arange(len(sizes)) == k, c, others)
        for _ in range(rounds):
            apart, variance = c * apart + 2 * G / sizes[k], factors**2 * variance + noises**2
        worst = max(worst, shares[k] * apart / math.sqrt(np.sum(shares**2 * variance)))
    return worst


@pytest.mark.parametrize("lam", [0.0, 0.01, 1.0])
@pytest.mark.parametrize(
    ("kind", "options"),
    [(wddp, {}), (wddp, {"calibration": "tight", "calibrate_for": "client", "clip": 0.2}), (local_rounds, {})],
    ids=["published", "tight", "plain means"],
)
@pytest.mark.parametrize("sizes", [[30, 10, 40, 12], [20, 20, 20], [50]], ids=["unequal", "equal", "one"])
def test_the_average_of_local_rounds_is_bounded_and_the_bound_is_reached(lam, kind, options, sizes):
    """By chains of which all others forget their own past; remembered noise only helps. Every client is tried."""
    problem, M = problem_of(sizes), len(sizes)
    G = options.get("clip", 1.0) * (1 + single_imprecision(problem.N, problem.d))
    for rounds in (1, 2, 30):
        algorithm = kind(LOGISTIC, rounds=rounds, lam=lam, step=0.5, **options)
        mus, c = algorithm.mus(BUDGET, problem), 1 - 0.5 * lam
        shares, noises = np.array(sizes) / np.sum(sizes), noise_of_clients(algorithm, sizes)
        if kind is local_rounds:  # eq. (2), with the noise of Table 1
            shares = np.full(M, 1 / M)
            noises = shares * math.sqrt(16 * rounds * math.log(1e3)) / (min(sizes) * BUDGET.eps)
        for view in ("release", "aggregate"):
            assert mus[view] == pytest.approx(chains(c, sizes, shares, noises, rounds, 0.0, G), rel=1e-9)
            assert mus[view] >= chains(c, sizes, shares, noises, rounds, 1.0, G) * (1 - 1e-9)
        alone = [chains(c, [n], np.ones(1), np.array([s]), rounds, 0.0, G) for n, s in zip(sizes, noises, strict=True)]
        for view in ("client", "colluders"):
            assert mus[view] == pytest.approx(max(alone), rel=1e-9)


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


def test_where_rounds_may_expand_it_is_composition():
    problem = problem_of([30, 20])
    for algorithm in (wang(SIGMOID, lam=0.01), wang(LOGISTIC, step=20.0)):  # not convex; a step above 2/(L + lam)
        found = proven(algorithm, problem=problem)
        assert found["release"] == pytest.approx(found["aggregate"], rel=1e-9)
    contracting = proven(wang(SIGMOID, lam=0.2), problem=problem)  # lam exceeds the loss's smoothness
    assert contracting["release"] < contracting["aggregate"]
