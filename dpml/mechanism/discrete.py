"""Discrete noise on sums of integers, at least as much as the continuous noise that is counted.

Each of M parties adds N_Z(0, v) to each of its integers. v is the least whole number for which every view, of H to M
honest parties, is as private as with the continuous noise, but for `REST` in the mu of a sum: docs/privacy/
discrete_noise.md, "How much noise". The steps of a sum are chosen from public numbers so that it fits into the ring of
the secure sum: "What fits into 64 bits" there.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.random import Generator

from dpml.arrays import blocks
from dpml.errors import UserError
from dpml.privacy import Problem
from dpml.privacy.discrete import DiscreteGaussian, DiscreteLaplace
from dpml.privacy.discrete.rounding import Integers, smoothing

if TYPE_CHECKING:
    from dpml.mechanism.message import Sum

BITS = 20
"""Fractional bits of rows, gradients and counts that are summed; fewer where there is much noise."""

_NUMBERS = 1 << 22  # numbers drawn at once
_WIDEST_NOISE = 2.0**55  # standard deviation of the noise in a sum, in steps


def checked(vectors: Integers, radius: int) -> Integers:
    """The same integer vectors (..., k), none of which is longer than `radius`: arithmetic says so, not analysis.

    Raises:
        AssertionError: one is, so that a sensitivity that was counted does not hold.
    """
    rows = vectors.reshape(-1, vectors.shape[-1])
    for some in map(rows.__getitem__, blocks(len(rows), rows.shape[-1])):
        squares = np.einsum("ij,ij->i", some, some)
        if np.abs(some).max(initial=0) > radius or squares.max(initial=0) > radius * radius:
            raise AssertionError("integers are longer than the sensitivity that is counted for them.")
    return vectors


def whole_steps(most: int, width: float) -> int:
    """How many steps a unit has: `most`, or fewer where noise of standard deviation `width` units would not fit."""
    steps = min(most, int(_WIDEST_NOISE / max(width, 1.0)))
    if steps < 1:
        raise UserError(
            "algo.noise=discrete cannot fit so much noise into 64 bits: ask for a larger eps or delta, or set "
            "algo.noise=continuous."
        )
    return steps


class Grid(NamedTuple):
    """A message on its grid, with an entry for every block.

    Attributes:
        resolution: how fine it is.
        steps: what a step is.
        widths: the scale of continuous noise in the sum of all parties, in steps.
        variances: of every party's discrete Gaussian noise, in squared steps; (): it is one curator's Laplace noise, of
            these widths.
    """

    resolution: int
    steps: tuple[float, ...]
    widths: tuple[float, ...]
    variances: tuple[Fraction, ...]

    def law(self, block: int) -> DiscreteGaussian | DiscreteLaplace | None:
        """Of every party's noise in a block, in steps; None: there is none."""
        if not self.variances:
            return DiscreteLaplace(Fraction(self.widths[block])) if self.widths[block] else None
        return DiscreteGaussian(self.variances[block]) if self.variances[block] else None


def grid(message: "Sum", problem: Problem) -> Grid:
    """The grid of a message whose noise is drawn by the parties of `problem`, and its noise."""
    of, blocks = message.of, message.block_widths()
    resolution = of.resolution(blocks, problem)
    steps = of.steps(resolution, problem)
    widths = [
        block / abs(step) * deviation
        for block, step, deviation in zip(blocks, steps, of.deviations(problem.d), strict=True)
    ]
    if message.law == "laplace":
        return Grid(resolution, steps, tuple(widths), ())
    lengths = of.lengths(problem.d)
    variances = [variance_of(width, problem, size) for width, size in zip(widths, lengths, strict=True)]
    return Grid(resolution, steps, tuple(widths), tuple(variances))


def variance_of(width: float, problem: Problem, coordinates: int) -> Fraction:
    """The variance of each party's noise, in squared steps.

    Args:
        width: the standard deviation of the continuous noise in the sum of all parties, in steps; 0: none.
        problem: how many parties there are, and how many of them are honest.
        coordinates: of the vector that is summed.
    """
    if width == 0:
        return Fraction(0)
    rough = smoothing(problem.M, coordinates)
    return Fraction(math.ceil(max(Fraction(width) ** 2 / problem.M + rough / problem.honest, 2 * rough)))


def parts(grids: Sequence[Grid], block: int, parties: int, draws: int, size: int, rng: Generator) -> Integers:
    """The noise of every party in a block, of one grid after the other: (parties, len(grids) * draws, size)."""
    return np.concatenate(list(_blocks(grids, block, parties, draws, size, rng)))


def total(grids: Sequence[Grid], block: int, parties: int, draws: int, size: int, rng: Generator) -> Integers:
    """The same noise summed over the parties: (len(grids) * draws, size)."""
    summed = np.zeros((len(grids) * draws, size), np.int64)
    for some in _blocks(grids, block, parties, draws, size, rng):
        summed += some.sum(axis=0)
    return summed


def drawn(law: DiscreteGaussian | DiscreteLaplace, shape: tuple[int, ...], rng: Generator) -> Integers:
    """Noise of this law; of a narrower one in the self-test of an audit only (`HalfNoise` in `dpml.audit.exposure`)."""
    kept = getattr(rng, "variance_kept", None)
    if kept is not None:
        narrow = Fraction(math.sqrt(kept))
        own = isinstance(law, DiscreteGaussian)
        law = DiscreteGaussian(kept * law.variance) if own else DiscreteLaplace(narrow * law.scale)  # type: ignore[union-attr]
    return law.sample(shape, rng.bytes)


def _blocks(
    grids: Sequence[Grid], block: int, parties: int, draws: int, size: int, rng: Generator
) -> Iterator[Integers]:
    """The noise of some parties after the other, (P, len(grids) * draws, size)."""
    laws = [grid.law(block) for grid in grids]
    for some in blocks(parties, len(grids) * draws * size, _NUMBERS):
        shape = some.stop - some.start, draws, size
        yield np.concatenate([drawn(law, shape, rng) if law else np.zeros(shape, int) for law in laws], axis=1)
