"""A release as a list of messages: each has a statistic to sum, its sensitivity, its noise, and how often it is sent.

An algorithm of noisy sums declares its messages for a budget as plain values, from which everything else is computed:
the noise, the proven guarantees of every view (`mu_of`), the number and length of secure sums, the units of an audit.
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
"""A distribution of noise z with scale s, in `dpml.privacy.noise`: N(0, s^2 I); Laplace numbers of scale s; density
proportional to exp(-||z||/s); an exponentially distributed length of mean s and a uniform direction."""

RING = 2.0**-30
"""The relative increase of mu by the ring of a secure sum, for continuous noise of at least `RING_STEPS` steps."""
RING_STEPS = 1 << 16

_NO_GRID = "algo.noise=discrete is not possible for this sum: set algo.noise=continuous."


Of = TypeVar("Of")


@dataclass(frozen=True)
class Terms(ABC, Generic[Of]):
    """A statistic of the parties' rows, ready to be summed.

    `at` has the arguments of the statistic, such as the current models. Sums have shape (B, k) for B runs, or (k,) if
    they depend on the rows only.
    """

    statistic: Of
    parties: Parties

    @abstractmethod
    def total(self, *at: Any) -> Array:
        """Return the sum over all parties: (B, k) or (k,)."""

    def each(self, *at: Any) -> Array:
        """Return every party's contribution to the sum: (M, B, k) or (M, k)."""
        raise UserError("algo.protocol=secagg is not possible for this sum: set algo.protocol=simulate.")

    def integers(self, resolutions: Index, secure: bool, *at: Any) -> Integers:
        """Return exact contributions in steps of B runs' grids, (P, B, k): per party if `secure`, else their sum."""
        raise UserError(_NO_GRID)


class Statistic(ABC):
    """A statistic that is summed over rows or parties; it is a plain value and contains no rows.

    Its numbers form blocks, and each block has its own unit.
    """

    terms: ClassVar[type[Terms[Any]]]
    """The class that sums the statistic over rows."""
    single: bool = False
    """Whether simulated noise is drawn in single precision, which takes half the time."""

    @abstractmethod
    def lengths(self, d: int) -> tuple[int, ...]:
        """Return the number of entries of each block, for rows of d features."""

    def on(self, parties: Parties) -> Any:
        """Return the statistic's `terms` for the parties' rows."""
        return self.terms(self, parties)

    @abstractmethod
    def largest(self, problem: Problem) -> float:
        """Return a public bound on the absolute value of every number that a party contributes."""

    def imprecision(self, problem: Problem) -> float:
        """Return a bound on the relative increase of a sum's sensitivity by floating-point rounding.

        The bound depends on public numbers only (`dpml.sums`). The default assumes at most N terms, none longer than
        the sensitivity, that are added in double precision in blocks of at most 1024, and the blocks pairwise.
        """
        return sums.imprecision(problem.N, problem.d + sum(self.lengths(problem.d)))

    # For statistics that draw noise for more numbers than are sent.

    def drawn(self, d: int) -> tuple[int, ...]:
        """Return the sizes of the noise arrays of a sum, in the order in which they are drawn."""
        return (sum(self.lengths(d)),)

    def project(self, noise: Array, d: int) -> Array:
        """Return the noise of the numbers that are sent, (..., k), from the drawn noise."""
        return noise

    def deviations(self, d: int) -> tuple[float, ...]:
        """Return the standard deviation of projected unit noise, for every block."""
        return (1.0,) * len(self.lengths(d))

    # For noise on a grid of integers.

    def resolution(self, widths: Sequence[float], problem: Problem) -> int:
        """Return how fine the grid is, for noise with one standard deviation per block, without reading rows."""
        raise UserError(_NO_GRID)

    def steps(self, resolution: int, problem: Problem) -> tuple[float, ...]:
        """Return the size of a step of the grid, for every block."""
        raise UserError(_NO_GRID)

    def rounding(self, widths: Sequence[float], resolution: int, problem: Problem) -> float:
        """Return how much rounding to the grid adds to the mu of a sum, or with Laplace noise to its eps."""
        return 0.0

    # For parties on different machines.

    def state(self, d: int) -> tuple[str, tuple[int, ...]]:
        """Return the type and the lengths of the arrays `at`, which the parties receive before the sum."""
        return "<f8", ()

    def valid(self, *at: Any) -> bool:
        """Return whether an honest aggregator could send these arrays."""
        return True


