"""A model plus noise, as a value from which the noise is drawn and the guarantee proven.

What such a release says of itself is a `NoisyModel`, and so are those of `dpml.mechanism.objectives`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array
from dpml.privacy import gdp, noise
from dpml.privacy.safe import round_up

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
    return Proof(gdp.eps_of(round_up(mu), delta), source, round_up(mu))


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
        return round_up(self.sensitivity / self.scale) if self.scale else math.inf

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


def drawn(messages: Sequence[NoisyModel], rng: Generator, draws: int, size: int) -> Array:
    """The noise of one message for every budget, all of one law: (budgets, draws, size). Budgets share directions."""
    law = messages[0].law
    sample = getattr(noise, law)
    unit = sample(rng, (draws, size)) if law in ("gaussian", "laplace") else sample(rng, draws, size)
    noisy: Array = np.array([message.scale for message in messages])[:, None, None] * unit
    return noisy
