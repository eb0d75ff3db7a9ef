"""A quadratic objective's coefficients, released with noise, and the model that minimises what is left.

The empirical risk is written as a polynomial in w, exactly (squared loss) or to second order at 0 (logistic),

    f(w) = L0 + L1'w + w'L2 w,    L0 = mean c0(y),  L1 = mean c1(y) x,  L2 = mean c2 x x',

its coefficients are released with noise, and w minimises what is left. Noise is counted in one way (`Scales`): `T_j` is
the standard deviation (Laplace: the scale) of the noise that reaches N times the coefficient ``L_j``, after all sites
are summed. N is the number of units that the means are over.

The noisy L2 of an honest budget is mostly indefinite: of d = 104 eigenvalues, only those of a few directions stand out
of the noise's spectrum, which reaches from -edge to edge. Raising the eigenvalues of all others to `FLOOR` times the
edge (`optim.quadratic.minimise_floored`) keeps those few as they are, where a ridge would shrink them too. It reads the
released matrix and public numbers only, and so is post-processing.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpml.algorithms import Release
from dpml.algorithms.coefficients import NO_NOISE, Scales, joint_sensitivity, tight_scales, worst_neighbours
from dpml.algorithms.distributed_noise import NoiseSharing
from dpml.algorithms.exposure import Exposure, Pair, model_exposure
from dpml.algorithms.guarantees import gaussian_views
from dpml.algorithms.hyperparameters import check_common, check_positive
from dpml.algorithms.neighbours import one_replaced_for_loss
from dpml.algorithms.transcript import Recorder, Watch, transcript
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.optim.descent import Single
from dpml.optim.losses import Loss, Quadratic
from dpml.optim.quadratic import minimise_floored
from dpml.privacy import Budget, Calibration, Guarantee, Problem, View, gdp

# The norm of w at which `tight` makes the noise in the gradient least, unless `radius` says otherwise. It depends on no
# private data. For w of any norm up to 8, the published split of the same mu has at least 1.3 times the energy of that
# noise (squared), or at least 0.96 times (logistic).
TYPICAL_NORM = {"squared": 2.0, "logistic": 4.0}

# The least eigenvalue that the noisy L2 is left with, in units of the spectral edge of its noise. Chosen on Adult, for
# eps = .05 to 1, and used for all data.
FLOOR = 0.42

# Matrix entries per budget in a block of draws. A constant, so that the noise does not depend on the list of budgets.
_BLOCK = 1 << 18

# The scale of a coefficient that is released without noise: a difference is seen for certain, without dividing by 0.
EXACT = 1e-9

GDP_SOURCE = "Gaussian DP of the joint view (coefficients.joint_sensitivity, views)"


@dataclass(frozen=True)
class NoisyCoefficients(ABC):
    """The base class of all releases of a quadratic objective's coefficients.

    Args:
        loss: squared or logistic.
        calibration: `published` noise, or `tight`: the least noise proven to give (eps, delta) in the worst view.
        lam: coefficient of lam/2 ||w||^2, part of the objective.
        radius: the norm of w that the `tight` split of the noise between L1 and L2 is best for; None: 2 (squared) or 4
            (logistic).
    """

    name: ClassVar[str]
    auxiliary: ClassVar[float] = 0.0
    claim: ClassVar[str | None] = None
    variants: ClassVar[tuple[str, ...]] = ("paper",)

    loss: Loss
    calibration: Calibration = "tight"
    lam: float = 0.0
    radius: float | None = None

    def __post_init__(self) -> None:
        check_common(self, tuple(TYPICAL_NORM), self.variants)
        if self.radius is not None:
            check_positive("algo.radius", self.radius)

    @property
    def variant(self) -> str:
        """The only reading there is, unless a subclass has a field for it."""
        return "paper"

    @property
    def quadratic(self) -> Quadratic:
        """The loss's polynomial form."""
        assert self.loss.quadratic is not None  # checked above
        return self.loss.quadratic

    @property
    def norm(self) -> float:
        """The norm of w that `tight` is shaped for."""
        return TYPICAL_NORM[self.loss.name] if self.radius is None else self.radius

    @property
    @abstractmethod
    def sharing(self) -> NoiseSharing:
        """How the noise of the summed coefficients is shared."""

    @abstractmethod
    def prepare(self, parties: Parties, rng: Generator) -> "PreparedQuadratic":
        """Sum the coefficients; one pass over the data."""

    def views(self, problem: Problem) -> dict[View, float]:
        """mu of every view the adversary may have, as a multiple of the summed release's own."""
        return self.sharing.views(problem)

    def scales(self, budget: Budget, problem: Problem) -> Scales:
        """Single source of the noise scales of a release, for sampling and for accounting."""
        if math.isinf(budget.eps):
            return NO_NOISE
        return tight_scales(self.quadratic, problem.d, self.norm, self.mu(budget) / max(self.views(problem).values()))

    def mu(self, budget: Budget) -> float:
        """The mu that the budget allows the worst view of a `tight` release."""
        return gdp.mu_of(budget.eps, budget.require_delta(f"algo={self.name}"))

    def released_mu(self, budget: Budget, problem: Problem) -> float:
        """The mu of the summed coefficients."""
        return joint_sensitivity(self.quadratic, self.scales(budget, problem), problem.d)

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """Claimed (when published) and proven guarantee of every view; one sample is the unit."""
        delta = budget.require_delta(f"algo={self.name}")
        mu = self.released_mu(budget, problem)
        mus = {view: mu * factor for view, factor in self.views(problem).items()}
        return gaussian_views(mus, budget, delta, GDP_SOURCE, self.claim if self.calibration == "published" else None)

    def unit_noise(
        self, rng: Generator, draws: int, problem: Problem, watch: Watch | None = None
    ) -> tuple[Array, Array, Array]:
        """Unit noise on (L0, L1, L2): (draws,), (draws, d), (draws, d, d), the last symmetric.

        All d^2 entries of L2 get noise of their own; as ``w'Ew`` only sees the symmetric part of E, that is kept. Their
        antisymmetric part holds no data, so this is the same release.
        """
        d = problem.d
        flat = self.sharing.total(rng, draws, problem.M, 1 + d + d * d, watch)
        square = flat[:, 1 + d :].reshape(draws, d, d)
        return flat[:, 0], flat[:, 1 : 1 + d], (square + square.transpose(0, 2, 1)) / 2

    def spectral_edge(self, d: int) -> float:
        """About the largest eigenvalue of the unit noise on L2 (the semicircle law's edge)."""
        return math.sqrt(2 * d)

    def minimisers(self, A: Array, b: Array, edges: Array) -> tuple[Array, NDArray[np.bool_]]:
        """The models of released polynomials ``w'Aw + b'w``, (budgets, draws, d, d) and (budgets, draws, d).

        `edges` (budgets,) are the spectral edges of the noise in A. Also whether A had no minimum: (budgets, draws).
        """
        return minimise_floored(A, b, FLOOR * edges[:, None])

    def worst_case(self, budget: Budget, problem: Problem) -> Pair:
        """The last site replaces one row by the other one of `worst_neighbours`; all other rows are zero."""
        worst = worst_neighbours(self.quadratic, self.scales(budget, problem), problem.d)
        return one_replaced_for_loss(self.loss, problem, [1.0], worst.other, other_label=-worst.label)

    def exposures(self, pair: Pair, budget: Budget) -> list[Exposure]:
        """The model, the noisy objective that it minimises, and what can be seen of the sites' messages."""
        both = [self.prepare(parties, np.random.default_rng(0)) for parties in pair]
        return [
            model_exposure(both, budget),
            *(self.exposure(view, both, budget) for view in self.views(both[0].problem)),
        ]

    def exposure(self, view: View, both: "Sequence[PreparedQuadratic]", budget: Budget) -> Exposure:
        """The coefficients that are released as a view sees them, one after the other."""
        problem, count = both[0].problem, both[0].count
        scales = self.scales(budget, problem)
        constant = math.isfinite(scales.constant) and (scales.constant > 0 or both[0].constant != both[1].constant)
        widths = np.array([scales.constant, scales.linear, scales.square][not constant :]) / count
        widths = np.where(widths > 0, widths, EXACT)

        def release(which: int, rng: Generator, draws: int, watch: Watch) -> None:
            used = both[which].scales([budget])
            both[which].noisy(used, rng, draws, ByCoefficient(watch, problem.d, used[0, not constant :] / widths))

        channel = self.sharing.channel(view, problem)
        apart = both[1].vector() - both[0].vector()
        moves = [np.linalg.norm(distinct(apart)) for distinct in coefficients(problem.d, constant)]
        mu = float(np.linalg.norm(moves / widths)) / channel.spread
        return transcript(view, release, lambda: Recorder(both, channel, widths), len(widths), mu=mu)


