"""Noisy descent of many runs against the same written out run by run, in double precision."""

import numpy as np
import pytest
from examples import LOGISTIC, SIGMOID
from quick import quick_first

from dpml.optim import descent
from dpml.optim.convex import optimum
from dpml.optim.descent import Rows, descend
from dpml.optim.losses import mean_loss


def rows_and_labels(n: int, d: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X *= (rng.uniform(0.2, 1, n) / np.linalg.norm(X, axis=1))[:, None]
    return X, np.where(X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)


def plainly(loss, X, y, v, start, step, scale, noise, lam):
    """One run, as the definition has it."""
    w = start.copy()
    for z in noise:
        gradient = (v * loss.slope((X @ w)[:, None], y)[:, 0]) @ X + lam * w
        w = w - step * (gradient + scale * z)
    return w


@pytest.mark.parametrize(("n", "runs"), [(5000, 3), (3001, 64), (2500, 230), (700, 3000), (9, 70_000)])
def test_blocks_of_rows_and_runs_change_nothing(n, runs):
    X, y = rows_and_labels(n, 6)
    w = np.random.default_rng(0).standard_normal((runs, 6))
    found = np.empty_like(w)
    Rows.of(LOGISTIC, X, y, np.full(n, 1 / n), np.float64).gradient(w, found)
    np.testing.assert_allclose(found, LOGISTIC.slope(X @ w.T, y).T @ X / n, atol=1e-14)


@pytest.mark.parametrize("numbers", [1, 50, 1 << 20], ids=["round by round", "some rounds", "all rounds"])
def test_noise_that_is_drawn_ahead_is_that_of_its_round(monkeypatch, numbers):
    monkeypatch.setattr(descent, "_NOISE", numbers)
    rng, rounds, drawn = np.random.default_rng(3), 11, []
    parts = [rows_and_labels(n, 4, seed) for n, seed in ((20, 0), (30, 1))]
    noise = rng.standard_normal((rounds, 2, 2, 4))

    def draw():
        drawn.append(len(drawn))
        return noise[drawn[-1]]

    groups = [Rows.of(LOGISTIC, X, y, np.full(len(y), 1 / len(y)), np.float64) for X, y in parts]
    found = descend(groups, np.ones(4), np.array([0.7]), np.array([[0.3], [0.9]]), draw, rounds, 0.1)
    assert len(drawn) == rounds
    for g, i in np.ndindex(2, 2):
        X, y = parts[g]
        scale = (0.3, 0.9)[g]
        alone = plainly(LOGISTIC, X, y, np.full(len(y), 1 / len(y)), np.ones(4), 0.7, scale, noise[:, g, i], 0.1)
        np.testing.assert_allclose(found[g, 0, 0, i], alone, rtol=1e-12)


def test_who_listens_hears_every_round_before_the_next_is_drawn():
    X, y = rows_and_labels(50, 3)
    rounds, events, noise = 5, [], np.random.default_rng(0).standard_normal((5, 1, 2, 3))

    def draw():
        events.append("drawn")
        return noise[events.count("drawn") - 1]

    def heard(before, sent):
        gradient = LOGISTIC.slope(X @ before[0, 0, 0].T, y).T @ X / 50
        np.testing.assert_allclose(sent[0, 0, 0], gradient + 0.4 * noise[events.count("drawn") - 1, 0], atol=1e-12)
        events.append("heard")

    group = Rows.of(LOGISTIC, X, y, np.full(50, 1 / 50), np.float64)
    descend([group], np.ones(3), np.array([0.5]), np.array([[0.4]]), draw, rounds, 0.2, heard)
    assert events == ["drawn", "heard"] * rounds


@pytest.mark.parametrize("loss", quick_first([LOGISTIC, SIGMOID]), ids=lambda loss: loss.name)
def test_single_precision_does_not_touch_the_accuracy(loss):
    """1000 rounds at the smallest published noise of a figure: rounding moves a model far less than its noise does."""
    X, y = rows_and_labels(2000, 30)
    n, d, rounds, steps = len(y), 30, 1000, np.array([0.01, 0.5, 4.0])
    scales = np.array([[0.0, 4 * np.sqrt(rounds * np.log(1e3)) / (n * 10.0)]])  # eps = 10
    noise = np.random.default_rng(5).standard_normal((rounds, 1, 4, d), dtype=np.float32)
    start = np.random.default_rng(6).standard_normal(d) / np.sqrt(d)
    single, double = (
        descend([Rows.of(loss, X, y, np.full(n, 1 / n), kind)], start, steps, scales, iter(noise).__next__, rounds)
        for kind in (np.float32, np.float64)
    )
    moved = np.linalg.norm(single - double, axis=-1)[0]
    by_noise = np.linalg.norm(double[0, 1] - double[0, 0], axis=-1)
    assert np.all(moved[1] < 1e-3 * by_noise)
    losses = [mean_loss(loss, X, y, w.astype(float).reshape(-1, d)) for w in (single, double)]
    assert np.abs(losses[0] - losses[1]).max() < 2e-6


def test_without_noise_it_comes_to_the_optimum():
    X, y = rows_and_labels(500, 4)
    lam = 0.05
    groups = [Rows.of(LOGISTIC, X, y, np.full(500, 1 / 500), np.float64)]
    draw = lambda: np.zeros((1, 1, 4))  # noqa: E731
    w = descend(groups, np.ones(4), np.array([1 / (0.25 + lam)]), np.zeros((1, 1)), draw, 300, lam)
    np.testing.assert_allclose(w.ravel(), optimum(LOGISTIC, X, y, lam), atol=1e-9)
