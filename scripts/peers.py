"""Measure programs of others on the rows of frontier/centre and frontier/heldout, at the same guarantees.

python scripts/peers.py --data-dir DIR writes experiments/frontier/peers.csv, whose points are drawn next to our curves.
Every program in scripts/peers runs in its own environment, because it needs other versions than dpml. uv makes this
environment from the packages at the top of the program (PEP 723). Rows come from dpml's loaders, for 5 seeds. Every
program has 4 draws per seed; MST has one for large tables. All programs take two CPU hours; ``--only amp`` runs one
program again and keeps the others' points. Install uv first: ``pip install uv``.
"""

import argparse
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from dpml.config.catalogue import source
from dpml.data import Files
from dpml.data.table import Tabular
from dpml.seeds import generator

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = {path.stem: path for path in sorted((ROOT / "scripts" / "peers").glob("*.py")) if path.stem != "rows"}
TARGET = ROOT / "experiments" / "frontier" / "peers.csv"
SEEDS = range(5)
CENTRE, HELDOUT = ("one_hot", "symmetric", "sample_norm"), ("one_hot", "symmetric", "bias", "sample_norm")
DATA = {
    "adult": CENTRE,
    "bank": CENTRE,
    "crime": ("max_abs", "sample_norm"),
    **dict.fromkeys(("mroz", "loanapp", "german_credit", "orange_juice", "affairs", "caravan"), HELDOUT),
    "kddcup99_70k": HELDOUT,
    "wdbc": HELDOUT[1:],
    "breast_cancer": ("impute", *HELDOUT[1:]),
    **dict.fromkeys(("bikeshare", "diamonds", "birthweight", "college", "credit_balance"), HELDOUT),
}
"""The data sets of two classes and of regression in both experiments, with their preprocessing."""


def export(files: Files, folder: Path) -> None:
    """Write the rows of every data set and seed, preprocessed as in a cell and raw, unless the files exist."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, steps in DATA.items():
        for seed in SEEDS:
            path = folder / f"{name}_{seed}.npz"
            if not path.exists():
                found = replace(source(name), steps=steps)  # type: ignore[type-var]
                data = found.load(files, None, generator(seed, "data"))
                arrays = {"X": data.X, "y": data.y, "X_test": data.X_test, "y_test": data.y_test}
                np.savez_compressed(path, **arrays, **plain(found, files, seed))


def plain(source: Tabular, files: Files, seed: int) -> dict[str, np.ndarray]:
    """Return the raw rows, and the number of values of each symbolic column (0 for a numeric column)."""
    if not isinstance(source, Tabular):  # the rows come with scikit-learn or dpml
        return {}
    table, _ = source.table(files)
    train, test = source.split(table.y, None, generator(seed, "data"))
    if isinstance(test, slice):  # the official split keeps the file's order
        train = np.sort(train)
    levels = np.array(table.levels or [0] * table.X.shape[1])
    return {"plain": table.X[train], "plain_test": table.X[test], "levels": levels}


def points(table: pd.DataFrame) -> pd.DataFrame:
    """Return a program's points: the mean over seeds of means over draws, the s.d. and the number of values."""
    keys = ["dataset", "eps", "algo", "metric"]
    groups = table.groupby(keys, sort=False)["value"]
    means = table.groupby([*keys, "seed"], sort=False)["value"].mean().groupby(keys, sort=False).mean()
    found = pd.DataFrame({"mean": means, "std": groups.std(), "n": groups.count()}).reset_index()
    found = found.rename(columns={"dataset": "series", "eps": "x"})
    return found[["series", "x", "algo", "metric", "mean", "std", "n"]]


def main() -> None:
    """Run the programs and write their points."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", help="where the files of the data sets lie (default: as for dpml-run)")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "peers", help="for rows")
    parser.add_argument("--only", choices=PROGRAMS, action="append", help="run this program only")
    options = parser.parse_args()
    export(Files(options.data_dir), options.work / "data")
    for name, program in PROGRAMS.items():
        rows = options.work / f"{name}.csv"
        if name in (options.only or PROGRAMS) or not rows.exists():
            print(f"{name} ...", flush=True)
            one_thread = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            uv = ["uv", "run", "--python", sys.executable, "--script"]
            subprocess.run([*uv, program, options.work / "data", rows], check=True, env=one_thread)
    tables = [points(pd.read_csv(options.work / f"{name}.csv")) for name in PROGRAMS]
    notes = [line for name in PROGRAMS for line in (options.work / f"{name}.txt").read_text("utf-8").splitlines()]
    python_version = ".".join(map(str, sys.version_info[:2]))
    head = [
        "What programs of others reach on the rows of frontier/centre and frontier/heldout:",
        "python scripts/peers.py --data-dir DIR",
        "5 seeds, 4 draws each where no number is said, delta = 1e-5 where it is not 0, replace-one, "
        f"Python {python_version}",
        *notes,
    ]
    text = "".join(f"# {line}\n" for line in head) + pd.concat(tables).to_csv(index=False, float_format="%.6g")
    TARGET.write_text(text, encoding="utf-8")
    print(f"written: {os.path.relpath(TARGET)}")


if __name__ == "__main__":
    main()
