"""The rounds of clipped noisy gradient descent (`clipped_descent`), of all budgets and draws at once."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.random import Generator

from dpml.algorithms import Release
from dpml.algorithms.clipped_sums import ClippedSums, RowSums, Widths, exact_sums
from dpml.algorithms.discrete_noise import BITS, NOISES, Noise, asked, whole_steps
from dpml.algorithms.discrete_sums import slope_steps
from dpml.algorithms.distributed_noise import secure_sharing
from dpml.algorithms.hyperparameters import (
    SUM_PROTOCOLS,
    UNITS,
    SumProtocol,
    Unit,
    check_choice,
    check_common,
    check_positive,
)
from dpml.algorithms.transcript import Recorder, Watch, transcript
from dpml.arrays import Array
from dpml.audit.exposure import Exposure, Pair
from dpml.audit.neighbours import undecided, undecided_parties
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.optim.descent import Single, descend
from dpml.optim.losses import Loss
from dpml.privacy import Budget, Calibration, Guarantee, Problem, View, gdp, noise
from dpml.privacy.discrete.accounting import REST

TARGET = 0.25  # the quantile of the parties' lengths that an adaptive clip follows
FIRST_CLIP = 0.3  # where it starts
LEAST_CLIP = 1e-6  # where it ends: all gradients then count by their direction
_PACE = 0.3  # by how much it moves in a round, in logarithms, for all parties that are below or above
AVERAGED = 0.5
"""The part of all rounds, the last ones, whose models are averaged."""


@dataclass(frozen=True)
class Schedule:
    """The noise, clip and step of a release under one budget.

    Attributes:
        rounds: T.
        clip: c; where it is `adaptive`, in the first round.
        step: of the noisy mean of gradients in units of c.
        noise: z, the standard deviation of the noise in a sum, in units of c.
        count_noise: the same of the noise in a count of parties; inf where nothing is counted.
        adaptive: Whether c follows the parties.
    """

    rounds: int
    clip: float
    step: float
    noise: float
    count_noise: float

    @property
    def adaptive(self) -> bool:
        return math.isfinite(self.count_noise)

    @property
    def scales(self) -> list[float]:
        """The noise of every message, one after the other."""
        return [self.noise, *([self.count_noise] if self.adaptive else [])] * self.rounds

    @property
    def mu(self) -> float:
        """The mu of all rounds' sums and counts."""
        if self.noise == 0:
            return math.inf
        return math.sqrt(self.rounds * (4 / self.noise**2 + 1 / self.count_noise**2))


class Exposed(Protocol):
    """A mechanism that releases in rounds, for the audit."""

    def exposure(self, view: View, both: Any, budget: Budget) -> Exposure: ...


