"""Measure other people's programs on the rows of frontier/centre and frontier/heldout, with the same guarantees.

python scripts/peers.py --data-dir DIR writes experiments/frontier/peers.csv, whose points are drawn next to our curves.
Every program in scripts/peers runs in its own environment, which uv makes from the packages at the top of the program
(PEP 723); dpml, whose loaders give the rows, is one of them. There are 5 seeds. Every program has 4 draws per seed; MST
has one for large tables. All programs take two CPU hours; ``--only amp`` runs one program again and keeps the others'
points. Install uv first: ``pip install uv``.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = {path.stem: path for path in sorted((ROOT / "scripts" / "peers").glob("*.py")) if path.stem != "rows"}
TARGET = ROOT / "experiments" / "frontier" / "peers.csv"


def points(table: pd.DataFrame) -> pd.DataFrame:
    """Return a program's points: mean over seeds of means over draws, standard deviation and number of values."""
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
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "peers", help="for the values of all draws")
    parser.add_argument("--only", choices=PROGRAMS, action="append", help="run this program only")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    for name, program in PROGRAMS.items():
        rows = options.work / f"{name}.csv"
        if name in (options.only or PROGRAMS) or not rows.exists():
            print(f"{name} ...", flush=True)
            one_thread = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            uv = ["uv", "run", "--python", sys.executable, "--script", program, rows]
            subprocess.run(uv + [options.data_dir] * bool(options.data_dir), check=True, env=one_thread)
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
