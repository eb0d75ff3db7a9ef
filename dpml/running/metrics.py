"""The quality of released models. Computed on the data themselves: for the experimenter only, not part of a release.

Rows have norm at most 1 and targets are scaled, so losses and distances have no unit. `evaluate` scores every linear
model. Other metrics come from the components that alone can compute them, under the names below: metric [unit].

Algorithms report in addition to their models:

- ``noisy_objective`` [loss]: functional mechanism: the noisy polynomial + lam/2 ||w||^2 at its own minimiser, which
  Imtiaz et al. 2019 plot as the loss; it may be negative.
- ``trimmed`` [share of releases]: functional mechanism, `adassp`: the spectrum had directions without positive
  curvature, which were cut off (`published`) or raised to a floor (`tight`).
- ``bound`` [loss]: `soft` and `avg`: bound on the excess risk (Hamm et al. 2016, Theorem 4 and eq. 9).
- ``gap_bound`` [loss]: `gop`: bound on the optimality gap that 95 % of the draws keep (Rajkumar & Agarwal 2012, Theorem
  5.1).
- ``distance`` [length of w]: `psgd`: ||w_T - w_limit||_2, from the minimiser that the rounds approach.
- ``rounds`` [rounds]: `psgd` and clipped descent: the number of rounds used.
- ``step`` [step size]: descent: the step size that was used.
- ``clip`` [length of a gradient]: clipped descent: the last clip.
- ``train_accuracy`` [share of rows]: networks: accuracy on the private rows.
- ``path_loss`` [loss]: networks: training loss, mean over ten moments of the training; a lower value means faster
  training.

Figures show these, and `metrics` can name them by their paths:

- ``error`` [share of rows]: 1 - accuracy; in figures only.
- ``auc`` [share of pairs]: `dpml.running.metrics.auc`: area under the ROC curve of two classes, on the test rows.
- ``mean_absolute_error`` [scaled target]: over the test rows of a regression.
- ``excess_loss`` [loss]: test loss above that of the true weights.

Functions compute these for blocks of experiments; those that only one paper has are on its card (`dpml.packs`):

- ``claimed``, ``proven``, ``pair``, ``attacked`` [eps]: `audit/all`: the claimed eps; the proven eps; the eps that
  holds for these specific neighbours; a lower bound that an attack reached.
- ``power`` [ratio]: `audit/all`: lower bound on the fraction of the proven mu (of eps where delta is 0) that the
  neighbours show.
"""

import importlib
from collections.abc import Callable, Sequence

import numpy as np

from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.optim.losses import Loss, correct, mean_loss, mean_over_rows, squared_error
from dpml.optim.losses import scores as scores_of
from dpml.optim.reference import least

Metric = Callable[[Array, Parties, Loss, float], Array]
"""``metric(weights, parties, loss, lam)``: models (B, d) to numbers (B,)."""


def evaluate(
    weights: Array | None, parties: Parties, loss: Loss, lam: float, further: Sequence[str] = ()
) -> dict[str, Array]:
    """Score models `weights` (budgets, draws, d), if any were released: each metric is an array (budgets, draws).

    - ``loss`` [loss]: (1/N) sum l(w; x, y) over the private training rows, without regulariser.
    - ``optimality_gap`` [loss]: J(w) - min J, where J(w) = loss + lam/2 ||w||_2^2 on those rows; absent for a loss that
      is not convex, because its minimum is not known.
    - ``accuracy`` [share of rows]: the share of the test rows, if there are any, that are labelled correctly.
    - ``balanced_accuracy`` [share of rows]: the mean, over the classes among the test rows, of the share of each that
      is labelled correctly.
    - ``rmse`` [scaled target]: sqrt((1/n) sum (x'w - y)^2) over the n test rows of a regression.
    - ``err_w`` [length of w]: ||w - w*||_2 / d, if the data include their true weights w* (Imtiaz et al. 2019, fig. 7).

    `further` metrics are functions named by their dotted paths; each is called as a `Metric`.
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
            found["rmse"] = np.sqrt(mean_over_rows(squared_error, data.X_test, data.y_test, flat))
        else:
            found["accuracy"], found["balanced_accuracy"] = accuracies(flat, data.X_test, data.y_test)
    if data.truth is not None and data.truth.shape == flat.shape[1:]:
        found["err_w"] = np.linalg.norm(flat - data.truth, axis=1) / len(data.truth)
    found |= {path.rpartition(".")[2]: named(path)(flat, parties, loss, lam) for path in further}
    return {name: np.reshape(values, weights.shape[:-1]) for name, values in found.items()}


def named(path: str) -> Metric:
    """The metric that a dotted path such as ``my_metrics.auc`` names."""
    module, _, name = path.rpartition(".")
    try:
        metric: Metric = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"metrics={path} names no function MODULE.NAME: {error}.") from None
    if not callable(metric):
        raise UserError(f"metrics={path} is no function.")
    return metric


def accuracies(weights: Array, X: Array, y: Array) -> tuple[Array, Array]:
    """The share of rows X (n, d) that models `weights` (B, d), or (B, K d) for K classes, label as y does: (B,) each.

    The first result is over all rows, the second is the mean over the classes in y of the share of that class: 1/K for
    a model that gives all rows one label, regardless of how many rows have it. NaN for weights that are not numbers.
    """
    classes, place, sizes = np.unique(y, return_inverse=True, return_counts=True)
    # sums of the ones in a block are exact in float32, and twice as fast
    members = (place[:, None] == np.arange(len(classes))).astype(np.float32)
    recalls = np.where(np.isnan(weights).any(axis=1), np.nan, mean_over_rows(correct, X, y, weights, members))
    right = np.rint(recalls * sizes[:, None])  # integers, so that a share is rounded to the nearest float
    return right.sum(axis=0) / len(y), recalls.mean(axis=0)


def auc(weights: Array, parties: Parties, loss: Loss, lam: float) -> Array:
    """The area under the ROC curve on the test rows: the share of pairs of rows of both classes in the right order.

    Equal scores count half. For tasks with two classes; NaN if the test rows are all of one class.
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
