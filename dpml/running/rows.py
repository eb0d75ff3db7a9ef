"""Tidy rows: what a cell measured, one metric per row, and its guarantees, one view and basis per row.

They become rows.csv and guarantees.csv.

Both tables:

- ``dataset``, ``partition``, ``algo``, ``variant``, ``calibration``, ``loss``: what ran, by name.
- ``M``, ``N``, ``d``: parties, private training rows, and features as an algorithm sees them.
- ``seed``: of rows, partition, initial points and noise.

Rows, one for a metric of a draw:

- ``eps``, ``delta``: the budget that was asked for.
- ``draw``: the number of the release; draws of one seed share rows, partition and fit.
- ``metric``, ``value``: what was measured, and its value.
- ``unit``: what is protected: one `sample`, or all samples of one `party`.
- ``claimed_eps``: what is claimed: by the paper for its noise, or for `tight` noise what was asked for.
- ``proven_eps``, ``proven_view``: what is proven in the worst view, and which view that is; eps is infinite where
  nothing is proven.
- ``not_proven``: why nothing is proven, where something is claimed.
- ``conditional_eps``: what would be proven for hyper-parameters fixed beforehand.
- ``n_min``, ``n_max``: rows of the smallest and of the largest party.
- ``tuned``: how the step size was chosen; `fixed` for all others.
- ``private_preprocessing``: the steps that were fitted to private rows, which no budget counts.

Guarantees, one for a view and a basis of a budget:

- ``budget_eps``, ``budget_delta``: the budget that was asked for.
- ``view``: what the adversary sees: `release`, `aggregate`, `client`, `transcript` or `colluders`.
- ``unit``: what is protected: one `sample`, or all samples of one `party`.
- ``eps``, ``delta``: what is guaranteed.
- ``basis``: `published`, `proven`, or `conditional` (for hyper-parameters fixed beforehand).
- ``source``: the theorem or the argument.
- ``mu``: of Gaussian differential privacy, where that is what is proven; it gives an eps for every delta.
- ``secure_sums``: how many vectors parties sum securely in a release; empty for one trusted place.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from dpml.data.preprocess import private_note
from dpml.privacy import Budget, Guarantee, worst
from dpml.running.cell import Cell, Measured

SETTING = ["dataset", "partition", "algo", "variant", "calibration", "loss", "eps", "delta", "M", "N", "d"]
PRIVACY = ["unit", "claimed_eps", "proven_eps", "proven_view", "not_proven", "conditional_eps"]
EPS = ("proven_eps", "conditional_eps")
"""What figures show of guarantees, for the worst view: what is proven, or would be for values fixed beforehand."""
SIZES = ["n_min", "n_max"]
"""Rows of the smallest and of the largest party, as dealt: a rule that rounds may give others than it was asked for."""
COLUMNS = [*SETTING, "seed", "draw", "metric", "value", *PRIVACY, *SIZES, "tuned", "private_preprocessing"]


def own_columns(rows: pd.DataFrame) -> list[str]:
    """The columns beside those that all rows have: settings that were set, vary or follow from a rule, and those of
    computed blocks.
    """
    return [key for key in rows.columns if key not in (*COLUMNS, "block")]


def tabulate(cell: Cell, measured: Measured, settings: Sequence[str] = ()) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of a cell and its guarantees.

    `settings`, such as ``algo.lam``, become columns of both, and so do the hyper-parameters in an algorithm's `ruled`,
    to which a rule gave their values.
    """
    algorithm, problem = cell.algorithm, measured.problem
    context = {
        "dataset": cell.dataset.info.name,
        "partition": cell.partition.name,
        "algo": algorithm.name,
        "variant": algorithm.variant,
        "calibration": algorithm.calibration,
        "loss": algorithm.loss.name,
    }
    sizes = {"M": problem.M, "N": problem.N, "d": problem.d, "seed": cell.seed}
    ruled = (f"algo.{name}" for name in getattr(algorithm, "ruled", ()))
    own = {key: setting(cell, key) for key in dict.fromkeys((*settings, *ruled))}
    budgets = [budget for number, budget in enumerate(cell.budgets) if number not in measured.refused]
    privacy = [_privacy(budget, given) for budget, given in zip(budgets, measured.guarantees, strict=True)]
    names = list(measured.metrics)
    # rows run over budgets, then metrics, then draws
    per_budget, per_row = len(names) * cell.draws, len(budgets) * len(names)
    rows = pd.DataFrame(
        context
        | {"eps": np.repeat([budget.eps for budget in budgets], per_budget)}
        | {"delta": np.repeat(np.array([budget.delta for budget in budgets], dtype=float), per_budget)}
        | sizes
        | {
            "draw": np.tile(cell.first + np.arange(cell.draws), per_row),
            "metric": np.tile(np.repeat(names, cell.draws), len(budgets)),
            "value": np.stack([measured.metrics[name] for name in names], axis=1).ravel(),
        }
        | {key: np.repeat([facts[key] for facts in privacy], per_budget) for key in PRIVACY}
        | dict(zip(SIZES, measured.sizes, strict=True))
        | {
            "tuned": getattr(algorithm, "tuned", "fixed"),
            "private_preprocessing": private_note(measured.provenance.get("preprocessing", [])),
        }
        | own,
        columns=[*COLUMNS, *own],
    )
    # a property of algorithms that parties carry out by secure sums; NaN: one trusted place, or other messages
    sums = {"secure_sums": getattr(algorithm, "secure_sums", math.nan)}
    guarantees = [
        context | sizes | {"budget_eps": budget.eps, "budget_delta": budget.delta} | asdict(guarantee) | sums | own
        for budget, given in zip(budgets, measured.guarantees, strict=True)
        for guarantee in given
    ]
    return rows, pd.DataFrame(guarantees)


def setting(cell: Cell, key: str) -> Any:
    """The value that a cell has for a key such as ``algo.lam`` or ``adversary.colluders``; None where it has none."""
    group, _, name = key.partition(".")
    groups = {"dataset": cell.dataset, "partition": cell.partition, "algo": cell.algorithm, "adversary": cell.adversary}
    configured = groups[group]
    value = getattr(configured, name.partition(".")[0], None)
    if callable(value):  # a method of another set is no option of this one: `rows`
        return None
    return value if value is None or isinstance(value, str | bool | int | float) else _text(value)


def _text(value: Any) -> str:
    """A list as on the command line: ``[a,[b,c]]``."""
    return f"[{','.join(map(_text, value))}]" if isinstance(value, list | tuple) else str(value)


def _privacy(budget: Budget, guarantees: Sequence[Guarantee]) -> dict[str, Any]:
    """The privacy columns of a budget: what is claimed, the worst of what is proven, and why nothing is."""
    proven = worst(guarantee for guarantee in guarantees if guarantee.basis == "proven")
    # a tight release claims what it was asked for
    claimed = max((g.eps for g in guarantees if g.basis == "published"), default=budget.eps)
    why = proven.source if math.isinf(proven.eps) and math.isfinite(claimed) else None
    conditional = max((g.eps for g in guarantees if g.basis == "conditional"), default=math.nan)
    values = (proven.unit, claimed, proven.eps, proven.view, why, conditional)
    return dict(zip(PRIVACY, values, strict=True))
