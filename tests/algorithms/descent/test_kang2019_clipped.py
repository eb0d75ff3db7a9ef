"""Noisy descent on slopes that are clipped: sensitivity, the runs themselves, the squared loss, what a rule sets."""

import math

import numpy as np
import pytest
from examples import LOGISTIC, SQUARED, Observed, clipped_slope, jayaraman, release_of, wang, wddp
from quick import quick_first
from scipy.optimize import minimize
from test_kang2019 import SIZES, dealt, problem_of, proven

from dpml.algorithms.descent.layouts import MeanGradients
from dpml.privacy import Budget, gdp
from dpml.sums import single_imprecision

BUDGET = Budget(0.25, 1e-3)
TIGHT = {"calibration": "tight"}
KINDS = {
    "wang": (wang, {}),
    "jayaraman": (jayaraman, {}),
    "local": (wddp, {"calibrate_for": "client"}),
    "sums": (wddp, {}),
    "once": (wddp, {"variant": "once"}),
}


# ---- what a row moves


@pytest.mark.slow_cases("jayaraman-loss0-0.1", "jayaraman-loss1-0.3", "wang-loss1-0.3")
@pytest.mark.parametrize(("loss", "clip"), quick_first([(LOGISTIC, 0.1), (SQUARED, 0.3), (LOGISTIC, 0.7)], 2))
@pytest.mark.parametrize("kind", ["wang", "jayaraman"])
def test_a_row_moves_a_clipped_mean_gradient_by_2_clip_over_n_and_no_less(kind, loss, clip):
    """Maximised over rows, labels and models, by the code that descends: a row of the smallest of two clients."""
    algorithm = KINDS[kind][0](loss, clip=clip, rounds=3, **TIGHT)
    weight = next(MeanGradients(algorithm.slopes, kind == "jayaraman").on(dealt([2, 3], 2, loss)).weighted())[2][:1]
    most, rng = 0.0, np.random.default_rng(0)
    for labels in ((1.0, 1.0), (-1.0, 1.0)):  # the others are these with turned rows

        def moved(v, labels=labels):
            gradients = np.empty((2, 1, 2))
            for i, row in enumerate(v[:4].reshape(2, 1, 2)):
                row = row / max(1, np.linalg.norm(row))
                rows = algorithm.slopes.rows(row, np.array(labels[i : i + 1]), weight, np.float64)
                gradients[i] = rows.gradient(3 * v[None, 4:])
            return -float(np.linalg.norm(gradients[0] - gradients[1]))

        found = minimize(moved, rng.standard_normal(6), method="Nelder-Mead", options={"maxiter": 200})
        most = max(most, -found.fun)
    n = 5 if kind == "wang" else 4
    assert algorithm.lipschitz == clip
    assert 0.98 * 2 * clip / n <= most <= 2 * clip / n * (1 + 1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("loss", "clip"), [(LOGISTIC, 0.1), (SQUARED, 0.3)], ids=["logistic", "squared"])
def test_tight_noise_is_as_much_less_as_the_slopes_are(kind, loss, clip):
    """The view that it is for is exact whatever the clip; unclipped logistic noise is 1/clip times as wide."""
    make, options = KINDS[kind]
    algorithm, wide = (make(loss, clip=c, rounds=50, step=0.1, **options, **TIGHT) for c in (clip, 10 * clip))
    problem = problem_of()
    assert proven(algorithm)[algorithm.target] == pytest.approx(BUDGET.eps, rel=1e-9)
    noises = [float(each.per_rows(BUDGET, problem)[0]) for each in (algorithm, wide)]
    assert noises[1] / noises[0] == pytest.approx(min(10.0, wide.lipschitz / clip))
    if kind in ("jayaraman", "sums", "once"):
        moved = 2 * clip * (1 + single_imprecision(problem.N, problem.d))
        assert noises[0] == pytest.approx(moved * math.sqrt(50) / gdp.mu_of(BUDGET.eps, BUDGET.delta))


# ---- what is run


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("loss", "clip"), [(LOGISTIC, 0.1), (SQUARED, 0.3)], ids=["logistic", "squared"])
def test_a_release_is_that_of_a_plain_loop_with_the_same_noise(kind, loss, clip):
    """In NumPy, from the papers: the weights of rows, who descends where, and the noise that was drawn."""
    make, options = KINDS[kind]
    parties, sizes, lam, step, rounds = dealt(loss=loss), SIZES, 0.05, 0.4, 6
    algorithm = make(loss, clip=clip, rounds=rounds, lam=lam, step=step, **options, **TIGHT)
    mechanism = algorithm.prepare(parties, np.random.default_rng(0))
    if kind == "local":  # nobody sees rounds: without noise
        budget, noise = Budget(math.inf, 1e-3), np.zeros((rounds, len(sizes), 2, 5))
        found = mechanism.release([budget], np.random.default_rng(1), 2).weights[0]
    else:
        observer = Observed()
        found = mechanism.release([BUDGET], np.random.default_rng(1), 2, observer).weights[0]
        noise = np.array(observer.noise)
    N, mu = sizes.sum(), gdp.mu_of(BUDGET.eps, BUDGET.delta)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    v = 1 / (len(sizes) * sizes[owner]) if kind == "jayaraman" else np.full(N, 1 / N)
    n = len(sizes) * sizes.min() if kind == "jayaraman" else N
    # T rounds of a sum that a row moves by 2 clip; what hides in the last model of wang is that of T rounds or less
    scale = 2 * clip * (1 + single_imprecision(N, 5)) * math.sqrt(rounds) / mu / n
    if kind == "wang":
        smoothness = clip * (1 - clip) if loss is LOGISTIC else 2
        c = max(1 - step * lam, abs(1 - step * (smoothness + lam)))
        scale *= math.sqrt((1 - c**rounds) / (1 + c**rounds) * (1 + c) / (1 - c) / rounds)
    parts = [np.flatnonzero(owner == k) for k in range(len(sizes))] if kind == "local" else [np.arange(N)]
    for i in range(2):
        ends = []
        for g, rows in enumerate(parts):
            w, X, y = mechanism.start.copy(), parties.X[rows], parties.y[rows]
            weights = np.full(len(rows), 1 / len(rows)) if kind == "local" else v[rows]
            for z in noise:
                drawn = z[g, i] if kind == "local" else z[:, i].sum(axis=0) / math.sqrt(len(z))
                w = w - step * (X.T @ (weights * clipped_slope(loss, X @ w, y, clip)) + lam * w + scale * drawn)
            ends.append(w)
        expected = np.average(ends, axis=0, weights=sizes) if kind == "local" else ends[0]
        np.testing.assert_allclose(found[i], expected, rtol=2e-4, atol=2e-5)


def test_a_clip_above_all_slopes_is_none():
    parties = dealt()
    ends = [
        release_of(wddp(LOGISTIC, clip=clip, rounds=30, **TIGHT), parties, [BUDGET], 2).weights for clip in (1.0, 7.0)
    ]
    np.testing.assert_array_equal(*ends)
