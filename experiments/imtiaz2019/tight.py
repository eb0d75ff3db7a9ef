"""Compare the optimality gaps of published and tight noise at the same proven privacy."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from dpml.algorithms.quadratic.functional_mechanism import FunctionalMechanism, Sites
from dpml.arrays import Array
from dpml.data.partition import Equal
from dpml.data.sets.synthetic import RECIPES, RecipeName, Synthetic
from dpml.mechanism.guarantees import guaranteed
from dpml.optim.losses import for_task
from dpml.privacy import Budget, Calibration, Problem, worst
from dpml.running.cell import Cell, measure

FAMILY: dict[str, Sites] = {"fm": "curator", "capefm": "cape", "conv": "independent"}


def loss_at_proven_eps(  # noqa: PLR0913 - the keys of a block in an experiment's file
    recipe: RecipeName,
    d: int,
    N: int,
    M: int,
    delta: float,
    eps: Sequence[float],
    draws: int = 20,
    seed: int = 0,
) -> pd.DataFrame:
    """Compute the optimality gaps of `tight` and published noise on synthetic data, at the same proven privacy.

    `asked_eps` is the eps that must be requested for the proven (eps, delta) against the strongest observer, found by
    Brent's method. `gap_ratio` is the mean gap with published noise, divided by that with tight noise.
    """
    data = Synthetic(recipe=recipe, d=d, rows=N)
    loss = for_task(RECIPES[recipe].task)
    problem = Problem(M, N, d)
    rows = []
    for name, sites in FAMILY.items():
        published = FunctionalMechanism(loss, sites=sites)
        requested: dict[Calibration, list[float]] = {
            "published": [_requested_eps(published, target, delta, problem) for target in eps],
            "tight": list(eps),
        }
        gaps = {}
        for calibration, values in requested.items():
            budgets = tuple(Budget(value, delta) for value in values)
            cell = Cell(data, Equal(), FunctionalMechanism(loss, calibration, sites=sites), M, N, seed, budgets, draws)
            metrics = measure(cell).metrics
            gaps[calibration] = metrics["optimality_gap"]
            shown = {key: metrics[key] for key in ("loss", "optimality_gap")}
            rows += _lines(name, calibration, eps, shown | {"asked_eps": np.array(values)[:, None]})
        ratios = gaps["published"].mean(axis=1, keepdims=True) / gaps["tight"].mean(axis=1, keepdims=True)
        rows += _lines(name, "published / tight", eps, {"gap_ratio": ratios})
    return pd.DataFrame(rows).assign(
        delta=delta, M=M, N=N, d=d, seed=seed, dataset=data.info.name, loss=loss.name, proven_view="worst"
    )


def _lines(algorithm: str, label: str, eps: Sequence[float], metrics: Mapping[str, Array]) -> list[dict[str, Any]]:
    return [
        {"algo": algorithm, "noise": label, "metric": metric, "draw": draw, "value": value, "proven_eps": target}
        for metric, table in metrics.items()
        for target, values in zip(eps, table, strict=True)
        for draw, value in enumerate(values)
    ]


def _requested_eps(algorithm: FunctionalMechanism, target: float, delta: float, problem: Problem) -> float:
    def excess(log_eps: float) -> float:
        guarantees = guaranteed(algorithm, Budget(math.exp(log_eps), delta), problem)
        return worst(g for g in guarantees if g.basis == "proven").eps - target

    return math.exp(float(brentq(excess, math.log(target) - 7, math.log(target) + 7, xtol=1e-12)))
