"""Output perturbation: a model plus noise of density proportional to exp(-||.|| / scale), pure eps-DP.

`avg` and `la` average the parties' own models (Pathak et al. 2010); `vote` and `soft` (`voting`) fit one to their
votes. Two facts carry every proof; rows have norm at most 1, and R is a mean loss + lam/2 ||w||^2 with minimiser w.

- The minimisers of two such risks lie at most ``max ||grad (R - R')|| / lam`` apart (lam-strong convexity; Chaudhuri et
  al. 2011, Lemma 7). Changing a target a_i by b_i moves the gradient by b_i (x) x_i whatever w is.
- A minimiser is never long (`dpml.optim.logistic.longest_minimiser`).

A solver stops at a gradient of norm `TOLERANCE` or `LOCAL_TOLERANCE`, that over lam from the exact minimiser at most;
every proven sensitivity has this twice, once for each of two neighbours.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.random import Generator

from dpml.algorithms.local_models import LocalClassifiers, mean_model
from dpml.arrays import Array
from dpml.data.partition import Parties, remembered
from dpml.mechanism.algorithm import Release, require_domain
from dpml.mechanism.options import RegularisedLogistic
from dpml.optim.logistic import LOCAL_TOLERANCE, longest_minimiser
from dpml.privacy import Budget, Guarantee, Problem, noise


class OutputPerturbation(Protocol):
    """What `PreparedOutput` needs of an algorithm: noise and its scale."""

    def scale(self, budget: Budget, problem: Problem) -> float:
        """Single source of the noise scale, for sampling and for accounting: ``sensitivity / eps``."""
        ...

    def unit_noise(self, rng: Generator, draws: int, D: int) -> Array:
        """Noise of scale 1 on D coordinates: (draws, D)."""
        ...

    def error_bound(self, budget: Budget, problem: Problem, length: float) -> float | None:
        """The published bound on the excess risk over a model of this length, where there is one."""
        ...


@dataclass(frozen=True)
class PreparedOutput:
    """A model `weights` (D,), before output perturbation."""

    algorithm: OutputPerturbation
    weights: Array
    problem: Problem

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """The model plus noise over all its coordinates; the budgets share their noise directions."""
        scale = np.array([self.algorithm.scale(budget, self.problem) for budget in budgets])
        drawn = self.algorithm.unit_noise(rng, draws, len(self.weights))
        length = float(np.linalg.norm(self.weights))
        bounds = [self.algorithm.error_bound(budget, self.problem, length) for budget in budgets]
        known = {} if None in bounds else {"bound": np.repeat(np.array(bounds, dtype=float)[:, None], draws, axis=1)}
        return Release(self.weights + scale[:, None, None] * drawn, known)


@dataclass(frozen=True)
class PartyLevelModel(LocalClassifiers, ABC):
    """A model of M parties' local classifiers, released with noise that hides *all rows of one party*."""

    claim: ClassVar[str]

    @abstractmethod
    def sensitivity(self, problem: Problem) -> tuple[float, float]:
        """(published, proven): how far the model moves at most, in L2 norm, when one party's rows are replaced."""

    @abstractmethod
    def model(self, parties: Parties, rng: Generator) -> Array:
        """The model without noise: d weights, or K d for K classes."""

    @property
    def deterministic(self) -> bool:
        """Whether `model` draws nothing from its `rng`."""
        return True

    @property
    def root(self) -> float:
        """By how much the paper's multiclass bound on a row's gradient, sqrt 2, exceeds the binary one."""
        return math.sqrt(2) if self.multiclass and self.variant != "binary" else 1.0

    def error_bound(self, budget: Budget, problem: Problem, length: float) -> float | None:
        return None

    def scale(self, budget: Budget, problem: Problem) -> float:
        published, proven = self.sensitivity(problem)
        return (proven if self.calibration == "tight" else published) / budget.eps

    def unit_noise(self, rng: Generator, draws: int, D: int) -> Array:
        if self.per_coordinate:
            return noise.laplace(rng, (draws, D))
        return (noise.radial if self.radial else noise.l2_laplace)(rng, draws, D)

    def proven_eps(self, scale: float, problem: Problem) -> float:
        """The eps of noise of this scale: the largest privacy loss over all rows that one party can have.

        Laplace noise on D coordinates has a loss of ||v||_1 / scale <= sqrt(D) ||v||_2 / scale for a move v. Noise
        of an exponential length has the density ``exp(-||eta||/scale) / ||eta||^(D-1)``, infinite at the model itself:
        for D > 1 the loss of an output close to it is above any bound.
        """
        D = problem.classes * problem.d if problem.classes > 1 or not self.multiclass else math.inf  # K is not known
        if scale == 0 or (self.radial and D > 1):
            return math.inf
        return self.sensitivity(problem)[1] / scale * (math.sqrt(D) if self.per_coordinate else 1.0)

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """Claimed (when published) and proven eps for all rows of one party; delta is 0."""
        eps = self.proven_eps(self.scale(budget, problem), problem)
        source = f"L2 sensitivity ({type(self).__module__.rpartition('.')[2]}.{type(self).__name__})"
        if math.isinf(eps) and math.isfinite(budget.eps):
            infinite = "the noise's density is infinite at the model"
            source = infinite if self.radial else "the number of classes is not known"
        proven = Guarantee("release", "party", eps, 0.0, "proven", source)
        if self.calibration == "tight":
            return [proven]
        return [Guarantee("release", "party", budget.eps, 0.0, "published", self.claim), proven]

    def prepare(self, parties: Parties, rng: Generator) -> PreparedOutput:
        """Train the local models and the global one, once for all budgets and draws."""
        require_domain(parties, self.loss)
        self.scale(Budget(1.0), parties.problem)  # raise before the work if it cannot be calibrated
        weights = _fitted(parties, self.without_noise()) if self.deterministic else self.model(parties, rng)
        return PreparedOutput(self, weights, parties.problem)


