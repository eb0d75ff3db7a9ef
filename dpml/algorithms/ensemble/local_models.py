"""The parties' own classifiers: how they are built and trained, and their votes."""

import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array
from dpml.data.partition import Parties, remembered
from dpml.errors import UserError
from dpml.mechanism.algorithm import Hyperparameters
from dpml.mechanism.options import check_common, check_positive, check_published_only
from dpml.mechanism.outputs import Law, NoisyOutput, Unit
from dpml.optim.logistic import LOCAL_TOLERANCE, fit_parties, hard_targets
from dpml.optim.losses import Loss, scores
from dpml.privacy import Budget, Calibration, Problem
from dpml.privacy.safe import with_slack

Noisy = TypeVar("Noisy", bound=Any)

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
class LocalClassifiers:
    """The hyper-parameters of classification with regularised local models (Hamm, Cao & Belkin 2016).

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

    name: ClassVar[str]
    auxiliary: ClassVar[float] = 0.0

    loss: Loss
    calibration: Calibration = "published"
    variant: str = "paper"
    lam: float = 1e-4

    def __post_init__(self) -> None:
        check_classifiers(self)


def check_classifiers(algorithm: Hyperparameters) -> None:
    """Raise UserError unless the hyper-parameters are those of `LocalClassifiers`."""
    check_common(algorithm, ("logistic", "softmax"), tuple(READINGS))
    check_published_only(algorithm)
    check_positive(f"algo.lam of {algorithm.name}", algorithm.lam)


def reading(algorithm: Hyperparameters) -> NoiseReading:
    """That of the algorithm's variant."""
    return READINGS[algorithm.variant]


def strength(algorithm: Hyperparameters, n: int) -> float:
    """The coefficient of ||w||^2 / 2 beside a *mean* loss over n rows that gives the same minimiser."""
    return algorithm.lam / n if reading(algorithm).sums else algorithm.lam


def root(algorithm: Hyperparameters) -> float:
    """By how much the paper's multiclass bound on a row's gradient, sqrt 2, exceeds the binary one."""
    return math.sqrt(2) if algorithm.loss.name == "softmax" and not reading(algorithm).binary else 1.0


def without_noise(algorithm: Noisy) -> Noisy:
    """The same algorithm with the default noise: the models without noise do not depend on it."""
    return replace(algorithm, calibration="published", variant="sum" if reading(algorithm).sums else "paper")


def model_plus_noise(
    algorithm: Hyperparameters,
    sensitivity: tuple[float, float],
    budget: Budget,
    problem: Problem,
    unit: Unit = "party",
) -> list[NoisyOutput]:
    """A model of a (published, proven) sensitivity; the noise has the scale that / eps, the proven one if `tight`."""
    published, proven = sensitivity
    scale = with_slack(proven / budget.eps) if algorithm.calibration == "tight" else published / budget.eps
    kind = type(algorithm)
    source = f"L2 sensitivity ({kind.__module__.rpartition('.')[2]}.{kind.__name__})"
    known = problem.classes > 1 or algorithm.loss.name != "softmax"
    size = problem.classes * problem.d if known else math.inf
    return [NoisyOutput(reading(algorithm).law, proven, scale, source, unit, size)]


@remembered
def mean_model(parties: Parties, lam: float, sums: bool = False) -> Array:
    """The mean of the parties' own regularised models: d weights, or K d for K classes. `sums` as in `fit_parties`."""
    problem = parties.problem
    total = np.zeros(problem.classes * problem.d)
    for _, models in fit_parties(parties.X, parties.y, parties.offsets, lam, problem.classes, sums=sums):
        total += models.sum(axis=0)
    return total / problem.M


def unsolved(algorithm: Hyperparameters, rows: int) -> float:
    """Bound the distance between the computed and the exact model of a party that has so many `rows`."""
    return LOCAL_TOLERANCE / strength(algorithm, rows)


def vote_shares(
    parties: Parties, X: Array, lam: float, local: Sequence[Any] | None, rng: Generator, sums: bool = False
) -> Array:
    """The share of parties that vote +1 (binary, (n, 1)) or for each class ((n, K)) on the rows X (n, d).

    Votes are added up block by block: no table of all parties' votes ever exists. `sums` as in `fit_parties`; `rng` is
    for classifiers that are `local`.
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
        seeds = rng.integers(2**31, size=M)  # one each: no party's rows may change the numbers that another gets
        for k in range(M):
            own = parties.of(k)
            try:
                labels = _predict(local[k % len(local)], parties.X[own], parties.y[own], X, int(seeds[k]))
            except ValueError as error:
                raise UserError(f"algo.local: {local[k % len(local)]} fails at party {k}: {error}") from error
            votes += hard_targets(labels, classes)
    return votes / M


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
    """An unfitted classifier from a class path, a mapping with `_target_` and the constructor's arguments, or itself.

    Raises:
        UserError: it names no class, the class does not take the arguments, or it has no `fit` and `predict`.
    """
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
