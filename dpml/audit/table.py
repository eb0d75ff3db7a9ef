"""The audit of all algorithms: the rows of the experiment `audit/all`."""

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
    """A line per algorithm, noise and view; `claimed`, `proven`, `pair` and `attacked` are eps, and `power` is a ratio.

    Args:
        algorithms: for each `target` (a class), its `loss`, and options; `calibrations` where not both are to be tried,
            and `rows` where a party has not as many as `default_rows` says.
        eps: the budget.
        delta: the budget.
        M: parties.
        d: features.
        draws: releases of either of two neighbours.
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