@dataclass(frozen=True)
class PreparedQuadratic:
    """The exact coefficients of one data set: L0, L1 (d,), L2 (d, d), means over `count` units. Not private."""

    algorithm: NoisyCoefficients
    problem: Problem
    count: int
    constant: float
    linear: Array
    square: Array

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """Noisy minimisers, the value of the noisy polynomial at each, and whether L2 left it without a minimum.

        `noisy_objective` is the released polynomial + lam/2 ||w||^2 at w. Where L0 is not released (`tight`), the exact
        one stands in: it moves no minimiser, and metrics are for the experimenter, not for publication. `trimmed` is 1
        where there was a direction without positive curvature, which had to be cut off (published: in spite of the
        ridge) or raised to the floor (tight).
        """
        scales = self.scales(budgets)
        edges = self.algorithm.spectral_edge(self.problem.d) * scales[:, 2]
        released = []
        for block in blocks(draws, self.problem.d):
            constant, b, A = self.noisy(scales, rng, block)
            w, trimmed = self.algorithm.minimisers(A, b, edges)
            value = np.sum(w * ((A @ w[..., None])[..., 0] + b), axis=-1)
            released.append((w, constant + value, trimmed.astype(float)))
        weights, values, trims = (np.concatenate(column, axis=1) for column in zip(*released, strict=True))
        return Release(weights, {"noisy_objective": values, "trimmed": trims})

    def vector(self) -> Array:
        """(L0, L1, L2 + lam/2 I) in one row of 1 + d + d^2 numbers."""
        square = self.square + self.algorithm.lam / 2 * np.eye(self.problem.d)
        return np.concatenate([[self.constant], self.linear, square.ravel()])

    def scales(self, budgets: Sequence[Budget]) -> Array:
        """The noise on (L0, L1, L2): (budgets, 3). Zero on an L0 that is not released."""
        per_budget = [self.algorithm.scales(budget, self.problem) for budget in budgets]
        scales = np.array([(s.constant, s.linear, s.square) for s in per_budget]) / self.count
        return np.where(np.isfinite(scales), scales, 0.0)

    def noisy(
        self, scales: Array, rng: Generator, draws: int, watch: Watch | None = None
    ) -> tuple[Array, Array, Array]:
        """Released L0, L1 and L2 + lam/2 I: (budgets, draws), (budgets, draws, d), (budgets, draws, d, d).

        `watch` records those of one budget as one message, laid out as `vector`.
        """
        constant, linear, square = scales.T[..., None]
        z0, z1, z2 = self.algorithm.unit_noise(rng, draws, self.problem, watch)
        exact = self.square + self.algorithm.lam / 2 * np.eye(self.problem.d)
        noisy = (
            self.constant + constant * z0,
            self.linear + linear[..., None] * z1,
            exact + square[..., None, None] * z2,
        )
        if watch is not None:
            watch.sent(flat(noisy), PreparedQuadratic.vector)
        return noisy


