"""Compute the rows of the experiment `audit/all`: an audit of all algorithms."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from hydra.utils import get_class

from dpml.audit import DRAWS, ROUNDS, audit, default_rows
from dpml.optim.losses import LOSSES
from dpml.privacy import CALIBRATIONS, Budget, Problem

_VALUES = {"claimed": "claimed", "proven": "proven", "pair": "exact", "attacked": "attacked", "power": "power"}


def rows(
    algorithms: Sequence[Mapping[str, Any]],
    eps: float = 1.0,
    delta: float = 1e-5,
    M: int = 5,
    d: int = 2,
    draws: int = DRAWS,
) -> pd.DataFrame:
    """Audit each algorithm, and return one row for each algorithm, noise, view and metric.

    Args:
        algorithms: For each algorithm, a mapping with `target` (its class), `loss` and its options; optionally also
            `calibrations` (default: published and tight) and `rows` per party (default: `default_rows`).
        eps: The eps of the budget.
        delta: The delta of the budget.
        M: The number of parties.
        d: The number of features.
        draws: The number of releases of each of two neighbours.
    """
    lines = []
    for entry in algorithms:
        options = {key: value for key, value in entry.items() if key not in ("target", "loss", "calibrations", "rows")}
        kind = get_class(entry["target"])
        few = {key: count for key, count in ROUNDS.items() if hasattr(kind, key)}
        for calibration in entry.get("calibrations", CALIBRATIONS):
            algorithm = kind(LOSSES[entry["loss"]], calibration=calibration, **{**few, **options})
            problem = Problem(M, entry.get("rows", default_rows(algorithm)) * M, d, auxiliary=10, classes=2)
            own = {f"algo.{key}": value for key, value in options.items() if key != "variant"}
            setting = {
                "algo": algorithm.name,
                "variant": algorithm.variant,
                "loss": entry["loss"],
                "noise": calibration,
            }
            for finding in audit(algorithm, Budget(eps, delta), problem, draws):
                line = setting | {"view": finding.view, "verdict": finding.judgement} | own | {"N": problem.N}
                values = {name: getattr(finding, field) for name, field in _VALUES.items()}
                lines += [line | {"metric": name, "value": value} for name, value in values.items() if value == value]
    return pd.DataFrame(lines).assign(eps=eps, delta=delta, M=M, d=d)
