"""The batched trainer: minima certified by gradients written down anew, and scikit-learn's coefficients."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression

from dpml.errors import UserError
from dpml.optim.convex import fit, fit_parties
from dpml.optim.losses import LOSSES, Logistic, hard_targets, longest_minimiser


def problems(rng, B: int, n: int, d: int, K: int):
    X = rng.standard_normal((B, n, d))
    X *= (rng.random((B, n)) ** (1 / 3) / np.linalg.norm(X, axis=2))[:, :, None]
    targets = rng.random((B, n, 1)) if K == 1 else rng.dirichlet(np.full(K, 0.3), (B, n))
    return X, targets, rng.dirichlet(np.ones(n), B)


def gradient(w, X, targets, r, lam):
    """One problem's gradient (K d,), straight from the loss."""
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
    for w, *problem in zip(fit(X, targets, lam, r), X, targets, r, strict=True):
        assert np.linalg.norm(gradient(w, *problem, lam)) <= 1.1e-9


def test_repeated_rows_empty_rows_and_one_label_only() -> None:
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((1, 3, 9)) / 4, 2, axis=1)
    X[:, 0] = 0
    for K in (1, 3):
        targets = hard_targets(np.ones((1, 6)), K)
        w = fit(X, targets, 1e-4)
        assert np.linalg.norm(gradient(w[0], X[0], targets[0], np.full(6, 1 / 6), 1e-4)) <= 1.1e-9


@pytest.mark.parametrize("K", [1, 4])
def test_a_weight_is_a_number_of_copies_and_padding_changes_nothing(K) -> None:
    rng = np.random.default_rng(1)
    X, targets, _ = problems(rng, 1, 7, 5, K)
    copies = rng.integers(1, 6, 7)
    folded = fit(X, targets, 1e-3, copies[None] / copies.sum())
    whole = fit(np.repeat(X, copies, axis=1), np.repeat(targets, copies, axis=1), 1e-3)
    assert np.allclose(folded, whole, atol=1e-6)
    padded = fit(
        np.concatenate([X, X], axis=1),
        np.concatenate([targets, 1 - targets], axis=1),
        1e-3,
        np.concatenate([copies, np.zeros(7)])[None] / copies.sum(),
    )
    assert np.allclose(folded, padded, atol=1e-6)


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


def test_what_cannot_be_solved_is_refused() -> None:
    X, targets, _ = problems(np.random.default_rng(3), 2, 5, 3, 1)
    with pytest.raises(UserError):
        fit(1e3 * X, targets, 1e-4, tolerance=1e-18)


@pytest.mark.slow_cases("10.0")
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
