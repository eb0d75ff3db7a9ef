"""Rounds of descent on noisy sums of clipped gradients, of all budgets and draws at once."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpml.algorithms.defaults import CLIP_PACE, CLIP_QUANTILE
from dpml.algorithms.descent.clipped_gradients import ClippedGradients
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.message import Sum
from dpml.optim.descent import LEAST_CLIP, Single

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
    """

    rounds: int
    clip: float
    step: float
    noise: float
    count_noise: float = math.inf

    @property
    def adaptive(self) -> bool:
        """Whether c follows the parties."""
        return math.isfinite(self.count_noise)

    def message(self, of: ClippedGradients) -> Sum:
        """The sums of all rounds: a unit moves a sum by at most 2c, and a count by 1."""
        if not self.adaptive:
            return Sum(of, 2.0, self.noise, times=self.rounds)
        counted = self.count_noise / self.noise if self.noise else 1.0
        return Sum(of, math.hypot(2.0, 1 / counted), self.noise, (1.0, counted), self.rounds)


Move = Callable[[int, Single, Single, Single], Single]
"""``move(t, w, g, c)``: how far models w (B, d) go in round t = 0, 1, ... by the noisy sums of gradients g (B, d) in
units of the clips c (B,)."""


def averaged(rounds: int) -> int:
    """How many models are averaged."""
    return max(1, round(AVERAGED * rounds))


def take_rounds(  # many parameters: what is asked, and about what
    carrier: Carrier,
    number: int,
    first: Schedule,
    start: Single,
    move: Move,
    clips: Single | None = None,
    *more: Single,
) -> tuple[Single, Single]:
    """The averages of the last models (B, d) of runs from `start` (B, d), and their last clips (B,).

    Every round asks for message `number` at the models on the way; where the message has no clip of its own, of one
    that follows the parties, or of that of the round, `clips` (T, B); and `more`, which is the same in all rounds. All
    budgets have the rounds and the first clip of `first`.
    """
    w, total, d = start.copy(), np.zeros_like(start), start.shape[1]
    clip = np.full(len(w), first.clip, np.float32)
    last, parties = averaged(first.rounds), len(carrier.mechanism.parties.sizes)
    for t in range(first.rounds):
        clip = clip if clips is None else clips[t]
        about = (w, clip, *more) if first.adaptive or clips is not None else (w, *more)
        noisy = carrier.ask(number, *about)
        w -= move(t, w, noisy[:, :d].astype(np.float32), clip)
        if first.adaptive:
            share = np.clip(noisy[:, d] / parties, 0, 1)  # noise may make a count negative, or larger than it can be
            clip = np.maximum(clip * np.exp(-CLIP_PACE * (share - CLIP_QUANTILE)), LEAST_CLIP).astype(np.float32)
        if t >= first.rounds - last:
            total += w
    return total / np.float32(last), clip
