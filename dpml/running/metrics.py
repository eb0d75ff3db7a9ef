"""How good released models are. Computed on the data themselves: for the experimenter's eyes, not part of a release."""

import importlib
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dpml.algorithms.references import least
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.optim.losses import Loss, mean_loss, mean_over_rows
from dpml.optim.losses import scores as scores_of

Metric = Callable[[Array, Parties, Loss, float], Array]
"""``metric(weights, parties, loss, lam)``: models (B, d) to numbers (B,)."""


def evaluate(
    weights: Array | None, parties: Parties, loss: Loss, lam: float, further: Sequence[str] = ()
) -> dict[str, Array]:
    """Score models `weights` (budgets, draws, d), where some were released: each metric is an array (budgets, draws).

    - ``loss``: mean loss on the private training rows, without regulariser.
    - ``optimality_gap``: how far the objective, mean loss + lam/2 ||w||^2, lies above its minimum on those rows; absent
      for a non-convex loss, whose minimum is not known.
    - ``accuracy`` (a share) or ``rmse`` (in units of the scaled target) on the test rows, when there are any; and
      ``balanced_accuracy``, the mean over the classes among them of the share that is labelled right.
    - ``err_w``: ||w - w*||_2 / d, where the data come with their true weights w* (Imtiaz et al. 2019, fig. 7).
    - `further` metrics, functions named by their dotted paths; each is called as a `Metric` is.
    """
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
            found["rmse"] = np.sqrt(mean_over_rows(_squared_error, data.X_test, data.y_test, flat))
        else:
            found["accuracy"], found["balanced_accuracy"] = accuracies(flat, data.X_test, data.y_test)
    if data.truth is not None and data.truth.shape == flat.shape[1:]:
        found["err_w"] = np.linalg.norm(flat - data.truth, axis=1) / len(data.truth)
    found |= {path.rpartition(".")[2]: named(path)(flat, parties, loss, lam) for path in further}
    return {name: np.reshape(values, weights.shape[:-1]) for name, values in found.items()}


def named(path: str) -> Metric:
    """The metric that a dotted path such as ``my_metrics.auc`` names.

    Raises:
        UserError: there is no such function.
    """
    module, _, name = path.rpartition(".")
    try:
        metric: Metric = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"metrics={path} names no function MODULE.NAME: {error}.") from None
    if not callable(metric):
        raise UserError(f"metrics={path} is no function.")
    return metric


def accuracies(weights: Array, X: Array, y: Array) -> tuple[Array, Array]:
    """What share of the rows X (n, d) models `weights` (B, d), or (B, K d) for K classes, label as y does: (B,) each.

    First of all rows, then the mean over the classes that y has of the share of that class: 1/K for a model that gives
    all rows one label, however many rows of it there are. NaN for weights that are not numbers.
    """
    classes, place, sizes = np.unique(y, return_inverse=True, return_counts=True)
    # sums of a block's ones are exact in float32, and twice as fast
    members = (place[:, None] == np.arange(len(classes))).astype(np.float32)
    recalls = np.where(np.isnan(weights).any(axis=1), np.nan, mean_over_rows(_correct, X, y, weights, members))
    right = np.rint(recalls * sizes[:, None])  # whole numbers, so that a share is the nearest to what it is
    return right.sum(axis=0) / len(y), recalls.mean(axis=0)


def auc(weights: Array, parties: Parties, loss: Loss, lam: float) -> Array:
    """The area under the ROC curve on the test rows: how many pairs of a row of either class the scores put in order.

    Equal scores count half. For tasks of two classes; NaN where the test rows are all of one class.

    Raises:
        UserError: the task has not two classes, or there are no test rows.
    """
    data = parties.data
    if data.task != "binary" or not len(data.y_test):
        raise UserError(f"the metric auc needs test rows of two classes, which dataset={data.name} has not.")
    positive = data.y_test > 0
    pairs = float(positive.sum()) * float((~positive).sum())
    areas = np.full(len(weights), np.nan)
    for i in range(len(weights) if pairs else 0):
        scores = scores_of(data.X_test, weights[i : i + 1])[:, 0]
        others, own = np.sort(scores[~positive]), np.sort(scores[positive])
        below = np.searchsorted(others, own, "left").sum() + np.searchsorted(others, own, "right").sum()
        areas[i] = below / (2 * pairs) if np.isfinite(scores).all() else np.nan
    return areas


def _squared_error(scores: Array, y: Array) -> Array:
    return (scores - y[:, None]) ** 2


def _correct(scores: Array, y: Array) -> NDArray[np.bool_]:
    if scores.ndim == 3:
        return np.argmax(scores, axis=-1) == y[:, None]
    return (scores >= 0) == (y > 0)[:, None]
