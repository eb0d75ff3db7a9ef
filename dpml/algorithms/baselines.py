"""Define baselines without noise, with which private algorithms are compared."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from dpml.algorithms.ensemble import LocalClassifiers, check_local, drawn_seeds, vote_shares
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.data.preprocess import distinct
from dpml.errors import UserError
from dpml.mechanism.carriers import Prepared
from dpml.mechanism.guarantees import no_privacy
from dpml.mechanism.sharing import Sharing, TrustedCurator
from dpml.optim.convex import fit_all, optimum
from dpml.optim.interior_point import stopped_model
from dpml.optim.losses import hard_targets, mean_loss
from dpml.privacy import Guarantee
from dpml.program import SIMULATED, VARIANTS, Budget, Carrier, Problem, Program, Release, Sum, Variant

Fixed = tuple[Array | None, Mapping[str, float]]
"""A model (d,) or None, and its metrics by name."""


class Baseline:
    """An algorithm without noise, so all budgets and noise draws give the same model and metrics."""

    unprotected: ClassVar[str] = "no noise"

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        return ()

    def sharing(self, problem: Problem) -> Sharing:
        return TrustedCurator()

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        return no_privacy(self.unit, self.unprotected)  # type: ignore[attr-defined]

    def prepare(self: Any, parties: Parties, rng: Generator) -> Prepared:
        """Check the labels but not the norms of the rows, because a baseline has no privacy proof."""
        self.loss.check_labels(parties.y)
        return Prepared(self, parties, self.begin(parties, rng))

    def run(self, carrier: Carrier) -> Release:
        weights, metrics = carrier.start
        shape = (len(carrier.budgets), carrier.draws)
        models = None if weights is None else np.broadcast_to(weights, (*shape, len(weights)))
        return Release(models, {name: np.full(shape, value) for name, value in metrics.items()})


@dataclass(frozen=True)
class NonPrivate(Baseline, Program, calibrations=("published", "tight"), lam=0.0, variants=VARIANTS, **SIMULATED):
    """`nonpriv`: the exact minimiser of the risk + lam/2 ||w||^2 on all rows together. It has no privacy.

    Args:
        variant: `paper` is the exact minimiser; `authors` is the point in the box [-1, 1]^d where the solver in the
            scripts of Imtiaz et al. 2019 stops, before convergence if d is large.
        lam: The coefficient lam of lam/2 ||w||^2.
    """

    name: ClassVar[str] = "nonpriv"

    variant: Variant = "paper"

    def begin(self, parties: Parties, rng: Generator) -> Fixed:
        minimise = stopped_model if self.variant == "authors" else optimum
        w = minimise(self.loss, parties.X, parties.y, self.lam)
        value = mean_loss(self.loss, parties.X, parties.y, w[None])[0] + self.lam / 2 * float(w @ w)
        return (w, {"noisy_objective": float(value)})


@dataclass(frozen=True)
class Ceiling(Baseline, Program, calibrations=("published", "tight"), **SIMULATED):
    """`ceiling`: the non-private model with the best of several ridge penalties, chosen on held-out training rows.

    `ceiling` shows how good a model can be without privacy; `nonpriv` may overfit and be worse than a private model.

    Args:
        loss: The loss that is minimised.
        calibration: Has no effect.
    """

    name: ClassVar[str] = "ceiling"
    RIDGES: ClassVar[Sequence[float]] = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
    """The coefficients of lam/2 ||w||^2 that are tried, for rows of norm at most 1."""

    def begin(self, parties: Parties, rng: Generator) -> Fixed:
        order = rng.permutation(len(parties.y))
        kept, held = np.split(order, [len(order) - len(order) // 5])
        X, y = parties.X[kept], parties.y[kept]
        losses = [
            mean_loss(self.loss, parties.X[held], parties.y[held], optimum(self.loss, X, y, lam)[None])[0]
            for lam in self.RIDGES
        ]
        return (optimum(self.loss, parties.X, parties.y, self.RIDGES[int(np.argmin(losses))]), {})


class Batch(Baseline, LocalClassifiers):
    """`batch`: one regularised model that is trained on all private rows together. It has no privacy."""

    name = "batch"
    prepare = Program.prepare

    def begin(self, parties: Parties, rng: Generator) -> Fixed:
        return fit_all(parties, self.strength(len(parties.y))), {}


@dataclass(frozen=True)
class Individual(Baseline, LocalClassifiers):
    """`indiv`: every party trains and keeps its own classifier. Nothing is released.

    The metric is the mean test accuracy of the parties' classifiers.

    Args:
        loss: `logistic` for two classes, or `softmax` for several.
        calibration: Has no effect.
        variant: Variants whose names begin with `sum` minimise sums of losses; other variants have no effect.
        lam: The coefficient lam of lam/2 ||w||^2.
        local: Scikit-learn classifiers, as a list of class paths, from which parties 0, 1, ... take one each,
            cyclically; None: the regularised linear model.
    """

    name: ClassVar[str] = "indiv"

    local: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_local(self.local)

    unprotected: ClassVar[str] = "nothing is released to be protected"
    prepare = Program.prepare

    def begin(self, parties: Parties, rng: Generator) -> Fixed:
        if not len(parties.data.y_test):
            raise UserError(f"algo=indiv needs test rows, but dataset={parties.data.name} has none.")
        first, where, _ = distinct(parties.data.X_test)
        seeds = () if self.local is None else drawn_seeds(parties, rng)
        shares = vote_shares(parties, parties.data.X_test[first], self.lam, self.reading.sums, self.local, seeds)[where]
        right = hard_targets(parties.data.y_test, shares.shape[1])
        agree = right * shares
        if shares.shape[1] == 1:  # the other share votes for -1
            agree += (1 - right) * (1 - shares)
        return None, {"accuracy": float(agree.sum()) / len(right)}


@dataclass(frozen=True)
class Constant(Baseline, Program, calibrations=("published", "tight"), lam=0.0, variants=(), **SIMULATED):
    """`constant`: predict the mean target or the most frequent class for every row. It has no privacy.

    An algorithm that uses features should be better. The reported loss is the least loss of a constant score, and there
    is no optimality gap. The metric `err_w` is computed for w = 0.

    Args:
        loss: The loss that is reported.
        calibration: Has no effect.
        variant: Has no effect.
        lam: Has no effect.
    """

    name: ClassVar[str] = "constant"
    linear: ClassVar[bool] = False

    variant: str = "paper"

    def begin(self, parties: Parties, rng: Generator) -> Fixed:
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
        if self.loss.task == "regression":
            return float(np.var(y))
        shares = np.unique(y, return_counts=True)[1] / len(y)
        # the sigmoid loss is not convex, and its infimum is at an infinite score
        return -float(shares @ np.log(shares)) if self.loss.convex else 1 - float(shares.max())
