"""The mean of the parties' own models plus noise (Pathak et al. 2010): `avg` hides a whole party, `la` one sample."""

from dataclasses import dataclass
from typing import ClassVar

from dpml.algorithms.ensemble.local_models import LocalClassifiers, MeanModel
from dpml.mechanism.algorithm import Unit
from dpml.optim.logistic import longest_minimiser
from dpml.privacy import Problem


@dataclass(frozen=True)
class Average(LocalClassifiers):
    """`avg`: the mean of the local models; all rows of one party are the unit.

    One party's model moves by at most the diameter of all that it can be, 2 `longest_minimiser`, and the mean by 1/M of
    that. The paper counts ``2/(M lam)`` (softmax: ``2 sqrt2/(M lam)``), which is 189 times as much at lam = 1e-4.
    """

    name: ClassVar[str] = "avg"
    claim: ClassVar[str | None] = "Pathak et al. 2010, as in Hamm et al. 2016, App. B.4"

    def sensitivity(self, problem: Problem) -> tuple[float, float]:
        most = problem.N - problem.M + 1  # rows of a party at most, as all have one
        lam = self.strength(most)
        diameter = 2 * (longest_minimiser(self.loss, lam, problem.classes) + self.unsolved(most))
        return 2.0 * self.root / (problem.M * self.lam), diameter / problem.M

    def fit(self) -> MeanModel:
        return MeanModel(self.lam, self.reading.sums)


@dataclass(frozen=True)
class LocalAggregation(LocalClassifiers, losses=("logistic",), variants=("paper", "per_coordinate")):
    """`la`: the mean of the parties' own minimisers, as in `avg`; one sample is the unit.

    Replacing a row moves the gradient of its party's objective by at most 2/n, so its minimiser by 2/(n lam), and the
    mean by ``S = 2/(M n lam)`` for the smallest party's n. `tight` knows that no minimiser is longer than
    `longest_minimiser`, so that it cannot move by more than twice that. The parties' sizes are public. Both the noise
    of `tight` and every proven eps count the tolerance of the solver.

    Args:
        loss: logistic.
        variant: `paper`; or `per_coordinate`, a Laplace number of the scale in every coordinate, as Jayaraman et al.
            2018 draw it, and Pathak et al. themselves (footnote 2), of which only sqrt(d) times the eps is true.
        lam: coefficient of lam/2 ||w||^2.
    """

    name: ClassVar[str] = "la"
    claim: ClassVar[str | None] = "Pathak et al. 2010 (Rajkumar & Agarwal 2012, Sec. 2.4)"
    unit: ClassVar[Unit] = "sample"  # type: ignore[misc]

    lam: float = 0.01

    def sensitivity(self, problem: Problem) -> tuple[float, float]:
        published = 2 / (problem.smallest * self.lam)
        moved = min(published, 2 * longest_minimiser(self.loss, self.lam))
        return published / problem.M, (moved + 2 * self.unsolved(problem.N)) / problem.M

    def fit(self) -> MeanModel:
        return MeanModel(self.lam)
