"""The choice of lam in the experiments rajkumar2012/fig1 and fig2: ``python scripts/choose_lam.py``.

For every lam of a fixed grid, the mean test error of gop, psgd and la (published noise, M = 5 equal parties) and of
nonpriv over 20 other data sets: new draws of the recipe, and for WDBC other random splits of its 569 rows, as there are
no further ones. `noisy` is the lam with the least mean over the three, `plain` the one with the least error without
noise; each is used for all algorithms. No budget is spent on the choice.
"""

import sys

import numpy as np

from dpml.algorithms import Algorithm
from dpml.algorithms.baselines import NonPrivate
from dpml.algorithms.descent.private_sgd import PrivateSGD
from dpml.algorithms.ensemble.averages import LocalAggregation
from dpml.algorithms.perturbation.objective import GaussianObjectivePerturbation
from dpml.data import Source
from dpml.data.partition import Equal
from dpml.data.sets.synthetic import Synthetic
from dpml.data.sets.wdbc import WDBC
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget
from dpml.running.cell import Cell, measure

GRID = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
SEEDS = range(1000, 1020)
EPS = (0.1, 0.2)
DATA: dict[str, Source] = {
    "fig1": Synthetic(recipe="ball_sign", d=10, rows=1000, test_rows=1000),
    "fig2": WDBC(),
}


def errors(algorithm: Algorithm, data: Source) -> list[float]:
    """The mean test error at every eps."""
    budgets = tuple(Budget(eps, 0.05) for eps in EPS)
    cells = [Cell(data, Equal(), algorithm, 5, None, seed, budgets, draws=10) for seed in SEEDS]
    return [
        1 - float(value) for value in np.mean([measure(cell).metrics["accuracy"].mean(axis=1) for cell in cells], 0)
    ]


def main() -> None:
    """Print the table."""
    for name, data in DATA.items():
        print(f"{name:6} {'lam':>6}" + "".join(f"  {f'eps={eps:g}: gop psgd la':<29}" for eps in EPS) + "  nonpriv")
        for lam in GRID:
            loss = LOSSES["logistic"]
            tried = (
                GaussianObjectivePerturbation(loss, lam=lam),
                PrivateSGD(loss, lam=lam),
                LocalAggregation(loss, lam=lam),
            )
            found = np.array([errors(algorithm, data) for algorithm in tried])
            columns = [f"{' '.join(f'{e:.3f}' for e in column)}  mean {column.mean():.3f}" for column in found.T]
            plain = errors(NonPrivate(loss, lam=lam), data)[0]
            print(f"{'':6} {lam:6g}" + "".join(f"  {column:<29}" for column in columns) + f"  {plain:.3f}")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
