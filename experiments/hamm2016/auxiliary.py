"""Search for the sensitivity of a minimiser if an auxiliary row changes as well (Hamm et al. 2016, Sec. 4.5).

All votes of one party flip, and one of a few auxiliary rows may be replaced. The paper bounds the sensitivity by 2/lam
for votes, and for soft labels by 2/(M lam), times (N + M - 1)/N if a row is replaced.
"""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from dpml.arrays import Array
from dpml.reporting.claims import Evidence, Group, NotComputedError
from dpml.reporting.criteria import exact
from dpml.seeds import generator


def moves(M: Sequence[int], N: int = 20, lam: float = 0.5, tries: int = 300, seed: int = 0) -> pd.DataFrame:
    """Search for the largest ratio of sensitivity to the paper's bound (`move`), by M, labels and replacement of a row.

    Rows have two features and norm 1. In half of the tries, all rows are equal, so that changes add up.
    """
    found = []
    for parties in M:
        rng = generator(seed, "noise", "auxiliary", str(parties))
        largest: dict[tuple[str, str], float] = {}
        for number in range(tries):
            angles = rng.uniform(0, 2 * math.pi, N) if number % 2 else np.full(N, rng.uniform(0, 2 * math.pi))
            X = np.stack([np.cos(angles), np.sin(angles)], axis=1)
            votes = np.full(N, parties // 2) + (rng.integers(-1, 2, N) if number % 2 else 0)
            other = X.copy()
            other[0] = -X[0]
            for labels in ("vote", "soft"):
                shares = [votes / parties, (votes + 1) / parties]
                a, b = ((share > 0.5).astype(float) if labels == "vote" else share for share in shares)
                bound = 2 / lam if labels == "vote" else 2 / (parties * lam)
                factor = 1.0 if labels == "vote" else (N + parties - 1) / N
                start = _minimiser(X, a, lam)
                for sample, rows, most in (("same", X, bound), ("other", other, bound * factor)):
                    moved = float(np.linalg.norm(start - _minimiser(rows, b, lam))) / most
                    largest[labels, sample] = max(largest.get((labels, sample), 0.0), moved)
        found += [
            {"M": parties, "labels": labels, "sample": sample, "metric": "move", "value": value}
            for (labels, sample), value in largest.items()
        ]
    return pd.DataFrame(found)


def _minimiser(X: Array, positive: Array, lam: float) -> Array:
    w = np.zeros(X.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-(X @ w)))
        gradient = X.T @ (p - positive) / len(X) + lam * w
        w = w - np.linalg.solve((X.T * (p * (1 - p))) @ X / len(X) + lam * np.eye(len(w)), gradient)
    return w


def bounded(evidence: Evidence) -> list[Group]:
    """Test that no sensitivity exceeds the paper's bound."""
    rows = evidence.rows
    if "labels" not in rows or set(rows["sample"].dropna()) != {"same", "other"}:
        raise NotComputedError(["moves"])
    worst = rows.groupby(["labels", "sample"], as_index=False)["value"].max()
    shown = {f"{labels}, {sample} sample": exact(value, 1.0) for labels, sample, value in worst.to_numpy()}
    return [Group("move", "", "the bound", shown)]
