"""The minimiser of a perturbed objective, as a value from which the noise is drawn and the guarantee proven.

The objective is ``sum loss(x_i'w, y_i) + R/2 ||w||^2 + b'w``, b random, over N rows of norm at most 1. One sample is
the unit.

*On a grid.* What a solver returns is floating point, of which the proof of an exact minimiser says nothing; that of an
approximate one holds for whatever a solver returns, where exact noise on a grid hides it. b is h times integers k of
discrete Gaussian noise of variance v. But for factors of e^(1e-25), k is a continuous Gaussian ``beta/h`` of variance
``v - r^2`` that is rounded at random (docs/privacy/discrete_noise.md, Theorem 1, Step 3). No coordinate of ``k -
beta/h`` is beyond c, and none of k beyond ``c sqrt(v)/r``, but with the probability ``p = 4.3 d e^(-c^2/2 r^2)``. So
the model that is returned for b is one for beta whose gradient is at most ``h c sqrt d`` longer, and
`proofs.approximate_minima` holds with beta; the length of b bounds that of the model, and so the rounding of a gradient
that is measured. The model is rounded to a grid of its own, with exact noise. In all this is (eps + 1e-24, (1 + 1e-24)
delta + (1 + e^eps) p)-DP: docs/privacy/perturbed_minima.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array
from dpml.mechanism.outputs import GridOutput, Law, NoisyOutput, Proof, Unit, drawn, integers
from dpml.privacy.discrete import DiscreteGaussian
from dpml.privacy.discrete.accounting import smoothing
from dpml.privacy.proofs import approximate_minima, objective_perturbation
from dpml.privacy.safe import up

_STEPS = 40  # binary digits of noise on a grid
_SPENT = 1e-6  # the share of delta for what is improbable


@dataclass(frozen=True)
class PerturbedObjective:
    """The exact minimiser of a perturbed objective, with the logistic loss where nothing else is said.

    Attributes:
        law: Of b: Gaussian or L2-Laplace.
        scale: Of b.
        extra: The coefficient of ||w||^2 / 2, beside a mean loss, that is added to `lam`, the objective's own.
        N: Rows.
        slope: A bound on a row's gradient, and `curvature`, one on its second derivative, of another loss.
    """

    unit: ClassVar[Unit] = "sample"

    law: Law
    scale: float
    extra: float
    lam: float
    N: int
    slope: float | None = None
    curvature: float = 0.0

    @property
    def strength(self) -> float:
        """The coefficient of ||w||^2 / 2 beside the mean loss."""
        return self.lam + self.extra

    @property
    def ridge(self) -> float:
        """R."""
        return self.N * self.strength

    def proven(self, delta: float) -> Proof:
        """By `dpml.privacy.proofs.objective_perturbation`."""
        source = "dpml.privacy.proofs.objective_perturbation"
        if self.law == "gaussian":
            curve = (self.scale, self.ridge, 0.0) if self.scale and self.ridge else None
            return Proof(objective_perturbation.eps_of(self.scale, self.ridge, delta), source, curve=curve)
        if self.scale == 0:
            return Proof(math.inf, "no noise")
        if self.ridge == 0:
            return Proof(math.inf, "no proof without a ridge")
        if self.slope is None:
            return Proof(objective_perturbation.pure_eps_of(up(1 / self.scale), self.ridge), source)
        eps = objective_perturbation.jacobian_eps_of(self.slope / self.scale, self.curvature / self.ridge)
        return Proof(eps, "noise + one Jacobian factor (objective_perturbation)")


@dataclass(frozen=True)
class GridNoise:
    """b as integers.

    Attributes:
        law: In steps.
        step: h.
        size: d.
        exponent: ``c^2/2 r^2``: what happens with the probability of at most ``4.3 d e^-exponent`` is not counted.
    """

    law: DiscreteGaussian
    step: float
    size: int
    exponent: float

    @classmethod
    def of(cls, sigma: float, eps: float, delta: float, d: int) -> "GridNoise":
        """For beta of the standard deviation `sigma`, and guarantees of about this eps and delta."""
        step = 2.0 ** (math.floor(math.log2(sigma / math.sqrt(d))) - _STEPS)
        variance = math.ceil((Fraction(sigma) / Fraction(step)) ** 2 + smoothing(1, d))
        return cls(DiscreteGaussian(Fraction(variance)), step, d, 60 + eps - math.log(delta) + math.log(d))

    @property
    def longest(self) -> float:
        """The longest b that is counted."""
        return self.step * math.sqrt(2 * self.exponent * self.size * self.law.variance)

    @property
    def moved(self) -> float:
        """The farthest that b is from beta."""
        return self.step * math.sqrt(2 * self.exponent * self.size * smoothing(1, self.size))

    def drawn(self, draws: int, rng: Generator) -> Array:
        """(draws, d)."""
        return np.asarray(self.step * integers(self.law, (draws, self.size), rng))


@dataclass(frozen=True, kw_only=True)
class ApproximateMinimum(PerturbedObjective):
    """A point at which the gradient of the mean objective is at most `gamma` long, plus N(0, output^2 I).

    With exact noise b is `inside`, so that `scale` is the standard deviation of beta, and the point is released as
    `hidden`, whose noise is as wide as `output`.
    """

    gamma: float
    output: float
    inside: GridNoise | None = None
    hidden: GridOutput | None = None

    @property
    def beside(self) -> NoisyOutput:
        """The release of the point beside the exact minimiser: two points are at most ``2 N gamma/R`` apart."""
        apart = 2 * self.N * self.gamma / self.ridge if self.ridge > 0 else math.inf
        return NoisyOutput("gaussian", apart, self.output, "the gradient that is left")

    @property
    def missed(self) -> float:
        """At least p, the probability of what is not counted."""
        if self.inside is None:
            return 0.0
        return max(up(4.3 * self.inside.size * math.exp(-self.inside.exponent)), math.ulp(0.0))

    def proven(self, delta: float) -> Proof:
        """By `dpml.privacy.proofs.approximate_minima`; on a grid with a millionth of delta for what is not counted."""
        source = "dpml.privacy.proofs.approximate_minima"
        if self.inside is None or self.hidden is None:
            eps = approximate_minima.eps_of(self.scale, self.ridge, self.beside.ratio, delta)
            curve = (self.scale, self.ridge, self.beside.ratio) if math.isfinite(eps) else None
            return Proof(eps, source, curve=curve)
        ratio = self.hidden.proven(delta).mu or math.inf
        eps = approximate_minima.eps_of(self.scale, self.ridge, ratio, (1 - _SPENT) * delta) + 1e-24
        lost = math.log(8.6 * self.inside.size) + eps - self.inside.exponent  # with both neighbours: 1 + e^eps
        return Proof(eps if lost <= math.log(_SPENT / 2 * delta) else math.inf, f"{source}, on a grid")


def perturbations(sent: Sequence[PerturbedObjective], rng: Generator, draws: int, d: int) -> Array:
    """b for every budget: (budgets, draws, d). Budgets share the directions of continuous noise."""
    exact = [made.inside if isinstance(made, ApproximateMinimum) else None for made in sent]
    if not any(exact):
        return drawn(sent, rng, draws, d)
    return np.stack([b.drawn(draws, rng) if b else np.zeros((draws, d)) for b in exact])