@dataclass(frozen=True)
class Sum:
    """Messages of one kind: a noisy sum over the rows or over the parties, which may be sent several times.

    Attributes:
        of: The statistic that is summed.
        sensitivity: The largest change of the sum when a unit is replaced, in L1 norm for the law `laplace` and in L2
            norm for the others; block j is in units of ``units[j]``.
        noise: The scale of the noise in the sum of all parties, in the same units; 0: no noise.
        units: The unit of the numbers in every block.
        times: How often the sum is sent; its arguments may depend on all earlier answers.
        joined: The largest number of these sums that a unit takes part in; None: all.
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
        """Whether the sum is eps-DP with delta = 0: it has no Gaussian noise."""
        return self.law != "gaussian" and not self.constant

    @property
    def ratio(self) -> float:
        """The mu of one sum with Gaussian noise."""
        return self.sensitivity / self.noise if self.noise else math.inf

    @property
    def mu(self) -> float:
        """The mu of all these sums together, chosen adaptively (Dong, Roth & Su 2019, Cor. 3.3)."""
        times = self.times if self.joined is None else self.joined
        return math.sqrt(times) * self.ratio if times else 0.0

    def block_widths(self) -> tuple[float, ...]:
        """The standard deviation of the noise in every block."""
        return tuple(self.noise * unit for unit in self.units)

    def widths(self, d: int) -> Array:
        """Return the factor that scales unit noise, for every number: (k,)."""
        return np.repeat(self.block_widths(), self.of.lengths(d))


def discrete_rest(message: Sum, problem: Problem) -> float:
    """Return a bound on how much discrete noise, instead of continuous noise, adds to the mu of a message's sums."""
    widths = message.block_widths()
    resolution = message.of.resolution(widths, problem)
    return message.times * (message.of.rounding(widths, resolution, problem) + len(widths) * REST)


def imprecision(statistics: Sequence[Statistic], problem: Problem) -> float:
    """Return a bound on the relative increase of mu by floating-point rounding in sums of these statistics."""
    most = max((of.imprecision(problem) for of in statistics), default=0.0)
    if most > sums.MOST:
        raise UserError(
            f"sums of {problem.N:,} rows with {problem.d:,} features are too large for floating-point numbers: "
            f"rounding would exceed a thousandth of their sensitivity. Use fewer rows, or set algo.noise=discrete."
        )
    return most


def mu_of(messages: Sequence[Sum], problem: Problem, discrete: bool, ring: bool = False) -> float:
    """Return the mu of a whole release with Gaussian noise, for a view that knows no noise (exact composition).

    With `ring`, continuous noise is also rounded to the ring of a secure sum.
    """
    if discrete:
        mus = [m.mu + discrete_rest(m, problem) if math.isfinite(m.mu) else m.mu for m in messages]
    else:
        mus = [m.mu * (1 + imprecision([m.of], problem) + ring * RING) for m in messages]
    return math.sqrt(sum(mu * mu for mu in mus)) if len(mus) > 1 else mus[0]


def eps_of(messages: Sequence[Sum], problem: Problem, discrete: bool) -> float:
    """Return the eps, at delta = 0, of a whole release with Laplace-type noise, which holds in every view.

    Noise with an exponential length has density ``exp(-||z||/scale) / ||z||^(k-1)``. For k > 1 numbers it is infinite
    at the exact sum, so the privacy loss is unbounded.
    """
    total = 0.0
    for m in messages:
        if m.law == "radial" and sum(m.of.lengths(problem.d)) > 1:
            return math.inf
        eps = round_up(m.ratio)
        if discrete and math.isfinite(eps):
            resolution = m.of.resolution(m.block_widths(), problem)  # raises UserError if the noise does not fit
            k = sum(m.of.lengths(problem.d))  # an L1 norm is at most sqrt(k) times the L2 norm
            eps += math.sqrt(k) * m.of.rounding(m.block_widths(), resolution, problem)
        elif not discrete:
            eps *= 1 + imprecision([m.of], problem)
        total += m.times * eps
    return total


def sums_in(messages: Sequence[Sum]) -> int:
    """Return the number of vectors that are summed in a release."""
    return sum(message.times for message in messages)
