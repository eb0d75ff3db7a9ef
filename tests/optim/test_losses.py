"""Losses against finite differences, and their constants against a search."""

import numpy as np
import pytest

from dpml.errors import UserError
from dpml.optim.losses import LOSSES, Logistic, Loss, mean_gradient, mean_loss, scores

BINARY = [LOSSES["logistic"], Logistic(1.5), LOSSES["sigmoid"]]
SCALAR = [LOSSES["squared"], *BINARY]


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


@pytest.mark.parametrize("loss", BINARY, ids=lambda loss: loss.name)
def test_constants_are_the_suprema_over_unit_rows(loss: Loss) -> None:
    t = np.linspace(-40, 40, 200_001)
    slope = loss.slope(t[None], np.ones(1))[0]
    assert np.abs(slope).max() == pytest.approx(loss.lipschitz, rel=1e-6)
    assert np.abs(np.diff(slope) / np.diff(t)).max() == pytest.approx(loss.smoothness, rel=1e-6)


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
