"""Describe the noisy sums of a release: the statistic, its sensitivity, the noise, and the number of sums.

The noise, the proven guarantees, the number and length of secure sums, and the audit follow from these descriptions.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np

from dpml import sums
from dpml.arrays import Array, Index
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.privacy import Problem
from dpml.privacy.discrete.rounding import REST, Integers
from dpml.privacy.safe import round_up

Law = Literal["gaussian", "laplace", "l2_laplace", "radial"]
"""The distribution of a noise vector z of scale s: N(0, s^2 I), independent Laplace numbers of scale s, density
proportional to exp(-||z||/s), or an exponentially distributed length of mean s and a uniform direction."""

RING = 2.0**-30
"""The relative increase of mu if continuous noise of at least `RING_STEPS` steps is rounded for a secure sum."""
RING_STEPS = 1 << 16

_NO_GRID = "algo.noise=discrete is not available for this algorithm's sums: set algo.noise=continuous."


Of = TypeVar("Of")


@dataclass(frozen=True)
class Terms(ABC, Generic[Of]):
    """Compute sums of a statistic over the rows of some parties.

    `at` are the statistic's arguments, such as the current models of B runs. Sums of k numbers have shape (B, k), or
    (k,) if the statistic has no arguments.
    """

    statistic: Of
    parties: Parties

    @abstractmethod
    def total(self, *at: Any) -> Array:
        """Return the statistic's sum over all parties: k numbers for each of B runs, (B, k), or (k,) without `at`."""

    def each(self, *at: Any) -> Array:
        """Return each party's sum of k numbers: (M, k), or (M, B, k) with arguments `at` that differ between B runs."""
        raise UserError("algo.protocol=secagg is not available for this algorithm's sums: set algo.protocol=simulate.")

    def integers(self, resolutions: Index, secure: bool, *at: Any) -> Integers:
        """Return sums of k integers, in grid steps, for B runs: (1, B, k), or if `secure`, of each party, (M, B, k)."""
        raise UserError(_NO_GRID)


class Statistic(ABC):
    """A function of a row, or of a party's rows, whose values are summed. A statistic contains no rows.

    Its numbers form blocks; the noise may differ between blocks.
    """

    terms: ClassVar[type[Terms[Any]]]
    """The class that computes sums of the statistic."""
    single: bool = False
    """Whether simulated noise is drawn in single precision, which takes half the time."""

    @abstractmethod
    def lengths(self, d: int) -> tuple[int, ...]:
        """Return the number of entries in each block, for rows with d features; noise has one scale within a block."""

    def on(self, parties: Parties) -> Any:
        return self.terms(self, parties)

    @abstractmethod
    def largest(self, problem: Problem) -> float:
        """Return a public bound on the absolute value of every number that a party contributes to the sum."""

    def imprecision(self, problem: Problem) -> float:
        """Return a public bound on the relative increase of a sum's sensitivity because of floating-point rounding.

        The default assumes at most N terms, none longer than the sensitivity, that are summed in double precision: in
        blocks of at most 1024 terms, whose sums are then added pairwise (`dpml.sums`).
        """
        return sums.imprecision(problem.N, problem.d + sum(self.lengths(problem.d)))

    # Overridden by statistics that draw noise for more numbers than are sent.

    def drawn(self, d: int) -> tuple[int, ...]:
        """Return the sizes of the noise arrays that are drawn for a sum, in the order of drawing."""
        return (sum(self.lengths(d)),)

    def project(self, noise: Array, d: int) -> Array:
        """Compute the noise (..., k) of the k sent entries from the drawn noise, which may have more entries."""
        return noise

    def deviations(self, d: int) -> tuple[float, ...]:
        """Return the standard deviation of the noise in each block of a sum, if noise of scale 1 is drawn."""
        return (1.0,) * len(self.lengths(d))

    # Discrete noise on a grid of integers.

    def resolution(self, widths: Sequence[float], problem: Problem) -> int:
        """Return an integer that determines the step size of rounding, such as the number of fractional bits."""
        raise UserError(_NO_GRID)

    def steps(self, resolution: int, problem: Problem) -> tuple[float, ...]:
        """Return for each block of a sum the step size of its grid: an entry is an integer times this step size."""
        raise UserError(_NO_GRID)

    def rounding(self, widths: Sequence[float], resolution: int, problem: Problem) -> float:
        """Return how much rounding to the grid increases the mu of a sum (for Laplace noise, its eps)."""
        return 0.0

    # Parties on different machines.

    def state(self, d: int) -> tuple[str, tuple[int, ...]]:
        """Return the data type and the lengths of the arguments that the parties receive before they compute a sum."""
        return "<f8", ()

    def valid(self, *at: Any) -> bool:
        return True


