"""Baselines for private algorithms: models without noise."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from dpml.algorithms.ensemble import local_models
from dpml.algorithms.prepared import Fixed
from dpml.arrays import Array
from dpml.data.partition import Parties, remembered
from dpml.data.preprocess import distinct
from dpml.errors import UserError
from dpml.mechanism.algorithm import require_domain
from dpml.mechanism.guarantees import unprotected
from dpml.mechanism.options import VARIANTS, Variant, check_common
from dpml.optim.convex import optimum
from dpml.optim.interior_point import stopped_model
from dpml.optim.logistic import fit_all, hard_targets
from dpml.optim.losses import LOSSES, Loss, mean_loss
from dpml.optim.reference import least
from dpml.privacy import Calibration


@dataclass(frozen=True)
class NonPrivate:
    """`nonpriv`: the exact minimiser of the pooled risk + lam/2 ||w||^2, whatever the budget. No privacy.

    `variant=authors` minimises over the box [-1, 1]^d, and stops before it has converged if d is large, as the other
    algorithms of that variant do (`dpml.optim.interior_point`).

    Args:
        variant: `paper`, or `authors`, over the box [-1, 1]^d, where their solver stops.
        lam: coefficient of lam/2 ||w||^2.
    """

    name: ClassVar[str] = "nonpriv"
    auxiliary: ClassVar[float] = 0.0

    loss: Loss
    calibration: Calibration = "published"
    variant: Variant = "paper"
    lam: float = 0.0

    def __post_init__(self) -> None:
        check_common(self, tuple(LOSSES), VARIANTS)

    guarantees = unprotected("sample", "no noise")

    def prepare(self, parties: Parties, rng: Generator) -> Fixed:
        """Minimise once."""
        self.loss.check_labels(parties.y)
        minimise = stopped_model if self.variant == "authors" else optimum
        w = minimise(self.loss, parties.X, parties.y, self.lam)
        value = mean_loss(self.loss, parties.X, parties.y, w[None])[0] + self.lam / 2 * float(w @ w)
        return Fixed(w, {"noisy_objective": float(value)})


class Batch(local_models.LocalClassifiers):
    """`batch`: one model on all private rows. Not private."""

    name = "batch"

    guarantees = unprotected("party", "no noise")

    def prepare(self, parties: Parties, rng: Generator) -> Fixed:
        """Fit once."""
        require_domain(parties, self.loss)
        return Fixed(fit_all(parties, local_models.strength(self, len(parties.y))), {})


@dataclass(frozen=True)
class Individual(local_models.LocalClassifiers):
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
        local_models.check_local(self.local)

    guarantees = unprotected("party", "nothing is released to be protected")

    def prepare(self, parties: Parties, rng: Generator) -> Fixed:
        """Train and score them, once for all readings of a noise that they do not have."""
        require_domain(parties, self.loss)
        if not len(parties.data.y_test):
            raise UserError(f"algo=indiv is scored on test rows, and dataset={parties.data.name} has none.")
        accuracy = self.accuracy(parties, rng) if self.local else _accuracy(parties, local_models.without_noise(self))
        return Fixed(None, {"accuracy": accuracy})

    def accuracy(self, parties: Parties, rng: Generator) -> float:
        """The mean over parties and test rows of being right: the mean share of votes for the true label."""
        y = parties.data.y_test
        first, where, _ = distinct(parties.data.X_test)
        X, sums = parties.data.X_test[first], local_models.reading(self).sums
        shares = local_models.vote_shares(parties, X, self.lam, self.local, rng, sums)[where]
        right = hard_targets(y, shares.shape[1])
        agree = right * shares if self.loss.name == "softmax" else right * shares + (1 - right) * (1 - shares)
        return float(agree.sum()) / len(y)


@remembered
def _accuracy(parties: Parties, algorithm: Individual) -> float:
    return algorithm.accuracy(parties, np.random.default_rng(0))


@dataclass(frozen=True)
class Constant:
    """`constant`: one answer for every row, the mean target or the commonest class of the private rows. No privacy.

    A floor: an algorithm that uses features should be better. Its loss is the least of all constant scores, not that of
    a model without intercept; it has no weights, and so no optimality gap: it can be below the least loss of all linear
    models. Its `err_w` is that of w = 0.

    Args:
        loss: what its loss is measured by.
        calibration: has no effect.
        variant: has no effect: it is the floor of any other.
        lam: has no effect.
    """

    name: ClassVar[str] = "constant"
    linear: ClassVar[bool] = False
    auxiliary: ClassVar[float] = 0.0

    loss: Loss
    calibration: Calibration = "published"
    variant: str = "paper"
    lam: float = 0.0

    def __post_init__(self) -> None:
        check_common(self, tuple(LOSSES), (self.variant,))

    guarantees = unprotected("sample", "no noise")

    def prepare(self, parties: Parties, rng: Generator) -> Fixed:
        """Count."""
        self.loss.check_labels(parties.y)
        metrics = {"loss": self._least_loss(parties.y)}
        if self.loss.convex:
            metrics["optimality_gap"] = metrics["loss"] - least(parties, self.loss, self.lam)
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
        return Fixed(None, metrics)

    def _least_loss(self, y: Array) -> float:
        """The infimum over constant scores."""
        if self.loss.name == "squared":
            return float(np.var(y))
        shares = np.unique(y, return_counts=True)[1] / len(y)
        # a bounded loss is least at an infinite score
        return -float(shares @ np.log(shares)) if self.loss.convex else 1 - float(shares.max())
