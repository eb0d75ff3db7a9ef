"""The best linear model without privacy: a ridge by cross-validation."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dpml.algorithms.prepared import Fixed
from dpml.arrays import Array, Index
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.mechanism.guarantees import unprotected
from dpml.mechanism.options import check_common
from dpml.optim.convex import optimum
from dpml.optim.losses import LOSSES, Loss, scores
from dpml.privacy import Calibration

RIDGES = tuple(10.0**power for power in range(-6, 0))
FOLDS = 5


@dataclass(frozen=True)
class CrossValidated:
    """`nonpriv_cv`: the minimiser of the pooled risk + ridge/2 ||w||^2, its ridge by cross-validation. No privacy.

    A ceiling for private algorithms, which `nonpriv` is none of where the training loss overfits. Of the ridges 1e-6,
    1e-5, .., 0.1 it is the largest whose mean loss on five held-out fifths of the private rows is within one standard
    error of the least (Breiman, Friedman, Olshen & Stone 1984, Sec. 3.4.3). Test rows are not used.

    Args:
        loss: logistic, squared or softmax: what is minimised, and what chooses.
        calibration: has no effect.
        variant: `paper`.
        lam: coefficient of lam/2 ||w||^2 in the objective whose optimality gap is reported.
    """

    name: ClassVar[str] = "nonpriv_cv"
    auxiliary: ClassVar[float] = 0.0

    loss: Loss
    calibration: Calibration = "published"
    variant: str = "paper"
    lam: float = 0.0

    def __post_init__(self) -> None:
        check_common(self, tuple(name for name, loss in LOSSES.items() if loss.convex))

    guarantees = unprotected("sample", "no noise")

    def prepare(self, parties: Parties, rng: Generator) -> Fixed:
        """Choose the ridge, then minimise on all rows.

        Raises:
            UserError: there are fewer rows than folds, or a class is missing.
        """
        X, y = parties.X, parties.y
        self.loss.check_labels(y)
        if len(y) < FOLDS:
            raise UserError(f"algo={self.name} needs {FOLDS} private rows or more, one for each fold, got {len(y)}.")
        fold = rng.permutation(len(y)) % FOLDS
        losses = np.stack([self._held_out(X, y, fold, ridge) for ridge in RIDGES])
        least = losses[np.argmin(losses.mean(axis=1))]
        most = least.mean() + least.std(ddof=1) / math.sqrt(len(y))
        ridge = max(ridge for ridge, own in zip(RIDGES, losses, strict=True) if own.mean() <= most)
        return Fixed(optimum(self.loss, X, y, ridge), {"ridge": ridge})

    def _held_out(self, X: Array, y: Array, fold: Index, ridge: float) -> Array:
        """The loss of every row under the model of the other folds."""
        losses = np.empty(len(y))
        for k in range(FOLDS):
            out = fold == k
            w = optimum(self.loss, X[~out], y[~out], ridge)
            losses[out] = self.loss.value(scores(X[out], w[None], self.loss.width(y)), y[out])[:, 0]
        return losses
