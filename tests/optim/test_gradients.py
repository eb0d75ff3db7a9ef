"""Losses and gradients: finite differences, constants by a search, plain NumPy, and how far rounding lets sums move."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from examples import LOGISTIC, SIGMOID, SOFTMAX, SQUARED, clipped_slope, some_parties

from dpml import sums
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.mechanism.statistics import ClippedRows
from dpml.optim.gradients import Rows
from dpml.optim.losses import LOSSES, Logistic, Loss, Slopes, mean_gradient, mean_loss, scores
from dpml.optim.merged_descent import descend, merged
from dpml.privacy import Problem
from dpml.sums import PairwiseSum, gamma, imprecision, levels, single_imprecision

CUT = [Slopes(LOGISTIC, 0.1), Slopes(LOGISTIC, 0.5), Slopes(LOGISTIC, 0.8), Slopes(SQUARED, 0.3), Slopes(SQUARED, 1.5)]
ALL = [*CUT, Slopes(LOGISTIC), Slopes(SIGMOID)]


def named(slopes: Slopes) -> str:
    return f"{slopes.loss.name}-{slopes.clip}"


def rows_and_labels(loss, n: int, d: int):
    parties = some_parties(loss, 1, n, d)
    return parties.X, parties.y


def rows_of(slopes: Slopes, X, y, v, dtype=np.float32) -> Rows:
    return Rows.of(slopes.loss, X, y, v, dtype, slopes.clip)


@pytest.mark.parametrize("slopes", ALL, ids=named)
@pytest.mark.parametrize("weights", ["equal", "unequal"])
def test_gradients_are_those_of_a_plain_loop(slopes, weights):
    rng = np.random.default_rng(1)
    X, y = rows_and_labels(slopes.loss, 200, 5)
    # duplicates, some with another label
    X, y = np.concatenate([X, X[:40], X[:40]]), np.concatenate([y, y[:40], -y[:40]])
    v = np.full(len(y), 1 / len(y)) if weights == "equal" else rng.random(len(y)) / len(y)
    rows = rows_of(slopes, X, y, v, np.float64)
    assert sum(map(len, rows.half)) == 280  # equal rows keep their places
    assert weights == "equal" or rows.weights.max() == 1
    w = 3 * rng.standard_normal((7, 5))
    found = rows.gradient(w)
    for model, gradient in zip(w, found, strict=True):
        expected = X.T @ (v * slopes.slope((X @ model)[:, None], y)[:, 0])
        np.testing.assert_allclose(gradient, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("slopes", ALL, ids=named)
def test_constants_of_cut_losses_by_a_fine_grid(slopes):
    """G and L are never exceeded, and as good as reached; a cut convex loss is convex, for its slopes grow."""
    t = np.linspace(-12, 12, 240_001)
    for label in (-1.0, 1.0):
        y = np.array([label])
        slope = slopes.slope(t[None], y)[0]
        if slopes.cut:
            np.testing.assert_allclose(slope, clipped_slope(slopes.loss, t, label, slopes.clip), atol=1e-15)
        bends = np.diff(slope) / np.diff(t)
        assert 0.999 * slopes.lipschitz < np.abs(slope).max() <= slopes.lipschitz
        assert 0.999 * slopes.smoothness < np.abs(bends).max() <= slopes.smoothness * (1 + 1e-6)
        assert not slopes.loss.convex or bends.min() >= -1e-9
        if slopes.loss is LOGISTIC and slopes.bend:
            straight = label * t < slopes.bend
            np.testing.assert_allclose(np.abs(slope[straight]), slopes.clip, rtol=1e-9)
            assert np.all(np.abs(slope[~straight]) <= slopes.clip)


@pytest.mark.parametrize("slopes", CUT, ids=named)
@pytest.mark.parametrize("lam", [0.0, 0.2])
def test_a_round_on_cut_slopes_brings_models_together_as_counted(slopes, lam):
    """|1 - step lam| or |1 - step (L + lam)|, whichever is larger, over pairs of models near and far."""
    rng = np.random.default_rng(0)
    X, y = rows_and_labels(slopes.loss, 50, 3)
    X /= np.linalg.norm(X, axis=1)[:, None]
    v = np.full(50, 1 / 50)
    for share, size, reach in itertools.product((0.5, 1.0, 1.9), (1.0, 30.0), (1e-3, 1.0)):
        step = share / (slopes.smoothness + lam)
        one = size * rng.standard_normal((200, 3))
        two = one + reach * rng.standard_normal((200, 3))
        after = []
        for w in (one, two):
            after.append(w - step * (rows_of(slopes, X, y, v, np.float64).gradient(w) + lam * w))
        ratio = np.linalg.norm(after[0] - after[1], axis=1) / np.linalg.norm(one - two, axis=1)
        assert ratio.max() <= max(abs(1 - step * lam), abs(1 - step * (slopes.smoothness + lam))) * (1 + 1e-9)


@pytest.mark.parametrize(("n", "runs"), [(5000, 3), (3001, 64), (2500, 230), (700, 3000), (9, 70_000)])
def test_blocks_of_rows_and_runs_change_nothing(n, runs):
    X, y = rows_and_labels(LOGISTIC, n, 6)
    w = np.random.default_rng(0).standard_normal((runs, 6))
    found = Rows.of(LOGISTIC, X, y, np.full(n, 1 / n), np.float64).gradient(w)
    np.testing.assert_allclose(found, LOGISTIC.slope(X @ w.T, y).T @ X / n, atol=1e-14)


def sparse_group(n: int, d: int, rng: np.random.Generator):
    X = rng.standard_normal((max(1, n // 3), d)) * (rng.random((max(1, n // 3), d)) < 0.3)
    X /= np.maximum(np.linalg.norm(X, axis=1), 1)[:, None]
    return X[rng.integers(len(X), size=n)], rng.choice([-1.0, 1.0], n), rng.random(n) / n


@pytest.mark.parametrize("loss", [LOGISTIC, SIGMOID], ids=lambda loss: loss.name)
@pytest.mark.parametrize("sizes", [(2000,), (1, 2, 3, 40, 5, 300, 1500, 0)])
def test_every_group_descends_on_its_own_rows(loss, sizes) -> None:
    rng = np.random.default_rng(0)
    d, draws, steps, rounds, lam = 7, 2, np.array([0.1, 1.0, 3.0]), 30, 0.01
    groups = [sparse_group(n, d, rng) for n in sizes]
    runs = np.tile(steps, draws)
    widths = 0.1 * rng.random((len(sizes), draws, len(steps)))
    z = rng.standard_normal((rounds, len(sizes), d, draws), dtype=np.float32)
    start = rng.standard_normal((len(sizes), d, len(runs)))
    lots = iter(np.split(z, [3, 10]))
    found = start.copy()
    rows = merged(loss, groups, len(runs))
    for many in (3, 7, 20):
        descend(rows, loss, found, runs, widths, lambda count: next(lots), lam, many)
    for k, (X, y, v) in enumerate(groups):
        w = start[k]
        for t in range(rounds):
            kick = (z[t, k][..., None] * widths[k]).reshape(w.shape)
            w = w - runs * (X.T @ (v[:, None] * loss.slope(X @ w, y)) + lam * w + kick)
        np.testing.assert_allclose(found[k], w, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 1000])
def test_a_pairwise_sum_has_every_part_once_and_few_levels(count) -> None:
    parts = np.random.default_rng(0).integers(-(1 << 40), 1 << 40, (count, 3)).astype(float)
    total = PairwiseSum()
    for part in parts:
        total.add(part.copy())
    assert np.array_equal(total.result(), parts.sum(axis=0))  # whole numbers: exact

    class Deep:
        def __init__(self, depth: int = 0) -> None:
            self.depth = depth

        def __iadd__(self, other: "Deep") -> "Deep":
            return Deep(1 + max(self.depth, other.depth))

    total = PairwiseSum()
    for _ in range(count):
        total.add(Deep())  # type: ignore[arg-type]
    assert total.result().depth <= levels(count)


def test_gamma_against_fractions() -> None:
    for n, dtype, bits in ((65, np.float32, 24), (5000, np.float64, 53)):
        u = Fraction(1, 1 << bits)
        assert gamma(n, dtype) == pytest.approx(float(n * u / (1 - n * u)), rel=1e-15)
    assert gamma(1 << 25, np.float32) == math.inf


def test_the_bounds_term_by_term() -> None:
    """Written out anew: half the sensitivity in single precision, all of it in double."""
    for N, d in ((1, 1), (50, 3), (1000, 10), (10**6, 100), (10**9, 1000)):
        h = min(N, 64)
        block, added = h * gamma(h + 1, np.float32), N * gamma(16 + levels(N / 64) + 32)
        own = (1 + gamma(2 * d + 32)) * (1 + gamma(2, np.float32))
        assert 1 + single_imprecision(N, d) == pytest.approx(own * (1 + block + added * (1 + block)), rel=1e-15)
        double = (1 + gamma(2 * d + 32)) * (1 + 2 * N * gamma(min(N, 1024) + 2 * levels(N) + 32))
        assert 1 + imprecision(N, d) == pytest.approx(double, rel=1e-15)
        assert single_imprecision(N, d) < 3e-4 < sums.MOST
        assert imprecision(N, d) < 3e-4
        merged = (1 + gamma(2 * d + 32)) * 2 * N * (1e3 * gamma(d) / 4 + gamma(16))
        assert imprecision(N, d, model=1e3) == pytest.approx(imprecision(N, d) + merged, rel=1e-12)


def turned(N: int, seed: int, d: int):
    """Half of the labels are +1, half -1; one row, of length 1, turns. Partial sums go far, and come back."""
    rng = np.random.default_rng(seed)
    X = np.zeros((N, d))
    X[:, 0] = rng.uniform(0.85, 0.95, N)
    X[:, 1:] = 0.01 * rng.standard_normal((N, d - 1))
    y = np.where(np.arange(N) < N // 2, 1.0, -1.0)
    place = int(rng.integers(N // 4, N // 2))
    X[place] = np.eye(d)[0]
    other = y.copy()
    other[place] = -1.0
    return X, y, other


def one_length(N: int, seed: int, d: int):
    """All rows are alike, so that partial sums pass the same powers of two; the first one turns."""
    X = np.full((N, d), 1 / math.sqrt(d) * (1 - 1e-12))
    y = np.ones(N)
    other = y.copy()
    other[seed * 31 % N] = -1.0
    return X, y, other


def farthest(N: int, clip: float, seeds: int) -> float:
    """How far a sum moves, over 2 clip."""
    moves = []
    for pair in (turned, one_length):
        for seed, d in ((seed, d) for seed in range(seeds) for d in (1, 3)):
            X, y, other = pair(N, seed, d)
            for model in (0.0, 3.0):
                w = np.full(d, model)
                ends = [Rows.of(LOGISTIC, X, labels, clip=clip).gradient(w[None]) for labels in (y, other)]
                moves.append(np.linalg.norm(ends[0] - ends[1]) / (2 * clip))
    return max(moves)


@pytest.mark.parametrize("N", [30_000, 10**6])
@pytest.mark.parametrize("clip", [0.1, 1e-3, 1.1e-6])
def test_no_row_moves_a_sum_by_more_than_is_counted(N, clip) -> None:
    """With sums of ``tanh`` and a constant the second pair moved by 1.22 times as much, at a clip of 1e-3."""
    assert 0.9 < farthest(N, clip, 2) <= 1 + single_imprecision(N, 1)


def rows(X, y):
    return X


@pytest.mark.parametrize("unit", ["sample", "party"])
def test_clipped_rows_move_their_sum_by_no_more_than_is_counted(unit) -> None:
    """Terms of about half an ulp of the sum, one after another, would all be rounded away or none of them."""
    n, half_ulp, large = 10**5, 2.0**-38, 2**15 + 1
    ends = []
    for first in (1.0, -1.0):
        X = np.zeros((n, 2))  # NumPy would add a single column in pairs
        X[:, 0] = -half_ulp * (1 - 2**-6)
        X[:large, 0], X[0, 0] = 1.0, first
        offsets = np.arange(n + 1) if unit == "party" else np.array([0, n])
        parties = Parties(None, np.arange(n), offsets, X, np.ones(n), X[:0])
        ends.append(ClippedRows(rows, 1.0, unit, 2).on(parties).total()[0])
    counted = ClippedRows(rows, 1.0, unit, 2).imprecision(Problem(n, n, 2))
    assert (ends[0] - ends[1]) / 2 <= 1 + counted


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("clip", [1e-6, 4.5e-6, 0.1, 0.2, 0.3, 0.7, 0.8, 1.0])
@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED, SIGMOID, SOFTMAX], ids=lambda loss: loss.name)
def test_no_term_is_longer_than_its_clip(loss, clip, dtype) -> None:
    """Also of scores that are no numbers, and to the last bit: a clip in single precision is rounded towards 0."""
    clip, longest = (None, 0.25) if loss is SIGMOID else (clip, clip)
    classes, rng = 3 if loss is SOFTMAX else 1, np.random.default_rng(0)
    rows = Rows.of(loss, np.ones((1, 1)), np.zeros(1), dtype=dtype, clip=clip, classes=classes)
    scores = 30 * rng.standard_normal((1, 30_000)).astype(dtype)
    scores[0, :60] = rng.choice([np.nan, np.inf, -np.inf, 1e38, 0.0], 60)
    with np.errstate(all="ignore"):
        rows.bend(scores, np.eye(1, classes, dtype=dtype))
    lengths = np.linalg.norm(scores.reshape(-1, classes).astype(float), axis=1) * rows.common / 2
    assert 0.999 * longest < lengths.max() <= longest


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("runs", [1, 3, 64, 200])
@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED, SIGMOID, SOFTMAX], ids=lambda loss: loss.name)
def test_a_row_that_is_replaced_changes_no_other_slope(loss, runs, dtype) -> None:
    """Bit for bit: the proof needs it of matrix products and of elementwise functions."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 11))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = np.where(rng.random(3000) < 0.5, 1.0, -1.0)
    classes = 3 if loss is SOFTMAX else 1
    w = np.repeat(rng.standard_normal((runs, 11)) * np.geomspace(0.1, 1e4, runs)[:, None], classes, axis=0)
    w = (w * np.tile(np.arange(1, classes + 1), runs)[:, None]).astype(dtype)

    def slopes(X, y):
        clip = {SQUARED: 0.3, SOFTMAX: 0.7}.get(loss)
        rows = Rows.of(loss, X, y + 1 if loss is SOFTMAX else y, dtype=dtype, clip=clip, classes=classes)
        parts = [slopes.reshape(-1, len(w)) for _, _, slopes in rows.parts(w)]
        return np.concatenate(parts)[:3000]

    before = slopes(X, y)
    for place in (0, 63, 64, 1234, 2999):
        other, labels = X.copy(), y.copy()
        other[place], labels[place] = np.eye(11)[0], -y[place]
        after = slopes(other, labels)
        after[place] = before[place]
        assert np.array_equal(after, before)


