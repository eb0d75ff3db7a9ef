"""The parties' own classifiers: how they are built and trained, and their votes."""

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array, Index
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.mechanism.algorithm import SIMULATED, Release, Unit, check_positive
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.message import Law, Sum
from dpml.mechanism.program import Program
from dpml.mechanism.sharing import Sharing, TrustedCurator
from dpml.mechanism.statistics import Minimiser
from dpml.optim.logistic import LOCAL_TOLERANCE, fit_parties, hard_targets
from dpml.optim.losses import scores
from dpml.privacy import Budget, Problem
from dpml.privacy.safe import with_slack

_BLOCK = 1 << 19  # scores of local models held at once: 4 MiB


class NoiseReading(NamedTuple):
    """What a variant says: the law of the noise, whether losses are summed, whether bounds are those of two classes."""

    law: Law = "l2_laplace"
    sums: bool = False
    binary: bool = False


READINGS: Mapping[str, NoiseReading] = {
    "paper": NoiseReading(),
    "binary": NoiseReading(binary=True),
    "per_coordinate": NoiseReading("laplace"),
    "radial": NoiseReading("radial"),
    "sum": NoiseReading(sums=True),
    "sum_per_coordinate": NoiseReading("laplace", sums=True),
    "sum_radial": NoiseReading("radial", sums=True),
}


@dataclass(frozen=True)
class LocalClassifiers(
    Program, losses=("logistic", "softmax"), calibrations=("published", "tight"), variants=tuple(READINGS), **SIMULATED
):
    """Classification with regularised local models (Hamm, Cao & Belkin 2016), at one trusted curator.

    Args:
        loss: logistic (binary) or softmax (multiclass).
        calibration: `published` noise, or `tight`: scaled to the sensitivity that we prove.
        variant: `paper`, or another reading of the text, none of which has the paper's guarantee unchanged.
            `binary` uses the binary sensitivities 2/lam and 2/(M lam) for K classes; `per_coordinate` draws a Laplace
            number of the scale for every coordinate; `radial` draws the noise's length from the exponential law instead
            of Gamma(D, .); `sum` minimises sums of losses, not means, + lam/2 ||w||^2; `sum_per_coordinate` and
            `sum_radial` do so and draw the noise of the other.
        lam: coefficient of lam/2 ||w||^2, for local and global models.
    """

    unit: ClassVar[Unit] = "party"  # type: ignore[misc]
    lam: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_published_only()
        check_positive(f"algo.lam of {self.name}", self.lam)

    @property
    def proof(self) -> str:  # type: ignore[override]
        return f"L2 sensitivity ({type(self).__module__.rpartition('.')[2]}.{type(self).__name__})"

    @property
    def reading(self) -> NoiseReading:
        """What the variant says."""
        return READINGS[self.variant]

    def strength(self, n: int) -> float:
        """The coefficient of ||w||^2 / 2 beside a *mean* loss over n rows that gives the same minimiser."""
        return self.lam / n if self.reading.sums else self.lam

    @property
    def root(self) -> float:
        """By how much the paper's multiclass bound on a row's gradient, sqrt 2, exceeds the binary one."""
        return math.sqrt(2) if self.loss.name == "softmax" and not self.reading.binary else 1.0

    def sharing(self, problem: Problem) -> Sharing:
        return TrustedCurator()

    def sensitivity(self, problem: Problem) -> tuple[float, float]:
        """(published, proven): how far the model moves at most, in L2 norm, when a unit is replaced."""
        raise NotImplementedError

    def about(self, problem: Problem) -> int:
        """Return how many numbers the fit is about, beside the rows."""
        return 0

    def fit(self) -> Callable[..., Array]:
        """What trains the model on all parties' rows."""
        raise NotImplementedError

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        """The model; its noise has the scale sensitivity/eps, the proven one if `tight`."""
        published, proven = self.sensitivity(problem)
        scale = with_slack(proven / budget.eps) if self.tight else published / budget.eps
        known = problem.classes > 1 or self.loss.name != "softmax"
        root = math.sqrt(problem.classes * problem.d) if known else math.inf
        law = self.reading.law
        moved = proven * root if law == "laplace" else proven
        return (Sum(Minimiser(self.fit(), problem.classes, self.about(problem)), moved, scale, law=law),)

    def run(self, carrier: Carrier) -> Release:
        return Release(carrier.by_budget(carrier.ask(0)))

    def unsolved(self, rows: int) -> float:
        """Bound the distance between the computed and the exact model of a party that has so many `rows`."""
        return LOCAL_TOLERANCE / self.strength(rows)