@dataclass(frozen=True)
class Sum:
    """A noisy sum over all rows or all parties, which may be released several times.

    Attributes:
        of: The statistic that is summed.
        sensitivity: The largest norm (L1 for `law=laplace`, else L2) of the sum's change if one row or party is
            replaced, after block j of the sum is divided by ``units[j]``.
        noise: The scale of the noise, after block j is divided by ``units[j]``; 0: no noise.
        units: For each block of the sum, the factor by which `noise` is multiplied.
        times: How often the sum is released; its arguments may depend on all earlier results.
        joined: The largest number of these sums that contain a given unit; None: all.
        constant: The standard deviation of noise that is drawn once and added to every sum; None: no such noise.
        law: The distribution of the noise; for a Gaussian, `noise` is the standard deviation.
    """

    of: Statistic
    sensitivity: float
    noise: float
    units: tuple[float, ...] = (1.0,)
    times: int = 1
    joined: int | None = None
    constant: float | None = None
    law: Law = "gaussian"

    @property
    def pure(self) -> bool:
        """Whether the sum is eps-DP with delta = 0, that is, has no Gaussian noise."""
        return self.law != "gaussian" and not self.constant

    @property
    def ratio(self) -> float:
        """The Gaussian-DP mu of releasing this sum once with Gaussian noise; with Laplace noise, the eps."""
        return self.sensitivity / self.noise if self.noise else math.inf

    @property
    def mu(self) -> float:
        """The mu of `times` noisy sums whose arguments may depend on earlier sums (Dong, Roth & Su 2019, Cor. 3.3)."""
        times = self.times if self.joined is None else self.joined
        return math.sqrt(times) * self.ratio if times else 0.0

    def block_widths(self) -> tuple[float, ...]:
        """Return the scale of the noise in each block of the sum."""
        return tuple(self.noise * unit for unit in self.units)

    def widths(self, d: int) -> Array:
        """Return the scale of the noise in each entry of the sum, (k,)."""
        return np.repeat(self.block_widths(), self.of.lengths(d))


def discrete_rest(message: Sum, problem: Problem) -> float:
    """Return a bound on the increase of a noisy sum's Gaussian-DP mu if the noise is discrete instead of continuous."""
    widths = message.block_widths()
    resolution = message.of.resolution(widths, problem)
    return message.times * (message.of.rounding(widths, resolution, problem) + len(widths) * REST)


def imprecision(statistics: Sequence[Statistic], problem: Problem) -> float:
    """Bound the relative increase of the Gaussian-DP mu due to rounding in floating-point sums of given statistics."""
    most = max((of.imprecision(problem) for of in statistics), default=0.0)
    if most > sums.MOST:
        raise UserError(
            f"sums of {problem.N:,} rows with {problem.d:,} features are too large for floating-point numbers: "
            f"rounding would exceed a thousandth of their sensitivity. Use fewer rows, or set algo.noise=discrete."
        )
    return most


def mu_of(messages: Sequence[Sum], problem: Problem, discrete: bool, ring: bool = False) -> float:
    """Return the joint mu of all sums with Gaussian noise against an observer who knows none of the noise.

    With `ring`, noisy contributions are also rounded for a secure sum.
    """
    if discrete:
        mus = [m.mu + discrete_rest(m, problem) if math.isfinite(m.mu) else m.mu for m in messages]
    else:
        mus = [m.mu * (1 + imprecision([m.of], problem) + ring * RING) for m in messages]
    return math.sqrt(sum(mu * mu for mu in mus)) if len(mus) > 1 else mus[0]


def eps_of(messages: Sequence[Sum], problem: Problem, discrete: bool) -> float:
    """Return the total eps (delta = 0) of sums with Laplace-type noise, which holds against every observer.

    The eps is inf for `law=radial` in more than one dimension, because this noise has an infinite density at 0.
    """
    total = 0.0
    for m in messages:
        if m.law == "radial" and sum(m.of.lengths(problem.d)) > 1:
            return math.inf
        eps = round_up(m.ratio)
        if discrete and math.isfinite(eps):
            resolution = m.of.resolution(m.block_widths(), problem)  # UserError if noise does not fit 64 bits
            k = sum(m.of.lengths(problem.d))  # an L1 norm is at most sqrt(k) times the L2 norm
            eps += math.sqrt(k) * m.of.rounding(m.block_widths(), resolution, problem)
        elif not discrete:
            eps *= 1 + imprecision([m.of], problem)
        total += m.times * eps
    return total


def sums_in(messages: Sequence[Sum]) -> int:
    """Return the number of sums in a release."""
    return sum(message.times for message in messages)
