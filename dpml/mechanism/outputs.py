"""A model plus noise, as a value from which the noise is drawn and the guarantee proven.

What such a release says of itself is a `NoisyModel`, and so are those of `dpml.mechanism.objectives`.

*On a grid.* A model is a function of the rows and of public numbers, whatever floating point makes of it on the way. It
is rounded, every coordinate to the nearest of a public grid, by which two neighbours' models move apart by at most
sqrt(D) steps more in L2 norm, and D in L1 norm. To these integers exact ones are added: discrete Gaussian noise, which
is mu-GDP (`privacy.discrete.accounting`), or a discrete Laplace number in every coordinate, which is pure eps-DP.
L2-Laplace noise has no counterpart here: Laplace numbers of ``sqrt(D) sensitivity/eps`` hide as much, as no move is
longer than sqrt(D) times its L2 norm in L1 norm, with ``2D/(D + 1)`` times its energy, less than twice.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array
from dpml.mechanism.discrete import BITS, target_mu, whole_steps
from dpml.privacy import gdp, noise
from dpml.privacy.discrete import DiscreteGaussian, DiscreteLaplace, least_variance, mu_of, rounded_sensitivity, to_grid
from dpml.privacy.discrete.rounding import Integers
from dpml.privacy.safe import up

Unit = Literal["sample", "party"]
"""What is replaced in a neighbour: one sample, or all samples of one party."""

Law = Literal["gaussian", "laplace", "l2_laplace", "radial"]
"""A sampler of `dpml.privacy.noise`. Of noise z of scale s: N(0, s^2 I); a Laplace number of scale s in every
coordinate; density exp(-||z||/s); a length of mean s with the exponential law, and a uniform direction."""


class Proof(NamedTuple):
    """The eps that is proven at some delta, by what, and the `mu` or the `curve` of `Guarantee`."""

    eps: float
    source: str
    mu: float | None = None
    curve: tuple[float, float, float] | None = None


def gaussian_proof(mu: float, delta: float, source: str) -> Proof:
    """What a Gaussian release of this mu guarantees; it comes from a short formula (`dpml.privacy.safe`)."""
    return Proof(gdp.eps_of(up(mu), delta), source, up(mu))


class NoisyModel(Protocol):
    """One release of a model, under one budget. Its scale is 0 where there is no noise."""

    @property
    def law(self) -> Law: ...
    @property
    def scale(self) -> float: ...
    @property
    def unit(self) -> Unit: ...
    def proven(self, delta: float) -> Proof:
        """What is proven of this noise at `delta`, which is 0 for all laws but the Gaussian."""
        ...


@dataclass(frozen=True)
class NoisyOutput:
    """A model plus noise.

    Attributes:
        law: Of the noise.
        sensitivity: How far the model moves at most, in L2 norm, when one unit is replaced.
        scale: Of the noise.
        source: What proves the sensitivity.
        unit: What is replaced.
        size: D, the model's coordinates; inf where it is not known.
    """

    law: Law
    sensitivity: float
    scale: float
    source: str
    unit: Unit = "sample"
    size: float = 1.0

    @property
    def ratio(self) -> float:
        """Sensitivity over scale, rounded up."""
        return up(self.sensitivity / self.scale) if self.scale else math.inf

    def proven(self, delta: float) -> Proof:
        """The largest privacy loss over all neighbours, or the mu of the Gaussian mechanism.

        Laplace noise on D coordinates has a loss of ||v||_1 / scale <= sqrt(D) ||v||_2 / scale for a move v. Noise of
        an exponential length has the density ``exp(-||z||/scale) / ||z||^(D-1)``, infinite at the model itself: for
        D > 1 the loss of an output close to it is above any bound.
        """
        if self.law == "gaussian":
            return gaussian_proof(self.ratio, delta, self.source)
        if self.scale == 0:
            return Proof(math.inf, "no noise")
        if self.law == "radial" and self.size > 1:
            return Proof(math.inf, "the noise's density is infinite at the model")
        if self.law == "laplace" and math.isinf(self.size):
            return Proof(math.inf, "the number of classes is not known")
        return Proof(self.ratio * (math.sqrt(self.size) if self.law == "laplace" else 1.0), self.source)


@dataclass(frozen=True)
class GridOutput:
    """A model rounded to a grid, plus integers.

    Attributes:
        noise: The law of what is added to every coordinate, in steps.
        step: Of the grid, a power of two.
        sensitivity: How far the model moves at most, in L2 norm, before it is rounded.
        source: What proves the sensitivity.
        size: D, the model's coordinates.
        unit: What is replaced.
    """

    noise: DiscreteGaussian | DiscreteLaplace
    step: float
    sensitivity: float
    source: str
    size: int
    unit: Unit = "sample"

    @property
    def law(self) -> Law:
        """The continuous law that it stands for."""
        return "gaussian" if isinstance(self.noise, DiscreteGaussian) else "laplace"

    @cached_property
    def scale(self) -> float:
        """Of the noise, in the model's unit."""
        if isinstance(self.noise, DiscreteGaussian):
            return math.sqrt(self.noise.variance) * self.step
        return float(self.noise.scale) * self.step

    def proven(self, delta: float) -> Proof:
        """The mu of the integers' L2 sensitivity, or the eps of their L1 sensitivity."""
        if isinstance(self.noise, DiscreteLaplace):
            eps = moved_in_l1(self.sensitivity, self.step, self.size) / self.noise.scale
            nearest = float(eps)
            return Proof(nearest if nearest >= eps else math.nextafter(nearest, math.inf), self.source)
        mu = mu_of(moved_in_l2(self.sensitivity, self.step, self.size) ** 2, self.noise.variance, 1, self.size)
        return Proof(gdp.eps_of(mu, delta), self.source, mu)

    def released(self, model: Array, rng: Generator, draws: int) -> Array:
        """The noisy model (draws, D), of a model (D,)."""
        total = to_grid(model, self.step) + integers(self.noise, (draws, self.size), rng)
        return np.asarray(total * self.step)


