"""Turn the results of fits (cells) into two tables: one of measured values, and one of privacy guarantees."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpml.arrays import Array
from dpml.data.preprocess import private_note
from dpml.privacy import Budget, Guarantee, Problem, worst
from dpml.privacy.guarantee import DECLARED, HELD
from dpml.running.cell import Cell, Measured

if TYPE_CHECKING:
    import pandas as pd

SETTING = ["dataset", "partition", "algo", "variant", "calibration", "loss", "eps", "delta", "M", "N", "d"]
PRIVACY = ["unit", "claimed_eps", "proven_eps", "proven_view", "not_proven", "conditional_eps"]
EPS = ("proven_eps", "conditional_eps")
"""The eps that figures show, in the worst view: proven, or proven under the conditions that its source names."""
SIZES = ["n_min", "n_max"]
"""The row counts of the smallest and the largest party; rounding can make them differ from the requested sizes."""
COLUMNS = [*SETTING, "seed", "draw", "metric", "value", *PRIVACY, *SIZES, "tuned", "private_preprocessing"]


def own_columns(rows: "pd.DataFrame") -> list[str]:
    """Return the names of a table's columns that are not standard columns (COLUMNS), such as algo.lam."""
    return [key for key in rows.columns if key not in (*COLUMNS, "block")]


class Part(NamedTuple):
    """The results of one fit as lines of two tables: of measured values, and of privacy guarantees."""

    budgets: list[dict[str, Any]]
    rows: dict[str, Array]
    guarantees: list[dict[str, Any]]
    provenance: Mapping[str, Any]


def tabulate(cell: Cell, measured: Measured, settings: Sequence[str] = (), block: str = "") -> Part:
    """Return the results of one fit as lines of two tables: of measured values, and of privacy guarantees.

    Both tables get a column for each of the `settings`, and for each hyper-parameter that a rule has set (`ruled`).
    """
    algorithm, problem, about = cell.algorithm, measured.problem, measured.provenance
    context = {
        "block": block,
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
    others = {
        **dict(zip(SIZES, measured.sizes, strict=True)),
        "tuned": getattr(algorithm, "tuned", "fixed"),
        "private_preprocessing": private_note(about.get("preprocessing", []), about.get("rows_left_out", 0)),
    }
    given = [budget for number, budget in enumerate(cell.budgets) if number not in measured.refused]
    pairs = list(zip(given, measured.guarantees, strict=True))
    budgets = [
        context
        | {"eps": budget.eps, "delta": math.nan if budget.delta is None else float(budget.delta)}
        | sizes
        | _privacy(budget, guarantees)
        | others
        | own
        for budget, guarantees in pairs
    ]
    # rows run over budgets, then metrics, then draws
    names = list(measured.metrics)
    rows = {
        "draw": np.tile(cell.first + np.arange(cell.draws), len(given) * len(names)),
        "metric": np.tile(np.repeat(names, cell.draws), len(given)),
        "value": np.stack([measured.metrics[name] for name in names], axis=1).ravel(),
    }
    sums = {"secure_sums": _secure_sums(cell, given, problem)}
    lines = [
        context | sizes | {"budget_eps": budget.eps, "budget_delta": budget.delta} | guarantee.shown | sums | own
        for budget, guarantees in pairs
        for guarantee in guarantees
    ]
    return Part(budgets, rows, lines, about)


def joined(parts: Sequence[Part]) -> "tuple[pd.DataFrame, pd.DataFrame]":
    """Join the results of fits into two tables, of values and of guarantees; their first column names the block."""
    import pandas as pd  # slow to load, and not needed to compute guarantees

    def table(lines: Iterable[dict[str, Any]]) -> pd.DataFrame:  # a missing value does not turn integers into floats
        return pd.DataFrame(lines, dtype=object).infer_objects()

    budgets = table(budget for part in parts for budget in part.budgets)
    lengths = [len(part.rows["value"]) // max(len(part.budgets), 1) for part in parts for _ in part.budgets]
    rows = budgets.take(np.repeat(np.arange(len(budgets)), lengths)).reset_index(drop=True)
    for name in ("draw", "metric", "value"):
        rows[name] = np.concatenate([part.rows[name] for part in parts])
    own = [key for key in budgets if key not in ("block", *COLUMNS)]
    return rows[["block", *COLUMNS, *own]], table(line for part in parts for line in part.guarantees)


def _secure_sums(cell: Cell, budgets: Sequence[Budget], problem: Problem) -> float:
    count = getattr(cell.algorithm, "secure_sums", None)
    known = count(budgets[0], problem) if count and budgets else None
    return math.nan if known is None else known


def setting(cell: Cell, key: str) -> Any:
    """Return the value of a key such as ``algo.lam`` or ``adversary.colluders`` in the settings of a fit, or None."""
    group, _, name = key.partition(".")
    groups = {"dataset": cell.dataset, "partition": cell.partition, "algo": cell.algorithm, "adversary": cell.adversary}
    configured = groups[group]
    value = getattr(configured, name.partition(".")[0], None)
    if callable(value):  # a method with the name of another data set's option, such as `rows`
        return None
    return value if value is None or isinstance(value, str | bool | int | float) else _text(value)


def _text(value: Any) -> str:
    return f"[{','.join(map(_text, value))}]" if isinstance(value, list | tuple) else str(value)


def _privacy(budget: Budget, guarantees: Sequence[Guarantee]) -> dict[str, Any]:
    proven = worst(guarantee for guarantee in guarantees if guarantee.basis in HELD)
    # without a published claim, as with tight noise, the requested eps is the claim
    claimed = max((g.eps for g in guarantees if g.basis == "published"), default=budget.eps)
    why = proven.source if math.isinf(proven.eps) and math.isfinite(claimed) else None
    conditional = max((g.eps for g in guarantees if g.basis == "conditional"), default=math.nan)
    eps = proven.eps
    if proven.basis == DECLARED:
        eps, why, conditional = math.inf, proven.source, proven.eps
    values = (proven.unit, claimed, eps, proven.view, why, conditional)
    return dict(zip(PRIVACY, values, strict=True))