@dataclass(frozen=True)
class MeanModel:
    """The mean of the parties' own regularised models: d weights, or K d for K classes.

    Args:
        lam: as of `fit_parties`, and `sums`.
    """

    lam: float
    sums: bool = False

    def __call__(self, parties: Parties) -> Array:
        """(D,)."""
        problem = parties.problem
        total = np.zeros(problem.classes * problem.d)
        for _, models in fit_parties(parties.X, parties.y, parties.offsets, self.lam, problem.classes, sums=self.sums):
            total += models.sum(axis=0)
        return total / problem.M


def vote_shares(
    parties: Parties, X: Array, lam: float, sums: bool = False, local: Sequence[Any] | None = None, seeds: Any = ()
) -> Array:
    """The share of parties that vote +1 (binary, (n, 1)) or for each class ((n, K)) on the rows X (n, d).

    Votes are added up block by block: no table of all parties' votes ever exists. `sums` as in `fit_parties`; `seeds`
    (M,) are for classifiers that are `local`.
    """
    classes = parties.problem.classes
    M = len(parties.offsets) - 1
    votes = np.zeros((len(X), classes))
    if local is None:
        for _, w in fit_parties(parties.X, parties.y, parties.offsets, lam, classes, sums=sums):
            height = max(1, _BLOCK // (len(w) * classes))
            for start in range(0, len(X), height):
                votes[start : start + height] += count_votes(scores(X[start : start + height], w, classes))
    else:
        for k in range(M):
            own = parties.of(k)
            try:
                labels = _predict(local[k % len(local)], parties.X[own], parties.y[own], X, int(seeds[k]))
            except ValueError as error:
                raise UserError(f"algo.local: {local[k % len(local)]} fails at party {k}: {error}") from error
            votes += hard_targets(labels, classes)
    return votes / M


def seeds(parties: Parties, rng: Generator) -> Index:
    """Draw a seed for every party, so that no party's rows change the numbers that another gets: (M,)."""
    drawn: Index = rng.integers(2**31, size=parties.problem.M)
    return drawn


def count_votes(scores: Array) -> Array:
    """How many of the models with these scores, (n, b) or (n, b, K), vote +1, (n, 1), or for each class, (n, K).

    A score of zero is a vote for +1, and of equal scores the lowest class's wins.
    """
    if scores.ndim == 2:
        return np.count_nonzero(scores >= 0, axis=1)[:, None]
    chosen = np.argmax(scores, axis=2)
    return np.stack([np.count_nonzero(chosen == k, axis=1) for k in range(scores.shape[2])], axis=1)


def check_local(local: Any) -> None:
    """Raise UserError unless `algo.local` is null or a list of classifiers that can be built."""
    if local is None:
        return
    if isinstance(local, str | Mapping) or not isinstance(local, Sequence) or not local:
        raise UserError(f"algo.local must be null or a list of scikit-learn classifiers, got {local}.")
    for spec in local:
        build_local(spec)


def build_local(spec: Any) -> Any:
    """Return an unfitted classifier from a class path, a mapping with `_target_` and arguments, or itself."""
    if isinstance(spec, str | Mapping):
        arguments = {} if isinstance(spec, str) else dict(spec)
        path = spec if isinstance(spec, str) else arguments.pop("_target_", "")
        module, _, name = str(path).rpartition(".")
        try:
            spec = getattr(importlib.import_module(module), name)(**arguments)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise UserError(f"algo.local: cannot build the classifier {path!r}: {error}.") from error
    if not (hasattr(spec, "fit") and hasattr(spec, "predict") and hasattr(spec, "get_params")):
        raise UserError(f"algo.local: {spec!r} is not a scikit-learn classifier with fit and predict.")
    return spec


def _predict(spec: Any, X: Array, y: Array, X_new: Array, seed: int) -> Array:
    """Labels (n,) of the rows X_new by a new classifier trained on X, y. A party with one label only votes for that."""
    if np.all(y == y[0]):
        return np.full(len(X_new), y[0])
    from sklearn.base import clone  # slow to import, and only this path needs it

    classifier = clone(build_local(spec))
    if classifier.get_params().get("random_state", 0) is None:
        classifier.set_params(random_state=seed)
    return np.asarray(classifier.fit(X, y).predict(X_new))
