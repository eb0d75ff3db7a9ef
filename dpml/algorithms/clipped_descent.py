"""Descent on sums of clipped gradients with Gaussian noise: `dpgd`, at one place or over M parties' secure sums.

T rounds of ``w <- w - step (sum_i clip(g_i) + noise)``, g_i the gradient of row i (record level), or the mean gradient
of party i's rows (party level). None is longer than c, so that a row, or all rows of a party, that are replaced move a
sum by at most 2c: with noise of standard deviation z c the T rounds have ``mu = 2 sqrt(T) / z``, whatever they depend
on (Dong, Roth & Su 2019, Cor. 3.3), also if all models on the way are seen. Their average is post-processing.

*Record level.* Rows are in the unit ball, so it is the slope that is cut: that of the logistic loss, ``min(sigma(-y
x'w), c)``, is the slope of a convex loss, straight below the margin log((1 - c)/c); that of the squared loss, Huber's.

*Party level.* How long a party's mean gradient is depends on how its labels lie, and so does the best c: it follows a
quantile of the lengths, after Andrew et al. 2021 (NeurIPS, "Differentially private learning with adaptive clipping").
In every round the parties report whether theirs was at most c long. The sum of these M bits, of which a party moves
one, gets noise of its own, and ``c <- c exp(-pace (share - 1/4))``. The accounting includes it: ``mu^2 = T (4/z^2 +
1/b^2)``, b the standard deviation of that noise.

*One rule.* With z = 2 sqrt(T)/mu, a step of `rate` n mu / sqrt(T) times the noisy *mean* of gradients in units of c
moves a model by noise of standard deviation ``2 rate`` in every coordinate and round, whatever n, mu and c are: what
grows with n mu is how far the data move it. The constants were chosen on Adult, and are the same for all data.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from numpy.random import Generator

from dpml.algorithms import require_domain
from dpml.algorithms.clipped_rounds import FIRST_CLIP, ClippedRounds, PreparedDescent, RowDescent, Schedule
from dpml.algorithms.clipped_sums import RowSums
from dpml.algorithms.discrete_sums import clipped_sums
from dpml.algorithms.hyperparameters import (
    Unit,
    check_positive,
)
from dpml.data.partition import Parties
from dpml.privacy import Budget, Problem

_COUNTING = 0.05  # the part of mu^2 that its counts get

Clip = float | Literal["adaptive", "step"]


@dataclass(frozen=True)
class Rule:
    """Default hyper-parameters: T, the clip, half of how far noise moves a model in a round, and the largest step.

    A clip called `step` is as long as the step: then it is 1 on a mean of gradients, 2 over the squared loss's
    smoothness.
    """

    rounds: int
    clip: Clip
    rate: float
    largest: float


RULES: dict[tuple[str, Unit], Rule] = {
    ("logistic", "sample"): Rule(300, 0.1, 0.1, 60.0),
    ("logistic", "party"): Rule(400, "adaptive", 0.05, 60.0),
    ("squared", "sample"): Rule(100, "step", 0.01, 0.3),
    ("squared", "party"): Rule(100, "step", 0.01, 0.3),
}
"""Those for the logistic loss were chosen on Adult, those for the squared loss on Communities and Crime."""


@dataclass(frozen=True)
class ClippedDescent(ClippedRounds):
    """`dpgd`: the average of the last models of clipped noisy gradient descent from 0; see `ClippedRounds`.

    Args:
        rate: half of how far noise moves a model in a round, in every coordinate; None: by the rule (`RULES`), as for
            rounds and clip, which at party level is adaptive.
    """

    name: ClassVar[str] = "dpgd"

    rate: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rate is not None:
            check_positive(f"algo.rate of {self.name}", self.rate)

    @property
    def rule(self) -> Rule:
        """The constants for this loss and unit."""
        return RULES[self.loss.name, self.unit]

    @property
    def secure_sums(self) -> int:
        """How many vectors are summed in a release: one a round."""
        return self.rounds or self.rule.rounds

    def schedule(self, budget: Budget, problem: Problem) -> Schedule:
        rule = self.rule
        rounds, clip = self.rounds or rule.rounds, self.clip or rule.clip
        mu = self.budget_mu(budget, problem)
        step = min((self.rate or rule.rate) * self.counted(problem) * mu / math.sqrt(rounds), rule.largest)
        length = FIRST_CLIP if clip == "adaptive" else step if clip == "step" else clip
        if self.lam:  # a longer step would overshoot
            step = min(step, length / self.lam)
        counting = _COUNTING if clip == "adaptive" else 0.0
        width = 2 * math.sqrt(rounds / (1 - counting)) / mu
        return Schedule(rounds, length, step, width, math.sqrt(rounds / counting) / mu if counting else math.inf)

    def counted_mu(self, budget: Budget, problem: Problem) -> tuple[float, str]:
        schedule = self.schedule(budget, problem)
        mu = schedule.mu + self.rest(schedule, problem)
        return mu, f"Gaussian DP of {schedule.rounds} adaptive rounds (clipped_descent)"

    def prepare(self, parties: Parties, rng: Generator) -> PreparedDescent:
        """Lay out the rows."""
        require_domain(parties, self.loss)
        sums = clipped_sums(self.loss, parties, self.unit, self.protocol, self.noise)
        return RowDescent(self, sums) if isinstance(sums, RowSums) else PreparedDescent(self, sums)
