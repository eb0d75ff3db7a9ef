"""Sample real releases of two neighbouring data sets, as an attacker sees them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from dpml.algorithms import Mechanism
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.privacy import Budget, View

Pair = tuple[Parties, Parties]
"""Two neighbouring data sets: one sample, or all rows of one party, are replaced."""

Source = Callable[[int, Generator, int, Sequence[View]], Mapping[View, Array]]
"""``source(which, rng, draws, views)`` releases the first (which = 0) or second data set, and returns what some views
observe of the same releases, (draws, k) each.
"""


RATIO = "likelihood ratio"


class Attack(NamedTuple):
    """An attack maps observations (draws, k) to scores (draws,), which are higher for the second of two data sets.

    `normal`: whether both data sets' scores are normal with the same variance, if the noise is as specified.
    """

    name: str
    score: Callable[[Array], Array]
    normal: bool = False


@dataclass(frozen=True)
class Exposure:
    """What one kind of observer (`view`) sees of releases of two neighbouring data sets under one privacy budget.

    Attributes:
        source: Draws releases, and returns what this view, and all views with the same source, observe.
        score: The log likelihood ratio of observations, (draws, k) -> (draws,); None: not known.
        normal: Whether both data sets' scores are normal with the same variance, or nearly so.
        mu: The pair is at least as easy to distinguish as N(0, 1) and N(mu, 1). NaN: not known.
        loss: The largest known |log likelihood ratio|, a lower bound on the pair's pure eps. NaN: not known.
        most: The largest number of releases that are drawn at once.
        learned: Attacks that learn their score from observations of both data sets, by name.
    """

    view: View
    source: Source
    score: Callable[[Array], Array] | None = None
    normal: bool = False
    mu: float = math.nan
    loss: float = math.nan
    most: int = 1 << 13
    learned: Mapping[str, Callable[[Array, Array], Callable[[Array], Array]]] = field(default_factory=dict)

    def sample(self, which: int, rng: Generator, draws: int) -> Array:
        """Draw observations (draws, k) from releases of the first (which = 0) or the second data set."""
        return self.source(which, rng, draws, [self.view])[self.view]

    def distance(self) -> float:
        """Return the lower bound on Gaussian DP's mu or, if there is none, on pure eps; NaN if there is neither."""
        return self.loss if math.isnan(self.mu) else self.mu

    def attacks(self, first: Array, second: Array, rng: Generator) -> tuple[list[Attack], float]:
        """Return attacks, if needed trained on n releases (n, k) of each data set, and a lower bound on mu (or NaN)."""
        known = [Attack(RATIO, self.score, self.normal)] if self.score else []
        return [*known, *(Attack(name, learn(first, second)) for name, learn in self.learned.items())], self.mu

    def numbers(self, seen: Array) -> Array:
        """Return what an attack that does not know the mechanism learns from: by default, the whole observations."""
        return seen


def difference(first: Array, second: Array) -> Array:
    """Return second - first, with 0 for equal entries or two NaNs, and inf for other non-finite differences."""
    with np.errstate(invalid="ignore"):
        apart: Array = second - first
    if np.isfinite(apart).all():
        return apart
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    return np.where(same, 0.0, np.where(np.isfinite(apart), apart, math.inf))


def prepared(algorithm: Any, pair: Pair) -> list[Any]:
    """Prepare the algorithm on both data sets of a pair, with the same public initial model."""
    return [algorithm.prepare(parties, np.random.default_rng(0)) for parties in pair]


def model_exposure(prepared: Sequence[Mechanism], budget: Budget) -> Exposure:
    """Return what an attacker sees if only the released model is visible."""

    def source(which: int, rng: Generator, draws: int, views: Sequence[View]) -> dict[View, Array]:
        weights = prepared[which].release([budget], rng, draws).weights
        if weights is None:
            raise UserError("an audit needs released models, but this algorithm releases none: choose another algo.")
        return {"release": weights[0]}

    return Exposure("release", source)


class HalfNoise(Generator):
    """A random generator that draws noise of half the size, to test whether an audit detects this.

    `standard_gamma` is unchanged: it draws the variance of a Gaussian, and `standard_normal` halves its coordinates.
    Integer noise needs only `bytes`, so `mechanism.discrete` multiplies the variance of its law by `variance_kept`.
    """

    kept: ClassVar[float] = 0.5
    variance_kept: ClassVar[Fraction] = Fraction(1, 4)

    def __reduce__(self) -> Any:
        return type(self), (self.bit_generator,)

    def standard_normal(self, *arguments: Any, **keywords: Any) -> Any:
        return self._less(super().standard_normal(*arguments, **keywords))

    def laplace(self, *arguments: Any, **keywords: Any) -> Any:
        return self._less(super().laplace(*arguments, **keywords))

    def gamma(self, *arguments: Any, **keywords: Any) -> Any:
        return self._less(super().gamma(*arguments, **keywords))

    def exponential(self, *arguments: Any, **keywords: Any) -> Any:
        return self._less(super().exponential(*arguments, **keywords))

    def _less(self, drawn: Array) -> Array:
        drawn *= self.kept
        return drawn


class Quiet(HalfNoise):
    """A random generator with negligible noise; the noise is not exactly 0, so that noise vectors have directions."""

    kept = 2.0**-100
    variance_kept = Fraction(1)

    def bytes(self, length: int) -> bytes:
        return bytes(length)
