"""Descent on sums of clipped gradients with Gaussian noise: `dpgd`, at one place or over M parties' secure sums.

T rounds of ``w <- w - step (sum_i clip(g_i) + noise)``, g_i the gradient of row i (record level), or the mean gradient
of party i's rows (party level). None is longer than c, so that a row, or all rows of a party, that are replaced move a
sum by at most 2c: with noise of standard deviation z c the T rounds have ``mu = 2 sqrt(T) / z``, whatever they depend
on (Dong, Roth & Su 2019, Cor. 3.3), and all models on the way may be shown. Their average may be, too.

*Record level.* Rows are in the unit ball, so it is the slope that is cut: that of the logistic loss, ``min(sigma(-y
x'w), c)``, is the slope of a convex loss, straight below the margin log((1 - c)/c); that of the squared loss, Huber's.

*Party level.* How long a party's mean gradient is depends on how its labels lie, and so does the best c: it follows a
quantile of the lengths, after Andrew et al. 2021 (NeurIPS, "Differentially private learning with adaptive clipping").
In every round the parties say whether theirs was longer than c: the sum of these M bits, of which a party moves one,
gets noise of its own, and ``c <- c exp(-pace (share - 1/4))``. It is counted: ``mu^2 = T (4/z^2 + 1/b^2)``, b the
standard deviation of that noise.

*One rule.* With z = 2 sqrt(T)/mu, a step of `rate` n mu / sqrt(T) times the noisy *mean* of gradients in units of c
moves a model by noise of standard deviation ``2 rate`` in every coordinate and round, whatever n, mu and c are: what
grows with n mu is how far the data move it. The constants were chosen on Adult, and are the same for all data.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.random import Generator

from dpml.algorithms import require_domain
from dpml.algorithms.clipped_rounds import FIRST_CLIP, PreparedDescent, RowDescent, Schedule
from dpml.algorithms.clipped_sums import RowSums, clipped_sums
from dpml.algorithms.distributed_noise import secure_sharing
from dpml.algorithms.exposure import Exposure, Pair
from dpml.algorithms.hyperparameters import (
    SUM_PROTOCOLS,
    UNITS,
    SumProtocol,
    Unit,
    check_choice,
    check_common,
    check_positive,
)
from dpml.algorithms.neighbours import undecided, undecided_parties
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.optim.losses import Loss
from dpml.privacy import Budget, Calibration, Guarantee, Problem, gdp

_COUNTING = 0.05  # the part of mu^2 that its counts get

TURNED = {"sample": undecided, "party": undecided_parties}
"""Neighbours of a unit that pull in opposite directions."""

Clip = float | Literal["adaptive", "step"]


@dataclass(frozen=True)
class Rule:
    """What nobody has to set: T, the clip, half of how far noise moves a model in a round, and the largest step.

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
class ClippedDescent:
    """`dpgd`: the average of the last models of clipped noisy gradient descent from 0.

    With one party it is a trusted place. With M, each adds 1/M of the noise to its part of a secure sum; colluders, who
    know their own, leave sqrt(M/H) of mu, and the noise is for that.

    Args:
        loss: logistic or squared.
        calibration: `tight`: there is no paper's noise.
        unit: `sample`: one row is replaced; `party`: all rows of a party.
        lam: coefficient of lam/2 ||w||^2, part of the objective.
        rounds: T; None: by the rule (`RULES`), as for the next two.
        clip: c; None at party level: adaptive.
        rate: half of how far noise moves a model in a round, in every coordinate.
        protocol: `simulate` draws the sums; `secagg` runs the real secure aggregation in every round.
    """

    name: ClassVar[str] = "dpgd"
    auxiliary: ClassVar[float] = 0.0
    variant: ClassVar[str] = "paper"

    loss: Loss
    calibration: Calibration = "tight"
    unit: Unit = "sample"
    lam: float = 0.0
    rounds: int | None = None
    clip: float | None = None
    rate: float | None = None
    protocol: SumProtocol = "simulate"

    def __post_init__(self) -> None:
        check_common(self, ("logistic", "squared"))
        check_choice("calibration", self.calibration, ("tight",))
        check_choice("algo.unit", self.unit, UNITS)
        check_choice("algo.protocol", self.protocol, SUM_PROTOCOLS)
        for key in ("clip", "rate"):
            value = getattr(self, key)
            if value is not None:
                check_positive(f"algo.{key} of {self.name}", value)
        if self.rounds is not None and self.rounds < 1:
            raise UserError(f"algo.rounds of {self.name} must be at least 1, got {self.rounds}.")

    @property
    def rule(self) -> Rule:
        """The constants for this loss and unit."""
        return RULES[self.loss.name, self.unit]

    @property
    def secure_sums(self) -> int:
        """How many there are, one a round."""
        return self.rounds or self.rule.rounds

    def counted(self, problem: Problem) -> int:
        """How many gradients there are in a sum."""
        return problem.N if self.unit == "sample" else problem.M

    def schedule(self, budget: Budget, problem: Problem) -> Schedule:
        """Single source of the noise scales and the steps, for sampling and for accounting."""
        rule = self.rule
        rounds, clip = self.rounds or rule.rounds, self.clip or rule.clip
        delta = budget.require_delta(f"algo={self.name}")
        mu = gdp.mu_of(budget.eps, delta) / max(secure_sharing(problem).views(problem).values())
        step = min((self.rate or rule.rate) * self.counted(problem) * mu / math.sqrt(rounds), rule.largest)
        length = FIRST_CLIP if clip == "adaptive" else step if clip == "step" else clip
        if self.lam:  # more would turn the model round
            step = min(step, length / self.lam)
        counting = _COUNTING if clip == "adaptive" else 0.0
        width = 2 * math.sqrt(rounds / (1 - counting)) / mu
        return Schedule(rounds, length, step, width, math.sqrt(rounds / counting) / mu if counting else math.inf)

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """The proven guarantee of every view."""
        delta = budget.require_delta(f"algo={self.name}")
        schedule = self.schedule(budget, problem)
        source = f"Gaussian DP of {schedule.rounds} adaptive rounds (clipped_descent)"
        return [
            Guarantee(
                view, self.unit, gdp.eps_of(schedule.mu * factor, delta), delta, "proven", source, schedule.mu * factor
            )
            for view, factor in secure_sharing(problem).views(problem).items()
        ]

    def worst_case(self, budget: Budget, problem: Problem) -> Pair:
        """A row, or all rows of a party, turn where as many pull one way as the other, so that slopes stay clipped."""
        return TURNED[self.unit](problem)

    def exposures(self, pair: Pair, budget: Budget) -> list[Exposure]:
        """All rounds, as every view sees them."""
        both = [self.prepare(parties, np.random.default_rng(0)) for parties in pair]
        return [both[0].exposure(view, both, budget) for view in secure_sharing(pair[0].problem).views(pair[0].problem)]

    def prepare(self, parties: Parties, rng: Generator) -> PreparedDescent:
        """Lay out the rows."""
        require_domain(parties, self.loss)
        sums = clipped_sums(self.loss, parties, self.unit, self.protocol)
        return RowDescent(self, sums) if isinstance(sums, RowSums) else PreparedDescent(self, sums)
