"""What an attacker achieves against a release of one setting, on data that are made up."""

from dataclasses import dataclass

from dpml.algorithms import Algorithm
from dpml.audit import DRAWS, ROUNDS, Finding, audit, default_rows
from dpml.commands.settings import Settings, compose_one
from dpml.config.build import budget, build_adversary, build_algorithm, instantiate, whole
from dpml.privacy import Budget, Problem


@dataclass(frozen=True)
class AttackRequest:
    """The attacked release, on synthetic data, and the number of draws."""

    algorithm: Algorithm
    budget: Budget
    problem: Problem
    draws: int
    seed: int

    @classmethod
    def of(cls, settings: Settings) -> "AttackRequest":
        """The attack on a setting, with the audit's own defaults."""
        config, d = compose_one(settings, "audit")
        given = settings.given
        for key, few in ROUNDS.items():
            if key in config.algo and f"algo.{key}" not in given:
                config.algo[key] = few
        algorithm = build_algorithm(config, instantiate(config.dataset, "dataset"))
        M = whole(config.M, "M")
        N = whole(config.N, "N") if config.N is not None else default_rows(algorithm) * M
        colluders = build_adversary(config.adversary).count(M)
        problem = Problem(M, N, 2 if d is None else d, auxiliary=10, classes=2, colluders=colluders)
        draws = whole(config.draws, "draws") if "draws" in given else DRAWS
        return cls(algorithm, budget(config.eps, config.delta), problem, draws, whole(config.seed, "seed"))

    def findings(self) -> list[Finding]:
        """What the attacks achieve, view by view."""
        return audit(self.algorithm, self.budget, self.problem, self.draws, self.seed)