def blocks(draws: int, d: int) -> Iterator[int]:
    """The sizes of the blocks in which `draws` matrices (d, d) per budget are drawn."""
    most = max(1, _BLOCK // d**2)
    for start in range(0, draws, most):
        yield min(draws - start, most)


def flat(noisy: tuple[Array, Array, Array]) -> Array:
    """The coefficients that `noisy` makes under one budget, as one message: (draws, 1 + d + d^2)."""
    return np.concatenate([coefficient[0].reshape(coefficient.shape[1], -1) for coefficient in noisy], axis=1)


@dataclass
class ByCoefficient:
    """Reports L0, if it is seen, L1 and L2 to another watch as one message after the other.

    L2 is symmetric: d (d + 1)/2 of its numbers are reported, those off the diagonal times sqrt 2, because two noises
    are averaged there; so all noise in it has one scale. `units` are the scales of the drawn noise over those that are
    counted, (2,) or (3,).
    """

    watch: Watch
    d: int
    units: Array
    parts: Array | None = None

    def drawn(self, parts: Array | Single) -> None:
        """Keep the noise for the coefficients."""
        self.parts = np.asarray(parts, dtype=float)

    def sent(self, message: Array | Single, exact: Callable[[PreparedQuadratic], Array]) -> None:
        """Report one coefficient after the other, each with its noise."""
        for distinct, unit in zip(coefficients(self.d, len(self.units) == 3), self.units, strict=True):
            if self.parts is not None:
                self.watch.drawn(unit * distinct(self.parts))
            numbers = distinct(np.asarray(message, dtype=float))
            self.watch.sent(numbers, partial(_exact, numbers.shape, distinct, exact))


def coefficients(d: int, constant: bool) -> Iterator[Callable[[Array], Array]]:
    """Functions of vectors (..., 1 + d + d^2): the distinct numbers of each coefficient, (..., k)."""
    i, j = np.triu_indices(d)

    def square(vectors: Array) -> Array:
        both: Array = vectors.take(1 + d + d * i + j, axis=-1) + vectors.take(1 + d + d * j + i, axis=-1)
        both /= np.where(i == j, 2, math.sqrt(2))
        return both

    if constant:
        yield lambda vectors: vectors[..., :1]
    yield lambda vectors: vectors[..., 1 : 1 + d]
    yield square


def _exact(
    shape: tuple[int, ...],
    distinct: Callable[[Array], Array],
    exact: Callable[[PreparedQuadratic], Array],
    prepared: PreparedQuadratic,
) -> Array:
    return np.broadcast_to(distinct(exact(prepared)), shape)
