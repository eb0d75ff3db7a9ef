"""The mean of the parties' own models plus noise (Pathak et al. 2010): `avg` hides a whole party, `la` one sample."""

from dataclasses import dataclass
from typing import ClassVar

from numpy.random import Generator

from dpml.algorithms.ensemble.local_models import (
    LocalClassifiers,
    mean_model,
    model_plus_noise,
    reading,
    root,
    strength,
    unsolved,
)
from dpml.algorithms.prepared import PreparedOutput
from dpml.data.partition import Parties
from dpml.mechanism.algorithm import require_domain
from dpml.mechanism.guarantees import guarantees_of
from dpml.mechanism.options import RegularisedLogistic
from dpml.mechanism.outputs import NoisyOutput
from dpml.optim.logistic import longest_minimiser
from dpml.privacy import Budget, Problem


@dataclass(frozen=True)
class Average(LocalClassifiers):
    """`avg`: the mean of the local models; all rows of one party are the unit.

    One party's model moves by at most the diameter of all that it can be, 2 `longest_minimiser`, and the mean by 1/M of
    that. The paper counts ``2/(M lam)`` (softmax: ``2 sqrt2/(M lam)``), which is 189 times as much at lam = 1e-4.

    Args:
        loss: logistic (binary) or softmax (multiclass).
        calibration: as for `LocalClassifiers`.
        variant: as for `LocalClassifiers`.
        lam: coefficient of lam/2 ||w||^2.
    """

    name: ClassVar[str] = "avg"
    claim: ClassVar[str] = "Pathak et al. 2010, as in Hamm et al. 2016, App. B.4"
    guarantees = guarantees_of

    def sensitivity(self, problem: Problem) -> tuple[float, float]:
        """(published, proven): how far the model moves at most, in L2 norm, when one party's rows are replaced."""
        most = problem.N - problem.M + 1  # rows of a party at most, as all have one
        lam = strength(self, most)
        diameter = 2 * (longest_minimiser(self.loss, lam, problem.classes) + unsolved(self, most))
        return 2.0 * root(self) / (problem.M * self.lam), diameter / problem.M

    def messages(self, budget: Budget, problem: Problem) -> list[NoisyOutput]:
        """The mean plus noise."""
        return model_plus_noise(self, self.sensitivity(problem), budget, problem)

    def prepare(self, parties: Parties, rng: Generator) -> PreparedOutput:
        """Train the local models."""
        require_domain(parties, self.loss)
        return PreparedOutput(self, mean_model(parties, self.lam, reading(self).sums), parties.problem)


@dataclass(frozen=True)
class LocalAggregation(RegularisedLogistic):
    """`la`: the mean of the parties' own minimisers, as in `avg`; one sample is the unit.

    Replacing a row moves the gradient of its party's objective by at most 2/n, so its minimiser by 2/(n lam), and the
    mean by ``S = 2/(M n lam)`` for the smallest party's n. `tight` knows that no minimiser is longer than
    `longest_minimiser`, so that it cannot move by more than twice that. The parties' sizes are public. Both the noise
    of `tight` and every proven eps count the tolerance of the solver.

    Args:
        loss: logistic.
        calibration: `published` noise, or `tight`: scaled to the sensitivity that we prove.
        variant: `paper`; or `per_coordinate`, a Laplace number of the scale in every coordinate, as Jayaraman et al.
            2018 draw it, and Pathak et al. themselves (footnote 2), of which only sqrt(d) times the eps is true.
        lam: coefficient of lam/2 ||w||^2.
    """

    name: ClassVar[str] = "la"
    claim: ClassVar[str | None] = "Pathak et al. 2010 (Rajkumar & Agarwal 2012, Sec. 2.4)"
    variants: ClassVar[tuple[str, ...]] = ("paper", "per_coordinate")

    guarantees = guarantees_of

    def sensitivity(self, problem: Problem) -> tuple[float, float]:
        """(published, proven): how far the mean moves at most, in L2 norm, when one row is replaced."""
        published = 2 / (problem.smallest * self.lam)
        moved = min(published, 2 * longest_minimiser(self.loss, self.lam))
        return published / problem.M, (moved + 2 * unsolved(self, problem.N)) / problem.M

    def messages(self, budget: Budget, problem: Problem) -> list[NoisyOutput]:
        """The mean plus noise."""
        return model_plus_noise(self, self.sensitivity(problem), budget, problem, unit="sample")

    def prepare(self, parties: Parties, rng: Generator) -> PreparedOutput:
        """Train the local models."""
        require_domain(parties, self.loss)
        return PreparedOutput(self, mean_model(parties, self.lam), parties.problem)
