"""How cost grows with parties M, rows N, features d, and cells, in CPU seconds and memory: python scripts/growth.py

Every point is measured in a process of its own, and written to results/growth.csv as it comes: the same command goes
on where it was, and ``--again`` begins anew. results/growth.md has the table with fitted exponents, results/growth.svg
the figure. Rows of the axis N are mapped from files (``--work``, 1.9 GB). ``--only N`` measures one axis,
``--most 1e6`` leaves out larger sizes.

    python scripts/growth.py --large 1e7

measures one run of ssp on 1e7 x 100 rows that are mapped from a file of 8 GB (``--work``; as much again is needed where
derived files go), and prints what it took.

Memory is what belongs to the process alone (RssAnon, looked at every 10 ms): pages of mapped files, which the system
takes back when it needs them, are told apart.
"""

import argparse
import json
import math
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from dpml.arrays import Array
from dpml.data import Dataset, Files, Info
from dpml.data.partition import PowerLaw, partition
from dpml.running import cell as cells
from dpml.running.cell import Cell, measure

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
_BLOCK = 1 << 16
_ENOUGH = 0.02  # CPU seconds and
_MOST = 16.0  # MiB from which a point counts for an exponent

Step = Callable[[], Any]


@dataclass(frozen=True)
class Mapped:
    """Rows of made-up data in .npy files, which stay in them: a data set of one's own that need not fit into memory."""

    info: ClassVar[Info] = Info(name="mapped", title="Rows mapped from a file", task="binary", citation="made up")
    folder: str
    rows: int
    d: int

    def size(self, N: int | None) -> tuple[int, int]:
        return N or self.rows, self.d

    def checksum(self, files: Files) -> None:
        return None

    def load(self, files: Files, N: int | None, rng: np.random.Generator) -> Dataset:
        X, y = (np.load(Path(self.folder) / f"{name}_{self.d}.npy", mmap_mode="r")[: self.rows] for name in ("X", "y"))
        return Dataset("mapped", "binary", X[:N], np.array(y[:N]), np.array(X[:1000]), np.array(y[:1000]))


def make_rows(folder: Path, rows: int, d: int) -> Mapped:
    """Rows in the unit ball, written in blocks unless they are there; fewer of them are the first ones."""
    folder.mkdir(parents=True, exist_ok=True)
    path, labels = folder / f"X_{d}.npy", folder / f"y_{d}.npy"
    if not labels.exists() or len(np.load(labels, mmap_mode="r")) < rows:
        rng = np.random.default_rng(0)
        truth = rng.standard_normal(d)
        X = np.lib.format.open_memmap(path, "w+", np.float64, (rows, d))
        y = np.empty(rows)
        for start in range(0, rows, _BLOCK):
            block = rng.standard_normal((min(_BLOCK, rows - start), d))
            block /= 1.001 * np.linalg.norm(block, axis=1, keepdims=True)
            X[start : start + len(block)] = block
            y[start : start + len(block)] = np.where(4 * block @ truth + rng.logistic(size=len(block)) > 0, 1.0, -1.0)
        del X
        np.save(labels, y)
    return Mapped(str(folder), rows, d)


def cell_of(*words: str) -> Cell:
    """The cell of a command line."""
    from dpml.commands.jobs import run_job
    from dpml.commands.settings import Settings
    from dpml.config.compose import compose

    (point,) = run_job(compose(words, None), Settings(words), Path()).task.points
    assert point.cell is not None
    return point.cell


# ---- what is measured: functions of a size that get ready, and return what is timed


def of_parties(words: str, M: int, work: Path) -> Iterator[tuple[str, Step]]:
    """A million rows of 10 features, dealt to M parties: what an algorithm does with them."""
    cell = cell_of("dataset=synthetic", "dataset.recipe=logistic", "dataset.d=10", "N=1000000", f"M={M}", "draws=1",
                   "seed=0", *words.split())  # fmt: skip
    parties = cells.deal(cell)
    rng = np.random.default_rng
    yield "", lambda: cell.algorithm.prepare(replace(parties), rng(0)).release(cell.budgets, rng(0), 1)


