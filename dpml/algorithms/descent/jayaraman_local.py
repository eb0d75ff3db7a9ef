"""Jayaraman et al.'s gradient perturbation as eq. (2) of Kang et al. 2019 writes it: local rounds, and a plain mean.

Table 1's noise, whose variance is ``c G^2 T ln(1/delta) / (M^2 n_min^2 eps^2)``, is in every client's rounds, and not
once in the average of a round, as inside the MPC of `jayaraman`. A round of the smallest client has M times the mu that
is counted in `jayaraman`: docs/privacy/kang2019.md, Theorem 3.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpml.algorithms.descent.layouts import Clients, Layout, moved
from dpml.algorithms.descent.noisy_descent import NoisyDescent
from dpml.arrays import Array
from dpml.errors import UserError
from dpml.privacy import Problem, View


@dataclass(frozen=True)
class PlainMean(Clients):
    """Clients of equal weight, each with the noise of a mean over M times the rows of the smallest."""

    def client_noise(self, problem: Problem, rows: Array) -> Array:
        return np.full(len(rows), 1 / (problem.M * problem.smallest))

    def sum_std(self, problem: Problem, honest: bool = False) -> float:
        return math.sqrt(problem.honest if honest else problem.M) / (problem.M**2 * problem.smallest)

    def round_mus(self, problem: Problem) -> Mapping[View, float]:
        """A row of the smallest client moves the average by 2G/(M n_min), and all clients' noise is in it."""
        client = self.of_client(problem)
        summed = moved(self.lipschitz, problem) / (problem.M * problem.smallest * self.sum_std(problem))
        return {"release": summed, "aggregate": summed, "colluders": client, "client": client}

    def last_iterates(self, problem: Problem) -> Mapping[View, tuple[float, float]]:
        """As of `Clients`: one chain, and in its last round the noise of all M clients, sqrt(M) times its own."""
        client = self.of_client(problem)
        average = (client, math.sqrt(problem.M))
        return {"release": average, "aggregate": average, "colluders": (client, 1.0), "client": (client, 1.0)}

    def model_weights(self, problem: Problem) -> Array:
        return np.full(problem.M, 1 / problem.M)


@dataclass(frozen=True)
class LocalRounds(NoisyDescent):
    """`jayaraman_local`: the options of `noisy_descent.NoisyDescent`, with published noise only."""

    def __post_init__(self) -> None:
        if self.calibration == "tight":
            raise UserError(
                f"algo={self.name} is a reading of published noise; for tight noise take algo=jayaraman or algo=wddp."
            )
        if self.sites != "clients" or self.variant != "paper":
            raise UserError(f"algo={self.name} needs algo.sites=clients and algo.variant=paper.")
        super().__post_init__()

    @property
    def kind(self) -> Any:
        return replace(
            super().kind, name="jayaraman_local", claim="Jayaraman et al. 2018, as in Kang et al. 2019, eq. (2)"
        )

    @property
    def layout(self) -> Layout:
        return PlainMean(self.lipschitz, True, self.target, False, False)
