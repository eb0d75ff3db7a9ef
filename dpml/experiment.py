"""One run: a data set, a partition and an algorithm over grids of budgets, parties and rows, as tidy tables."""

import json
import os
import platform
import subprocess
import zlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, fields
from functools import cache, lru_cache
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit
from threadpoolctl import ThreadpoolController

from dpml import __version__
from dpml.algorithms import Algorithm
from dpml.arrays import Array
from dpml.data import Dataset, Files, Source
from dpml.data.preprocess import private_note
from dpml.errors import UserError
from dpml.metrics import evaluate
from dpml.partition import Parties, Partition, partition, set_aside
from dpml.privacy import Budget, Guarantee, Problem, worst

SETTING = ["dataset", "partition", "algo", "variant", "calibration", "loss", "eps", "delta", "M", "N", "d"]
PRIVACY = ["unit", "claimed_eps", "proven_eps", "proven_view"]
COLUMNS = [*SETTING, "seed", "draw", "metric", "value", *PRIVACY, "tuned", "private_preprocessing"]

_PACKAGES = ("numpy", "scipy", "pandas", "scikit-learn", "hydra-core")


@dataclass(frozen=True)
class Run:
    """Everything one run depends on. `eps`, `delta`, `M` and `N` are grids; N = None means all training rows."""

    dataset: Source
    partition: Partition
    algorithm: Algorithm
    eps: tuple[float, ...]
    delta: tuple[float | None, ...]
    M: tuple[int, ...]
    N: tuple[int | None, ...] = (None,)
    seed: int = 0
    draws: int = 10
    files: Files = field(default_factory=Files)

    def __post_init__(self) -> None:
        check_counts(self.draws, self.seed)
        # refuse what cannot be calibrated before any data are read
        for N, M, budget in product(self.N, self.M, self.budgets):
            rows, d = self.dataset.size(N)
            aside = set_aside(self.partition, rows)
            self.algorithm.guarantees(budget, Problem(M, rows - aside, d, aside))

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """The grid of eps and delta."""
        return tuple(Budget(eps, delta) for eps, delta in product(self.eps, self.delta))

    @property
    def cells(self) -> "list[Cell]":
        """One cell for every N and M, those of the same data next to each other."""
        return [
            Cell(self.dataset, self.partition, self.algorithm, M, N, self.seed, self.budgets, self.draws, self.files)
            for N, M in product(self.N, self.M)
        ]


@dataclass(frozen=True)
class Result:
    """What a run leaves: `rows` (one metric per row), `guarantees` (one view and basis per row), and a manifest."""

    rows: pd.DataFrame
    guarantees: pd.DataFrame
    manifest: Mapping[str, Any]

    def write(self, folder: Path) -> None:
        """Write rows.csv, guarantees.csv and, last, manifest.json. Each appears whole or not at all."""
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "guarantees.csv", self.guarantees.to_csv(index=False))
        write_atomically(folder / "rows.csv", self.rows.to_csv(index=False))
        write_atomically(folder / "manifest.json", json.dumps(self.manifest, indent=2) + "\n")


def generator(seed: int, purpose: str, *who: str) -> np.random.Generator:
    """The random numbers for one purpose: `data`, `partition`, `start` or `noise`.

    Streams of different purposes are independent, so a change of algorithm or budget changes no row and no partition.
    `who` sets apart those that must not share numbers, such as the noise of two algorithms.
    """
    keys = tuple(zlib.crc32(part.encode()) for part in (purpose, *who))
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=keys))


@dataclass(frozen=True)
class Cell:
    """The unit of work: what shares a fit, with all its budgets and draws.

    Everything that a worker needs is in it: small frozen values, never arrays.
    """

    dataset: Source
    partition: Partition
    algorithm: Algorithm
    M: int
    N: int | None
    seed: int
    budgets: tuple[Budget, ...]
    draws: int
    files: Files = field(default_factory=Files)

    def __post_init__(self) -> None:
        check_counts(self.draws, self.seed)

    def identity(self, checksum: str | None) -> dict[str, Any]:
        """Everything its numbers depend on, as plain values: settings, the algorithm's version, the data's checksum."""
        return {
            "dataset": _plain(self.dataset),
            "data": checksum,
            "partition": _plain(self.partition),
            "algorithm": _plain(self.algorithm) | {"version": self.algorithm.version},
            "M": self.M,
            "N": self.N,
            "seed": self.seed,
            "budgets": [[budget.eps, budget.delta] for budget in self.budgets],
            "draws": self.draws,
        }