def dealing(M: int, work: Path) -> Iterator[tuple[str, Step]]:
    """A million rows are dealt to M parties whose sizes follow a power law."""
    data = Dataset("none", "binary", np.zeros((1_000_000, 10)), np.ones(1_000_000), np.zeros((0, 10)), np.zeros(0))
    yield "", lambda: partition(data, PowerLaw(), M, np.random.default_rng(0))


def of_rows(words: str, N: int, work: Path) -> Iterator[tuple[str, Step]]:
    """A whole cell on N mapped rows of 20 features and 10 parties: loading, dealing, fitting, releasing, scoring."""
    rows = make_rows(work, max(N, 10**6), 20)
    cell = replace(cell_of("dataset=synthetic", "dataset.recipe=logistic", "M=10", "draws=1", *words.split()),
                   dataset=replace(rows, rows=N))  # fmt: skip

    def whole() -> None:
        cells._parties.cache_clear()
        cells._data.cache_clear()
        measure(cell)

    yield "", whole


def of_features(words: str, d: int, work: Path) -> Iterator[tuple[str, Step]]:
    """Fitting and releasing 2000 rows of d features and 10 parties."""
    cell = cell_of("dataset=synthetic", "dataset.recipe=logistic", f"dataset.d={d}", "N=2000", "M=10", "draws=1",
                   *words.split())  # fmt: skip
    parties = cells.deal(cell)
    rng = np.random.default_rng
    yield "", lambda: cell.algorithm.prepare(replace(parties), rng(0)).release(cell.budgets, rng(0), 1)


def of_cells(count: int, work: Path) -> Iterator[tuple[str, Step]]:
    """The four stages of an experiment whose cells take no time: planning, keeping, planning again, tables."""
    import tempfile

    import hydra

    from dpml.config.compose import initialise
    from dpml.running.executors import attempt
    from dpml.running.expansion import Expansion
    from dpml.running.plan import Options, Plan, Task, make_plan
    from dpml.running.spec import Experiment
    from dpml.running.store import Store

    content = {
        "title": "Cells", "source": "nobody",
        "settings": {"dataset": "synthetic", "algo": "fm", "M": 2, "N": 50, "draws": 1},
        "grid": {"a": {"seed": list(range(count)), "eps": 1.0}}, "panels": [],
    }  # fmt: skip
    os.fsync = lambda file: None  # how long a disk takes is its own affair
    with tempfile.TemporaryDirectory(dir=work) as folder:
        store, plans = Store(Path(folder)), list[Plan]()

        def plan() -> None:
            with initialise():
                points = Expansion.from_config(hydra.compose("config"), []).experiment(
                    Experiment.from_content("mine/cells", content)
                )
            plans[:] = [make_plan([Task("mine/cells", points)], store, Options())]

        yield "plan, nothing kept", plan
        first = plans[0].waiting()[0].point.cell
        assert first is not None
        record: Any = attempt(first)

        def keep() -> None:
            for entry in plans[0].waiting():
                store.write(entry.key, entry.identity, record)

        yield "keep results", keep
        yield "plan, all kept", plan
        yield "tables", lambda: plans[0].tables(plans[0].tasks[0])


@dataclass(frozen=True)
class Curve:
    """What is measured, at which sizes of an axis; one that has several stages names them."""

    axis: str
    name: str
    sizes: tuple[int, ...]
    make: Callable[[int, Path], Iterator[tuple[str, Step]]]
    stages: tuple[str, ...] = field(default=("",))


def decades(first: int, last: int) -> tuple[int, ...]:
    """The powers of ten from 10^first to 10^last."""
    return tuple(10**power for power in range(first, last + 1))


CURVES = (
    Curve("M", "dealing rows (power_law)", decades(2, 6), dealing),
    *(Curve("M", words.split()[0][5:], decades(2, 6), partial(of_parties, words))
      for words in ("algo=ssp", "algo=avg algo.lam=0.01", "algo=capefm", "algo=dpgd algo.rounds=30")),
    Curve("M", "wddp", decades(2, 4), partial(of_parties, "algo=wddp algo.rounds=30")),
    *(Curve("N", words.split()[0][5:], decades(4, 7), partial(of_rows, words))
      for words in ("algo=nonpriv", "algo=ssp", "algo=dpgd algo.rounds=30")),
    *(Curve("d", words.split()[0][5:], decades(1, last), partial(of_features, words))
      for words, last in (("algo=ssp", 3), ("algo=objpert algo.lam=0.01", 3), ("algo=dpgd algo.rounds=30", 4))),
    Curve("cells", "", decades(2, 5), of_cells, ("plan, nothing kept", "keep results", "plan, all kept", "tables")),
)  # fmt: skip


