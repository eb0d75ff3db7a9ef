"""A release as a list of messages: what is summed, how far a unit moves the sum, how much noise is in it, how often.

An algorithm of noisy sums declares its messages for a budget as plain values. Whatever else is to be known follows from
them: the noise that is drawn, the proven guarantees of every view (`mu_of`), the number and length of secure sums, what
an audit measures residuals with.
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
"""A sampler of `dpml.privacy.noise`. Of noise z of scale s: N(0, s^2 I); a Laplace number of scale s in every
coordinate; density exp(-||z||/s); a length of mean s with the exponential law, and a uniform direction."""

RING = 2.0**-30
"""How much the ring of a secure sum adds to the mu of continuous noise that is at least `RING_STEPS` steps wide."""
RING_STEPS = 1 << 16

_NO_GRID = "algo.noise=discrete is not possible for this sum: set algo.noise=continuous."


Of = TypeVar("Of")


@dataclass(frozen=True)
class Terms(ABC, Generic[Of]):
    """The rows of some parties, ready to be summed. `at` is what a message is about: the models on the way, say.

    Sums are of B runs, (B, k), or where they depend on nothing but the rows the same for all, (k,).
    """

    statistic: Of
    parties: Parties

    @abstractmethod
    def total(self, *at: Any) -> Array:
        """The sum over all parties: (B, k) or (k,)."""

    def each(self, *at: Any) -> Array:
        """Every party's part of it: (M, B, k) or (M, k)."""
        raise UserError("algo.protocol=secagg is not possible for this sum: set algo.protocol=simulate.")

    def integers(self, resolutions: Index, secure: bool, *at: Any) -> Integers:
        """The parts in steps of the grids of B runs, exact: (P, B, k), of every party if `secure`, else their sum."""
        raise UserError(_NO_GRID)


class Statistic(ABC):
    """What the rows, or the parties, contribute to a sum: a plain value that knows no rows.

    Its numbers come in blocks that have a unit each.
    """

    terms: ClassVar[type[Terms[Any]]]
    """What adds up its rows."""
    single: bool = False
    """Whether simulated noise is drawn in single precision, in half the time."""

    @abstractmethod
    def lengths(self, d: int) -> tuple[int, ...]:
        """How many numbers are in each block, for rows of d features."""

    def on(self, parties: Parties) -> Any:
        """The statistic of some rows: its `terms`."""
        return self.terms(self, parties)

    @abstractmethod
    def largest(self, problem: Problem) -> float:
        """A public bound on the size of every number of a party's part."""

    def imprecision(self, problem: Problem) -> float:
        """By how much more than its sensitivity a sum may move, relative to it, because floating point rounds.

        From public numbers only (`dpml.sums`). As it stands: no more terms than rows, none longer than the sensitivity,
        are computed in double precision, in blocks of at most 1024, and these are added up two by two.
        """
        return sums.imprecision(problem.N, problem.d + sum(self.lengths(problem.d)))

    # For noise that is drawn for more numbers than are sent.

    def drawn(self, d: int) -> tuple[int, ...]:
        """How many numbers the noise of a sum has, as they are drawn one lot after the other."""
        return (sum(self.lengths(d)),)

    def project(self, noise: Array, d: int) -> Array:
        """The noise of the numbers that are sent, (..., k), from what was drawn."""
        return noise

    def deviations(self, d: int) -> tuple[float, ...]:
        """The standard deviation of projected unit noise, for every block."""
        return (1.0,) * len(self.lengths(d))

    # For noise on a grid of integers.

    def resolution(self, widths: Sequence[float], problem: Problem) -> int:
        """How fine the grid is for noise of these standard deviations, one for each block; it reads no row."""
        raise UserError(_NO_GRID)

    def steps(self, resolution: int, problem: Problem) -> tuple[float, ...]:
        """What a step of the grid is, for every block."""
        raise UserError(_NO_GRID)

    def rounding(self, widths: Sequence[float], resolution: int, problem: Problem) -> float:
        """How much rounding parts to the grid adds to the mu of a sum, or with Laplace noise to its eps."""
        return 0.0

    # For parties on machines of their own.

    def state(self, d: int) -> tuple[str, tuple[int, ...]]:
        """The type and the lengths of the arrays that a sum is about: what is sent to the parties before it."""
        return "<f8", ()

    def valid(self, *at: Any) -> bool:
        """Whether an honest aggregator could send this."""
        return True


