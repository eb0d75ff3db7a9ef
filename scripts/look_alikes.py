"""Write dpml/release/look_alikes.csv, from which `dpml forecast` reads, of the results of experiment=frontier/heldout.

python scripts/look_alikes.py, after the experiment; with --check, only say whether the file is out of date.
"""

import sys
from pathlib import Path

import pandas as pd

from dpml.algorithms.descent.whitened import WhitenedDescent
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget, Problem
from dpml.release.forecast import TABLE, reach

RESULTS = Path(__file__).resolve().parents[1] / "results" / "frontier" / "heldout.csv"
TASKS = {"binary": "binary", "classes": "multiclass", "wide": "multiclass", "regression": "regression"}
METRICS = {"binary": ("auc", "accuracy"), "multiclass": ("accuracy", "accuracy"), "regression": ("rmse", "rmse")}


def table(results: Path = RESULTS) -> str:
    """The content of the file."""
    means = pd.read_csv(results, low_memory=False)
    means = means[means["algo"].isin(["constant", "ceiling", "wdgd"])]
    lines = [
        line(block, str(name), float(eps), rows)
        for (block, name, eps), rows in means.groupby(["block", "dataset", "eps"], sort=False)
    ]
    return pd.DataFrame(lines).to_csv(index=False)


def line(block: str, name: str, eps: float, rows: pd.DataFrame) -> dict[str, object]:
    """One table at one eps."""
    task = TASKS[block]
    metric, simple = METRICS[task]
    mean = rows.set_index(["algo", "metric"])["mean"]
    if task == "regression":
        best, floor, value = (mean[algo, metric] ** 2 for algo in ("ceiling", "constant", "wdgd"))
    else:
        best, floor, value = (mean[algo, metric] for algo in ("ceiling", "constant", "wdgd"))
    better = mean["wdgd", simple] - mean["constant", simple]
    own = rows[rows["algo"] == "wdgd"].iloc[0]
    problem = Problem(1, int(own["N"]), int(own["d"]))
    algorithm = WhitenedDescent(LOSSES[own["loss"]])
    return {
        "dataset": f"{name} N={problem.N}" if block == "wide" else name,
        "task": task,
        "x": f"{reach(Budget(eps, float(own['delta'])), problem, algorithm):.5g}",
        "share": f"{min(1.0, (value - floor) / (best - floor)):.4f}",
        "beaten": bool(better < 0 if task == "regression" else better > 0),
    }


def main() -> None:
    """Write the file, or compare it."""
    text = table()
    if "--check" in sys.argv[1:]:
        sys.exit(0 if TABLE.read_text() == text else f"{TABLE} is out of date")
    TABLE.write_text(text)


if __name__ == "__main__":
    main()
