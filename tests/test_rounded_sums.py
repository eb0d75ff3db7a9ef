"""How far rounding lets a sum move: bounds against whole numbers and fractions, and against sums as they are run."""

import math
from fractions import Fraction

import numpy as np
import pytest
from examples import LOGISTIC, SIGMOID, SOFTMAX, SQUARED

from dpml import sums
from dpml.optim.gradients import Rows
from dpml.sums import PairwiseSum, gamma, imprecision, levels, single_imprecision


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


def step_of(rows: Rows, w: np.ndarray) -> np.ndarray:
    """The sum of all gradients, as a round of the descent has it."""
    gradient = rows.gradient(w[None])
    return gradient[0]


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
                ends = [step_of(Rows.of(LOGISTIC, X, labels, clip=clip), w) for labels in (y, other)]
                moves.append(np.linalg.norm(ends[0] - ends[1]) / (2 * clip))
    return max(moves)


@pytest.mark.parametrize("N", [30_000, 10**6])
@pytest.mark.parametrize("clip", [0.1, 1e-3, 1.1e-6])
def test_no_row_moves_a_sum_by_more_than_is_counted(N, clip) -> None:
    """With sums of ``tanh`` and a constant the second pair moved by 1.22 times as much, at a clip of 1e-3."""
    assert 0.9 < farthest(N, clip, 2) <= 1 + single_imprecision(N, 1)


@pytest.mark.parametrize("clip", [1e-6, 4.5e-6, 0.1, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED, SIGMOID], ids=lambda loss: loss.name)
def test_no_term_is_longer_than_its_clip(loss, clip) -> None:
    """Also of scores that are no numbers, and to the last bit: a clip in single precision is rounded towards 0."""
    if loss is SIGMOID:
        clip, longest = None, 0.25
    else:
        longest = clip
    rows = Rows.of(loss, np.ones((1, 1)), np.ones(1), clip=clip)
    scores = np.concatenate([np.linspace(-40, 40, 10_001), [np.inf, -np.inf, np.nan, 1e38]]).astype(np.float32)
    rows.bend(scores, np.zeros(1))
    assert np.abs(scores.astype(float)).max() * rows.common / 2 <= longest


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


def test_weights_are_at_most_one_times_the_largest() -> None:
    v = np.random.default_rng(0).random(300) / 300
    rows = Rows.of(LOGISTIC, np.ones((300, 1)), np.ones(300), v, clip=0.1)
    assert rows.weights.max() == 1
    assert rows.common == v.max()
