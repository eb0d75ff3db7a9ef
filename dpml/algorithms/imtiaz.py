"""Imtiaz, Mohammadi & Sarwate 2019: the functional mechanism over M sites, with and without correlated noise.

The empirical risk is written as a polynomial in w, exactly (squared loss) or to second order at 0 (logistic),

    f(w) = L0 + L1'w + w'L2 w,    L0 = mean c0(y),  L1 = mean c1(y) x,  L2 = mean c2 x x',

its coefficients are released with noise, and w minimises what is left. Everything here counts noise in one way: `T_j`
is the standard deviation (Laplace: the scale) of the noise that reaches N times the coefficient ``L_j``, after all
sites are summed. Site k sends N_k/N of its own coefficients (the weights of the paper's Remark 3), so that sites of any
size behave alike: their messages move by the same amount when a sample is replaced.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from dpml.algorithms import Release, require_domain
from dpml.algorithms.exposure import (
    Exposure,
    Messages,
    Pair,
    Sample,
    gaussian,
    gaussian_messages,
    laplace_score,
    minimiser_score,
    one_replaced,
    released_models,
)
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.optim.losses import Loss, Quadratic, mean_loss
from dpml.optim.solvers import (
    minimise_convex,
    minimise_least_squares_in_box,
    minimise_quadratic,
    minimise_quadratic_in_ball,
    minimise_quadratic_in_box,
    optimum,
)
from dpml.privacy import CALIBRATIONS, Budget, Calibration, Guarantee, Problem, View, gdp, noise

Variant = Literal["paper", "authors"]

# The paper's L2 sensitivities of (L0, L1, L2), times N (Secs. 4.3 and H).
PUBLISHED_SENSITIVITY = {"squared": (1.0, 4.0, math.sqrt(2)), "logistic": (0.0, 1.0, math.sqrt(2) / 8)}

# Zero-sum noise costs nothing: it cancels in the sum. `tight` makes it this much wider than the noise that stays, and
# the colluders' view then loses less than one part in a million against no limit at all.
MASK = 1e3

# The norm of w at which `tight` makes the noise in the gradient least, unless `radius` says otherwise. It depends on no
# private data. For w of any norm up to 8, the published split of the same mu has at least 1.3 times the energy of that
# noise (squared), or at least 0.96 times (logistic).
TYPICAL_NORM = {"squared": 2.0, "logistic": 4.0}

# Matrix entries per budget in a block of draws. A constant, so that the noise does not depend on the budgets asked for.
_BLOCK = 1 << 18


@dataclass(frozen=True)
class Scales:
    """Noise on N times (L0, L1, L2): standard deviations, or Laplace scales. `constant` = inf: L0 is not released."""

    constant: float
    linear: float
    square: float

    def __post_init__(self) -> None:
        if not (self.constant >= 0 and 0 <= self.linear < math.inf and 0 <= self.square < math.inf):
            raise ValueError(f"not a noise scale: {self}")

    def vector(self, d: int) -> Array:
        """The scale of each of the 1 + d + d^2 numbers."""
        return np.repeat([self.constant, self.linear, self.square], [1, d, d * d])


NO_NOISE = Scales(0.0, 0.0, 0.0)


def joint_sensitivity(quadratic: Quadratic, scales: Scales) -> float:
    """The mu of releasing (L0, L1, L2) together: their joint L2 sensitivity in units of their noise, exactly.

    Replacing (x, y) by (x', y') moves N (L0, L1, L2) by (c0 - c0', c1 x - c1' x', c2 (xx' - x'x'')). With
    ``C, A, B`` the squares of (constant_range, linear_bound, square) over the scales, s = |c1'/c1| <= 1 and c
    the cosine between x and x', the squared distance is

        C (1 - s^2)^2 + A (1 + s^2 + 2 s c) + B (2 - 2 c^2)

    at its largest, where rows of norm 1 and |c1| at its bound are worst (the distance grows with both). Over c it is
    largest at ``s A / 2B`` or, if that is more than 1, at 1; the candidates for s are below. The published scales give
    1.5 (squared) and 1.25 (logistic) times the mu that the paper counts.
    """
    if scales.linear == 0 or scales.square == 0:
        return math.inf
    return worst_neighbours(quadratic, scales)[0]


def worst_neighbours(quadratic: Quadratic, scales: Scales) -> tuple[float, float, float]:
    """The largest distance of `joint_sensitivity` and the (s, c) that have it."""
    C = 0.0 if quadratic.constant_range == 0 else _squared_ratio(quadratic.constant_range, scales.constant)
    A = _squared_ratio(quadratic.linear_bound, scales.linear)
    B = _squared_ratio(quadratic.square, scales.square)

    def cosine(s: float) -> float:
        return min(1.0, s * A / (2 * B))

    def distance(s: float) -> float:
        c = cosine(s)
        return C * (1 - s * s) ** 2 + A * (1 + s * s + 2 * s * c) + B * (2 - 2 * c * c)

    # With c inside, convex in s^2: the ends. With c = 1, the derivative (1+s)(2A - 4C s(1-s)) has its root at:
    candidates = [0.0, min(1.0, 2 * B / A), 1.0]
    if C > 2 * A:
        candidates.append((1 - math.sqrt(1 - 2 * A / C)) / 2)
    s = max(candidates, key=distance)
    return math.sqrt(distance(s)), s, cosine(s)


def _squared_ratio(value: float, scale: float) -> float:
    return math.inf if scale == 0 else (value / scale) ** 2


def tight_scales(quadratic: Quadratic, d: int, radius: float, mu: float) -> Scales:
    """The split of a mu between L1 and L2 that perturbs the gradient least at a model of norm `radius`; no L0.

    The noise in the gradient, ``z1 + 2 z2 w``, has the energy ``d T1^2 + 2 (d + 1) ||w||^2 T2^2``; with t = A/B (see
    `joint_sensitivity`) and mu^2 = B (2 + 2t + t^2/2) its stationary point solves the cubic below, and lies at t < 2.
    """
    if math.isinf(mu):
        return NO_NOISE
    P = d * quadratic.linear_bound**2
    K = 2 * (d + 1) * (radius * quadratic.square) ** 2
    t = float(brentq(lambda t: K * t**3 + (2 * K + P / 2) * t**2 - 2 * P, 0.0, 2.0, xtol=1e-12))
    root_B = mu / math.sqrt(2 + 2 * t + t * t / 2)
    return Scales(math.inf, quadratic.linear_bound / (root_B * math.sqrt(t)), quadratic.square / root_B)


def cape_whole_view(M: int, honest: int, spread: float) -> float:
    """mu of all that the aggregator and M - `honest` colluders see of a CAPE release, over that of the sum alone.

    The square is ``M/H + (1 - 1/H) / (s^2 + 1/M)`` for H honest sites and zero-sum noise of spread s (docs/privacy.md).
    """
    return math.sqrt(M / honest + (1 - 1 / honest) / (spread**2 + 1 / M))


def cape_views(problem: Problem, spread: float) -> dict[View, float]:
    """mu of every view of a CAPE release of anything, as a multiple of the sum's own."""
    M = problem.M
    one_message = spread**2 * (1 - 1 / M) + 1 / M
    return {
        "release": 1.0,
        "aggregate": 1.0,
        "client": 1 / math.sqrt(one_message),
        "transcript": cape_whole_view(M, M, spread),
        "colluders": cape_whole_view(M, problem.honest, spread),
    }


def conventional_views(problem: Problem) -> dict[View, float]:
    """The same when every site's message is protected by noise of its own alone."""
    alone = math.sqrt(problem.M)  # one message has 1/M of the summed variance
    return {"release": 1.0, "aggregate": 1.0, "client": alone, "transcript": alone, "colluders": alone}


@dataclass(frozen=True)
class FunctionalMechanism:
    """The improved functional mechanism at one trusted curator (Alg. 3), and the frame of the distributed ones.

    Args:
        loss: squared or logistic.
        calibration: `published` noise, or `tight`: the least noise proven to give (eps, delta) in the worst view.
        variant: `paper` solves as Zhang et al. 2012, Sec. 6: add a ridge, and trim the spectrum if that is not enough.
            `authors` is what the authors ran: minimise over the box [-1, 1]^d, from 1/sqrt(d) in every coordinate.
        lam: coefficient of lam/2 ||w||^2, part of the objective.
        radius: the norm of w that the `tight` split of the noise between L1 and L2 is best for; None: `TYPICAL_NORM`.
        ridge: the ridge, in units of the spectral edge of the noise on L2 (data-independent, so it costs no privacy).
    """

    name: ClassVar[str] = "fm"
    version: ClassVar[int] = 2
    claim: ClassVar[str] = "Imtiaz et al. 2019, Thm 2"

    loss: Loss
    calibration: Calibration = "published"
    variant: Variant = "paper"
    lam: float = 0.0
    radius: float | None = None
    ridge: float = 1.25

    def __post_init__(self) -> None:
        _check_fields(self.name, self.calibration, self.variant, self.lam, self.radius)
        if self.loss.quadratic is None:
            raise UserError(
                f"algo={self.name} needs a loss with a quadratic form, loss=squared or loss=logistic, "
                f"not loss={self.loss.name}."
            )
        if not self.ridge >= 0:
            raise UserError(f"algo.ridge must be at least 0, got {self.ridge}.")

    @property
    def quadratic(self) -> Quadratic:
        """The loss's polynomial form."""
        assert self.loss.quadratic is not None  # checked at birth
        return self.loss.quadratic

    @property
    def norm(self) -> float:
        """The norm of w that `tight` is shaped for."""
        return TYPICAL_NORM[self.loss.name] if self.radius is None else self.radius

    # What a distributed variant changes: the noise that its sites make, and who can see which part of it.

    def published_factor(self, M: int) -> float:
        """How much wider the summed noise is than the central mechanism's."""
        return 1.0

    def views(self, problem: Problem) -> dict[View, float]:
        """mu of every view the adversary may have, as a multiple of the summed release's own."""
        return {"release": 1.0}

    def summed_noise(self, rng: Generator, draws: int, M: int, size: int) -> Array:
        """The sum of all sites' noise, of variance 1: (draws, size)."""
        return noise.gaussian(rng, (draws, size))

    def rows(self, parties: Parties) -> slice:
        """Which private rows are used."""
        return slice(None)

    # What they share.

    def scales(self, budget: Budget, problem: Problem) -> Scales:
        """The noise of a release: the one place that says it, for drawing and for accounting alike."""
        if math.isinf(budget.eps):
            return NO_NOISE
        delta = budget.require_delta(f"algo={self.name}")
        if self.calibration == "tight":
            worst = max(self.views(problem).values())
            return tight_scales(self.quadratic, problem.d, self.norm, gdp.mu_of(budget.eps, delta) / worst)
        width = self.published_factor(problem.M) / gdp.classical_mu(budget.eps, delta)
        return Scales(*(width * sensitivity for sensitivity in PUBLISHED_SENSITIVITY[self.loss.name]))

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """Claimed (when published) and proven guarantee of every view; one sample is the unit."""
        delta = budget.require_delta(f"algo={self.name}")
        mu = joint_sensitivity(self.quadratic, self.scales(budget, problem))
        found = []
        for view, factor in self.views(problem).items():
            if self.calibration == "published":
                found.append(Guarantee(view, "sample", budget.eps, delta, "published", self.claim))
            found.append(Guarantee(view, "sample", gdp.eps_of(mu * factor, delta), delta, "proven", _GDP_SOURCE))
        return found

    def unit_noise(self, rng: Generator, draws: int, problem: Problem) -> tuple[Array, Array, Array]:
        """Unit noise on (L0, L1, L2): (draws,), (draws, d), (draws, d, d), the last symmetric.

        All d^2 entries of L2 get noise of their own; as ``w'Ew`` only sees the symmetric part of E, that is kept. Their
        antisymmetric part holds no data, so this is the same release.
        """
        d = problem.d
        flat = self.summed_noise(rng, draws, problem.M, 1 + d + d * d)
        square = flat[:, 1 + d :].reshape(draws, d, d)
        return flat[:, 0], flat[:, 1 : 1 + d], (square + square.transpose(0, 2, 1)) / 2

    def spectral_edge(self, d: int) -> float:
        """About the largest eigenvalue of the unit noise on L2 (the semicircle law's edge)."""
        return math.sqrt(2 * d)

    def prepare(self, parties: Parties, rng: Generator) -> "PreparedQuadratic":
        """Sum the coefficients; one pass over the data."""
        require_domain(parties, self.loss)
        rows = self.rows(parties)
        X, y = parties.X[rows], parties.y[rows]
        n = len(y)
        return PreparedQuadratic(
            self,
            problem=parties.problem,
            rows=n,
            constant=float(self.quadratic.constant(y).mean()),
            linear=self.quadratic.linear(y) @ X / n,
            square=self.quadratic.square * (X.T @ X) / n,
        )

    def messages(self, view: View, problem: Problem) -> Messages | None:
        """What a view sees of the sites' messages, in units of the summed noise; None where it sees only their sum."""
        return None

    def worst_case(self, budget: Budget, problem: Problem) -> Pair:
        """The last site replaces one row by the (s, c) of `worst_neighbours`; all other rows are zero."""
        _, s, c = worst_neighbours(self.quadratic, self.scales(budget, problem))
        return _replaced(self.loss, problem, [1.0, 0.0], [c, math.sqrt(1 - c * c)], other_label=-s)

    def exposures(self, pair: Pair, budget: Budget) -> list[Exposure]:
        """The model, the noisy objective that it minimises, and what can be seen of the sites' messages."""
        problem = pair[0].problem
        scales = self.scales(budget, problem)
        first, second = (self.prepare(parties, np.random.default_rng(0)) for parties in pair)
        both = first, second
        scale = scales.vector(problem.d)
        shift = first.rows * (second.vector() - first.vector())
        upper = _upper(problem.d)  # L2 is symmetric: off the diagonal two noises are averaged
        released = scale / first.rows

        def objective(which: int, rng: Generator, draws: int) -> Array:
            constant, linear, square = (part[0] for part in both[which].noisy(both[which].scales([budget]), rng, draws))
            return np.concatenate([constant[:, None], linear, square.reshape(draws, -1)], axis=1)[:, kept]

        noised = np.isfinite(scale) & ((scale > 0) | (shift != 0))  # what never moves may go without
        kept = (upper > 0) & noised
        means = first.vector()[kept], second.vector()[kept]
        found = [released_models(both, budget)]
        for view in self.views(problem):
            seen = self.messages(view, problem)
            if seen is None:
                found.append(self.objective_exposure(view, objective, means, released[kept], upper[kept] == 2))
            else:
                found.append(gaussian_messages(view, seen, shift[noised] / scale[noised]))
        return found

    def objective_exposure(
        self, view: View, sample: Sample, means: tuple[Array, Array], scale: Array, averaged: NDArray[np.bool_]
    ) -> Exposure:
        """The different coefficients (k,) and the scale of the noise on each; some are the mean of two noises."""
        return gaussian(view, sample, means, np.diag((scale / np.where(averaged, math.sqrt(2), 1.0)) ** 2))


@dataclass(frozen=True)
class PreparedQuadratic:
    """The exact coefficients of one data set: L0, L1 (d,), L2 (d, d) over `rows` rows. A trusted curator's secret."""

    algorithm: FunctionalMechanism
    problem: Problem
    rows: int
    constant: float
    linear: Array
    square: Array

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """Noisy minimisers, and for each the value of the noisy polynomial there and whether L2 had to be trimmed.

        `noisy_objective` is the released polynomial + lam/2 ||w||^2 at w. Where L0 is not released (`tight`), the exact
        one stands in: it moves no minimiser, and metrics are for the experimenter, not for publication.
        """
        algorithm, d = self.algorithm, self.problem.d
        scales = self.scales(budgets)
        ridge = algorithm.ridge * algorithm.spectral_edge(d) * scales[:, 2, None, None, None] * np.eye(d)
        parts = []
        for start in range(0, draws, max(1, _BLOCK // d**2)):
            block = min(draws - start, max(1, _BLOCK // d**2))
            constant, b, A = self.noisy(scales, rng, block)
            if algorithm.variant == "authors":
                flat = minimise_quadratic_in_box(A.reshape(-1, d, d), b.reshape(-1, d), np.full(d, 1 / math.sqrt(d)))
                w, trimmed = flat.reshape(b.shape), np.zeros(b.shape[:-1], dtype=bool)
            else:
                w, trimmed = minimise_quadratic(A + ridge, b)
            value = np.sum(w * ((A @ w[..., None])[..., 0] + b), axis=-1)
            parts.append((w, constant + value, trimmed.astype(float)))
        weights, values, trims = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
        return Release(weights, {"noisy_objective": values, "trimmed": trims})

    def vector(self) -> Array:
        """(L0, L1, L2 + lam/2 I) in one row of 1 + d + d^2 numbers."""
        square = self.square + self.algorithm.lam / 2 * np.eye(self.problem.d)
        return np.concatenate([[self.constant], self.linear, square.ravel()])

    def scales(self, budgets: Sequence[Budget]) -> Array:
        """The noise on (L0, L1, L2): (budgets, 3). Zero on an L0 that is not released."""
        found = [self.algorithm.scales(budget, self.problem) for budget in budgets]
        scales = np.array([(s.constant, s.linear, s.square) for s in found]) / self.rows
        return np.where(np.isfinite(scales), scales, 0.0)

    def noisy(self, scales: Array, rng: Generator, draws: int) -> tuple[Array, Array, Array]:
        """Released L0, L1 and L2 + lam/2 I: (budgets, draws), (budgets, draws, d), (budgets, draws, d, d)."""
        constant, linear, square = scales.T[..., None]
        z0, z1, z2 = self.algorithm.unit_noise(rng, draws, self.problem)
        exact = self.square + self.algorithm.lam / 2 * np.eye(self.problem.d)
        return (
            self.constant + constant * z0,
            self.linear + linear[..., None] * z1,
            exact + square[..., None, None] * z2,
        )


def cape_seen(view: View, problem: Problem, spread: float) -> Messages | None:
    """What a view sees of CAPE's messages, in units of the noise of their sum; None where it sees only the sum."""
    M = problem.M

    def one(rng: Generator, draws: int, size: int) -> Array:
        return noise.cape_messages(rng, draws, M, size, spread, 1 / math.sqrt(M))[0][:, -1:]

    if view == "client":
        return Messages(one, np.array([[spread**2 * (1 - 1 / M) + 1 / M]]), target=0)
    if view in ("release", "aggregate"):
        return None
    honest = M if view == "transcript" else problem.honest

    def all_honest(rng: Generator, draws: int, size: int) -> Array:
        """The honest sites' messages, with the broadcast mean put back, and the sum of their secrets."""
        sent, secret = noise.cape_messages(rng, draws, M, size, spread, 1 / math.sqrt(M))
        secret *= spread
        sent += secret.mean(axis=1, keepdims=True)
        return np.concatenate([sent[:, -honest:], secret[:, -honest:].sum(axis=1, keepdims=True)], axis=1)

    covariance = np.eye(honest + 1) * (spread**2 + 1 / M)
    covariance[-1] = covariance[:, -1] = spread**2
    covariance[-1, -1] = spread**2 * honest
    return Messages(all_honest, covariance, target=honest - 1)


def conventional_seen(view: View, problem: Problem) -> Messages | None:
    """The same where every site adds its own noise: a view sees the messages of the sites that do not collude."""
    if view in ("release", "aggregate"):
        return None
    M = problem.M
    honest = {"client": 1, "transcript": M, "colluders": problem.honest}[view]

    def sent(rng: Generator, draws: int, size: int) -> Array:
        return noise.gaussian_messages(rng, draws, M, size)[:, -honest:] / math.sqrt(M)

    return Messages(sent, np.eye(honest) / M, target=honest - 1)


@dataclass(frozen=True)
class CapeFM(FunctionalMechanism):
    """capeFM (Alg. 4): the central mechanism's noise without a trusted curator.

    Site k adds to its share of the coefficients a zero-sum ``e_k``, agreed on through secure aggregation, and its own
    ``g_k``. Only the latter survive the sum. With H honest sites, spread s of the zero-sum noise and 1/M the variance
    of ``g_k`` (the sum has variance 1), the whole view of the aggregator and the colluders - every site's message, the
    broadcast sum, the colluders' own noise - has ``mu^2 = M/H + (1 - 1/H) / (s^2 + 1/M)``. At the published s = 1 that
    is M/(M+1) (1 + M/H), where the paper's Theorem 1 has about 1: it inverts a covariance with a wrong factor and
    leaves the colluders' noise random. As `tight`, the zero-sum noise is wide enough to leave only M/H.

    `protocol=simulate` adds up the noise that the sites draw. With `secagg` every site's coefficients and noise go
    through the real protocol (`dpml.protocols.cape`), all budgets and a block of draws as one long vector: the same
    release up to rounding, for the price of key agreements, masks and M times the memory.
    """

    name = "capefm"
    claim = "Imtiaz et al. 2019, Thms 1 and 2"

    protocol: Literal["simulate", "secagg"] = "simulate"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.protocol not in ("simulate", "secagg"):
            raise UserError(f"algo.protocol must be simulate or secagg, got {self.protocol!r}.")

    def prepare(self, parties: Parties, rng: Generator) -> "PreparedQuadratic":
        pooled = super().prepare(parties, rng)
        if self.protocol == "simulate":
            return pooled
        shares = []
        for k in range(parties.problem.M):
            X, y = parties.X[parties.of(k)], parties.y[parties.of(k)]
            coefficients = (
                self.quadratic.constant(y).sum(),
                self.quadratic.linear(y) @ X,
                self.quadratic.square * X.T @ X,
            )
            shares.append(np.concatenate([np.ravel(part) for part in coefficients]) / pooled.rows)
        return PreparedSites(**vars(pooled), shares=np.array(shares))

    @property
    def spread(self) -> float:
        """Standard deviation of the zero-sum noise before centring, when the sum's is 1."""
        return MASK if self.calibration == "tight" else 1.0

    def views(self, problem: Problem) -> dict[View, float]:
        return cape_views(problem, self.spread)

    def messages(self, view: View, problem: Problem) -> Messages | None:
        return cape_seen(view, problem, self.spread)

    def summed_noise(self, rng: Generator, draws: int, M: int, size: int) -> Array:
        return noise.cape_total(rng, draws, M, size, shared=self.spread, own=1 / math.sqrt(M))


@dataclass(frozen=True)
class PreparedSites(PreparedQuadratic):
    """The coefficients as the sites have them: `shares` (M, 1 + d + d^2), whose sum is (L0, L1, L2)."""

    algorithm: CapeFM
    shares: Array

    def noisy(self, scales: Array, rng: Generator, draws: int) -> tuple[Array, Array, Array]:
        """What the aggregator of the real protocol has. An L0 that is not released is not sent either."""
        from dpml.protocols import in_process  # most runs need no cryptography
        from dpml.protocols.cape import Settings, cape_sum

        d = self.problem.d
        shares = self.shares.copy()
        exact = 0.0
        if self.algorithm.calibration == "tight":
            shares[:, 0], exact = 0.0, self.constant
        widths = np.repeat(scales, (1, d, d * d), axis=1)
        total = cape_sum(shares, widths, rng, Settings(in_process, draws, self.algorithm.spread)).total
        square = total[..., 1 + d :].reshape(*total.shape[:2], d, d)
        square = (square + square.transpose(0, 1, 3, 2)) / 2
        return exact + total[..., 0], total[..., 1 : 1 + d], square + self.algorithm.lam / 2 * np.eye(d)


class Conventional(FunctionalMechanism):
    """`conv` (Sec. 4.4): every site releases its own coefficients by the functional mechanism, the aggregator averages.

    Each message is protected by its own noise alone, so the aggregator and any colluders see what one message shows.
    """

    name = "conv"
    claim = "Imtiaz et al. 2019, Sec. 4.4"

    def published_factor(self, M: int) -> float:
        return math.sqrt(M)

    def views(self, problem: Problem) -> dict[View, float]:
        return conventional_views(problem)

    def messages(self, view: View, problem: Problem) -> Messages | None:
        return conventional_seen(view, problem)

    def summed_noise(self, rng: Generator, draws: int, M: int, size: int) -> Array:
        return noise.gaussian_total(rng, draws, M, size) / math.sqrt(M)


class Local(FunctionalMechanism):
    """`local`: the functional mechanism at the last site, on its own rows. The other sites reveal nothing."""

    name = "local"
    claim = "Imtiaz et al. 2019, Thm 2"

    def views(self, problem: Problem) -> dict[View, float]:
        return {"release": 1.0, "client": 1.0}

    def rows(self, parties: Parties) -> slice:
        return parties.of(len(parties.sizes) - 1)


class PureFunctionalMechanism(FunctionalMechanism):
    """`dpfm` (Zhang et al. 2012): Laplace noise on every coefficient, pure eps-DP at one trusted curator.

    Published: one scale Delta/eps, Delta = 2 (d+1)^2 (squared) or d^2/4 + 3d (logistic), on all d^2 entries of L2. By
    the L1 norms of what really moves (`l1_sensitivity`) that is far more than needed. `tight` noises L1 and the upper
    triangle of L2, whose sensitivities it splits eps between. `variant=authors` puts Delta into the Gaussian formula
    instead, as their scripts do: (eps, delta)-DP.
    """

    name = "dpfm"
    claim = "Zhang et al. 2012, as in Imtiaz et al. 2019, Secs. 4.1 and H"

    def __post_init__(self) -> None:
        super().__post_init__()
        _no_tight_authors(self.name, self.calibration, self.variant)

    def l1_sensitivity(self, d: int) -> tuple[float, float, float]:
        """Upper bounds on how far N (L0, L1, L2) move in L1 norm when one sample is replaced.

        ``||c1 x - c1' x'||_1 <= 2 linear_bound sqrt d``. For L2, ``||xx' - x'x''||_1 = max over sign matrices Z of
        x'Zx - x''Zx'``, at most the spread of Z's eigenvalues, and as their squares sum to d^2 that is at most
        ``sqrt 2 d``. `tight` counts entries above the diagonal once: half of that and of the diagonal's, at most 2.
        """
        q = self.quadratic
        square = math.sqrt(2) * d
        if self.calibration == "tight":
            square = (square + 2) / 2
        return q.constant_range, 2 * q.linear_bound * math.sqrt(d), q.square * square

    def scales(self, budget: Budget, problem: Problem) -> Scales:
        d = problem.d
        if math.isinf(budget.eps):
            return NO_NOISE
        if self.calibration == "tight":
            _, l1, l2 = self.l1_sensitivity(d)
            # least energy 2 d b1^2 + 8 d R^2 b2^2 of the noise in the gradient at norm R, on l1/b1 + l2/b2 = eps
            weight = (4 * self.norm**2) ** (1 / 3)
            k = (l1 ** (2 / 3) + weight * l2 ** (2 / 3)) / budget.eps
            return Scales(math.inf, k * l1 ** (1 / 3), k * l2 ** (1 / 3) / weight)
        delta_fm = 2.0 * (d + 1) ** 2 if self.loss.name == "squared" else d * d / 4 + 3.0 * d
        scale = delta_fm / budget.eps
        if self.variant == "authors":
            scale = delta_fm / gdp.classical_mu(budget.eps, budget.require_delta("algo=dpfm variant=authors"))
        constant = scale if self.quadratic.constant_range else 0.0
        return Scales(constant, scale, scale)

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        scales = self.scales(budget, problem)
        if self.variant == "authors":
            delta = budget.require_delta("algo=dpfm variant=authors")
            eps = gdp.eps_of(joint_sensitivity(self.quadratic, scales), delta)
            claim = Guarantee("release", "sample", budget.eps, delta, "published", "the authors' scripts")
            return [claim, Guarantee("release", "sample", eps, delta, "proven", _GDP_SOURCE)]
        if math.isinf(budget.eps):
            eps = math.inf
        else:
            moves = zip(self.l1_sensitivity(problem.d), (scales.constant, scales.linear, scales.square), strict=True)
            eps = sum(move / scale for move, scale in moves if move)
        proven = Guarantee("release", "sample", eps, 0.0, "proven", "L1 sensitivity (imtiaz.PureFunctionalMechanism)")
        if self.calibration == "tight":
            return [proven]
        return [Guarantee("release", "sample", budget.eps, 0.0, "published", self.claim), proven]

    def unit_noise(self, rng: Generator, draws: int, problem: Problem) -> tuple[Array, Array, Array]:
        if self.variant == "authors":
            return super().unit_noise(rng, draws, problem)
        d = problem.d
        flat = noise.laplace(rng, (draws, 1 + d + d * d))
        square = flat[:, 1 + d :].reshape(draws, d, d)
        if self.calibration == "tight":
            square = np.triu(square) + np.triu(square, 1).transpose(0, 2, 1)
        else:
            square = (square + square.transpose(0, 2, 1)) / 2
        return flat[:, 0], flat[:, 1 : 1 + d], square

    def worst_case(self, budget: Budget, problem: Problem) -> Pair:
        """Rows whose entries are as even as they can be, so that their L1 norms are largest; signs alternate in one."""
        if self.variant == "authors":
            return super().worst_case(budget, problem)
        even = np.full(problem.d, 1 / math.sqrt(problem.d))
        return _replaced(self.loss, problem, even, even * (-1.0) ** np.arange(problem.d), other_label=-1.0)

    def objective_exposure(
        self, view: View, sample: Sample, means: tuple[Array, Array], scale: Array, averaged: NDArray[np.bool_]
    ) -> Exposure:
        if self.variant == "authors":
            return super().objective_exposure(view, sample, means, scale, averaged)
        averaged = averaged & (self.calibration == "published")
        unit = scale / np.where(averaged, 2, 1)
        first, second = means

        def log_density(x: Array) -> Array:
            """Of Laplace noise, or of the mean of two, (1 + |x|) e^-|x| / 4 in units of half their scale."""
            found: Array = np.sum(np.where(averaged, np.log1p(np.abs(x)), 0.0) - np.abs(x), axis=1)
            return found

        def score(seen: Array) -> Array:
            return log_density((seen - second) / unit) - log_density((seen - first) / unit)

        far = float(np.sum(np.abs(second - first) / unit))
        return Exposure(view, sample, score, distance=far)

    def spectral_edge(self, d: int) -> float:
        # off-diagonal variance: 2 when mirrored, 1 when two entries of variance 2 are averaged, 1/2 for Gaussians
        variance = 0.5 if self.variant == "authors" else 2.0 if self.calibration == "tight" else 1.0
        return 2 * math.sqrt(variance * d)


@dataclass(frozen=True)
class ObjectivePerturbation:
    """`objpert` (Chaudhuri, Monteleoni & Sarwate 2011, Alg. 2): minimise the risk + b'w/N + extra/2 ||w||^2, b private.

    b has density proportional to exp(-beta ||b||), beta = eps'/(2 zeta), with zeta the Lipschitz constant of the loss;
    eps' is what is left of eps after the curvature c of the loss has cost its share. Pure eps-DP, one trusted curator.
    The squared loss is not Lipschitz on R^d: it is minimised over the ball ||w|| <= `radius`, where its gradient is at
    most zeta = 2 (1 + radius) (beyond the ball it may be continued linearly without moving the minimiser, so the proof
    holds; with a constraint it is Kifer, Smith & Thakurta 2012, Thm 2).

    Proof and room: for neighbours, ``||b - b'|| <= 2 zeta``, and the Jacobians of b <-> w differ by the exchange of one
    rank-one term of at most c in a matrix that stays above N (lam + extra): a ratio of at most
    ``1 + c/(N (lam + extra))``, once, where the paper pays it twice. `tight` pays once, and at most half of eps.
    `variant=authors` is what the capeFM authors plot: the minimiser over the box, plus noise with beta = eps/2 whatever
    N. Its only proof is the diameter of the box, 2 sqrt d.
    """

    name: ClassVar[str] = "objpert"
    version: ClassVar[int] = 1

    loss: Loss
    calibration: Calibration = "published"
    variant: Variant = "paper"
    lam: float = 0.0
    radius: float = 1.0

    def __post_init__(self) -> None:
        _check_fields(self.name, self.calibration, self.variant, self.lam, self.radius)
        _no_tight_authors(self.name, self.calibration, self.variant)
        if self.loss.quadratic is None:
            raise UserError(
                f"algo=objpert needs a convex loss with one score, loss=squared or loss=logistic, "
                f"not loss={self.loss.name}."
            )

    @property
    def zeta(self) -> float:
        """A bound on the norm of one sample's gradient."""
        return self.loss.lipschitz if self.loss.lipschitz is not None else 2 * (1 + self.radius)

    def calibrate(self, budget: Budget, problem: Problem) -> tuple[float, float]:
        """(1/beta, extra): the scale of b, and the strong convexity added to lam."""
        eps, N, c = budget.eps, problem.N, self.loss.smoothness
        if math.isinf(eps):
            return 0.0, 0.0
        if self.variant == "authors":
            return 2 / eps, 0.0
        factors = 1 if self.calibration == "tight" else 2
        curvature = factors * math.log1p(c / (N * self.lam)) if self.lam > 0 else math.inf
        left = eps - curvature
        if left > 0 and (self.calibration == "published" or left >= eps / 2):
            return 2 * self.zeta / left, 0.0
        extra = c / (N * math.expm1(eps / (2 * factors))) - self.lam
        return 2 * self.zeta / (eps / 2), extra

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """Claimed (when published) and proven eps; delta is 0."""
        scale, extra = self.calibrate(budget, problem)
        if math.isinf(budget.eps):
            eps, source = math.inf, "no noise"
        elif self.variant == "authors":
            eps, source = 2 * math.sqrt(problem.d) / scale, "the box [-1, 1]^d has diameter 2 sqrt d"
        else:
            curvature = math.log1p(self.loss.smoothness / (problem.N * (self.lam + extra)))
            eps, source = (
                2 * self.zeta / scale + curvature,
                "noise + one Jacobian factor (imtiaz.ObjectivePerturbation)",
            )
        proven = Guarantee("release", "sample", eps, 0.0, "proven", source)
        if self.calibration == "tight":
            return [proven]
        claim = "the authors' scripts" if self.variant == "authors" else "Chaudhuri et al. 2011, Thm 9"
        return [Guarantee("release", "sample", budget.eps, 0.0, "published", claim), proven]

    def worst_case(self, budget: Budget, problem: Problem) -> Pair:
        """A row changes its label, and so turns its gradient."""
        return _replaced(self.loss, problem, [1.0], [1.0], other_label=-1.0)

    def exposures(self, pair: Pair, budget: Budget) -> list[Exposure]:
        """The model. Its density is that of the noise which makes it the minimiser, times a Jacobian."""
        both = [self.prepare(parties, np.random.default_rng(0)) for parties in pair]
        scale, extra = self.calibrate(budget, pair[0].problem)
        found = released_models(both, budget)
        if self.variant == "authors":
            first, second = (box_minimiser(self.loss, p.X, p.y, self.lam) for p in pair)
            far = float(np.linalg.norm(second - first)) / scale
            return [replace(found, score=laplace_score(scale, first, second), distance=far)]
        if self.loss.lipschitz is None:  # minimisers on the ball's surface have no density
            return [found]

        def log_noise(b: Array) -> Array:
            return -np.linalg.norm(b, axis=1) / scale

        return [replace(found, score=minimiser_score(self.loss, pair, self.lam + extra, log_noise))]

    def prepare(self, parties: Parties, rng: Generator) -> "PreparedObjective":
        """Nothing to do before the noise is known, except what `authors` does: the minimiser over the box."""
        require_domain(parties, self.loss)
        return PreparedObjective(self, parties)


@dataclass(frozen=True)
class PreparedObjective:
    """Objective perturbation's data. Each draw is a minimisation of its own; all run together."""

    algorithm: ObjectivePerturbation
    parties: Parties

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """Minimisers of the perturbed objectives, to a gradient norm of 1e-9: the proof is about exact minimisers."""
        algorithm, X, y = self.algorithm, self.parties.X, self.parties.y
        problem = self.parties.problem
        calibrated = [algorithm.calibrate(budget, problem) for budget in budgets]
        scale = np.array([scale for scale, _ in calibrated])[:, None, None]
        extra = np.repeat([extra for _, extra in calibrated], draws)
        b = scale * noise.l2_laplace(rng, draws, problem.d)
        if algorithm.variant == "authors":
            weights = box_minimiser(algorithm.loss, X, y, algorithm.lam) + b
            values = mean_loss(algorithm.loss, X, y, weights.reshape(-1, problem.d)).reshape(weights.shape[:-1])
            return Release(weights, {"noisy_objective": values})
        tilt = b.reshape(-1, problem.d) / problem.N
        if algorithm.loss.lipschitz is None:
            A = X.T @ X / problem.N
            tilt = tilt - 2 * y @ X / problem.N
            flat = minimise_quadratic_in_ball(A, tilt, algorithm.radius, shift=(algorithm.lam + extra) / 2)
        else:
            flat = minimise_convex(algorithm.loss, X, y, algorithm.lam + extra, tilt)
        return Release(flat.reshape(b.shape))


@dataclass(frozen=True)
class NonPrivate:
    """`nonpriv`: the exact minimiser of the pooled risk + lam/2 ||w||^2, whatever the budget. No privacy.

    `variant=authors` minimises over the box [-1, 1]^d, as the other algorithms of that variant do.
    """

    name: ClassVar[str] = "nonpriv"
    version: ClassVar[int] = 1

    loss: Loss
    calibration: Calibration = "published"
    variant: Variant = "paper"
    lam: float = 0.0

    def __post_init__(self) -> None:
        _check_fields(self.name, self.calibration, self.variant, self.lam)

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """None: eps is infinite."""
        return [
            Guarantee("release", "sample", math.inf, 0.0, "published", "no privacy is claimed"),
            Guarantee("release", "sample", math.inf, 0.0, "proven", "no noise"),
        ]

    def prepare(self, parties: Parties, rng: Generator) -> "PreparedModel":
        """Minimise once."""
        self.loss.check_labels(parties.y)
        minimise = box_minimiser if self.variant == "authors" else optimum
        w = minimise(self.loss, parties.X, parties.y, self.lam)
        value = mean_loss(self.loss, parties.X, parties.y, w[None])[0] + self.lam / 2 * float(w @ w)
        return PreparedModel(w, float(value))


@dataclass(frozen=True)
class PreparedModel:
    """A model that is released as it is: `weights` (d,) and the value of its objective."""

    weights: Array
    value: float

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """The same model for every budget and draw."""
        shape = (len(budgets), draws)
        weights = np.broadcast_to(self.weights, (*shape, len(self.weights)))
        return Release(weights, {"noisy_objective": np.full(shape, self.value)})


def box_minimiser(loss: Loss, X: Array, y: Array, lam: float) -> Array:
    """The minimiser of the loss's quadratic form + lam/2 ||w||^2 over the box [-1, 1]^d: (d,)."""
    if loss.quadratic is None:
        raise UserError(f"algo.variant=authors needs loss=squared or loss=logistic, not loss={loss.name}.")
    n, d = X.shape
    A = loss.quadratic.square * (X.T @ X) / n + lam / 2 * np.eye(d)
    b = loss.quadratic.linear(y) @ X / n
    return minimise_least_squares_in_box(A, b)


def _upper(d: int) -> Array:
    """Which of the 1 + d + d^2 coefficients are different, for symmetric L2: 1, off the diagonal 2, below it 0."""
    square = 1 + np.triu(np.ones((d, d)), 1) - 2 * np.tril(np.ones((d, d)), -1)
    return np.concatenate([np.ones(1 + d), np.maximum(square, 0).ravel()])


def _replaced(loss: Loss, problem: Problem, row: ArrayLike, other: ArrayLike, other_label: float) -> Pair:
    """Neighbours whose last row (label 1) is replaced; a label that is to be turned is -1."""
    if loss.name == "squared":
        return one_replaced("regression", problem, row, other, (1.0, other_label))
    return one_replaced("binary", problem, row, other)


_GDP_SOURCE = "Gaussian DP of the joint view (imtiaz.joint_sensitivity, views)"


def _check_fields(name: str, calibration: str, variant: str, lam: float, radius: float | None = None) -> None:
    if calibration not in CALIBRATIONS:
        raise UserError(f"calibration must be one of {', '.join(CALIBRATIONS)}, got {calibration!r}.")
    if variant not in ("paper", "authors"):
        raise UserError(f"algo.variant of {name} must be paper or authors, got {variant!r}.")
    if not 0 <= lam < math.inf:
        raise UserError(f"algo.lam must be a number >= 0, got {lam}.")
    if radius is not None and not 0 < radius < math.inf:
        raise UserError(f"algo.radius must be a positive number, got {radius}.")


def _no_tight_authors(name: str, calibration: str, variant: str) -> None:
    if variant == "authors" and calibration == "tight":
        raise UserError(f"algo={name} algo.variant=authors is a published curve only: set calibration=published.")
