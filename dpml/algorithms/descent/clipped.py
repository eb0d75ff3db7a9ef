"""Define gradient descent on sums of clipped gradients with Gaussian noise (`dpgd`), at one curator or by M parties.

A party's clip follows a quantile of the norms of the parties' gradients (after Andrew et al. 2021). The guarantees:
docs/privacy/clipped_descent.md, Theorems 1 and 2.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from dpml.algorithms.defaults import CLIP_PACE, CLIP_QUANTILE, COUNTING_SHARE, DESCENT_RULES, FIRST_CLIP, DescentRule
from dpml.algorithms.descent.clipped_gradients import ClippedGradients
from dpml.optim.gradients import LEAST_CLIP, Single
from dpml.options import POSITIVE
from dpml.program import UNITS, Budget, Carrier, Clip, Problem, Program, Release, Rounds, Sum

AVERAGED = 0.5
"""The share of the rounds whose models are averaged: the last half."""


@dataclass(frozen=True)
class Schedule:
    """The number of rounds, the clip, the step size and the noise that a release uses for one privacy budget.

    Attributes:
        clip: The clip c, or the first clip if it is `adaptive`.
        step: The step size, which multiplies the noisy mean of ``gradient/c``.
        noise: The standard deviation of the noise in the sum of ``gradient/c``.
        count_noise: The standard deviation of the noise in a count of parties; inf without counts.
    """

    rounds: int
    clip: float
    step: float
    noise: float
    count_noise: float = math.inf

    @property
    def adaptive(self) -> bool:
        return math.isfinite(self.count_noise)

    def message(self, of: ClippedGradients) -> Sum:
        """Return the noisy sums of gradients and, if the clip is adaptive, noisy counts of unclipped gradients."""
        if not self.adaptive:
            return Sum(of, 2.0, self.noise, times=self.rounds)
        counted = self.count_noise / self.noise if self.noise else 1.0
        return Sum(of, math.hypot(2.0, 1 / counted), self.noise, (1.0, counted), self.rounds)


Move = Callable[[int, Single, Single, Single], Single]
"""``move(t, w, g, c)`` returns the step that is subtracted from models w (B, d) in round t = 0, 1, ..., given the clips
c (B,) and the noisy sums of gradients divided by the clips, g (B, d)."""


def take_rounds(
    carrier: Carrier,
    number: int,
    first: Schedule,
    start: Single,
    move: Move,
    clips: Single | None = None,
    *more: Single,
) -> tuple[Single, Single]:
    """Run all rounds of B noisy gradient descents from the initial models `start` (B, d).

    Return each descent's average model over the last half of the rounds, (B, d), and its clip in the last round, (B,).

    Every round requests noisy sum `number`; `more` are additional arguments of this sum. `clips` (T, B) sets the clips
    of all rounds; None: fixed or adaptive. `first` is the first budget's schedule; all budgets have as many rounds.
    """
    w, total, d = start.copy(), np.zeros_like(start), start.shape[1]
    clip = np.full(len(w), first.clip, np.float32)
    last, parties = max(1, round(AVERAGED * first.rounds)), len(carrier.mechanism.parties.sizes)
    for t in range(first.rounds):
        clip = clip if clips is None else clips[t]
        about = (w, clip, *more) if first.adaptive or clips is not None else (w, *more)
        noisy = carrier.ask(number, *about)
        w -= move(t, w, noisy[:, :d].astype(np.float32), clip)
        if first.adaptive:
            share = np.clip(noisy[:, d] / parties, 0, 1)  # with noise, a count may lie outside [0, M]
            clip = np.maximum(clip * np.exp(-CLIP_PACE * (share - CLIP_QUANTILE)), LEAST_CLIP).astype(np.float32)
        if t >= first.rounds - last:
            total += w
    return total / np.float32(last), clip


@dataclass(frozen=True)
class ClippedDescent(Program, losses=("logistic", "softmax", "squared"), calibrations=("tight",), lam=0.0, units=UNITS):
    """`dpgd`: gradient descent on clipped gradients with Gaussian noise in every round.

    The models of the last rounds are averaged. With M = 1, a trusted curator adds the noise. With M parties, each party
    adds 1/M of the noise's variance to its part of a secure sum. The noise is calibrated to protect against colluders,
    who know their own shares of the noise.

    Args:
        rounds: The number of rounds T; None: chosen by a public rule.
        clip: The largest norm of a row's gradient, or of a party's mean gradient; None: chosen by a public rule, which
            for classifiers at party level adapts the clip in every round.
        noise_step: Half the standard deviation that a round's noise gives each coordinate of a model; None: chosen by a
            public rule.
    """

    name: ClassVar[str] = "dpgd"
    proof: ClassVar[str] = "Theorems 1 and 2, docs/privacy/clipped_descent.md"
    audited_rows: ClassVar[int] = 100
    """The number of rows per party in an audit. More rows do not make attacks stronger."""

    rounds: Rounds | None = None
    clip: Clip | None = None
    noise_step: Annotated[float | None, POSITIVE] = None

    @property
    def rule(self) -> DescentRule:
        return DESCENT_RULES[self.loss.name, self.unit]

    def schedule(self, budget: Budget, problem: Problem) -> Schedule:
        rule = self.rule
        rounds, clip = self.rounds or rule.rounds, self.clip or rule.clip
        mu = math.sqrt(1 / rounds) * self.target_mu(budget, problem)
        step = min((self.noise_step or rule.noise_step) * problem.units(self.unit) * mu, rule.largest)
        length = FIRST_CLIP if clip == "adaptive" else step if clip == "step" else clip
        if self.lam:  # a longer step would overshoot
            step = min(step, length / self.lam)
        counting = COUNTING_SHARE if clip == "adaptive" else 0.0
        width = 2 / (math.sqrt(1 - counting) * mu)
        counts = 1 / (math.sqrt(counting) * mu) if counting else math.inf
        return Schedule(rounds, length, step, width, counts)

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        schedule = self.schedule(budget, problem)
        clip, classes = None if schedule.adaptive else schedule.clip, self.loss.outputs(problem.classes)
        single = self.unit == "sample" and classes == 1
        return (schedule.message(ClippedGradients(self.loss, self.unit, clip, classes, single=single)),)

    def run(self, carrier: Carrier) -> Release:
        schedules = [self.schedule(budget, carrier.problem) for budget in carrier.budgets]
        steps = carrier.per_run([schedule.step for schedule in schedules])
        step, n, lam = steps[:, None].astype(np.float32), carrier.problem.units(self.unit), self.lam

        def move(t: int, w: Single, gradients: Single, clip: Single) -> Single:
            towards = gradients / np.float32(n)
            if not lam:
                return step * towards
            length = clip[:, None]  # a small clip must shorten the step, or models would oscillate
            return np.minimum(step, length / np.float32(lam)) * (towards + lam * w / length)

        start = np.zeros((len(step), carrier.statistic(0).lengths(carrier.problem.d)[0]), np.float32)
        weights, clips = take_rounds(carrier, 0, schedules[0], start, move)
        used = {"rounds": np.full(len(steps), float(schedules[0].rounds)), "step": steps, "clip": clips.astype(float)}
        metrics = {key: carrier.by_budget(values) for key, values in used.items()}
        return Release(carrier.by_budget(weights).astype(float), metrics)
