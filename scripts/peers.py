"""Measure programs of others on the rows, and at the guarantee, of the experiment frontier/centre.

python scripts/peers.py --data-dir DIR writes experiments/frontier/peers.csv, whose points lie beside our curves. Every
program of scripts/peers runs in a virtual environment of its own with the packages that its head names (PEP 723), from
PyPI: they need other versions than dpml does. Rows are exported from the loaders of dpml, 5 seeds; every program has
4 draws for each. It takes some minutes; ``--only amp`` runs one program again and keeps the points of the others.
"""

import argparse
import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import numpy as np
import pandas as pd

from dpml.data import Files, Source
from dpml.data.sets.adult import Adult
from dpml.data.sets.bank import Bank
from dpml.data.sets.crime import Crime
from dpml.seeds import generator

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = {path.stem: path for path in sorted((ROOT / "scripts" / "peers").glob("*.py")) if path.stem != "rows"}
TARGET = ROOT / "experiments" / "frontier" / "peers.csv"
SEEDS = range(5)
DATA: dict[str, Source] = {
    "adult": Adult(steps=("one_hot", "symmetric", "sample_norm")),
    "bank": Bank(steps=("one_hot", "symmetric", "sample_norm")),
    "crime": Crime(steps=("max_abs", "sample_norm")),
}


def export(files: Files, folder: Path) -> None:
    """Write the rows of every data set and seed, as a cell has them, unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in DATA.items():
        for seed in SEEDS:
            path = folder / f"{name}_{seed}.npz"
            if not path.exists():
                data = source.load(files, None, generator(seed, "data"))
                np.savez_compressed(path, X=data.X, y=data.y, X_test=data.X_test, y_test=data.y_test)


def dependencies(program: Path) -> list[str]:
    """The packages that a program's head names."""
    head = re.search(r"^# /// script\n(.*?)^# ///$", program.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert head is not None, f"{program} names no packages"
    content = tomllib.loads("".join(line.removeprefix("# ").removeprefix("#") for line in head[1].splitlines(True)))
    return list(content["dependencies"])


def python_of(program: Path, folder: Path) -> Path:
    """The interpreter of a program's environment, which is made where there is none for its packages."""
    wanted, kept = "\n".join(dependencies(program)), folder / "packages.txt"
    python = folder / "bin" / "python"
    if not kept.exists() or kept.read_text("utf-8") != wanted:
        venv.create(folder, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *dependencies(program)], check=True)
        kept.write_text(wanted, encoding="utf-8")
    return python


def points(table: pd.DataFrame) -> pd.DataFrame:
    """A program's rows as points: the mean over seeds of means over draws, and the s.d. and number of all values."""
    keys = ["dataset", "eps", "algo", "metric"]
    groups = table.groupby(keys, sort=False)["value"]
    means = table.groupby([*keys, "seed"], sort=False)["value"].mean().groupby(keys, sort=False).mean()
    found = pd.DataFrame({"mean": means, "std": groups.std(), "n": groups.count()}).reset_index()
    found = found.rename(columns={"dataset": "series", "eps": "x"})
    return found[["series", "x", "algo", "metric", "mean", "std", "n"]]


def main() -> None:
    """Run the programs and write their points."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", help="where the files of adult, bank and crime lie (default: as for dpml-run)")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "peers", help="for environments and rows")
    parser.add_argument("--only", choices=PROGRAMS, action="append", help="run this program only")
    options = parser.parse_args()
    export(Files(options.data_dir), options.work / "data")
    for name, program in PROGRAMS.items():
        rows = options.work / f"{name}.csv"
        if name in (options.only or PROGRAMS) or not rows.exists():
            print(f"{name} ...", flush=True)
            python = python_of(program, options.work / name)
            one_thread = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            subprocess.run([python, program, options.work / "data", rows], check=True, env=one_thread)
    tables = [points(pd.read_csv(options.work / f"{name}.csv")) for name in PROGRAMS]
    notes = [line for name in PROGRAMS for line in (options.work / f"{name}.txt").read_text("utf-8").splitlines()]
    python_version = ".".join(map(str, sys.version_info[:2]))
    head = [
        "What programs of others reach on the rows of frontier/centre: python scripts/peers.py --data-dir DIR",
        f"5 seeds, 4 draws each, delta = 1e-5 where it is not 0, replace-one, Python {python_version}",
        *notes,
    ]
    text = "".join(f"# {line}\n" for line in head) + pd.concat(tables).to_csv(index=False, float_format="%.6g")
    TARGET.write_text(text, encoding="utf-8")
    print(f"written: {os.path.relpath(TARGET)}")


if __name__ == "__main__":
    main()
