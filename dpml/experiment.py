"""One run: a data set, a partition and an algorithm over grids of budgets, parties and rows, as tidy tables."""

import json
import os
import platform
import subprocess
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from dpml import __version__
from dpml.algorithms import Algorithm
from dpml.data import Files, Source
from dpml.errors import UserError
from dpml.metrics import evaluate
from dpml.partition import Parties, Partition, partition, set_aside
from dpml.privacy import Budget, Problem, worst

SETTING = ["dataset", "partition", "algo", "variant", "calibration", "loss", "eps", "delta", "M", "N", "d"]
PRIVACY = ["unit", "claimed_eps", "proven_eps", "proven_view"]
COLUMNS = [*SETTING, "seed", "draw", "metric", "value", *PRIVACY, "tuned"]

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
        if self.draws < 1:
            raise UserError(f"draws must be at least 1, got draws={self.draws}.")
        if self.seed < 0:
            raise UserError(f"seed must be a whole number >= 0, got seed={self.seed}.")
        # refuse what cannot be calibrated before any data are read
        for N, M, budget in product(self.N, self.M, self.budgets):
            rows, d = self.dataset.size(N)
            aside = set_aside(self.partition, rows)
            self.algorithm.guarantees(budget, Problem(M, rows - aside, d, aside))

    @property
    def budgets(self) -> list[Budget]:
        """The grid of eps and delta."""
        return [Budget(eps, delta) for eps, delta in product(self.eps, self.delta)]


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


def execute(run: Run, config: Mapping[str, Any] | None = None) -> Result:
    """Load, deal, prepare, release, score. `config` is what the manifest shall remember of how `run` was asked for."""
    rows, guarantees, provenance = [], [], []
    for N in run.N:
        data = run.dataset.load(run.files, N, generator(run.seed, "data"))
        provenance.append({"N": len(data.y), **data.provenance})
        for M in run.M:
            parties = partition(data, run.partition, M, generator(run.seed, "partition"))
            measured, given = _cell(run, parties)
            rows.append(measured)
            guarantees.append(given)
    manifest = {
        "config": dict(config or {}),
        "dataset": provenance,
        "seed": run.seed,
        "versions": {"dpml": __version__, "python": platform.python_version()} | {p: version(p) for p in _PACKAGES},
        "git": _git_state(),
        "cpu": _cpu(),
        "platform": platform.platform(),
    }
    return Result(pd.concat(rows, ignore_index=True), pd.concat(guarantees, ignore_index=True), manifest)


def _cell(run: Run, parties: Parties) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows and guarantees of one (M, N): one fit, all budgets and draws."""
    algorithm, problem = run.algorithm, parties.problem
    mechanism = algorithm.prepare(parties, generator(run.seed, "start"))
    noise = generator(run.seed, "noise", algorithm.name, algorithm.variant)
    release = mechanism.release(run.budgets, noise, run.draws)
    metrics = evaluate(release.weights, parties, algorithm.loss, algorithm.lam) | dict(release.metrics)

    about = {
        "dataset": parties.data.name,
        "partition": run.partition.name,
        "algo": algorithm.name,
        "variant": algorithm.variant,
        "calibration": algorithm.calibration,
        "loss": algorithm.loss.name,
    }
    sizes = {"M": problem.M, "N": problem.N, "d": problem.d, "seed": run.seed}
    frames, given = [], []
    for i, budget in enumerate(run.budgets):
        guarantees = algorithm.guarantees(budget, problem)
        proven = worst(g for g in guarantees if g.basis == "proven")
        # a tight release claims what it was asked for
        claimed = max((g.eps for g in guarantees if g.basis == "published"), default=budget.eps)
        budget_columns = {"eps": budget.eps, "delta": budget.delta}
        frames += [
            pd.DataFrame(
                about
                | budget_columns
                | sizes
                | {
                    "draw": np.arange(run.draws),
                    "metric": name,
                    "value": values[i],
                    "unit": proven.unit,
                    "claimed_eps": claimed,
                    "proven_eps": proven.eps,
                    "proven_view": proven.view,
                    "tuned": "fixed",
                },
                columns=COLUMNS,
            )
            for name, values in metrics.items()
        ]
        asked = {"budget_eps": budget.eps, "budget_delta": budget.delta}
        given.append(pd.DataFrame([about | sizes | asked | asdict(guarantee) for guarantee in guarantees]))
    return pd.concat(frames, ignore_index=True), pd.concat(given, ignore_index=True)


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean, standard deviation, number and 95 % t-interval (half width) of every metric over seeds and draws."""
    table = (
        rows.groupby([*SETTING, "metric", *PRIVACY, "tuned"], sort=False, dropna=False)["value"]
        .agg(["mean", "std", "count"])
        .reset_index()
    )
    table["interval"] = stats.t.ppf(0.975, np.maximum(table["count"] - 1, 1)) * table["std"] / np.sqrt(table["count"])
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