def integers(law: DiscreteGaussian | DiscreteLaplace, shape: tuple[int, ...], rng: Generator) -> Integers:
    """Noise of this law; of a narrower one in the self-test of an audit only (`dpml.audit.half_noise`)."""
    kept = getattr(rng, "variance_kept", None)
    if kept is not None:
        own = isinstance(law, DiscreteGaussian)
        law = DiscreteGaussian(kept * law.variance) if own else DiscreteLaplace(Fraction(math.sqrt(kept)) * law.scale)  # type: ignore[union-attr]
    return law.sample(shape, rng.bytes)


_COMPUTED = 1 + Fraction(1, 1 << 40)  # a sensitivity, and the length of a row, are floating-point numbers


def moved_in_l2(sensitivity: float, step: float, size: int) -> Fraction:
    """An upper bound on how far a rounded model moves, in steps."""
    return rounded_sensitivity(_COMPUTED * Fraction(sensitivity) / Fraction(step), size)


def moved_in_l1(sensitivity: float, step: float, size: int) -> int:
    """The same in L1 norm: a whole number."""
    root = rounded_sensitivity(Fraction(0), size)
    return math.floor(root * _COMPUTED * Fraction(sensitivity) / Fraction(step) + size)


def gaussian_on_grid(  # many parameters: those of a `GridOutput`, and two bounds
    sensitivity: float, mu: float, size: int, longest: float, source: str, unit: Unit = "sample"
) -> GridOutput:
    """The least discrete Gaussian noise that is `mu`-GDP, less a millionth; no model is longer than `longest`.

    Raises:
        UserError: so much noise, or so long a model, does not fit into 64 bits.
    """
    step = _step(sensitivity, size, 1 / mu, longest)
    squared = moved_in_l2(sensitivity, step, size) ** 2
    variance = least_variance(target_mu(mu), squared, 1, size)
    return GridOutput(DiscreteGaussian(variance), step, sensitivity, source, size, unit)


def laplace_on_grid(  # many parameters: those of a `GridOutput`, and two bounds
    sensitivity: float, eps: float, size: int, longest: float, source: str, unit: Unit = "sample"
) -> GridOutput:
    """The least discrete Laplace noise that is `eps`-DP; no model is longer than `longest`.

    Raises:
        UserError: so much noise, or so long a model, does not fit into 64 bits.
    """
    step = _step(sensitivity, size, 2 * math.sqrt(size) / eps, longest)
    scale = moved_in_l1(sensitivity, step, size) / Fraction(eps)
    return GridOutput(DiscreteLaplace(scale), step, sensitivity, source, size, unit)


def _step(sensitivity: float, size: int, width: float, longest: float) -> float:
    """A power of two, sqrt(D) times 2^20 to 2^21 of which make the sensitivity, or fewer where there is much noise.

    Noise of `width` sensitivities has less than 2^56 steps then, and no coordinate of a model more than 2^61.
    """
    coarse = 2 * math.sqrt(size)
    bits = whole_steps(1 << BITS, coarse * max(width, longest / sensitivity / 64)).bit_length() - 1
    return 2.0 ** (math.floor(math.log2(sensitivity / math.sqrt(size))) - bits)


def noisy(messages: Sequence[Any], models: Array, rng: Generator, draws: int) -> Array:
    """Models (budgets, D), or one (D,) for all budgets, plus noise: (budgets, draws, D).

    Budgets share the directions of continuous noise.
    """
    models = np.broadcast_to(models, (len(messages), models.shape[-1]))
    if not any(isinstance(message, GridOutput) for message in messages):
        continuous: Array = models[:, None] + drawn(messages, rng, draws, models.shape[-1])
        return continuous
    released = np.empty((len(messages), draws, models.shape[1]))
    for each, message, model in zip(released, messages, models, strict=True):
        each[:] = message.released(model, rng, draws) if isinstance(message, GridOutput) else model
    return released


def drawn(messages: Sequence[NoisyModel], rng: Generator, draws: int, size: int) -> Array:
    """The noise of one message for every budget, all of one law: (budgets, draws, size). Budgets share directions."""
    law = messages[0].law
    sample = getattr(noise, law)
    unit = sample(rng, (draws, size)) if law in ("gaussian", "laplace") else sample(rng, draws, size)
    noisy: Array = np.array([message.scale for message in messages])[:, None, None] * unit
    return noisy