@dataclass(frozen=True)
class ClippedRounds(ABC):
    """The base class of algorithms of clipped, noisy sums.

    One party is a trusted curator. With M, each adds 1/M of the noise to its term of a secure sum; colluders know their
    own shares, so that their mu is sqrt(M/H) times that of the sum, and the noise is calibrated to it.

    Args:
        loss: logistic or squared.
        calibration: `tight`: there is no paper's noise.
        unit: `sample`: one row is replaced; `party`: all rows of a party.
        lam: coefficient of lam/2 ||w||^2, part of the objective.
        rounds: T; None: by the algorithm's rule, as for the clip.
        clip: the longest gradient of a row, or longest mean gradient of a party.
        protocol: `simulate` draws the sums; `secagg` runs the real secure aggregation for every sum.
        noise: `continuous`, or `discrete`: exact integers on a grid (docs/privacy/discrete_noise.md).
    """

    name: ClassVar[str]
    auxiliary: ClassVar[float] = 0.0
    variant: ClassVar[str] = "paper"

    loss: Loss
    calibration: Calibration = "tight"
    unit: Unit = "sample"
    lam: float = 0.0
    rounds: int | None = None
    clip: float | None = None
    protocol: SumProtocol = "simulate"
    noise: Noise = "continuous"

    def __post_init__(self) -> None:
        check_common(self, ("logistic", "squared"))
        check_choice("calibration", self.calibration, ("tight",))
        check_choice("algo.unit", self.unit, UNITS)
        check_choice("algo.protocol", self.protocol, SUM_PROTOCOLS)
        check_choice("algo.noise", self.noise, NOISES)
        if self.clip is not None:
            check_positive(f"algo.clip of {self.name}", self.clip)
        if self.rounds is not None and self.rounds < 1:
            raise UserError(f"algo.rounds of {self.name} must be at least 1, got {self.rounds}.")

    @abstractmethod
    def schedule(self, budget: Budget, problem: Problem) -> Schedule:
        """Single source of the noise in the rounds and of their steps, for sampling and for accounting."""

    @abstractmethod
    def counted_mu(self, budget: Budget, problem: Problem) -> tuple[float, str]:
        """The mu of all sums of a release, and why it is proven."""

    @abstractmethod
    def prepare(self, parties: Parties, rng: Generator) -> Exposed:
        """Lay out the rows."""

    def counted(self, problem: Problem) -> int:
        """The number of gradients in a sum."""
        return problem.N if self.unit == "sample" else problem.M

    def budget_mu(self, budget: Budget, problem: Problem) -> float:
        """The mu of all sums together with which the worst view has exactly the budget."""
        mu = gdp.mu_of(budget.eps, budget.require_delta(f"algo={self.name}"))
        return (asked(mu) if self.noise == "discrete" else mu) / max(secure_sharing(problem).views(problem).values())

    def rest(self, schedule: Schedule, problem: Problem) -> float:
        """How much discrete noise adds to the mu of all rounds.

        Raises:
            UserError: so much noise does not fit into 64 bits.
        """
        if self.noise == "continuous":
            return 0.0
        slope_steps(self.unit, problem.N, schedule.noise)
        if schedule.adaptive:
            whole_steps(1, schedule.count_noise * (1 << BITS))
        return len(schedule.scales) * REST

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """The proven guarantee of every view."""
        delta = budget.require_delta(f"algo={self.name}")
        total, source = self.counted_mu(budget, problem)
        mus = {view: total * factor for view, factor in secure_sharing(problem).views(problem).items()}
        return [
            Guarantee(view, self.unit, gdp.eps_of(mu, delta), delta, "proven", source, mu) for view, mu in mus.items()
        ]

    def worst_case(self, budget: Budget, problem: Problem) -> Pair:
        """Labels are balanced, so that slopes stay clipped; the label of a row, or all labels of a party, flip."""
        return undecided(problem) if self.unit == "sample" else undecided_parties(problem)

    def exposures(self, pair: Pair, budget: Budget) -> list[Exposure]:
        """All that is summed, as every view sees it."""
        problem = pair[0].problem
        both = [self.prepare(parties, np.random.default_rng(0)) for parties in pair]
        return [both[0].exposure(view, both, budget) for view in secure_sharing(problem).views(problem)]


def averaged(rounds: int) -> int:
    """How many models are averaged."""
    return max(1, round(AVERAGED * rounds))


def widths_of(schedules: Sequence[Schedule], draws: int) -> Widths:
    """The noise of every run in a round."""
    width, count_width = (
        np.repeat([getattr(schedule, key) for schedule in schedules], draws) for key in ("noise", "count_noise")
    )
    return Widths(draws, width, count_width if schedules[0].adaptive else None)


