"""Add discrete Gaussian or Laplace noise, which is as private as continuous noise, to sums of integers.

The proof: docs/privacy/discrete_noise.md, Theorem 1.
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
"""The number of fractional bits of rows, gradients and counts; fewer are used if there is much noise."""

_NUMBERS = 1 << 22  # noise numbers that are drawn at once
_WIDEST_NOISE = 2.0**55  # the largest standard deviation of the noise in a sum, in grid steps


def checked(vectors: Integers, radius: int) -> Integers:
    """Return integer vectors (..., k) unchanged; raise AssertionError if the norm of a vector exceeds `radius`."""
    rows = vectors.reshape(-1, vectors.shape[-1])
    for some in map(rows.__getitem__, blocks(len(rows), rows.shape[-1])):
        squares = np.einsum("ij,ij->i", some, some)
        if np.abs(some).max(initial=0) > radius or squares.max(initial=0) > radius * radius:
            raise AssertionError("an integer vector is longer than the sensitivity that the proof assumes.")
    return vectors


def whole_steps(most: int, width: float) -> int:
    """Return the number of grid steps from 0 to 1: `most`, or fewer to fit noise with noise_std `width` in 64 bits."""
    steps = min(most, int(_WIDEST_NOISE / max(width, 1.0)))
    if steps < 1:
        raise UserError(
            "algo.noise=discrete cannot fit so much noise into 64 bits: set a larger eps or delta, or "
            "algo.noise=continuous."
        )
    return steps


class Grid(NamedTuple):
    """A grid on which the entries of a sum are integers, and the distribution of the discrete noise.

    Attributes:
        resolution: The fineness of the grid, as `Statistic.resolution` defines it.
        steps: The size of a grid step in each block of the sum.
        widths: For each block, the scale that continuous noise would have in the sum of all parties, in grid steps.
        variances: The variance of each party's discrete Gaussian noise, in squared steps; (): Laplace noise.
    """

    resolution: int
    steps: tuple[float, ...]
    widths: tuple[float, ...]
    variances: tuple[Fraction, ...]

    def law(self, block: int) -> DiscreteGaussian | DiscreteLaplace | None:
        """Return the distribution of a party's integer noise in a block (group of entries) of a sum; None: no noise."""
        if not self.variances:
            return DiscreteLaplace(Fraction(self.widths[block])) if self.widths[block] else None
        return DiscreteGaussian(self.variances[block]) if self.variances[block] else None


def grid(message: "Sum", problem: Problem) -> Grid:
    """Return the grid and the distribution of the discrete noise for the noisy sum `message`."""
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
    """Return the variance of the discrete noise that each party adds, in squared steps of the grid.

    `width` is the standard deviation that continuous noise would have in the sum of all parties, in grid steps.
    """
    if width == 0:
        return Fraction(0)
    rough = smoothing(problem.M, coordinates)
    return Fraction(math.ceil(max(Fraction(width) ** 2 / problem.M + rough / problem.honest, 2 * rough)))


def parts(grids: Sequence[Grid], block: int, parties: int, draws: int, size: int, rng: Generator) -> Integers:
    """Draw parties' noise for a block of `size` entries, `draws` times a grid: (parties, len(grids) * draws, size)."""
    return np.concatenate(list(_blocks(grids, block, parties, draws, size, rng)))


def total(grids: Sequence[Grid], block: int, parties: int, draws: int, size: int, rng: Generator) -> Integers:
    """Draw parties' total noise for a block of `size` entries, `draws` times a grid: (len(grids) * draws, size)."""
    summed = np.zeros((len(grids) * draws, size), np.int64)
    for some in _blocks(grids, block, parties, draws, size, rng):
        summed += some.sum(axis=0)
    return summed


def drawn(law: DiscreteGaussian | DiscreteLaplace, shape: tuple[int, ...], rng: Generator) -> Integers:
    """Draw noise from `law`. Tests of audits set `rng.variance_kept`, a factor that multiplies the noise's variance."""
    kept = getattr(rng, "variance_kept", None)
    if kept is not None:
        narrow = Fraction(math.sqrt(kept))
        own = isinstance(law, DiscreteGaussian)
        law = DiscreteGaussian(kept * law.variance) if own else DiscreteLaplace(narrow * law.scale)  # type: ignore[union-attr]
    return law.sample(shape, rng.bytes)


def _blocks(
    grids: Sequence[Grid], block: int, parties: int, draws: int, size: int, rng: Generator
) -> Iterator[Integers]:
    laws = [grid.law(block) for grid in grids]
    for some in blocks(parties, len(grids) * draws * size, _NUMBERS):
        shape = some.stop - some.start, draws, size
        yield np.concatenate([drawn(law, shape, rng) if law else np.zeros(shape, int) for law in laws], axis=1)
