"""Newton's method and the plain optimum against scikit-learn."""

import numpy as np
import pytest
from examples import LOGISTIC
from scipy.optimize import brentq
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression, Ridge

from dpml import optim
from dpml.errors import UserError
from dpml.optim import convex
from dpml.optim.convex import fit, fit_parties
from dpml.optim.losses import LOSSES, Logistic, Loss, hard_targets, longest_minimiser, mean_gradient, mean_loss


@pytest.mark.parametrize(("d", "strengths"), [(6, (1e-3, 1.0)), (60, (1e-6, 10.0))])
@pytest.mark.parametrize("block", [convex._BLOCK, 700])
def test_newton_solves_every_tilted_problem_in_the_stack(monkeypatch, d, strengths, block) -> None:
    """However different they are, in one block or in several, and one of them without a tilt."""
    monkeypatch.setattr(convex, "_BLOCK", block)
    X, y = labelled(LOGISTIC, 200, d)
    tilt = np.random.default_rng(7).standard_normal((30, d)) * np.geomspace(1e-3, 1, 30)[:, None]
    tilt[11] = 0
    lam = np.geomspace(*strengths, 30)
    w = convex.minimise_convex(LOGISTIC, X, y, lam, tilt)
    gradient = LOGISTIC.slope(X @ w.T, y).T @ X / len(y) + lam[:, None] * w + tilt
    assert np.linalg.norm(gradient, axis=1).max() <= 1e-9


def test_conjugate_gradients_against_direct_solutions() -> None:
    """As close as asked for, with an exact inverse for a preconditioner and without; and zero is zero."""
    rng = np.random.default_rng(8)
    B, d = 5, 12
    roots = rng.standard_normal((B, d, d))
    A = roots @ roots.transpose(0, 2, 1) + np.geomspace(1e-2, 10, B)[:, None, None] * np.eye(d)
    right = rng.standard_normal((B, d))
    right[3] = 0

    def times(v: np.ndarray) -> np.ndarray:
        return np.einsum("bij,bj->bi", A, v)

    def inverse(v: np.ndarray) -> np.ndarray:
        return np.linalg.solve(A, v[:, :, None])[:, :, 0]

    enough = np.full(B, 1e-9)
    assert np.allclose(convex.conjugate_gradients(times, inverse, right, enough), inverse(right), rtol=1e-9, atol=0)
    few = convex.conjugate_gradients(times, lambda v: v / 10, right, np.geomspace(1e-6, 1, B))
    assert np.all(np.linalg.norm(times(few) - right, axis=1) <= np.geomspace(1e-6, 1, B) * (1 + 1e-9))
    assert not convex.conjugate_gradients(times, inverse, np.zeros((B, d)), enough).any()


@pytest.mark.parametrize(("name", "lam"), [("logistic", 1e-3), ("softmax", 1e-2)])
def test_the_optimum_is_scikit_learns(name: str, lam: float) -> None:
    X, y = labelled(LOSSES[name], 300, 4)
    theirs = LogisticRegression(C=1 / (lam * 300), fit_intercept=False, tol=1e-10, max_iter=10_000).fit(X, y)
    assert np.allclose(convex.optimum(LOSSES[name], X, y, lam), theirs.coef_.ravel(), atol=1e-4)


def test_what_cannot_be_solved_is_refused() -> None:
    X, y = labelled(LOGISTIC, 200, 6)
    with pytest.raises(optim.NotConvergedError):
        convex.minimise_convex(LOGISTIC, X, y, 0.0, np.full((1, 6), 5.0))
    X, targets, _ = problems(np.random.default_rng(3), 2, 5, 3, 1)
    with pytest.raises(UserError):
        fit(1e3 * X, targets, 1e-4, tolerance=1e-18)


