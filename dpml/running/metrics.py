"""How good released models are. Computed on the data themselves: for the experimenter's eyes, not part of a release."""

import importlib
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dpml.arrays import Array
from dpml.data.partition import Parties, remembered
from dpml.errors import UserError
from dpml.optim.convex import optimum
from dpml.optim.logistic import fit_all
from dpml.optim.losses import Loss, mean_loss, mean_over_rows

Metric = Callable[[Array, Parties, Loss, float], Array]
"""``metric(weights, parties, loss, lam)``: models (B, d) to numbers (B,)."""


def evaluate(
    weights: Array | None, parties: Parties, loss: Loss, lam: float, further: Sequence[str] = ()
) -> dict[str, Array]:
    """Score models `weights` (budgets, draws, d), where some were released: each metric is an array (budgets, draws).

    - ``loss``: mean loss on the private training rows, without regulariser.
    - ``optimality_gap``: how far the objective, mean loss + lam/2 ||w||^2, lies above its minimum on those rows; absent
      for a non-convex loss, whose minimum is not known.
    - ``accuracy`` (a share) or ``rmse`` (in units of the scaled target) on the test rows, when there are any.
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
            found["accuracy"] = accuracy(flat, data.X_test, data.y_test)
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


@remembered
def least(parties: Parties, loss: Loss, lam: float) -> float:
    """The minimum of mean loss + lam/2 ||w||^2 on the private rows, or its infimum where it has none.

    Where a plane has all rows of one label on its one side, no w is the minimiser for lam = 0: Newton's method then
    runs towards infinity until the gradient is less than 1e-9.
    """
    X, y, counts = parties.folded
    regularised = loss.name in ("logistic", "softmax") and lam > 0
    best = (fit_all(parties, lam) if regularised else optimum(loss, X, y, lam, counts))[None]
    return float(mean_loss(loss, X, y, best, counts)[0] + lam / 2 * np.sum(best * best))


def accuracy(weights: Array, X: Array, y: Array) -> Array:
    """The share of the rows X (n, d) that models `weights` (B, d), or (B, K d) for K classes, label as y does: (B,)."""
    return mean_over_rows(_correct, X, y, weights)


def _squared_error(scores: Array, y: Array) -> Array:
    return (scores - y[:, None]) ** 2


def _correct(scores: Array, y: Array) -> NDArray[np.bool_]:
    if scores.ndim == 3:
        return np.argmax(scores, axis=-1) == y[:, None]
    return (scores >= 0) == (y > 0)[:, None]