def check_counts(draws: int, seed: int) -> None:
    """Raise UserError when nothing could be drawn."""
    if draws < 1:
        raise UserError(f"draws must be at least 1, got draws={draws}.")
    if seed < 0:
        raise UserError(f"seed must be a whole number >= 0, got seed={seed}.")


def _plain(part: Any) -> dict[str, Any]:
    """The class and the fields of a configured object; a loss, which has no fields, is its name."""
    values = {f.name: getattr(part, f.name) for f in fields(part)}
    loss = {"loss": values["loss"].name} if "loss" in values else {}
    return {"class": f"{type(part).__module__}.{type(part).__qualname__}"} | values | loss


@dataclass(frozen=True)
class Measured:
    """What a cell yields: `metrics`, each (budgets, draws), and the guarantees of every budget."""

    problem: Problem
    metrics: Mapping[str, Array]
    guarantees: Sequence[Sequence[Guarantee]]
    provenance: Mapping[str, Any]


def measure(cell: Cell) -> Measured:
    """Load, deal, prepare, release, score, on one BLAS thread: more of them may sum in another order, to other bits.

    Raises:
        UserError: the algorithm cannot be used on these data, or not with this budget; says why.
    """
    with limit_blas():
        algorithm = cell.algorithm
        parties = deal(cell)
        guarantees = [algorithm.guarantees(budget, parties.problem) for budget in cell.budgets]
        mechanism = algorithm.prepare(parties, generator(cell.seed, "start"))
        noise = generator(cell.seed, "noise", algorithm.name, algorithm.variant)
        release = mechanism.release(cell.budgets, noise, cell.draws)
        metrics = evaluate(release.weights, parties, algorithm.loss, algorithm.lam) | dict(release.metrics)
    provenance = {"N": len(parties.data.y), **parties.data.provenance}
    return Measured(parties.problem, metrics, guarantees, provenance)


@cache
def _blas() -> ThreadpoolController:
    """The BLAS libraries of this process; finding them takes milliseconds, so it is done once."""
    return ThreadpoolController()


def limit_blas() -> AbstractContextManager[Any]:
    """Hold this process's BLAS to one thread: until the context ends, or for good when it is not used as one."""
    return _blas().limit(limits=1)


def deal(cell: Cell) -> Parties:
    """The parties of a cell, which depend on its data, partition, M, N and seed only. The last ones are kept."""
    return _parties(cell.partition, cell.M, cell.dataset, cell.files, cell.N, cell.seed)  # type: ignore[arg-type]


# neighbouring cells share their data; more than one set at a time may not fit


@lru_cache(maxsize=1)
def _parties(rule: Any, M: int, dataset: Any, files: Files, N: int | None, seed: int) -> Parties:
    return partition(_data(dataset, files, N, seed), rule, M, generator(seed, "partition"))


@lru_cache(maxsize=1)
def _data(dataset: Any, files: Files, N: int | None, seed: int) -> Dataset:
    data: Dataset = dataset.load(files, N, generator(seed, "data"))
    return data


def execute(run: Run, config: Mapping[str, Any] | None = None) -> Result:
    """Measure every cell of a run. `config` is what the manifest shall remember of how `run` was asked for."""
    measured = [(cell, measure(cell)) for cell in run.cells]
    tables = [tabulate(cell, found) for cell, found in measured]
    manifest = {
        "config": dict(config or {}),
        "dataset": [found.provenance for cell, found in measured if run.M[0] == cell.M],
        "seed": run.seed,
        **environment(),
    }
    rows, guarantees = (pd.concat(parts, ignore_index=True) for parts in zip(*tables, strict=True))
    return Result(rows, guarantees, manifest)