SCALAR = [LOSSES["squared"], LOSSES["logistic"], Logistic(1.5), LOSSES["sigmoid"]]


def labels(loss: Loss, n: int, rng: np.random.Generator) -> np.ndarray:
    if loss.name == "squared":
        return rng.uniform(-1, 1, n)
    return rng.integers(0, 3, n).astype(float) if loss.name == "softmax" else rng.choice([-1.0, 1.0], n)


def test_softmax_slope_is_the_derivative() -> None:
    loss, rng, h = LOSSES["softmax"], np.random.default_rng(1), 1e-5
    t, y = rng.standard_normal((20, 2, 3)), labels(LOSSES["softmax"], 20, rng)
    for k in range(3):
        step = np.zeros(3)
        step[k] = h
        difference = (loss.value(t + step, y) - loss.value(t - step, y)) / (2 * h)
        assert np.allclose(loss.slope(t, y)[:, :, k], difference, atol=1e-8)


def test_softmax_constants_bound_gradient_and_hessian() -> None:
    rng = np.random.default_rng(2)
    t = rng.standard_normal((20_000, 1, 3)) * rng.choice([0.1, 1, 10], (20_000, 1, 1))
    slope = np.linalg.norm(LOSSES["softmax"].slope(t, labels(LOSSES["softmax"], 20_000, rng)), axis=-1)
    assert 0.99 * np.sqrt(2) < slope.max() <= np.sqrt(2)
    p = np.exp(t[:, 0]) / np.exp(t[:, 0]).sum(axis=1, keepdims=True)
    hessian = p[:, :, None] * np.eye(3) - p[:, :, None] * p[:, None, :]
    assert 0.99 * 0.5 < np.linalg.eigvalsh(hessian).max() <= 0.5 + 1e-12


