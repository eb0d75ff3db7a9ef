"""Baselines for private algorithms: models without noise."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from dpml.algorithms.ensemble import LocalClassifiers, check_local, drawn_seeds, vote_shares
from dpml.arrays import Array
from dpml.data.partition import Parties, remembered
from dpml.data.preprocess import distinct
from dpml.errors import UserError
from dpml.mechanism.algorithm import SIMULATED, VARIANTS, Release, Variant
from dpml.mechanism.carriers import Carrier, Prepared
from dpml.mechanism.guarantees import no_privacy
from dpml.mechanism.message import Sum
from dpml.mechanism.program import Program
from dpml.mechanism.sharing import Sharing, TrustedCurator
from dpml.optim.convex import optimum
from dpml.optim.interior_point import stopped_model
from dpml.optim.logistic import fit_all, hard_targets
from dpml.optim.losses import Loss, mean_loss
from dpml.privacy import Budget, Guarantee, Problem

Fixed = tuple[Array | None, Mapping[str, float]]
"""A model (d,) or None, and metrics."""


class Baseline:
    """Of a program without messages: a model, or None, and metrics, that are the same for every budget and draw."""

    unprotected: ClassVar[str] = "no noise"

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        return ()

    def sharing(self, problem: Problem) -> Sharing:
        return TrustedCurator()

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        return no_privacy(self.unit, self.unprotected)  # type: ignore[attr-defined]

    def prepare(self: Any, parties: Parties, rng: Generator) -> Prepared:
        """Rows of any length will do."""
        self.loss.check_labels(parties.y)
        return Prepared(self, parties, self.begin(parties, rng))

    def run(self, carrier: Carrier) -> Release:
        weights, metrics = carrier.start
        shape = (len(carrier.budgets), carrier.draws)
        models = None if weights is None else np.broadcast_to(weights, (*shape, len(weights)))
        return Release(models, {name: np.full(shape, value) for name, value in metrics.items()})


@dataclass(frozen=True)
class NonPrivate(Baseline, Program, calibrations=("published", "tight"), lam=0.0, variants=VARIANTS, **SIMULATED):
    """`nonpriv`: the exact minimiser of the pooled risk + lam/2 ||w||^2, whatever the budget. No privacy.

    `variant=authors` minimises over the box [-1, 1]^d, and stops before it has converged if d is large, as the other
    algorithms of that variant do (`dpml.optim.interior_point`).

    Args:
        variant: `paper`, or `authors`, over the box [-1, 1]^d, where their solver stops.
        lam: coefficient of lam/2 ||w||^2.
    """

    name: ClassVar[str] = "nonpriv"

    variant: Variant = "paper"

    def begin(self, parties: Parties, rng: Generator) -> Fixed:
        """Minimise once."""
        minimise = stopped_model if self.variant == "authors" else optimum
        w = minimise(self.loss, parties.X, parties.y, self.lam)
        value = mean_loss(self.loss, parties.X, parties.y, w[None])[0] + self.lam / 2 * float(w @ w)
        return (w, {"noisy_objective": float(value)})


@dataclass(frozen=True)
class Ceiling(Baseline, Program, calibrations=("published", "tight"), **SIMULATED):
    """`ceiling`: as `nonpriv`, with the best of a few ridges on held-out training rows. What to expect without privacy.

    `nonpriv` minimises the training loss, and can be worse than a private model where that overfits.

    Args:
        loss: what is minimised.
        calibration: has no effect.
    """

    name: ClassVar[str] = "ceiling"
    RIDGES: ClassVar[Sequence[float]] = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
    """The coefficients of lam/2 ||w||^2 that are tried, for rows of length at most 1."""

    def begin(self, parties: Parties, rng: Generator) -> Fixed:
        """Fit each ridge to four fifths of the rows, in random order, and the best one on the others to all rows."""
        order = rng.permutation(len(parties.y))
        kept, held = np.split(order, [len(order) - len(order) // 5])
        X, y = parties.X[kept], parties.y[kept]
        losses = [
            mean_loss(self.loss, parties.X[held], parties.y[held], optimum(self.loss, X, y, lam)[None])[0]
            for lam in self.RIDGES
        ]
        return (optimum(self.loss, parties.X, parties.y, self.RIDGES[int(np.argmin(losses))]), {})


class Batch(Baseline, LocalClassifiers):
    """`batch`: one model on all private rows. Not private."""

    name = "batch"
    prepare = Program.prepare

    def begin(self, parties: Parties, rng: Generator) -> Fixed:
        """Fit once."""
        return fit_all(parties, self.strength(len(parties.y))), {}


@dataclass(frozen=True)
class Individual(Baseline, LocalClassifiers):
    """`indiv`: every party keeps its own classifier. Nothing is released; the metric is their mean test accuracy.

    Args:
        loss: logistic (binary) or softmax (multiclass).
        calibration: has no effect.
        variant: those that begin with `sum` sum losses; the others, which are about noise, have no effect.
        lam: coefficient of lam/2 ||w||^2.
        local: scikit-learn classifiers dealt to the parties in turn, [CLASS,CLASS]; None: the loss's own, fast.
    """

    name: ClassVar[str] = "indiv"

    local: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_local(self.local)

    unprotected: ClassVar[str] = "nothing is released to be protected"
    prepare = Program.prepare

    def begin(self, parties: Parties, rng: Generator) -> Fixed:
        """Train and score them, once for all readings of a noise that they do not have."""
        if not len(parties.data.y_test):
            raise UserError(f"algo=indiv is scored on test rows, and dataset={parties.data.name} has none.")
        sums = self.reading.sums
        if self.local is None:
            return None, {"accuracy": _accuracy(parties, self.loss, self.lam, sums)}
        seeds = drawn_seeds(parties, rng)
        return None, {"accuracy": accuracy(parties, self.loss, self.lam, sums, self.local, seeds)}


def accuracy(
    parties: Parties, loss: Loss, lam: float, sums: bool, local: Sequence[Any] | None = None, seeds: Any = ()
) -> float:
    """The mean over parties and test rows of being right: the mean share of votes for the true label."""
    y = parties.data.y_test
    first, where, _ = distinct(parties.data.X_test)
    shares = vote_shares(parties, parties.data.X_test[first], lam, sums, local, seeds)[where]
    right = hard_targets(y, shares.shape[1])
    agree = right * shares if loss.task == "multiclass" else right * shares + (1 - right) * (1 - shares)
    return float(agree.sum()) / len(y)


@remembered
def _accuracy(parties: Parties, loss: Loss, lam: float, sums: bool) -> float:
    return accuracy(parties, loss, lam, sums)


@dataclass(frozen=True)
class Constant(Baseline, Program, calibrations=("published", "tight"), lam=0.0, variants=("paper",), **SIMULATED):
    """`constant`: one answer for every row, the mean target or the commonest class of the private rows. No privacy.

    A floor: an algorithm that uses features should be better. Its loss is the least of all constant scores, not that of
    a model without intercept: it has no weights, is not in the class of models, and has no optimality gap. Its `err_w`
    is that of w = 0.

    Args:
        loss: what its loss is measured by.
        calibration: has no effect.
        variant: has no effect: it is the floor of any other.
        lam: has no effect: it is the floor of any other.
    """

    name: ClassVar[str] = "constant"
    linear: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.variant != "paper":
            replace(self, variant="paper")  # checks the rest
        else:
            super().__post_init__()

    def begin(self, parties: Parties, rng: Generator) -> Fixed:
        """Count."""
        metrics = {"loss": self._least_loss(parties.y)}
        data = parties.data
        if data.truth is not None:
            metrics["err_w"] = float(np.linalg.norm(data.truth)) / len(data.truth)
        if len(data.y_test) and data.task == "regression":
            metrics["rmse"] = math.sqrt(np.mean((data.y_test - parties.y.mean()) ** 2))
        elif len(data.y_test):
            labels, counts = np.unique(parties.y, return_counts=True)
            metrics["accuracy"] = float(np.mean(data.y_test == labels[np.argmax(counts)]))
            metrics["balanced_accuracy"] = 1 / len(np.unique(data.y_test))
            metrics |= {"auc": 0.5} if data.task == "binary" else {}
        return (None, metrics)

    def _least_loss(self, y: Array) -> float:
        """The infimum over constant scores."""
        if self.loss.task == "regression":
            return float(np.var(y))
        shares = np.unique(y, return_counts=True)[1] / len(y)
        # a bounded loss is least at an infinite score
        return -float(shares @ np.log(shares)) if self.loss.convex else 1 - float(shares.max())
