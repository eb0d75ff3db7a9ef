"""Define local aggregation with the noise of Pathak, Rane & Raj 2010, according to footnote 2 of the paper."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from dpml.algorithms.ensemble import LocalAggregation
from dpml.errors import UserError
from dpml.mechanism.message import Sum
from dpml.privacy import Budget, Problem


@dataclass(frozen=True)
class LaplaceAggregation(LocalAggregation, variants=("paper",)):
    """`la_l1`: `la` with noise of density exp(-beta ||eta||_1) and the same beta, which gives sqrt(d) times the eps."""

    name: ClassVar[str] = "la_l1"
    claim: ClassVar[str | None] = "Pathak et al. 2010 (Rajkumar & Agarwal 2012, footnote 2)"

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        if self.tight:
            raise UserError("algo=la_l1 has published noise only: set calibration=published.")
        (sent,) = super().messages(budget, problem)
        return (replace(sent, sensitivity=math.sqrt(problem.d) * sent.sensitivity, law="laplace"),)
