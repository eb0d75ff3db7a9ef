"""Objective perturbation: minimise the risk plus a random linear term and a ridge, exactly.

`objpert` (Chaudhuri, Monteleoni & Sarwate 2011) draws an L2-Laplace term, for pure eps-DP. `gop` (Rajkumar & Agarwal
2012, Alg. 4) draws a Gaussian one, ``argmin J(w) + (1/N) eta'w + Delta/2 ||w||^2`` with
``J(w) = (1/N) sum log(1 + exp(-y_i x_i'w)) + lam/2 ||w||^2`` over rows in the unit ball. One sample is the unit.
How noise and ridge are chosen: `perturbed_objectives`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.random import Generator

from dpml.algorithms import Mechanism, Release, require_domain
from dpml.algorithms.exposure import Exposure, Pair, laplace_score, model_exposure
from dpml.algorithms.hyperparameters import (
    VARIANTS,
    RegularisedLogistic,
    Variant,
    check_common,
    check_not_negative,
    check_positive,
    check_published_only,
)
from dpml.algorithms.minimisers import (
    gaussian_log_density,
    gaussian_mu,
    held_pair,
    laplace_log_density,
    largest_loss,
    minimiser_score,
)
from dpml.algorithms.neighbours import one_replaced_for_loss, turned_label
from dpml.algorithms.perturbed_objectives import (
    Perturbation,
    best_ridge,
    optimality_bound,
    over_expm1,
    perturbed_minimisers,
    published_perturbation,
    solver_tolerance,
    tight_perturbation,
    typical_norm,
)
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.optim.convex import minimise_convex
from dpml.optim.interior_point import stopped_model
from dpml.optim.losses import Loss, ShiftedLogistic, mean_loss
from dpml.optim.quadratic import minimise_quadratic_in_ball
from dpml.privacy import Budget, Calibration, Guarantee, Problem, noise
from dpml.privacy.proofs import objective_perturbation as objective

# The relative excess of the scores' distance over that of the pair up to which they count as normal.
NEARLY = 0.01


@dataclass(frozen=True)
class ObjectivePerturbation:
    """`objpert` (Chaudhuri, Monteleoni & Sarwate 2011, Alg. 2): minimise the risk + b'w/N + extra/2 ||w||^2, b private.

    b has density proportional to exp(-beta ||b||), beta = eps'/(2 zeta), with zeta the Lipschitz constant of the loss;
    eps' is what is left of eps after the curvature c of the loss has cost its share. Pure eps-DP, one trusted curator.
    The squared loss is not Lipschitz on R^d: it is minimised over the ball ||w|| <= `radius`, where its gradient is at
    most zeta = 2 (1 + radius) (beyond the ball it may be continued linearly without moving the minimiser, so the proof
    holds; with a constraint it is Kifer, Smith & Thakurta 2012, Thm 2).

    The paper pays for noise and curvature apart, for the curvature twice. Proven is, for the logistic loss, that the
    curvature costs nothing where N (lam + extra) >= 1/beta, and little below (`proofs.objective_perturbation`). For the
    squared loss, ``||b - b'|| <= 2 zeta``, and the Jacobians of b <-> w differ by the exchange of one rank-one term of
    at most c in a matrix that stays above N (lam + extra): a factor ``1 + c/(N (lam + extra))``, once.
    `variant=authors` is what the capeFM authors plot: the model in the box at which their solver stops, plus noise with
    beta = eps/2 whatever N. Its only proof is the diameter of the box, 2 sqrt d, wherever in it the solver stops.

    Args:
        variant: `paper`, or `authors`, output noise that ignores N, as the authors plot it.
        lam: coefficient of lam/2 ||w||^2.
        radius: of the ball over which the squared loss is minimised.
    """

    name: ClassVar[str] = "objpert"
    auxiliary: ClassVar[float] = 0.0

    loss: Loss
    calibration: Calibration = "published"
    variant: Variant = "paper"
    lam: float = 0.0
    radius: float = 1.0

    def __post_init__(self) -> None:
        check_common(self, ("squared", "logistic"), VARIANTS)
        check_published_only(self)
        check_positive("algo.radius", self.radius)

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
        if self.calibration == "tight":
            ridge = max(N * self.lam, self.ridge(eps, problem.d))
            return 1 / self.beta(eps, ridge), max(0.0, ridge / N - self.lam)
        curvature = 2 * math.log1p(c / (N * self.lam)) if self.lam > 0 else math.inf
        if eps > curvature:
            return 2 * self.zeta / (eps - curvature), 0.0
        return 2 * self.zeta / (eps / 2), max(0.0, c / N * over_expm1(eps / 4) - self.lam)

    def ridge(self, eps: float, d: int) -> float:
        """The best R = N (lam + extra), if lam leaves the choice."""
        c = self.loss.smoothness
        least = c * over_expm1(eps) * (1 + 1e-6)  # with less, no noise is enough

        def energy(ridge: float) -> float:
            return d * (d + 1) / self.beta(eps, ridge) ** 2

        if self.loss.lipschitz is not None:  # more than 2/eps lessens no noise
            return best_ridge(energy, typical_norm(self.lam), 2 / eps, least, 2 / eps)
        return best_ridge(energy, self.radius, max(c * over_expm1(eps / 2), 1 / eps), least, math.inf)

    def beta(self, eps: float, ridge: float) -> float:
        """The largest beta, so the least noise, that is proven to be enough."""
        if self.loss.lipschitz is not None:
            return objective.beta_of(eps, ridge)
        return (eps - math.log1p(self.loss.smoothness / ridge)) / (2 * self.zeta)

    def proven_eps(self, scale: float, ridge: float) -> float:
        """The eps that is proven for noise of this scale; `ridge` is N (lam + extra)."""
        if self.loss.lipschitz is not None:
            return objective.pure_eps_of(1 / scale, ridge)
        return 2 * self.zeta / scale + (math.log1p(self.loss.smoothness / ridge) if ridge > 0 else math.inf)

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """Claimed (when published) and proven eps; delta is 0."""
        scale, extra = self.calibrate(budget, problem)
        if math.isinf(budget.eps):
            eps, source = math.inf, "no noise"
        elif self.variant == "authors":
            eps, source = 2 * math.sqrt(problem.d) / scale, "the box [-1, 1]^d has diameter 2 sqrt d"
        else:
            eps = self.proven_eps(scale, problem.N * (self.lam + extra))
            source = "dpml.privacy.proofs.objective_perturbation"
            if math.isinf(eps):
                source = "no proof without a ridge"
            elif self.loss.lipschitz is None:
                source = "noise + one Jacobian factor (objective_perturbation)"
        proven = Guarantee("release", "sample", eps, 0.0, "proven", source)
        if self.calibration == "tight":
            return [proven]
        claim = "the authors' scripts" if self.variant == "authors" else "Chaudhuri et al. 2011, Thm 9"
        return [Guarantee("release", "sample", budget.eps, 0.0, "published", claim), proven]

    def worst_case(self, budget: Budget, problem: Problem) -> Pair:
        """Many rows hold w where a row and its successor have long gradients; else a row changes its label."""
        if self.variant == "authors" or self.loss.lipschitz is None or problem.d == 1:
            return one_replaced_for_loss(self.loss, problem, [1.0], [1.0], other_label=-1.0)
        scale, extra = self.calibrate(budget, problem)
        ridge = problem.N * (self.lam + extra)
        return held_pair(self.loss, problem, ridge, lambda pair: largest_loss(self.loss, pair, ridge, scale))

    def exposures(self, pair: Pair, budget: Budget) -> list[Exposure]:
        """The model. Its density is that of the noise which makes it the minimiser, times a Jacobian."""
        both = [self.prepare(parties, np.random.default_rng(0)) for parties in pair]
        scale, extra = self.calibrate(budget, pair[0].problem)
        exposure = model_exposure(both, budget)
        if self.variant == "authors":
            first, second = (stopped_model(self.loss, p.X, p.y, self.lam) for p in pair)
            distance = float(np.linalg.norm(second - first)) / scale
            return [replace(exposure, score=laplace_score(scale, first, second), loss=distance)]
        if self.loss.lipschitz is None:  # minimisers on the ball's surface have no density
            return [exposure]
        rows, ridge = [parties.folded for parties in pair], pair[0].problem.N * (self.lam + extra)
        score = minimiser_score(self.loss, rows, ridge, laplace_log_density(scale))
        return [replace(exposure, score=score, loss=largest_loss(self.loss, rows, ridge, scale))]

    def prepare(self, parties: Parties, rng: Generator) -> "PreparedLaplaceObjective":
        """Nothing to do before the noise is known; `authors` fits the model in the box."""
        require_domain(parties, self.loss)
        return PreparedLaplaceObjective(self, parties)


@dataclass(frozen=True)
class PreparedLaplaceObjective:
    """The data of `objpert`. Each draw is a minimisation of its own; all run together."""

    algorithm: ObjectivePerturbation
    parties: Parties

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """Minimisers of the perturbed objectives, to `solver_tolerance`: the proof is about exact minimisers."""
        algorithm, X, y = self.algorithm, self.parties.X, self.parties.y
        problem = self.parties.problem
        calibrated = [algorithm.calibrate(budget, problem) for budget in budgets]
        scale = np.array([scale for scale, _ in calibrated])[:, None, None]
        extra = np.repeat([extra for _, extra in calibrated], draws)
        b = scale * noise.l2_laplace(rng, draws, problem.d)
        if algorithm.variant == "authors":
            weights = stopped_model(algorithm.loss, X, y, algorithm.lam) + b
            values = mean_loss(algorithm.loss, X, y, weights.reshape(-1, problem.d)).reshape(weights.shape[:-1])
            return Release(weights, {"noisy_objective": values})
        tilt = b.reshape(-1, problem.d) / problem.N
        if algorithm.loss.lipschitz is None:
            A = X.T @ X / problem.N
            tilt = tilt - 2 * y @ X / problem.N
            flat = minimise_quadratic_in_ball(A, tilt, algorithm.radius, shift=(algorithm.lam + extra) / 2)
        else:
            few, labels, counts = self.parties.folded
            flat = minimise_convex(
                algorithm.loss, few, labels, algorithm.lam + extra, tilt, counts, solver_tolerance(problem.N)
            )
        return Release(flat.reshape(b.shape))


@dataclass(frozen=True)
class GaussianObjectivePerturbation(RegularisedLogistic):
    """`gop` (Alg. 4): the minimiser of ``J(w) + (1/N) eta'w + Delta/2 ||w||^2`` at one trusted curator.

    With a shift b the loss of a row is ``log(1 + exp(b - y x'w))``: the proof holds as it stands (docs/privacy/
    perturbed_minima.md), while every row asks for a margin of b. 2 did well on Adult. J, whose optimality gap is
    reported, keeps the logistic loss.

    Args:
        lam: coefficient of lam/2 ||w||^2; None: 0.01 (`published`), or 0 (`tight`, where the proof adds the ridge).
        shift: margin b >= 0 of the loss log(1 + exp(b - y x'w)) that is minimised, for `tight` noise; 2 did well on
            Adult.
    """

    name: ClassVar[str] = "gop"
    published_lam: ClassVar[float] = 0.01
    """The default lam of the published noise; where it is positive, that noise needs a positive one."""

    shift: float = 0.0
    if not TYPE_CHECKING:  # on the object it is a number
        lam: float | None = None

    def __post_init__(self) -> None:
        if self.lam is None:
            object.__setattr__(self, "lam", 0.0 if self.tight else self.published_lam)
        check_common(self, ("logistic",), self.variants)
        check_not_negative(f"algo.shift of {self.name}", self.shift)
        if self.tight:
            return
        if self.published_lam > 0:
            check_positive(f"algo.lam of {self.name}", self.lam)
        if self.shift > 0:
            raise UserError(f"algo.shift={self.shift:g} of {self.name} is in no paper: set calibration=tight.")

    @property
    def trained(self) -> Loss:
        """The loss that is minimised."""
        return ShiftedLogistic(self.shift) if self.shift > 0 else self.loss

    def perturbation(self, budget: Budget, problem: Problem) -> Perturbation:
        """Single source of the noise scale and the ridge, for sampling and for accounting."""
        calibrate = tight_perturbation if self.tight else published_perturbation
        return calibrate(budget, problem, self.lam, f"algo={self.name}")

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """Claimed (when published) and proven."""
        delta = budget.require_delta(f"algo={self.name}")
        eps = objective.eps_of(*self._noise(budget, problem), delta)
        proven = Guarantee("release", "sample", eps, delta, "proven", "dpml.privacy.proofs.objective_perturbation")
        if self.tight:
            return [proven]
        claim = "Rajkumar & Agarwal 2012, Thm 4.1"
        return [Guarantee("release", "sample", budget.eps, delta, "published", claim), proven]

    def worst_case(self, budget: Budget, problem: Problem) -> Pair:
        """Many rows hold w where a row and its successor have long gradients; on a line, a row changes its label."""
        if problem.d == 1:
            return turned_label(problem)
        delta = budget.require_delta(f"algo={self.name}")
        sigma, ridge = self._noise(budget, problem)
        return held_pair(
            self.trained, problem, ridge, lambda pair: gaussian_mu(self.trained, pair, ridge, sigma, delta)[0]
        )

    def _noise(self, budget: Budget, problem: Problem) -> tuple[float, float]:
        """(sigma, R)."""
        perturbation = self.perturbation(budget, problem)
        return perturbation.sigma, problem.N * (self.lam + perturbation.extra)

    def exposures(self, pair: Pair, budget: Budget) -> list[Exposure]:
        """The model. Its density is that of the noise which makes it the minimiser, times a Jacobian."""
        delta = budget.require_delta(f"algo={self.name}")
        sigma, ridge = self._noise(budget, pair[0].problem)
        rows = [parties.folded for parties in pair]
        exposure = model_exposure([self.prepare(parties, np.random.default_rng(0)) for parties in pair], budget)
        score = minimiser_score(self.trained, rows, ridge, gaussian_log_density(sigma))
        mu, apart = gaussian_mu(self.trained, rows, ridge, sigma, delta)
        normal = apart <= mu * (1 + NEARLY)  # the scores' Gaussian curve says no more than there is to be seen
        return [replace(exposure, score=score, normal=normal, mu=mu)]

    def prepare(self, parties: Parties, rng: Generator) -> Mechanism:
        """Nothing to do before the noise is known."""
        require_domain(parties, self.loss)
        return PreparedGaussianObjective(self, parties)


@dataclass(frozen=True)
class PreparedGaussianObjective:
    """The data of `gop`. Each draw is a minimisation of its own; all run together."""

    algorithm: GaussianObjectivePerturbation
    parties: Parties

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """Minimisers of the perturbed objectives, to `solver_tolerance`: the proof is about exact minimisers.

        `gap_bound` is Theorem 5.1's bound on the optimality gap, which 95 % of the draws keep. It needs a lam, and the
        loss that J has.
        """
        algorithm, problem = self.algorithm, self.parties.problem
        perturbations = [algorithm.perturbation(budget, problem) for budget in budgets]
        eta = np.array([p.sigma for p in perturbations])[:, None, None] * noise.gaussian(rng, (draws, problem.d))
        weights = perturbed_minimisers(algorithm.trained, algorithm.lam, self.parties, perturbations, eta)
        if algorithm.lam == 0 or algorithm.shift > 0:
            return Release(weights)
        bounds = [optimality_bound(p, problem, algorithm.lam) for p in perturbations]
        return Release(weights, {"gap_bound": np.repeat(np.array(bounds)[:, None], draws, axis=1)})