def tabulate(cell: Cell, measured: Measured) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of a cell (one metric per row) and its guarantees (one view and basis per row)."""
    algorithm, problem = cell.algorithm, measured.problem
    about = {
        "dataset": cell.dataset.info.name,
        "partition": cell.partition.name,
        "algo": algorithm.name,
        "variant": algorithm.variant,
        "calibration": algorithm.calibration,
        "loss": algorithm.loss.name,
    }
    sizes = {"M": problem.M, "N": problem.N, "d": problem.d, "seed": cell.seed}
    privacy = [_privacy(budget, given) for budget, given in zip(cell.budgets, measured.guarantees, strict=True)]
    names = list(measured.metrics)
    # rows run over budgets, then metrics, then draws
    per_budget, per_row = len(names) * cell.draws, len(cell.budgets) * len(names)
    rows = pd.DataFrame(
        about
        | {"eps": np.repeat([budget.eps for budget in cell.budgets], per_budget)}
        | {"delta": np.repeat(np.array([budget.delta for budget in cell.budgets], dtype=float), per_budget)}
        | sizes
        | {
            "draw": np.tile(np.arange(cell.draws), per_row),
            "metric": np.tile(np.repeat(names, cell.draws), len(cell.budgets)),
            "value": np.stack([measured.metrics[name] for name in names], axis=1).ravel(),
        }
        | {key: np.repeat([facts[key] for facts in privacy], per_budget) for key in PRIVACY}
        | {"tuned": "fixed", "private_preprocessing": private_note(measured.provenance.get("preprocessing", []))},
        columns=COLUMNS,
    )
    given = [
        about | sizes | {"budget_eps": budget.eps, "budget_delta": budget.delta} | asdict(guarantee)
        for budget, guarantees in zip(cell.budgets, measured.guarantees, strict=True)
        for guarantee in guarantees
    ]
    return rows, pd.DataFrame(given)


def _privacy(budget: Budget, guarantees: Sequence[Guarantee]) -> dict[str, Any]:
    """The privacy columns of a budget: what is claimed, and the worst of what is proven."""
    proven = worst(g for g in guarantees if g.basis == "proven")
    # a tight release claims what it was asked for
    claimed = max((g.eps for g in guarantees if g.basis == "published"), default=budget.eps)
    return {"unit": proven.unit, "claimed_eps": claimed, "proven_eps": proven.eps, "proven_view": proven.view}


def environment() -> dict[str, Any]:
    """What numbers and timings were made with: versions, the commit, the machine."""
    return {
        "versions": {"dpml": __version__, "python": platform.python_version()} | {p: version(p) for p in _PACKAGES},
        "git": _git_state(),
        "cpu": _cpu(),
        "platform": platform.platform(),
    }


def summarise(rows: pd.DataFrame, also: Sequence[str] = ()) -> pd.DataFrame:
    """Mean, standard deviation, number and 95 % t-interval (half width) of every metric over seeds and draws.

    Columns in `also` tell settings apart, too.
    """
    table = (
        rows.groupby([*SETTING, *also, "metric", *PRIVACY, "tuned"], sort=False, dropna=False)["value"]
        .agg(["mean", "std", "count"])
        .reset_index()
    )
    table["interval"] = stdtrit(np.maximum(table["count"] - 1, 1), 0.975) * table["std"] / np.sqrt(table["count"])
    return table


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader, or a crash, never meets half of it."""
    part = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        with part.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _git_state() -> dict[str, Any] | None:
    """Commit and cleanliness of the checkout that dpml runs from; None where it is installed without one."""
    package = Path(__file__).resolve().parent
    if not (package.parent / ".git").exists():
        return None

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=package, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.CalledProcessError):
        return None


def _cpu() -> dict[str, Any]:
    """The processor's name and the number of cores."""
    name = platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass  # not Linux
    return {"model": name, "cores": os.cpu_count()}
