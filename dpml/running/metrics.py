"""Measure the quality of an experiment's models on private data. No release publishes the metrics in this module.

Rows have norm at most 1 and targets are scaled, so losses and distances have no unit. `evaluate` scores every linear
model. Algorithms report other metrics themselves (docs/howto/commands.md).
"""

from collections.abc import Callable, Sequence

import numpy as np

from dpml.arrays import Array
from dpml.config.build import imported
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.optim.convex import least
from dpml.optim.losses import LOSSES, Loss, correct, mean_loss, mean_over_rows
from dpml.optim.losses import scores as scores_of

Metric = Callable[[Array, Parties, Loss, float], Array]
"""A function ``metric(weights, parties, loss, lam)`` that returns one number for each of the models (B, d): (B,)."""


def evaluate(
    weights: Array | None, parties: Parties, loss: Loss, lam: float, further: Sequence[str] = ()
) -> dict[str, Array]:
    """Return each metric's values (budgets, draws) for models (budgets, draws, d); `further` names user metrics."""
    if weights is None:  # nothing was released
        return {}
    data = parties.data
    flat = weights.reshape(-1, weights.shape[-1])
    mean = mean_loss(loss, *parties.folded[:2], flat, parties.folded[2])
    found = {"loss": mean}
    if loss.convex:
        found["optimality_gap"] = mean + lam / 2 * np.einsum("bj,bj->b", flat, flat) - least(parties, loss, lam)
    if len(data.y_test):
        if data.task == "regression":
            found["rmse"] = np.sqrt(mean_loss(LOSSES["squared"], data.X_test, data.y_test, flat))
        else:
            found["accuracy"], found["balanced_accuracy"] = accuracies(flat, data.X_test, data.y_test)
    if data.truth is not None and data.truth.shape == flat.shape[1:]:
        found["err_w"] = np.linalg.norm(flat - data.truth, axis=1) / len(data.truth)
    for path in further:
        metric: Metric = imported(path, f"metrics={path}")
        found[path.rpartition(".")[2]] = metric(flat, parties, loss, lam)
    return {name: np.reshape(values, weights.shape[:-1]) for name, values in found.items()}


def accuracies(weights: Array, X: Array, y: Array) -> tuple[Array, Array]:
    """Return the accuracy (B,) and the balanced accuracy (B,) of B models on rows X (n, d) with labels y (n,).

    Balanced accuracy is the mean of the accuracies on the rows of each class in y. Both are NaN for weights with a NaN.
    """
    classes, place, sizes = np.unique(y, return_inverse=True, return_counts=True)
    # float32 is twice as fast, and sums the zeros and ones of a block of rows exactly
    members = (place[:, None] == np.arange(len(classes))).astype(np.float32)
    recalls = np.where(np.isnan(weights).any(axis=1), np.nan, mean_over_rows(correct, X, y, weights, members))
    right = np.rint(recalls * sizes[:, None])  # exact counts of rows: accuracies are rounded only once
    return right.sum(axis=0) / len(y), recalls.mean(axis=0)


def auc(weights: Array, parties: Parties, loss: Loss, lam: float) -> Array:
    """Return each model's area under the ROC curve on the test rows of two classes; NaN if one class is absent.

    It is the share of pairs, one row of each class, whose scores are in the right order; equal scores count half.
    """
    data = parties.data
    if data.task != "binary" or not len(data.y_test):
        raise UserError(f"the metric auc needs test rows of two classes, which dataset={data.name} lacks.")
    positive = data.y_test > 0
    pairs = float(positive.sum()) * float((~positive).sum())
    areas = np.full(len(weights), np.nan)
    for i in range(len(weights) if pairs else 0):
        scores = scores_of(data.X_test, weights[i : i + 1])[:, 0]
        others, own = np.sort(scores[~positive]), np.sort(scores[positive])
        below = np.searchsorted(others, own, "left").sum() + np.searchsorted(others, own, "right").sum()
        areas[i] = below / (2 * pairs) if np.isfinite(scores).all() else np.nan
    return areas
