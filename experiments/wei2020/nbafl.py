"""NbAFL (Wei et al. 2020, Algorithm 1) for logistic regression: clients send noisy models in every round.

In each of T rounds every client minimises its mean loss plus mu/2 ||w - w~||^2, where w~ is the last broadcast, clips
the result to length C, adds noise and sends it. The server broadcasts the mean, to which it may add noise. The proven
guarantee uses the true sensitivity to one row: docs/privacy/wei2020.md, Theorem 1.
"""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from dpml.algorithms.perturbation import solver_tolerance
from dpml.arrays import Array
from dpml.errors import UserError
from dpml.mechanism.algorithm import SIMULATED, Release, Rounds
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.guarantees import Proof, gaussian_proof, stated
from dpml.mechanism.message import Sum
from dpml.mechanism.program import Program
from dpml.optim.convex import minimise_convex
from dpml.options import POSITIVE
from dpml.privacy import Budget, Guarantee, Problem, View
from dpml.privacy.noise import gaussian

from .theorems import Noise, broadcasts, printed_noise


@dataclass(frozen=True)
class NbAFL(Program, losses=("logistic",), calibrations=("published",), lam=0.0, variants=("paper",), **SIMULATED):
    """`nbafl`: in every round, clients of equal size send clipped noisy models, and a server averages them.

    Args:
        lam: the ridge of the objective whose gap is reported; it is not used by the algorithm.
        rounds: T.
        clip: C, the largest norm of a local model.
        prox: mu, the strength of the pull to the last broadcast.
        exposures: L, the number of a client's uploads that an adversary is assumed to learn.
        chosen: K, the number of random clients that take part in a round; None: all.
    """

    name: ClassVar[str] = "nbafl"
    claim: ClassVar[str] = "Wei et al. 2020, Theorem 1"

    rounds: Rounds = 25
    clip: Annotated[float, POSITIVE] = 10.0
    prox: Annotated[float, POSITIVE] = 1.0
    exposures: Annotated[int, POSITIVE] = 1
    chosen: int | None = None

    def printed(self, budget: Budget, problem: Problem) -> tuple[float, int, Noise]:
        """Return 2 C/m, the number of clients in a round, and the paper's noise divided by 2 C/m."""
        taking = self.chosen or problem.M
        if problem.M * problem.smallest != problem.N or taking > problem.M:
            raise UserError(f"algo={self.name} needs partition=equal, M to divide N={problem.N}, and algo.chosen <= M.")
        delta = budget.require_delta(f"algo={self.name}")
        noise = printed_noise(budget.eps, delta, self.rounds, self.exposures, problem.M, self.chosen)
        return 2 * self.clip / problem.smallest, taking, noise

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        unit, taking, noise = self.printed(budget, problem)
        longest = 2 * (1 / problem.smallest + solver_tolerance(problem.N)) / self.prox
        shift = min(2 * self.clip, longest) / unit if noise.upload else math.inf
        sent = shift * math.sqrt(self.rounds) / (noise.upload or 1)
        seen = shift * broadcasts(noise, self.rounds, taking, taking) if noise.upload else math.inf
        mus: dict[View, float] = dict.fromkeys(("client", "transcript", "colluders"), sent)
        mus |= {"release": seen, "aggregate": seen}
        delta, source = budget.require_delta(self.name), "Theorem 2, docs/privacy/wei2020.md"
        proofs: dict[View, Proof] = {view: gaussian_proof(mu, delta, source) for view, mu in mus.items()}
        claims: dict[View, str] = dict.fromkeys(("release", "aggregate", "client"), self.claim)
        return stated(proofs, claims, "sample", budget, delta)

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        return ()

    def run(self, carrier: Carrier) -> Release:
        parties, budgets, rng, draws = carrier.mechanism.parties, carrier.budgets, carrier.rng, carrier.draws
        problem, d = parties.problem, parties.problem.d
        printed = [self.printed(budget, problem) for budget in budgets]
        stds = [unit * math.hypot(noise.upload / math.sqrt(taking), noise.server) for unit, taking, noise in printed]
        taking, width = printed[0][1], np.repeat(stds, draws)[:, None]
        models, tolerance = np.zeros((len(width), d)), solver_tolerance(problem.N)
        rows = [(parties.X[parties.of(k)], parties.y[parties.of(k)]) for k in range(problem.M)]
        for _ in range(self.rounds):
            clients = rng.permutation(problem.M)[:taking]
            pull = -self.prox * models
            local = (
                minimise_convex(self.loss, X, y, self.prox, pull, None, tolerance)
                for X, y in (rows[k] for k in clients)
            )
            fresh = np.tile(gaussian(rng, (draws, d)), (len(budgets), 1))  # the same noise for all budgets
            models = sum(clipped(w, self.clip) for w in local) / taking + width * fresh
        return Release(models.reshape(len(budgets), draws, d))


def clipped(models: Array, length: float) -> Array:
    """Return the models (B, d) clipped to the norm `length`."""
    return models / np.maximum(1, np.linalg.norm(models, axis=1, keepdims=True) / length)
