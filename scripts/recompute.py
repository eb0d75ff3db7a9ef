"""Test whether the code still gives the published numbers: python scripts/recompute.py [NAME ...] --data-dir DIR

For every experiment in results/ (or the named ones, such as frontier/centre), it computes a few fits (cells) again, and
the blocks that functions compute. The fits are drawn at random, one of each algorithm in turn. What takes too long is
skipped. The rows are compared with the published rows, which have nine digits. It prints a line for each experiment:
how many rows it computed, how many values differ by more than rounding, and an example. Exit status 1: some differ.
"""

import argparse
import random
import signal
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpml.api.jobs import ask
from dpml.api.settings import Settings
from dpml.errors import nearest
from dpml.reporting.artifacts import results_of
from dpml.reporting.evidence import read_rows
from dpml.reporting.manifest import Manifest
from dpml.running.expansion import Point
from dpml.running.plan import Plan
from dpml.running.runner import Job, Outcome, attempt
from dpml.running.spec import is_computed
from dpml.running.store import Record

TOLERANCE = 1e-5  # relative: other libraries and processors round differently
SAID = ["tuned", "private_preprocessing", "not_proven", "n_min", "n_max"]  # columns of text that are not settings
NUMBERS = ["value", "claimed_eps", "proven_eps", "conditional_eps"]


def within(seconds: float, job: Job) -> Outcome | None:
    """Return the outcome of a job, or None if it takes longer than `seconds`. Unix only."""

    def end(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return attempt(job)  # an interrupted job is a failure
    except TimeoutError:
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def drawn(plan: Plan, generator: random.Random) -> Iterator[Point]:
    """Yield the fits (cells) in random order, taking one of each algorithm in turn."""
    groups = defaultdict(list)
    for point in plan.cells:
        if point.cell:
            groups[point.cell.algorithm.name].append(point)
    for group in groups.values():
        generator.shuffle(group)
    yield from filter(None, chain.from_iterable(zip_longest(*groups.values())))


def computed(plan: Plan, cells: int, seconds: float, seed: int) -> pd.DataFrame:
    """Compute some fits (cells) and blocks again, and return their rows in the form of published rows."""
    blocks: dict[str, Any] = {}
    for block in plan.experiment.computed:
        if isinstance(found := within(seconds, block), Record):
            plan.store.write(block.key, found)
            blocks[block.block] = plan.experiment.grid[block.block]
    left, tries = cells, 2 * cells
    for point in drawn(plan, random.Random(f"{plan.experiment.name} {seed}")):
        if not left or not tries:
            break
        tries -= 1
        outcome = within(seconds, point.cell)  # type: ignore[arg-type]
        if isinstance(outcome, Record) and outcome.skipped is None:
            plan.store.write(point.key, outcome)
            point.record, point.status = outcome, "done"
            left -= 1
    if left == cells and not blocks:
        return pd.DataFrame()
    grid = {name: block for name, block in plan.experiment.grid.items() if not is_computed(block)} | blocks
    return results_of(replace(plan, experiment=replace(plan.experiment, grid=grid)), pd.DataFrame()).rows


def compared(rows: pd.DataFrame, published: pd.DataFrame) -> str:
    """Return a text about the differences of recomputed rows; empty if nothing differs."""
    keys = [name for name in rows if name in published and name not in (*SAID, *NUMBERS) and not name.endswith("_view")]
    both = (table.assign(key=list(map(str, _plain(table[keys])))) for table in (rows, published))
    new, old = (table.drop_duplicates("key").set_index("key") for table in both)
    shared = new.index.intersection(old.index)
    words = [] if len(shared) == len(new) else [f"{len(new) - len(shared)} of {len(new)} rows are not published"]
    for name in NUMBERS:
        if name not in new or name not in old:
            continue
        now, before = (pd.to_numeric(table.loc[shared, name]).to_numpy(float) for table in (new, old))
        largest = np.abs(old[name][np.isfinite(old[name])]).max() if name == "value" else 0
        off = ~np.isclose(now, before, rtol=TOLERANCE, atol=1e-9 * TOLERANCE * largest, equal_nan=True)
        if off.any():
            first = int(off.argmax())
            example = f"such as {now[first]:.6g} for {before[first]:.6g}: {shared[first]}"
            words.append(f"{off.sum()} of {len(off)} {name} differ, {example}")
    return "; ".join(words)


def _plain(table: pd.DataFrame) -> Iterator[dict[str, str]]:
    """Yield the settings of each row, as text that does not depend on the number format."""
    for line in table.to_dict("records"):
        numbers = {k: f"{float(v):.9g}" for k, v in line.items() if isinstance(v, int | float | np.number) and v == v}
        yield {str(k): numbers.get(k, str(v)) for k, v in line.items() if v is not None and v == v}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each experiment, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="PAPER/FIGURE (default: all in results/)")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--cells", type=int, default=5, help="fits (cells) of each experiment (default: 5)")
    parser.add_argument("--seconds", type=float, default=20, help="the most time of a cell or a block (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="which cells are drawn (default: 0)")
    options = parser.parse_args(arguments)
    files = sorted(options.results.glob("*/*_rows.csv.xz"))
    known = [f"{path.parent.name}/{path.name.removesuffix('_rows.csv.xz')}" for path in files]
    if not known:
        parser.error(f"there are no published rows in {options.results}.")
    for name in options.names:
        if name not in known:
            parser.error(f"there are no published rows of {name} in {options.results}: {nearest(name, known)}")
    differ = 0
    for name in options.names or known:
        base = options.results / name
        manifest = Manifest(base.with_name(f"{base.name}.json")).read()
        if not manifest:
            parser.error(f"{base}.json is missing, or was changed after it was written.")
        published = read_rows(base, manifest["files"])
        with tempfile.TemporaryDirectory() as store:
            words = [f"experiment={name}", f"data_dir='{options.data_dir.absolute()}'", f"results_dir='{store}'"]
            (plan,) = ask(Settings(words)).plans
            rows = computed(plan, options.cells, options.seconds, options.seed)
        said = compared(rows, published) if len(rows) else ""
        differ += bool(said)
        print(f"{name}: {len(rows)} of {len(published)} rows computed again{': ' + said if said else ''}", flush=True)
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main())
