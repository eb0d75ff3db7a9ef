"""Sums of clipped gradients, at many models at once: of rows, or of parties' means; of reals, or of integers.

All are in units of the clip. Rows are in the unit ball, so at record level it is the slope that is cut. At party level
a clip that follows the parties needs to know how many of their gradients were not longer: that count is sent with the
sum.

*On a grid.* Record level: a row becomes integers z of length at most R = 2^20 once (`to_integers`), in every round its
slope, in units of the clip, an integer q of at most Q: its gradient is q z, of length at most QR, which stands for the
clip. Party level: every party's clipped mean gradient becomes integers of length at most R, which stands for the clip;
a party in a count is 2^20 steps. A row that is mapped becomes integers after that. Neighbours' sums are at most twice
the clip apart, in whole numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpml import sums
from dpml.algorithms.descent.clipped_terms import ClippedTerms, MappedTerms
from dpml.data.partition import Parties
from dpml.mechanism.discrete import BITS, whole_steps
from dpml.mechanism.message import Statistic
from dpml.mechanism.options import Unit
from dpml.optim.descent import LEAST_CLIP
from dpml.optim.losses import Loss
from dpml.privacy import Problem

_EXACT = 53  # bits of whole numbers that floating-point sums have exactly, in any order
_SLOPE_BITS = 18  # the most bits of Q


@dataclass(frozen=True)
class ClippedGradients(Statistic):
    """The sum of clipped gradients at models w (B, K d), and where parties are asked about clips (B,), their count.

    Args:
        loss: logistic, softmax or squared. unit: what is clipped and summed: the gradients of rows, or the mean
        gradients of parties. clip: the longest gradient; None: as it is asked about. classes: K of softmax, else 1.
        mapped: whether every run has a matrix of its own (d, d), public, that rows go through before; they have length
            1 after it. single: whether simulated noise is drawn in single precision.
    """

    loss: Loss
    unit: Unit
    clip: float | None
    classes: int = 1
    mapped: bool = False
    single: bool = False

    @property
    def counted(self) -> bool:
        """Whether the clip follows the parties, who are counted."""
        return self.clip is None and self.unit == "party"

    def lengths(self, d: int) -> tuple[int, ...]:
        return (self.classes * d, 1) if self.counted else (self.classes * d,)

    def drawn(self, d: int) -> tuple[int, ...]:
        return self.lengths(d)

    def on(self, parties: Parties) -> ClippedTerms | MappedTerms:
        return MappedTerms(self, parties) if self.mapped else ClippedTerms(self, parties)

    def largest(self, problem: Problem) -> float:
        return problem.N  # no more gradients than rows

    def resolution(self, widths: Sequence[float], problem: Problem) -> int:
        """Q; 1 at party level.

        Large enough to round slopes little, small enough that sums of N products are exact in floating point.

        Raises:
            UserError: so much noise does not fit into 64 bits.
        """
        most = 1
        if self.unit == "sample":
            most = max(1, min(1 << _SLOPE_BITS, (1 << _EXACT - BITS - 1) // problem.N))
        if self.counted:
            whole_steps(1, widths[1] * (1 << BITS))
        return whole_steps(most, widths[0] * (1 << BITS))

    def steps(self, resolution: int, problem: Problem) -> tuple[float, ...]:
        steps = (1 / (resolution << BITS), 1 / (1 << BITS))
        return steps if self.counted else steps[:1]

    def imprecision(self, problem: Problem) -> float:
        """Rows are summed in single precision, parties in double."""
        entries = self.classes * problem.d
        if self.unit == "party":
            return sums.imprecision(problem.M, entries)
        return sums.single_imprecision(problem.N, entries)

    def state(self, d: int) -> tuple[str, tuple[int, ...]]:
        return "<f4", (self.classes * d, *(0,) * (self.clip is None), *(d * d,) * self.mapped)

    def valid(self, *at: Any) -> bool:
        return self.clip is not None or bool(np.all((at[1] >= LEAST_CLIP) & (at[1] < np.inf)))
