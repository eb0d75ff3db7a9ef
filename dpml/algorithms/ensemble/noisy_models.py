"""Output perturbation of a model that the parties' own make up: pure eps-DP, by its L2 sensitivity.

Two facts carry every proof; rows have norm at most 1, and R is a mean loss + lam/2 ||w||^2 with minimiser w.

- The minimisers of two such risks lie at most ``max ||grad (R - R')|| / lam`` apart (lam-strong convexity; Chaudhuri et
  al. 2011, Lemma 7). Changing a target a_i by b_i moves the gradient by b_i (x) x_i whatever w is.
- A minimiser is never long (`dpml.optim.logistic.longest_minimiser`).

A solver stops at a gradient of norm `TOLERANCE` or `LOCAL_TOLERANCE`, that over lam from the exact minimiser at most;
every proven sensitivity has this twice, once for each of two neighbours.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.random import Generator

from dpml.algorithms import Hyperparameters, Release
from dpml.arrays import Array
from dpml.mechanism.outputs import Law, NoisyOutput, drawn
from dpml.privacy import Budget, Problem


class Averaging(Hyperparameters, Protocol):
    """An algorithm that releases a model plus noise."""

    def sensitivity(self, problem: Problem) -> tuple[float, float]:
        """(published, proven): how far the model moves at most, in L2 norm, when one unit is replaced."""
        ...

    def messages(self, budget: Budget, problem: Problem) -> Sequence[NoisyOutput]: ...


def model_plus_noise(
    algorithm: Averaging, budget: Budget, problem: Problem, unit: Literal["sample", "party"], law: Law = "l2_laplace"
) -> list[NoisyOutput]:
    """A model whose noise has the scale sensitivity / eps: that of the paper, or, if `tight`, what is proven."""
    published, proven = algorithm.sensitivity(problem)
    scale = (proven if algorithm.calibration == "tight" else published) / budget.eps
    kind = type(algorithm)
    source = f"L2 sensitivity ({kind.__module__.rpartition('.')[2]}.{kind.__name__})"
    known = problem.classes > 1 or algorithm.loss.name != "softmax"
    size = problem.classes * problem.d if known else math.inf
    return [NoisyOutput(law, proven, scale, source, unit, size)]


@dataclass(frozen=True)
class PreparedOutput:
    """A model `weights` (D,), before the noise; `bound` is the published one on its excess risk, where there is one."""

    algorithm: Averaging
    weights: Array
    problem: Problem
    bound: Callable[[Budget], float] | None = None

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """The model plus noise over all its coordinates; the budgets share their noise directions."""
        sent = [message for budget in budgets for message in self.algorithm.messages(budget, self.problem)]
        noisy = self.weights + drawn(sent, rng, draws, len(self.weights))
        if self.bound is None:
            return Release(noisy)
        bounds = np.array([self.bound(budget) for budget in budgets])
        return Release(noisy, {"bound": np.repeat(bounds[:, None], draws, axis=1)})