def run(
    sums: ClippedSums,
    schedules: Sequence[Schedule],
    start: Single,
    move: Callable[[Single, Single, Single], Single],
    rng: Generator,
    watch: Watch | None = None,
) -> tuple[Single, Single]:
    """The averages of the last models (B, d) of runs from `start` (B, d), and their last clips (B,).

    Runs of schedule 0, all its draws, come first. All schedules have the same rounds and first clip. ``move(w, g, c)``
    says how far models go by the noisy sums of gradients g (B, d) in units of the clips c (B,).
    """
    first, widths = schedules[0], widths_of(schedules, len(start) // len(schedules))
    w, total = start.copy(), np.zeros_like(start)
    clip = np.full(len(w), first.clip, np.float32)
    last = averaged(first.rounds)
    for t in range(first.rounds):
        gradients, counts = sums.noisy(w, clip, widths, rng, watch)
        w -= move(w, gradients, clip)
        if first.adaptive:
            share = np.clip(counts / len(sums.parties.sizes), 0, 1)  # the noise may be wider than the parties are many
            clip = np.maximum(clip * np.exp(-_PACE * (share - TARGET)), LEAST_CLIP).astype(np.float32)
        if t >= first.rounds - last:
            total += w
    return total / np.float32(last), clip


@dataclass(frozen=True)
class PreparedDescent:
    """The rows of a `dpgd`."""

    algorithm: ClippedRounds
    sums: ClippedSums

    @property
    def problem(self) -> Problem:
        """The public facts about the parties."""
        return self.sums.parties.problem

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int, watch: Watch | None = None) -> Release:
        """All budgets with the same rounds and clip, and all draws, descend together.

        Every budget has the same noise directions, whichever others there are. `rounds`, `clip` (the last one, where
        it is adaptive) and `step` are those used. `watch` records every sum, in units of c, and every count.
        """
        schedules = [self.algorithm.schedule(budget, self.problem) for budget in budgets]
        weights = np.empty((len(budgets), draws, self.problem.d))
        clips = np.empty((len(budgets), draws))
        for kind in dict.fromkeys((schedule.rounds, schedule.clip) for schedule in schedules):
            some = [i for i, schedule in enumerate(schedules) if (schedule.rounds, schedule.clip) == kind]
            alike = [schedules[i] for i in some]
            weights[some], clips[some] = self.descend(alike, deepcopy(rng), draws, watch)
        used = {key: [[getattr(schedule, key)] * draws for schedule in schedules] for key in ("rounds", "step")}
        return Release(weights, {key: np.array(values, dtype=float) for key, values in used.items()} | {"clip": clips})

    def descend(
        self, schedules: Sequence[Schedule], rng: Generator, draws: int, watch: Watch | None
    ) -> tuple[Array, Array]:
        """Averages of the last models (schedules, draws, d) of runs that share rounds and clip, and the last clips."""
        n, lam = self.algorithm.counted(self.problem), self.algorithm.lam
        step = np.repeat([schedule.step for schedule in schedules], draws)[:, None].astype(np.float32)

        def move(w: Single, gradients: Single, clip: Single) -> Single:
            towards = gradients / np.float32(n)
            if not lam:
                return step * towards
            length = clip[:, None]  # a clip that has become short shortens the step, or it would turn the model round
            return np.minimum(step, length / np.float32(lam)) * (towards + lam * w / length)

        start = np.zeros((len(step), self.problem.d), np.float32)
        weights, clip = run(self.sums, schedules, start, move, rng, watch)
        shape = len(schedules), draws
        return weights.reshape(*shape, -1).astype(float), clip.reshape(shape).astype(float)

    def exposure(self, view: View, both: "Sequence[PreparedDescent]", budget: Budget) -> Exposure:
        """All sums, and counts, one after the other."""
        scales = self.algorithm.schedule(budget, self.problem).scales
        channel = secure_sharing(self.problem).channel(view, self.problem)

        def release(which: int, rng: Generator, draws: int, watch: Watch) -> None:
            # a release leaves its generator as it was: the next one needs another, or it would have the same noise
            both[which].release([budget], rng.spawn(1)[0], draws, watch)

        return transcript(view, release, lambda: Recorder(both, channel, scales), len(scales))


@dataclass(frozen=True)
class RowDescent(PreparedDescent):
    """Record level, where the clip is fixed: the rounds run in `optim.descent`."""

    sums: RowSums

    def descend(
        self, schedules: Sequence[Schedule], rng: Generator, draws: int, watch: Watch | None
    ) -> tuple[Array, Array]:
        problem, rounds, clip = self.problem, schedules[0].rounds, schedules[0].clip

        def draw() -> Single:
            if watch is None:
                return noise.single_gaussian(rng, (1, draws, problem.d))
            return secure_sharing(problem).total(rng, draws, problem.M, problem.d, watch)[None].astype(np.float32)

        def heard(models: Single, gradients: Single) -> None:
            assert watch is not None
            told = partial(exact_sums, models[0, 0, 0], np.full(draws, clip))
            watch.sent(gradients[0, 0, 0] / clip, told)

        weights = descend(
            [self.sums.rows(clip)],
            np.zeros(problem.d),
            np.array([[schedule.step / (problem.N * clip)] for schedule in schedules]),
            np.array([[schedule.noise * clip for schedule in schedules]]),
            draw, rounds, self.algorithm.lam * problem.N, heard if watch is not None else None, averaged(rounds),
        )[0, :, 0]  # fmt: skip
        return weights.astype(float), np.full((len(schedules), draws), clip)