@remembered
def _fitted(parties: Parties, algorithm: PartyLevelModel) -> Array:
    return algorithm.model(parties, np.random.default_rng(0))


class Average(PartyLevelModel):
    """`avg` (Pathak et al. 2010): the mean of the local models; all rows of one party are the unit.

    One party's model moves by at most the diameter of all that it can be, 2 `longest_minimiser`, and the mean by 1/M of
    that. The paper counts ``2/(M lam)`` (softmax: ``2 sqrt2/(M lam)``), which is 190 times as much at lam = 1e-4.
    """

    name = "avg"
    claim = "Pathak et al. 2010, as in Hamm et al. 2016, App. B.4"

    def sensitivity(self, problem: Problem) -> tuple[float, float]:
        published = 2.0 * self.root
        most = problem.N - problem.M + 1  # rows of a party at most, as all have one
        lam = self.strength(most)
        diameter = 2 * (longest_minimiser(self.loss, lam, problem.classes) + LOCAL_TOLERANCE / lam)
        return published / (problem.M * self.lam), diameter / problem.M

    def model(self, parties: Parties, rng: Generator) -> Array:
        return mean_model(parties, self.lam, self.sums)


@dataclass(frozen=True)
class LocalAggregation(RegularisedLogistic):
    """`la` (Pathak et al. 2010): the mean of the parties' own minimisers, as in `avg`; one sample is the unit.

    Replacing a row moves the gradient of its party's objective by at most 2/n, so its minimiser by 2/(n lam), and the
    mean by ``S = 2/(M n lam)`` for the smallest party's n. `tight` knows that no minimiser is longer than
    `longest_minimiser`, so that it cannot move by more than twice that. The parties' sizes are public. Both the noise
    of `tight` and every proven eps count the tolerance of the solver.
    """

    name: ClassVar[str] = "la"
    claim: ClassVar[str] = "Pathak et al. 2010 (Rajkumar & Agarwal 2012, Sec. 2.4)"

    def sensitivity(self, problem: Problem) -> float:
        """S: how far the mean moves at most, in L2 norm, when one row is replaced."""
        if self.tight:
            return self.proven_sensitivity(problem)
        return 2 / (problem.smallest * self.lam) / problem.M

    def proven_sensitivity(self, problem: Problem) -> float:
        """The same for the models that are computed, which are minimisers up to the solver's tolerance."""
        moved = min(2 / (problem.smallest * self.lam), 2 * longest_minimiser(self.loss, self.lam))
        return (moved + 2 * LOCAL_TOLERANCE / self.lam) / problem.M

    def error_bound(self, budget: Budget, problem: Problem, length: float) -> float | None:
        return None

    def scale(self, budget: Budget, problem: Problem) -> float:
        return self.sensitivity(problem) / budget.eps

    def unit_noise(self, rng: Generator, draws: int, D: int) -> Array:
        return noise.l2_laplace(rng, draws, D)

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """Claimed (when published) and proven eps; delta is 0."""
        source = "L2 sensitivity (output_perturbation.LocalAggregation)"
        scale = self.scale(budget, problem)
        eps = self.proven_sensitivity(problem) / scale if scale else math.inf
        proven = Guarantee("release", "sample", eps, 0.0, "proven", source)
        if self.calibration == "tight":
            return [proven]
        return [Guarantee("release", "sample", budget.eps, 0.0, "published", self.claim), proven]

    def prepare(self, parties: Parties, rng: Generator) -> PreparedOutput:
        """Train the local models."""
        require_domain(parties, self.loss)
        return PreparedOutput(self, mean_model(parties, self.lam), parties.problem)
