"""Descent on clipped gradients, of rows as they are or whitened: plain loops, searches, models against `nonpriv`."""

import itertools
import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from examples import LOGISTIC, SQUARED, ball, binary_parties, clipped_slope, dealt, release_of, some_parties
from quick import quick_first
from scipy.optimize import linprog
from scipy.special import softmax
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MaxAbsScaler

from dpml.algorithms.defaults import CLIP_QUANTILE
from dpml.algorithms.descent.clipped import ClippedDescent
from dpml.algorithms.descent.clipped_gradients import ClippedGradients, LabelSums
from dpml.algorithms.descent.whitened import WhitenedDescent, _most
from dpml.data.partition import Equal, Fractions, PerParty
from dpml.mechanism.discrete import BITS
from dpml.optim import gradients
from dpml.optim.convex import optimum
from dpml.optim.gradients import PartyGradients, Rows, mapped
from dpml.optim.losses import LOSSES, for_task
from dpml.privacy import Budget, Problem

CLASSES = {"logistic": 1, "softmax": 4, "squared": 1}
each_loss = pytest.mark.parametrize("name", CLASSES)
RNG = np.random.default_rng


def rows_of(name: str, n: int = 150, d: int = 3, seed: int = 0):
    rng = RNG(seed)
    X = ball(rng, n, d)
    X[:: n // 3] = 0
    K = CLASSES[name]
    y = {"logistic": np.sign(rng.standard_normal(n)), "softmax": rng.integers(K, size=n).astype(float)}
    return X, y.get(name, rng.uniform(-1, 1, n))


def parties_of(name: str, M: int = 4, **options):
    X, y = rows_of(name, **options)
    task = {"logistic": "binary", "softmax": "multiclass", "squared": "regression"}[name]
    return dealt(task, X, y, M, colluders=1)


def gradient_of(name: str, x, y, W, P, clip):
    """The gradient of one row at W (K, d), as the definition has it: cut slopes, times the mapped row of length 1."""
    z, length = P.T @ x, np.linalg.norm(P.T @ x)
    if length == 0:
        return np.zeros(W.size)
    z = z / length
    scores = W @ z
    if name == "softmax":
        slopes = softmax(scores) - (np.arange(len(W)) == y)
    elif name == "logistic":
        slopes = -y / (1 + np.exp(y * scores))
    else:
        slopes = 2 * length * (length * scores - y)
    return np.outer(slopes * min(1, clip / np.linalg.norm(slopes)), z).ravel() / clip


@each_loss
@pytest.mark.parametrize("clip", [0.05, 0.4, 3.0])
def test_sums_are_those_of_cut_gradients_of_mapped_rows(name: str, clip: float) -> None:
    X, y = rows_of(name)
    K, (n, d), B = CLASSES[name], X.shape, 3
    maps, w = RNG(2).standard_normal((B, d, d)).astype(np.float32), RNG(3).standard_normal((B, K * d))
    rows = Rows.mapped(LOSSES[name], K, X, y, maps).cut(np.full(B, clip))
    found = rows.gradient(w.astype(np.float32)) / clip
    for b in range(B):
        W = w[b].astype(np.float32).reshape(K, d)
        expected = sum(gradient_of(name, X[i], y[i], W, maps[b], clip) for i in range(n))
        np.testing.assert_allclose(found[b], expected, atol=3e-5 * n)


@pytest.mark.parametrize("d", quick_first([1, 2000, 10_001], 2))
@pytest.mark.parametrize("size", [1e-308, 1.5e-162, 1e-154, 1e-30, 1.0])
def test_no_mapped_row_is_longer_than_one_however_short_it_was(size: float, d: int) -> None:
    """Squares of entries of 1.5e-162 are zero in double precision, those of 1.6e-162 are not."""
    row = np.full((1, d), size)
    row[0, 0] *= 1.07
    unit, length = mapped(row / np.sqrt(d), np.eye(d, dtype=np.float32))
    assert np.linalg.norm(unit) == pytest.approx(1, rel=1e-9)
    assert length[0] <= 1.1 * size


def test_a_row_that_is_replaced_changes_no_other_mapped_row() -> None:
    X, P = ball(RNG(0), 9000, 7), RNG(1).standard_normal((7, 7)).astype(np.float32)
    before, lengths = mapped(X, P)
    for i in (0, 4095, 4096, 8999):
        other = X.copy()
        other[i] = -X[(i + 1) % 9000]
        after, changed = mapped(other, P)
        others = np.arange(9000) != i
        assert np.array_equal(before[others], after[others])
        assert np.array_equal(lengths[others], changed[others])


def test_no_more_blocks_are_added_up_at_once_than_the_rounding_bound_counts(monkeypatch) -> None:
    X, y = np.zeros((5000, 2)), np.ones(5000)
    right, added = gradients.products, []
    monkeypatch.setattr(
        gradients, "products", lambda half, slopes: added.append(half.shape[-3:-1]) or right(half, slopes)
    )
    for rows in (Rows.of(LOSSES["logistic"], X, y), Rows.mapped(LOSSES["logistic"], 1, X, y, np.eye(2)[None])):
        rows.gradient(np.zeros((1, 2)))
    assert len(added) > 8
    assert max(blocks for blocks, _ in added) <= 16
    assert max(height for _, height in added) <= 64


@each_loss
@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("unit", ["sample", "party"])
@pytest.mark.parametrize("clip", [None, 0.3])
def test_parts_of_parties_and_integers_add_up(name: str, unit: str, clip: float | None, mapped: bool) -> None:
    if (clip, unit, mapped) == (None, "sample", False):
        return  # rows of dpgd have one clip
    parties, K = parties_of(name), CLASSES[name]
    of = ClippedGradients(LOSSES[name], unit, clip, K, mapped)
    d, rng = parties.problem.d, RNG(4)
    at = [rng.standard_normal((2, K * d)).astype(np.float32)]
    if clip is None:
        at.append(np.array([0.3, 0.05], np.float32))
    if mapped:
        at.append(rng.standard_normal((2, d * d)).astype(np.float32))
    terms = of.on(parties)
    total = terms.total(*at)
    np.testing.assert_allclose(terms.each(*at).sum(axis=0), total, atol=1e-4)
    resolution = np.full(2, of.resolution([5.0] * len(of.lengths(d)), parties.problem))
    whole = terms.integers(resolution, True, *at)
    np.testing.assert_array_equal(whole.sum(axis=0), terms.integers(resolution, False, *at)[0])
    steps = np.repeat(of.steps(int(resolution[0]), parties.problem), of.lengths(d))
    np.testing.assert_allclose(whole.sum(axis=0) * steps, total, atol=2e-3)
    if clip is None and unit == "party":  # a party counts one or none
        assert set(np.unique(whole[..., -1])) <= {0, 1 << BITS}


@each_loss
@pytest.mark.parametrize("unit", ["sample", "party"])
@pytest.mark.parametrize("mapped", [False, True])
def test_no_replaced_unit_moves_integers_by_more_than_two_clips(name: str, unit: str, mapped: bool) -> None:
    """In whole numbers, with no tolerance: 300 rows, or parties, against 300 others at the same models."""
    K, d, rng = CLASSES[name], 3, RNG(5)
    of = ClippedGradients(LOSSES[name], unit, 0.2, K, mapped)
    at = [10 * rng.standard_normal((1, K * d)).astype(np.float32), rng.standard_normal((1, d * d)).astype(np.float32)]
    at = at[: 1 + mapped]
    Q = 1 if unit == "party" else 1 << 12
    sent = []
    for seed in range(2):
        X, y = rows_of(name, n=300, seed=seed)
        one = dealt("regression", X, y, 300, colluders=0)
        sent.append(of.on(one).integers(np.array([Q]), True, *at)[:, 0].astype(object))
    lengths = [(each**2).sum(axis=1) for each in sent]
    assert max(map(max, lengths)) <= (Q << BITS) ** 2
    assert max(((sent[0][:, None] - sent[1][None]) ** 2).sum(axis=-1).ravel()) <= (2 * Q << BITS) ** 2


@pytest.mark.parametrize("classes", [1, 4])
def test_labels_are_counted(classes: int) -> None:
    parties = parties_of("softmax" if classes > 1 else "logistic")
    terms = LabelSums(classes).on(parties)
    expected = np.bincount(parties.y.astype(int)) if classes > 1 else [parties.y.sum()]
    np.testing.assert_array_equal(terms.total(), expected)
    np.testing.assert_array_equal(terms.integers(np.array([8]), True).sum(axis=0)[0], 8 * np.array(expected))


def unit_rows(X):
    X = np.column_stack([MaxAbsScaler().fit_transform(X), np.ones(len(X))])
    return X / np.linalg.norm(X, axis=1, keepdims=True) * (1 - 1e-12)


def test_errors_vanish_with_the_budget() -> None:
    """At eps = 1e4 models are within 1 % of those without privacy: accuracy of classes, error of targets."""
    cancer, digits, diabetes = load_breast_cancer(), load_digits(), load_diabetes()
    for task, data, y in (
        ("binary", cancer, 2.0 * cancer.target - 1),
        ("multiclass", digits, digits.target.astype(float)),
        ("regression", diabetes, diabetes.target / diabetes.target.max()),
    ):
        X = unit_rows(data.data)
        mechanism = WhitenedDescent(for_task(task)).prepare(dealt(task, X, y), RNG(1))
        (weights,) = mechanism.release([Budget(1e4, 1e-5)], RNG(2), 1).weights[:, 0]
        if task == "regression":
            best = np.linalg.lstsq(X, y, rcond=None)[0]
            assert np.mean((X @ weights - y) ** 2) < 1.02 * np.mean((X @ best - y) ** 2)
            continue
        scores = X @ weights.reshape(-1, X.shape[1]).T
        found = np.argmax(scores, axis=1) if scores.shape[1] > 1 else np.sign(scores[:, 0])
        best = LogisticRegression(C=1e4, max_iter=5000, fit_intercept=False).fit(X, y).score(X, y)
        assert np.mean(found == y) > best - 0.01


def test_no_rows_in_the_unit_ball_are_longer_on_average_than_what_bounds_them() -> None:
    """Linear programming over all spectra that add up to 1 at most, with the eigenvalues that are known."""
    rng = RNG(1)
    values, least = rng.normal(0, 0.4, (50, 6)), np.full((50, 1), 0.3)
    seen = 1 / np.maximum(values, least)
    found = _most(values, seen, least)
    for value, scale, bound in zip(values, seen, found, strict=True):
        known = value > 0.3
        left = max(0.0, 1 - value[known].sum())
        hidden = scale[~known]
        most = -linprog(-hidden, np.ones((1, len(hidden))), [left]).fun if len(hidden) else 0.0
        assert bound >= known.sum() + most - 1e-9
        assert len(hidden) == 0 or bound == pytest.approx(known.sum() + most)


def test_noise_moves_predictions_by_no_less_than_the_rule_has_it() -> None:
    """X'X is mostly noise, and no slope changes: models are random walks to twice the reach. False alarm: 1e-6."""
    rng, n = RNG(0), 800
    X, y = unit_rows(rng.standard_normal((n, 40))), rng.permutation(np.arange(n) % 2 * 2.0 - 1)
    mechanism = WhitenedDescent(LOSSES["squared"]).prepare(dealt("regression", X, y), RNG(1))
    (weights,) = mechanism.release([Budget(0.05, 1e-5)], RNG(2), 50).weights
    moved = np.sqrt(np.mean((weights @ X.T) ** 2)) / (2 * math.sqrt(2 / 3))
    assert 0.75 * 0.12 < moved < 1.2 * 0.12


@pytest.mark.parametrize("lam", [0.5, 3, 1e3, 1e6])
def test_a_regulariser_of_any_size_is_minimised(lam: float) -> None:
    """Of a cube's corners, which are white as they are; steps longer than the clip over lam turn the model round."""
    X, rng = np.tile(list(itertools.product([-0.5, 0.5], repeat=4)), (250, 1)), RNG(0)
    labels = np.where(rng.logistic(size=4000) < X @ [2.0, -1, 0.5, 0], 1.0, -1.0)
    targets = np.clip(X @ [0.8, -0.4, 0.2, 0] + 0.05 * rng.standard_normal(4000), -1, 1)
    for name, task, y, off in (("logistic", "binary", labels, 0.02), ("squared", "regression", targets, 1e-3)):
        wdgd = WhitenedDescent(LOSSES[name], lam=lam, **({"clip": 1.0} if name == "logistic" else {}))
        (w,) = release_of(wdgd, dealt(task, X, y), [Budget(1e4, 1e-5)]).weights[0]
        best = optimum(LOSSES[name], X, y, lam)
        np.testing.assert_allclose(w, best, atol=off * np.linalg.norm(best))


def test_rows_without_any_length_give_a_model_of_noise() -> None:
    X, y = np.zeros((40, 3)), np.where(np.arange(40) % 2, 1.0, -1.0)
    for budget in (Budget(1.0, 1e-5), Budget(math.inf, 1e-5)):
        released = release_of(WhitenedDescent(LOSSES["logistic"]), dealt("binary", X, y), [budget])
        assert np.isfinite(released.weights).all()
        assert np.any(released.weights) == math.isfinite(budget.eps)


@pytest.mark.parametrize("kind", [ClippedDescent, WhitenedDescent])
@pytest.mark.parametrize("unit", ["sample", "party"])
def test_several_classes_are_learnt(kind, unit: str) -> None:
    rng = RNG(6)
    y = rng.integers(3, size=6000)
    X = np.eye(3)[y] + 0.4 * rng.standard_normal((6000, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * (1 + 1e-9)
    parties = dealt("multiclass", X, y.astype(float), 60, rng, colluders=0)
    algorithm = kind(LOSSES["softmax"], unit=unit)
    weights = algorithm.prepare(parties, rng).release([Budget(8.0, 1e-5)], RNG(7), 1).weights[0, 0]
    assert np.mean(np.argmax(X @ weights.reshape(3, 3).T, axis=1) == y) > 0.8


@each_loss
@pytest.mark.parametrize("d", [1, 2, 5])
def test_a_row_moves_moments_and_labels_as_far_as_is_declared_and_no_farther(name: str, d: int) -> None:
    """By search, of the sums that run: rows that turn, are shortened, or change their label; in units of the noise."""
    rng, problem = RNG(8), Problem(1, 2, d, classes=CLASSES[name])
    *before, _ = WhitenedDescent(LOSSES[name]).messages(Budget(1.0, 1e-5), problem)
    ends = {"logistic": (-1.0, 1.0), "softmax": (0.0, 3.0), "squared": (-1.0, 1.0)}[name]
    far = dict.fromkeys(range(len(before)), 0.0)
    pairs = [ball(rng, 2, d) / (1 + 1e-12) for _ in range(300)]
    pairs += [np.eye(1, d) * np.array([[1.0], [0.0]]), np.eye(2, d) if d > 1 else np.ones((2, 1))]
    units = [np.repeat(message.of.deviations(d), message.of.lengths(d)) for message in before]
    for X in pairs:
        totals = {}
        for k, y in itertools.product((0, 1), ends):
            parties = dealt("regression", X[[k]], np.array([y]))
            totals[k, y] = [message.of.on(parties).total() for message in before]
        for labels in (ends, ends[::-1], ends[:1] * 2):
            both = zip(totals[0, labels[0]], totals[1, labels[1]], units, strict=True)
            for i, (first, second, unit) in enumerate(both):
                far[i] = max(far[i], float(np.linalg.norm((first - second) / unit)))
    for i, message in enumerate(before):
        assert far[i] == pytest.approx(message.sensitivity, rel=1e-9)


BUDGET = Budget(1.0, 1e-5)


@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED], ids=lambda loss: loss.name)
@pytest.mark.parametrize("rule", [Equal(), Fractions(fractions=(0.5, 0.02, 0.3, 0.1, 0.05, 0.03)), PerParty(n=1)])
def test_party_gradients_are_those_of_every_party_alone(loss, rule) -> None:
    parties = some_parties(loss, M=6, d=4, rule=rule)
    w = 3 * np.random.default_rng(2).standard_normal((5, 4))
    clip = np.array([0.01, 0.1, 0.2, 0.5, 3.0])
    engine = PartyGradients.of(loss, parties.X, parties.y, parties.offsets, np.float64)
    each, within = engine.clipped(w, clip)
    total, below = engine.clipped_sums(w, clip)
    for k in range(6):
        rows = list(zip(parties.X[parties.of(k)], parties.y[parties.of(k)], strict=True))
        for b, model in enumerate(w):
            mean = sum(clipped_slope(loss, x @ model, y, math.inf) * x for x, y in rows) / len(rows)
            length = np.linalg.norm(mean)
            np.testing.assert_allclose(each[k, b], mean / max(clip[b], length), rtol=1e-12, atol=1e-14)
            assert within[k, b] == (length <= clip[b])
            assert np.linalg.norm(each[k, b]) <= 1 + 1e-15
    np.testing.assert_allclose(total, each.sum(axis=0), rtol=1e-9, atol=1e-12)
    assert np.array_equal(below, within.sum(axis=0))


def test_many_parties_of_many_sizes() -> None:
    rng = np.random.default_rng(0)
    sizes = np.ceil(rng.pareto(1.0, 3000) * 2 + 1).astype(int)
    X, y = ball(rng, sizes.sum(), 3), rng.choice([-1.0, 1.0], sizes.sum())
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    engine = PartyGradients.of(LOGISTIC, X, y, offsets, np.float64)
    total, _ = engine.clipped_sums(np.zeros((1, 3)), np.array([1e9]))
    means = np.add.reduceat(-y[:, None] * X / 2, offsets[:-1]) / sizes[:, None]
    np.testing.assert_allclose(1e9 * total[0], means.sum(axis=0), rtol=1e-9)


@pytest.mark.parametrize("unit", ["sample", "party"])
def test_the_rounds_against_another_accountant(unit) -> None:
    """Each sum is a Gaussian release of sensitivity 2 in noise z, each count one of sensitivity 1 in noise b."""
    problem = Problem(1, 500, 3) if unit == "sample" else Problem(50, 500, 3, colluders=0)
    schedule = ClippedDescent(LOGISTIC, unit=unit).schedule(BUDGET, problem)
    accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=1e-4)
    accountant.compose(SelfComposedDpEvent(GaussianDpEvent(schedule.noise / 2), schedule.rounds))
    assert schedule.adaptive == (unit == "party")
    if schedule.adaptive:
        accountant.compose(SelfComposedDpEvent(GaussianDpEvent(schedule.count_noise), schedule.rounds))
    assert accountant.get_epsilon(1e-5) == pytest.approx(1.0, abs=2e-3)