@pytest.mark.parametrize("loss", [loss for loss in SCALAR if loss.quadratic], ids=lambda loss: loss.name)
def test_quadratic_form_is_the_second_order_expansion(loss: Loss) -> None:
    rng = np.random.default_rng(3)
    y, q = labels(loss, 30, rng), loss.quadratic
    for t, tolerance in ((1e-2, 1e-8), (3.0, 1e-12 if loss.name == "squared" else np.inf)):
        polynomial = q.constant(y) + q.linear(y) * t + q.square * t * t
        assert np.abs(polynomial - loss.value(np.full((30, 1), t), y)[:, 0]).max() <= tolerance
    extremes = np.array([-1.0, 1.0])
    assert np.abs(q.linear(extremes)).max() == q.linear_bound
    inner = np.linspace(-1, 1, 201) if loss.name == "squared" else extremes
    assert np.ptp(q.constant(inner)) == pytest.approx(q.constant_range)


def test_mean_loss_in_blocks_equals_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpml.optim.losses._HEIGHT", 7)
    monkeypatch.setattr("dpml.optim.losses._WIDTH", 5)
    rng = np.random.default_rng(4)
    for loss, width in ((LOSSES["logistic"], 5), (LOSSES["softmax"], 15)):
        X, y = rng.standard_normal((40, 5)), labels(loss, 40, rng)
        weights = rng.standard_normal((17, width))
        one = [loss.value(scores(X, w[None], width // 5), y).mean() for w in weights]
        assert np.allclose(mean_loss(loss, X, y, weights), one)


@pytest.mark.parametrize("loss", SCALAR, ids=lambda loss: loss.name)
def test_mean_gradient_in_blocks_is_the_gradient_of_the_mean_loss(loss: Loss, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, h = np.random.default_rng(3), 1e-5
    X, weights = rng.standard_normal((23, 4)), rng.standard_normal((5, 4))
    y = labels(loss, 23, rng)
    monkeypatch.setattr("dpml.optim.losses._HEIGHT", 7)
    steps = h * np.eye(4)
    expected = [
        (mean_loss(loss, X, y, weights + step) - mean_loss(loss, X, y, weights - step)) / (2 * h) for step in steps
    ]
    assert np.allclose(mean_gradient(loss, X, y, weights), np.array(expected).T, atol=1e-8)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("squared", [-1.0, 0.0, 1.0], (1.1, -1.5, np.nan)),
        ("logistic", [1.0, -1.0], (0.0, 0.5)),
        ("sigmoid", [1.0, -1.0], (0.0,)),
        ("softmax", [0.0, 2.0], (-1.0, 0.5)),
    ],
)
def test_one_label_outside_the_domain_is_enough_to_refuse(name: str, good: list[float], bad: tuple[float, ...]) -> None:
    LOSSES[name].check_labels(np.array(good))
    for label in bad:
        with pytest.raises(UserError, match=f"loss={name}"):
            LOSSES[name].check_labels(np.array([*good, label]))
