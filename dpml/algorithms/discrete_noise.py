"""Discrete noise on sums of integers, at least as much as the continuous noise that is counted.

Every one of M parties adds N_Z(0, v) to each of its integers. Against H honest parties that is as private as continuous
noise of variance ``H v - r^2`` in their sum (`dpml.privacy.discrete`). Continuous noise of standard deviation s in the
sum of all parties has ``s^2 H/M`` of honest ones. So v is the least whole number with ``H v - r^2 >= s^2 H/M``: every
view, of H or more honest parties, is as private as with the continuous noise, but for `REST` in the mu of a sum.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.random import Generator

from dpml.algorithms.hyperparameters import SumProtocol, check_choice
from dpml.errors import UserError
from dpml.privacy import Problem
from dpml.privacy.discrete import DiscreteGaussian, continuous_variance
from dpml.privacy.discrete.accounting import smoothing
from dpml.privacy.discrete.rounding import Integers

Noise = Literal["continuous", "discrete"]
"""Whether noise is floating-point numbers, or exact integers on a grid (docs/privacy/discrete_noise.md)."""
NOISES: tuple[Noise, ...] = ("continuous", "discrete")

BITS = 20
"""Fractional bits of rows, gradients and counts that are summed."""

_HELD = 1 << 22  # numbers drawn at once
_MARGIN = 1e-6


def check_noise(noise: str, protocol: SumProtocol) -> None:
    """Raise UserError unless there is such noise, and the protocol carries it."""
    check_choice("algo.noise", noise, NOISES)
    if noise == "discrete" and protocol == "secagg":
        raise UserError("algo.noise=discrete needs algo.protocol=simulate: the real protocol takes real numbers.")


def asked(mu: float) -> float:
    """The mu that noise on a grid is made for where `mu` may be spent: a millionth is left for what rounding adds."""
    return mu * (1 - _MARGIN)


def variance_of(width: float, problem: Problem, coordinates: int) -> Fraction:
    """The variance of each party's noise, in squared steps.

    Args:
        width: the standard deviation of the continuous noise in the sum of all parties, in steps; 0: none.
        problem: how many parties there are, and how many of them are honest.
        coordinates: of the vector that is summed.

    Raises:
        UserError: the grid is too coarse for so little noise.
    """
    if width == 0:
        return Fraction(0)
    M, H = problem.M, problem.honest
    variance = Fraction(math.ceil(Fraction(width) ** 2 / M + smoothing(H, coordinates) / H))
    continuous_variance(variance, H, coordinates)  # which says whether the grid is too coarse
    return variance


def parts(variances: Sequence[Fraction], parties: int, draws: int, size: int, rng: Generator) -> Integers:
    """The noise of every party, of one variance after the other: (parties, len(variances) * draws, size)."""
    shape = parties, draws, size
    each = [DiscreteGaussian(v).sample(shape, rng.bytes) if v else np.zeros(shape, np.int64) for v in variances]
    return np.concatenate(each, axis=1)


def total(variances: Sequence[Fraction], parties: int, draws: int, size: int, rng: Generator) -> Integers:
    """The same summed over the parties: (len(variances) * draws, size)."""
    summed = np.zeros((len(variances) * draws, size), np.int64)
    together = max(1, _HELD // max(summed.size, 1))
    for start in range(0, parties, together):
        summed += parts(variances, min(together, parties - start), draws, size, rng).sum(axis=0)
    return summed