def test_an_adaptive_clip_follows_its_quantile() -> None:
    rng = np.random.default_rng(0)
    parties = binary_parties(N=4000, d=4, M=400)
    algorithm = ClippedDescent(LOGISTIC, unit="party", rounds=150)
    prepared = algorithm.prepare(parties, rng)
    release = prepared.release([Budget(50.0, 1e-5)], rng, 3)
    clip = release.metrics["clip"][0]
    (message,) = algorithm.messages(Budget(50.0, 1e-5), parties.problem)
    sums = prepared.terms(message.of).total(release.weights[0].astype(np.float32), clip.astype(np.float32))
    assert np.all(np.abs(sums[:, -1] / 400 - CLIP_QUANTILE) < 0.08)


@pytest.mark.parametrize("lam", [0.1, 1.0, 10.0])
def test_a_ridge_and_a_short_clip_do_not_turn_the_model_round(lam) -> None:
    """Where the adaptive clip has shrunk, a step as long as the first clip allows would make the ridge overshoot."""
    algorithm = ClippedDescent(LOGISTIC, unit="party", lam=lam)
    release = release_of(algorithm, some_parties(N=400, M=100, d=4), [Budget(8.0, 1e-5)], 3, seed=0)
    assert release.metrics["clip"].max() < 0.3
    # no gradient of the mean loss is longer than 1, so that no minimiser is longer than 1/lam
    assert np.linalg.norm(release.weights, axis=-1).max() < 2 / lam + 1