# ---- measuring


def memory(pid: int | str = "self") -> tuple[float, float]:
    """MiB that belong to a process alone, and MiB of mapped files that it has in memory."""
    found = dict(re.findall(r"^Rss(\w+):\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), flags=re.MULTILINE))
    return int(found["Anon"]) / 1024, (int(found["File"]) + int(found["Shmem"])) / 1024


@dataclass(frozen=True)
class Cost:
    """CPU seconds, seconds by the clock, and MiB at the peak: what the step added, all, and of mapped files."""

    cpu: float
    wall: float
    added: float
    own: float
    mapped: float


def cost(step: Step, base: float) -> Cost:
    """What a step costs; a short one is done three times, and the fastest counts. `base`: MiB before getting ready."""
    peak, over = [memory()], threading.Event()

    def watch() -> None:
        while not over.wait(0.01):
            now = memory()
            peak[0] = max(peak[0][0], now[0]), max(peak[0][1], now[1])

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    times: list[tuple[float, float]] = []
    while not times or (len(times) < 3 and sum(cpu for cpu, _ in times) < 0.5):
        cpu, wall = time.thread_time(), time.perf_counter()
        step()
        times.append((time.thread_time() - cpu, time.perf_counter() - wall))
    over.set()
    watcher.join()
    own, mapped = peak[0]
    return Cost(*min(times), own - base, own, mapped)


def child(number: int, size: int, work: Path) -> None:
    """Measure one point and print it."""
    base = memory()[0]
    with cells.limit_blas():
        for stage, step in CURVES[number].make(size, work):
            print(json.dumps([stage, vars(cost(step, base))]), flush=True)


def points(number: int, size: int, work: Path) -> Iterator[dict[str, Any]]:
    """The points of a curve at a size, measured in a process of their own."""
    curve = CURVES[number]
    words = [sys.executable, __file__, "--child", str(number), str(size), "--work", str(work)]
    one_thread = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    printed = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=one_thread).stdout
    for line in printed.splitlines():
        stage, found = json.loads(line)
        yield {"axis": curve.axis, "curve": curve.name + stage, "size": size, **found, "load": os.getloadavg()[0]}


def measure_all(options: argparse.Namespace) -> pd.DataFrame:
    """All points: those that are kept, and the others measured now."""
    target = RESULTS / "growth.csv"
    known = pd.read_csv(target).to_dict("records") if target.exists() and not options.again else []
    kept: list[Mapping[str, Any]] = list(known)
    done = {(point["axis"], point["curve"], point["size"]) for point in kept}
    for number, curve in enumerate(CURVES):
        for size in curve.sizes:
            wanted = {(curve.axis, curve.name + stage, size) for stage in curve.stages}
            if wanted <= done or size > options.most or options.only not in ("", curve.axis):
                continue
            for point in points(number, size, options.work):
                kept.append(point)
                print(f"{point['axis']}={size:g} {point['curve']}: {point['cpu']:.3g} s, {point['own']:.0f} MiB")
            pd.DataFrame(kept).to_csv(target, index=False, float_format="%.5g")
    return pd.DataFrame(kept)


# ---- what was found


def exponent(sizes: Array, values: Array, least: float) -> float:
    """b of ``value ~ size^b``, by least squares in logarithms over the last two decades of points that are `least`."""
    counts = (values >= least) & (sizes >= sizes.max() / 100)
    if counts.sum() < 2:
        return math.nan
    return float(np.polyfit(np.log(sizes[counts]), np.log(values[counts]), 1)[0])


def table(found: pd.DataFrame) -> str:
    """One line per curve: CPU seconds and MiB at every size, and the exponents."""
    lines = [
        "| axis | what | CPU seconds | MiB | time grows as | memory grows as |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for (axis, curve), rows in found.groupby(["axis", "curve"], sort=False):
        rows = rows.sort_values("size")
        sizes = rows["size"].to_numpy(float)
        by = [exponent(sizes, rows[key].to_numpy(), least) for key, least in (("cpu", _ENOUGH), ("added", _MOST))]
        grows = [f"{axis}^{b:.2f}" if math.isfinite(b) else "too little to tell" for b in by]
        said = [
            ", ".join(f"1e{math.log10(size):.0f}: {value:.3g}" for size, value in zip(sizes, rows[key], strict=True))
            for key in ("cpu", "own")
        ]
        lines.append(f"| {' | '.join([str(axis), str(curve), *said, *grows])} |")
    return "\n".join(lines) + "\n"


def draw(found: pd.DataFrame, path: Path) -> None:
    """CPU seconds above, peak memory below, a column for every axis."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    from dpml.reporting.style import STYLE, in_style, looks

    axes, kinds = list(dict.fromkeys(found["axis"])), (("cpu", "CPU seconds"), ("own", "own memory at the peak, MiB"))
    titles = {"M": "parties M", "N": "rows N", "d": "features d", "cells": "cells"}
    with in_style(STYLE):
        figure, panels = plt.subplots(2, len(axes), figsize=(3.3 * len(axes), 5.6), sharex="col", squeeze=False)
        for column, axis in enumerate(axes):
            names = list(dict.fromkeys(found.loc[found["axis"] == axis, "curve"]))
            drawn = looks({axis: names} if axis == "cells" else {name: [name] for name in names})
            for (key, label), panel in zip(kinds, panels[:, column], strict=True):
                for curve, look in drawn.items():
                    rows = found[(found["axis"] == axis) & (found["curve"] == curve)]
                    panel.loglog(rows["size"], rows[key], color=look.colour, marker=look.marker, linestyle=look.dashes,
                                 markersize=4, label=curve)  # fmt: skip
                panel.set_ylabel(label if column == 0 else "")
            panels[0, column].legend(fontsize=7.5, loc="lower left", bbox_to_anchor=(-0.05, 1), ncols=2)
            low, high = panels[1, column].get_ylim()
            panels[1, column].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
            panels[1, column].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
            panels[1, column].yaxis.set_minor_formatter(NullFormatter())
            panels[1, column].set_xlabel(titles[axis])
        figure.tight_layout()
        figure.savefig(path, metadata={"Date": None})


def large(rows: int, work: Path) -> None:
    """One cell of ssp on so many mapped rows of 100 features."""
    base = memory()[0]
    data = make_rows(work, rows, 100)
    cell = replace(cell_of("dataset=synthetic", "dataset.recipe=logistic", "algo=ssp", "M=10", "draws=1"), dataset=data)
    found: list[Any] = []
    spent = cost(lambda: found.append(measure(cell)), base)
    accuracy = float(found[0].metrics["accuracy"][0, 0])
    print(
        f"{rows:,} rows x 100, ssp, 10 parties: {spent.cpu:.0f} s of the processor, {spent.wall:.0f} s by the clock; "
        f"at its peak {spent.own:.0f} MiB of its own, {spent.mapped:.0f} MiB of mapped files; "
        f"accuracy {accuracy:.3f}; load {os.getloadavg()[0]:.1f}"
    )


def main() -> None:
    """Measure, and write the table and the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--again", action="store_true", help="forget the points that are kept")
    parser.add_argument("--only", choices=["", *dict.fromkeys(curve.axis for curve in CURVES)], default="")
    parser.add_argument("--most", type=float, default=math.inf, help="the largest size")
    parser.add_argument("--large", type=float, help="one run on so many rows of 100 features instead")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "growth", help="for mapped rows and kept cells")
    parser.add_argument("--child", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    if options.child:
        child(*options.child, options.work)
    elif options.large:
        large(int(options.large), options.work)
    else:
        found = measure_all(options)
        load = found["load"].mean()
        made = f"Made by `python scripts/growth.py` on {os.cpu_count()} cores, one thread; load {load:.1f} on average."
        about = "CPU seconds of one process, and its own peak memory; exponents over the last two decades."
        (RESULTS / "growth.md").write_text(f"# Growth\n\n{made} {about}\n\n{table(found)}", encoding="utf-8")
        draw(found, RESULTS / "growth.svg")
        print("written: results/growth.csv, growth.md, growth.svg")


if __name__ == "__main__":
    main()
