"""The best linear model without privacy: a ridge by cross-validation."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dpml.algorithms.prepared import Fixed
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.mechanism.guarantees import unprotected
from dpml.mechanism.options import check_common
from dpml.optim.convex import optimum
from dpml.optim.losses import LOSSES, Loss, mean_loss
from dpml.privacy import Calibration

RIDGES = tuple(10.0**power for power in range(-6, 0))
FOLDS = 5


@dataclass(frozen=True)
class CrossValidated:
    """`nonpriv_cv`: the minimiser of the pooled risk + ridge/2 ||w||^2, its ridge by cross-validation. No privacy.

    A ceiling for private algorithms, which `nonpriv` is none of where the training loss overfits. The ridge is that of
    1e-6, 1e-5, .., 0.1 with the least mean loss of five held-out fifths of the private rows; test rows are not used.

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
        losses = [self._held_out(X, y, fold, ridge) for ridge in RIDGES]
        ridge = RIDGES[int(np.argmin(losses))]
        return Fixed(optimum(self.loss, X, y, ridge), {"ridge": ridge})

    def _held_out(self, X: Array, y: Array, fold: Array, ridge: float) -> float:
        """The mean loss of rows under models of the other folds."""
        return sum(self._of_fold(X, y, fold == k, ridge) for k in range(FOLDS)) / len(y)

    def _of_fold(self, X: Array, y: Array, out: Array, ridge: float) -> float:
        w = optimum(self.loss, X[~out], y[~out], ridge)
        return float(out.sum() * mean_loss(self.loss, X[out], y[out], w[None])[0])
