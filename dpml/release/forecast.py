"""What accuracy to expect of `wdgd` before any budget is spent: from its rule and public tables, reading no row.

How much of what could be learned a private model learns depends mostly on x = n mu/d: n is the number of rows, or of
parties, that one of them is protected among, mu the budget of the worst view (Gaussian DP), d the number of features.
`look_alikes.csv` has, of each public table in experiment=frontier/heldout, what was reached at several x. A forecast
reads each table's curve at the x asked for. It is a statement about those tables: others may be easier or harder.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpml.data.info import Task
from dpml.mechanism.program import Program
from dpml.privacy import Budget, Problem

TRIED = "wdgd"
"""The algorithm that was tried."""

TABLE = Path(__file__).with_name("look_alikes.csv")

SCALES: dict[Task, str] = {
    "binary": "of the AUC above 1/2",
    "multiclass": "of the accuracy above the commonest class's",
    "regression": "of the squared error below the mean's",
}
"""What a share is of: what a model without privacy gains over one that uses no feature, on test rows."""

_TASKS: dict[str, Task] = {"logistic": "binary", "softmax": "multiclass", "squared": "regression"}
_FEW = 3  # tables, below which nothing is forecast


@dataclass(frozen=True)
class LookAlike:
    """What a public table showed: shares of what a model without privacy gains, and whether a constant was beaten.

    Attributes:
        dataset: its name.
        task: its task.
        x: n mu/d of every budget (k,), increasing.
        share: the share at each, at most 1 (k,); it may be negative.
        beaten: whether the mean over seeds was better than a constant's, in accuracy or root mean squared error (k,).
    """

    dataset: str
    task: Task
    x: tuple[float, ...]
    share: tuple[float, ...]
    beaten: tuple[bool, ...]

    def at(self, x: float) -> tuple[float, bool] | None:
        """Share and `beaten` at x, by interpolation in log x; None more than a factor of 2 outside what was tried."""
        if not self.x[0] / 2 <= x <= self.x[-1] * 2:
            return None
        place = np.interp(math.log(x), np.log(self.x), np.arange(len(self.x)))
        share = float(np.interp(place, np.arange(len(self.x)), self.share))
        return share, self.beaten[math.floor(place)]


@dataclass(frozen=True)
class Forecast:
    """What look-alikes showed at x = n mu/d.

    Attributes:
        x: n mu/d.
        task: the task.
        shares: (table, share) of each table that was tried near x, in increasing order of the share.
        beaten: on how many of them the model was better than a constant.
    """

    x: float
    task: Task
    shares: tuple[tuple[str, float], ...]
    beaten: int

    @property
    def sentences(self) -> list[str]:
        """The forecast in words."""
        said = [f"n mu/d = {self.x:.3g}: rows (or parties), times the mu of the worst view, over features."]
        if len(self.shares) < _FEW:
            return [*said, "Too few public tables of this task were tried near that, so nothing is forecast."]
        found = [share for _, share in self.shares]
        low, middle, high = np.quantile(found, (0.25, 0.5, 0.75))
        count = len(found)
        said.append(
            f"On {count} public tables wdgd reached {middle:.0%} {SCALES[self.task]} that a model without privacy has "
            f"(median; the middle half {low:.0%} to {high:.0%}; {', '.join(f'{n} {s:.0%}' for n, s in self.shares)})."
        )
        better = f"It was better than using no feature at all on {self.beaten} of them."
        if 2 * self.beaten <= count:
            better += " Expect no better than a constant: more rows, fewer features or a larger budget would help."
        return [*said, better]


def reach(budget: Budget, problem: Problem, algorithm: Program) -> float:
    """n mu/d of a release."""
    n = problem.N if algorithm.unit == "sample" else problem.M
    return n * algorithm.target_mu(budget, problem) / problem.d


def forecast(budget: Budget, problem: Problem, algorithm: Program) -> Forecast:
    """What to expect of a release of `wdgd`."""
    x, task = reach(budget, problem, algorithm), _TASKS[algorithm.loss.name]
    found = [(table.dataset, *at) for table in look_alikes() if table.task == task and (at := table.at(x))]
    shares = sorted(((name, share) for name, share, _ in found), key=lambda pair: pair[1])
    return Forecast(x, task, tuple(shares), sum(beaten for *_, beaten in found))


def look_alikes(path: Path = TABLE) -> Sequence[LookAlike]:
    """The curves of all tables in a file that `scripts/look_alikes.py` wrote."""
    import pandas as pd  # slow to load

    table = pd.read_csv(path)
    return [
        LookAlike(str(name), rows["task"].iloc[0], *(tuple(rows[key]) for key in ("x", "share", "beaten")))
        for name, rows in table.groupby("dataset", sort=False)
    ]