@dataclass(frozen=True)
class Sum:
    """Messages of one kind: a noisy sum over the rows, or over the parties, and how often it is sent.

    Attributes:
        of: what is summed.
        sensitivity: how far the sum moves at most when a unit is replaced, in the norm of the law, which is L1 for
            `laplace` and L2 for the others; block j in units of ``units[j]``.
        noise: the scale of the noise in the sum of all parties, in the same units; 0: there is none.
        units: of the numbers in every block.
        times: how often it is sent; what is asked for may depend on all answers before.
        joined: in how many of these a unit takes part at most; None: in all.
        constant: the standard deviation of noise that is drawn once and is in every one of them; None: there is none.
        law: of the noise; `noise` is the standard deviation of a Gaussian.
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
        """Whether it is eps-DP with delta = 0: noise of another law than the Gaussian, and nothing beside it."""
        return self.law != "gaussian" and not self.constant

    @property
    def ratio(self) -> float:
        """The mu of one such sum with Gaussian noise."""
        return self.sensitivity / self.noise if self.noise else math.inf

    @property
    def mu(self) -> float:
        """The mu of all of them together, adaptively chosen (Dong, Roth & Su 2019, Cor. 3.3)."""
        times = self.times if self.joined is None else self.joined
        return math.sqrt(times) * self.ratio if times else 0.0

    def block_widths(self) -> tuple[float, ...]:
        """The standard deviation of the noise in every block."""
        return tuple(self.noise * unit for unit in self.units)

    def widths(self, d: int) -> Array:
        """What unit noise is multiplied by, for every number: (k,)."""
        return np.repeat(self.block_widths(), self.of.lengths(d))


def discrete_rest(message: Sum, problem: Problem) -> float:
    """How much noise on a grid, instead of continuous noise, adds to the mu of a message's sums at most."""
    widths = message.block_widths()
    resolution = message.of.resolution(widths, problem)
    return message.times * (message.of.rounding(widths, resolution, problem) + len(widths) * REST)


def imprecision(statistics: Sequence[Statistic], problem: Problem) -> float:
    """By how much rounding in floating point adds to the mu of sums of these at most, relative to it."""
    most = max((of.imprecision(problem) for of in statistics), default=0.0)
    if most > sums.MOST:
        raise UserError(
            f"sums of {problem.N:,} rows of {problem.d:,} features are too many for floating-point numbers: rounding "
            f"would be more than a thousandth of their sensitivity. Use fewer rows, or algo.noise=discrete."
        )
    return most


def mu_of(messages: Sequence[Sum], problem: Problem, discrete: bool, ring: bool = False) -> float:
    """The mu of a whole release with Gaussian noise, in a view that knows none of it: Gaussian DP composes exactly.

    Where continuous noise goes through the `ring` of a secure sum, it is rounded there.
    """
    if discrete:
        mus = [m.mu + discrete_rest(m, problem) if math.isfinite(m.mu) else m.mu for m in messages]
    else:
        mus = [m.mu * (1 + imprecision([m.of], problem) + ring * RING) for m in messages]
    return math.sqrt(sum(mu * mu for mu in mus)) if len(mus) > 1 else mus[0]


def eps_of(messages: Sequence[Sum], problem: Problem, discrete: bool) -> float:
    """The eps of a whole release with noise of Laplace laws, whoever sees it: it adds up, and delta is 0.

    Noise of an exponential length has the density ``exp(-||z||/scale) / ||z||^(k-1)``, infinite at the sum itself: for
    k > 1 numbers the loss of an output close to it is above any bound.
    """
    total = 0.0
    for m in messages:
        if m.law == "radial" and sum(m.of.lengths(problem.d)) > 1:
            return math.inf
        eps = round_up(m.ratio)
        if discrete and math.isfinite(eps):
            resolution = m.of.resolution(m.block_widths(), problem)  # refused where so much noise does not fit
            k = sum(m.of.lengths(problem.d))  # by which a move in L1 norm may be longer
            eps += math.sqrt(k) * m.of.rounding(m.block_widths(), resolution, problem)
        elif not discrete:
            eps *= 1 + imprecision([m.of], problem)
        total += m.times * eps
    return total


def sums_in(messages: Sequence[Sum]) -> int:
    """How many vectors are summed in a release."""
    return sum(message.times for message in messages)
