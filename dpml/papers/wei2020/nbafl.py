"""NbAFL (Wei et al. 2020, Algorithm 1) for logistic regression, as it is printed: noisy models of clients, round by round.

In each of T rounds every client minimises its mean loss plus mu/2 ||w - w~||^2, where w~ is the last broadcast, clips
the result to length C, adds noise and sends it; the server broadcasts the mean, to which it may add noise (Theorem 1).
With K random clients in each round their mean is taken, with the noise of the paper's Sec. V.

What is proven counts what a row really moves: the local objective is mu-strongly convex, so its minimiser moves by at
most 2/(n mu) for rows of norm 1, and clipping projects on a ball, which lengthens no move.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dpml.algorithms.perturbation.calibration import solver_tolerance
from dpml.algorithms.prepared import prepare_rows
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.mechanism.algorithm import Release
from dpml.mechanism.guarantees import stated
from dpml.mechanism.options import check_common, check_positive
from dpml.mechanism.outputs import Proof, gaussian_proof
from dpml.mechanism.program import check_rounds
from dpml.optim.convex import minimise_convex
from dpml.optim.losses import Loss
from dpml.papers.wei2020.theorems import Noise, broadcasts, printed_noise
from dpml.privacy import Budget, Calibration, Guarantee, Problem, View

SOURCE = "Gaussian DP of all uploads, and the stability of strongly convex minimisers"


@dataclass(frozen=True)
class NbAFL:
    """`nbafl`: models of clients of equal size, clipped and noised, averaged in `rounds` rounds.

    Args:
        loss: logistic.
        calibration: `published` noise.
        variant: `paper`.
        lam: of the objective whose gap is reported; no part of the algorithm.
        rounds: T.
        clip: C, the longest local model.
        prox: mu, the strength of the pull to the last broadcast.
        exposures: L, of how many of its T uploads an adversary is thought to learn.
        chosen: K, how many random clients take part in a round; None: all.
    """

    prepare = prepare_rows
    name: ClassVar[str] = "nbafl"
    auxiliary: ClassVar[float] = 0.0
    claim: ClassVar[str] = "Wei et al. 2020, Theorem 1"

    loss: Loss
    calibration: Calibration = "published"
    variant: str = "paper"
    lam: float = 0.0
    rounds: int = 25
    clip: float = 4.0
    prox: float = 1.0
    exposures: int = 1
    chosen: int | None = None

    def __post_init__(self) -> None:
        check_common(self, ("logistic",))
        check_rounds(self.name, self.rounds)
        for key in ("clip", "prox"):
            check_positive(f"algo.{key} of {self.name}", getattr(self, key))
        if self.calibration != "published":
            raise UserError(f"algo={self.name} is published noise: set calibration=published.")
        if not 1 <= self.exposures <= self.rounds:
            raise UserError(f"algo.exposures of {self.name} must be from 1 to algo.rounds, got {self.exposures}.")

    def unit(self, problem: Problem) -> float:
        """The printed sensitivity of an upload, 2 C/m.

        Raises:
            UserError: the clients are not of equal size, or fewer than are chosen.
        """
        if problem.M * problem.smallest != problem.N:
            raise UserError(f"algo={self.name} needs partition=equal, and M to divide N={problem.N}.")
        if self.chosen is not None and not 1 <= self.chosen <= problem.M:
            raise UserError(f"algo.chosen of {self.name} must be from 1 to M={problem.M}, got {self.chosen}.")
        return 2 * self.clip / problem.smallest

    def taking(self, problem: Problem) -> int:
        """How many clients take part in a round."""
        return problem.M if self.chosen is None else self.chosen

    def printed(self, budget: Budget, problem: Problem) -> Noise:
        """The noise, in units of the printed sensitivity."""
        delta = budget.require_delta(f"algo={self.name}")
        return printed_noise(budget.eps, delta, self.rounds, self.exposures, problem.M, self.chosen)

    def moved(self, problem: Problem) -> float:
        """How far a row moves an upload at most, in the same units; the solver stops at a gradient of its tolerance."""
        n = problem.smallest
        most = 2 * (1 / n + solver_tolerance(problem.N)) / self.prox
        return min(2 * self.clip, most) / self.unit(problem)

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """Of the broadcasts, and of whoever sees uploads: a row's client may take part in all rounds."""
        moved, delta = self.moved(problem), budget.require_delta(f"algo={self.name}")
        noise, taking = self.printed(budget, problem), self.taking(problem)
        if math.isinf(budget.eps):
            seen, sent = math.inf, math.inf
        else:
            seen = moved * broadcasts(noise, self.rounds, taking, taking)
            sent = moved * math.sqrt(self.rounds) / noise.upload
        shown: tuple[View, ...] = ("release", "aggregate")
        hidden: tuple[View, ...] = ("client", "transcript", "colluders")
        proofs: dict[View, Proof] = {view: gaussian_proof(seen, delta, SOURCE) for view in shown}
        proofs |= {view: gaussian_proof(sent, delta, SOURCE) for view in hidden}
        claimed: tuple[View, ...] = ("release", "aggregate", "client")
        return stated(proofs, dict.fromkeys(claimed, self.claim), "sample", budget, delta)

    def released(self, parties: Parties, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """The last broadcasts; the mean of the clients' noise is drawn at once. All runs choose the same clients."""
        problem, d = parties.problem, parties.problem.d
        taking, unit = self.taking(problem), self.unit(problem)
        noises = [self.printed(budget, problem) for budget in budgets]
        stds = [unit * math.hypot(noise.upload / math.sqrt(taking), noise.server) for noise in noises]
        width = np.repeat(stds, draws)[:, None]
        models, tolerance = np.zeros((len(width), d)), solver_tolerance(problem.N)
        rows = [(parties.X[parties.of(k)], parties.y[parties.of(k)]) for k in range(problem.M)]
        for _ in range(self.rounds):
            clients = range(problem.M) if self.chosen is None else rng.choice(problem.M, taking, replace=False)
            local = (minimise_convex(self.loss, *rows[k], self.prox, -self.prox * models, None, tolerance) for k in clients)
            fresh = np.tile(rng.standard_normal((draws, d)), (len(budgets), 1))  # budgets share their noise directions
            models = sum(clipped(w, self.clip) for w in local) / taking + width * fresh
        return Release(models.reshape(len(budgets), draws, d))


def clipped(models: Array, length: float) -> Array:
    """Models (B, d), none longer than `length`."""
    return models / np.maximum(1, np.linalg.norm(models, axis=1, keepdims=True) / length)