def labelled(loss: Loss, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(9)
    X = rng.standard_normal((n, d)) / np.sqrt(d)
    noisy = X @ np.arange(1.0, d + 1) + rng.logistic(size=n)
    return X, {"squared": np.tanh(noisy), "softmax": np.digitize(noisy, [-1, 1]) * 1.0}.get(loss.name, np.sign(noisy))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("lam", [1e-3, 0.5])
def test_the_optimum_is_one_of_the_mean_loss_and_the_regulariser(name: str, lam: float) -> None:
    """No step in any direction lowers ``mean loss + lam/2 ||w||^2``, and the slope vanishes; by values of the loss."""
    loss = LOSSES[name]
    X, y = labelled(loss, 60, 3)
    w = convex.optimum(loss, X, y, lam)

    def objective(w: np.ndarray) -> np.ndarray:
        return mean_loss(loss, X, y, w) + lam / 2 * np.sum(w * w, axis=1)

    h = 1e-4
    steps = h * np.eye(len(w))
    assert np.abs(objective(w + steps) - objective(w - steps)).max() / (2 * h) < 2e-7
    away = np.random.default_rng(0).standard_normal((200, len(w)))
    away *= np.geomspace(1e-2, 3, 200)[:, None] if loss.convex else 1e-2
    assert objective(w + away).min() > objective(w[None])[0]


@pytest.mark.parametrize("lam", [0.0, 1e-3, 0.5])
def test_few_rows_of_many_features(lam: float) -> None:
    """The squared loss, against scikit-learn, and against the pseudo-inverse where there are many minimisers."""
    rng = np.random.default_rng(12)
    X, y, counts = rng.standard_normal((20, 50)), rng.standard_normal(20), rng.integers(1, 4, 20).astype(float)
    X[3] = X[4]  # so that not even the rows are independent
    n, roots = counts.sum(), np.sqrt(counts)
    w = convex.optimum(LOSSES["squared"], X, y, lam, counts)
    if lam == 0:
        expected = np.linalg.pinv(roots[:, None] * X, rcond=1e-10) @ (roots * y)
    else:  # which minimises the sum of squares + alpha ||w||^2
        expected = Ridge(alpha=lam / 2 * n, fit_intercept=False, tol=1e-12).fit(X, y, sample_weight=counts).coef_
    assert np.allclose(w, expected, atol=1e-9)


def test_few_rows_that_can_be_separated_leave_no_loss() -> None:
    rng = np.random.default_rng(13)
    X, y = rng.standard_normal((20, 30)), np.sign(rng.standard_normal(20))
    for loss in (LOGISTIC, Logistic(3.0)):
        assert 0 < mean_loss(loss, X, y, convex.optimum(loss, X, y)[None])[0] < 1e-9
    X[5], y[4], y[5] = X[4], 1.0, -1.0  # the same row with both labels: nobody can tell them apart
    least = mean_loss(LOGISTIC, X, y, convex.optimum(LOGISTIC, X, y)[None])[0]
    assert least == pytest.approx(2 * np.log(2) / 20, abs=1e-8)
    X, y = X[np.arange(20) % 5], np.sign(rng.standard_normal(20))  # five different rows: products of rank 5
    w = convex.optimum(LOGISTIC, X, y)
    assert np.linalg.norm((y / (1 + np.exp(y * (X @ w)))) @ X) / 20 <= 1e-9


@pytest.mark.parametrize("name", LOSSES)
def test_counts_are_copies(name: str) -> None:
    loss = LOSSES[name]
    X, y = labelled(loss, 40, 3)
    counts = np.random.default_rng(1).integers(1, 6, 40).astype(float)
    copies = np.repeat(X, counts.astype(int), axis=0), np.repeat(y, counts.astype(int))
    for lam in (0.01, 1.0):
        folded, whole = convex.optimum(loss, X, y, lam, counts), convex.optimum(loss, *copies, lam)
        assert np.allclose(folded, whole, atol=1e-6)
    weights = np.random.default_rng(2).standard_normal((4, len(folded)))
    assert np.allclose(mean_loss(loss, X, y, weights, counts), mean_loss(loss, *copies, weights), rtol=1e-12)
    if name == "logistic":
        tilt, lam = weights / 10, np.array([0.1, 0.2, 0.3, 4.0])
        folded = convex.minimise_convex(loss, X, y, lam, tilt, counts)
        assert np.allclose(folded, convex.minimise_convex(loss, *copies, lam, tilt), atol=1e-7)


@pytest.mark.parametrize("loss", [LOGISTIC, Logistic(1.5)])
@pytest.mark.parametrize(("n", "models"), [(7, 3), (30_000, 5)])  # one block of rows, and several
def test_the_mean_hessian_is_the_derivative_of_the_mean_gradient(loss: Loss, n: int, models: int) -> None:
    h = 1e-5
    X, y = labelled(loss, n, 3)
    w = np.random.default_rng(3).standard_normal((models, 3))
    found = convex.mean_hessian(loss, X, y, w)
    assert found.shape == (models, 3, 3)
    for j, step in enumerate(h * np.eye(3)):
        difference = (mean_gradient(loss, X, y, w + step) - mean_gradient(loss, X, y, w - step)) / (2 * h)
        assert np.allclose(found[:, j], difference, atol=1e-8)


def problems(rng, B: int, n: int, d: int, K: int):
    X = rng.standard_normal((B, n, d))
    X *= (rng.random((B, n)) ** (1 / 3) / np.linalg.norm(X, axis=2))[:, :, None]
    targets = rng.random((B, n, 1)) if K == 1 else rng.dirichlet(np.full(K, 0.3), (B, n))
    return X, targets, rng.dirichlet(np.ones(n), B)


def gradient(w, X, targets, r, lam):
    K = targets.shape[1]
    W = w.reshape(K, -1)
    t = X @ W.T
    p = expit(t) if K == 1 else softmax(t, axis=1)
    return ((r[:, None] * (p - targets)).T @ X + lam * W).ravel()


@pytest.mark.parametrize("K", [1, 2, 3, 5])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (4, 12), (12, 4), (6, 6), (40, 7)])
@pytest.mark.parametrize("lam", [1e-5, 1e-2, 3.0])
def test_the_gradient_vanishes_at_every_minimum(K, n, d, lam) -> None:
    X, targets, r = problems(np.random.default_rng(K * n), 30, n, d, K)
    X[0, 0], X[1], r[2:5, n // 2 :] = 0, X[1, :1], 0  # an empty row, repeated rows, and rows that do not count
    targets[:3] = hard_targets(np.ones((1, n)), K)  # one label only
    for w, *problem in zip(fit(X, targets, lam, r), X, targets, r, strict=True):
        assert np.linalg.norm(gradient(w, *problem, lam)) <= 1.1e-9


@pytest.mark.parametrize("classes", [1, 3])
def test_parties_of_any_size_get_scikit_learns_coefficients(classes) -> None:
    """To 1e-4 of the largest coefficient, at lam = 1e-4; sizes on both sides of d, one party of one row."""
    rng = np.random.default_rng(2)
    sizes = np.array([22, 5, 1, 22, 90, 21, 7, 40])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X = rng.standard_normal((offsets[-1], 12))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = rng.integers(0, classes, len(X)).astype(float) if classes > 1 else rng.choice([-1.0, 1.0], len(X))
    found = {}
    for parties, w in fit_parties(X, y, offsets, 1e-4, classes):
        found |= dict(zip(parties.tolist(), w, strict=True))
    assert set(found) == set(range(len(sizes)))
    for k, n in enumerate(sizes):
        own = slice(offsets[k], offsets[k + 1])
        if len(np.unique(y[own])) < max(2, classes):
            continue
        theirs = LogisticRegression(C=1 / (1e-4 * n), fit_intercept=False, tol=1e-10, max_iter=10_000)
        theirs = theirs.fit(X[own], y[own]).coef_.ravel()
        assert np.abs(found[k] - theirs).max() <= 1e-4 * np.abs(theirs).max()


@pytest.mark.parametrize("lam", [1e-6, 1e-3, 0.3, 10.0])
def test_with_an_unknown_number_of_classes_the_longest_minimiser_is_that_of_any(lam) -> None:
    """||grad|| <= ||a - p|| < 1 at w = 0, and as close to 1 as one likes with many classes: 1/lam, not less."""
    softmax = LOSSES["softmax"]
    unknown = longest_minimiser(softmax, lam)
    known = [longest_minimiser(softmax, lam, K) for K in (2, 3, 10, 1000, 10**6)]
    assert np.all(np.diff(known) > 0)
    assert known[-1] < unknown == pytest.approx(1 / lam)
    if lam == 10.0:  # one row of length 1 with one label, for ever more classes
        reached = [
            np.linalg.norm(fit(np.ones((1, 1, 1)), hard_targets(np.zeros((1, 1)), K), lam)) for K in (3, 30, 150)
        ]
        assert max(reached) < known[-1]
        assert reached[-1] > 0.98 * unknown


@pytest.mark.parametrize("lam", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("shift", [0.5, 2.0, 30.0])
def test_the_longest_minimiser_with_a_shift(shift, lam) -> None:
    """Of one repeated row, at every length r: ``lam u = r/(1 + e^(r u - b))``, by SciPy."""
    bound = longest_minimiser(Logistic(shift), lam)
    lengths = [
        brentq(lambda u, r=r: lam * u - r * expit(shift - r * u), 0.0, 1 / lam, xtol=1e-12)
        for r in np.geomspace(1e-3, 1, 400)
    ]
    assert max(lengths) <= bound * (1 + 1e-9)
    assert max(lengths) >= 0.99 * bound or lam == 1.0
    assert longest_minimiser(Logistic(0.0), lam) == longest_minimiser(LOSSES["logistic"], lam)
