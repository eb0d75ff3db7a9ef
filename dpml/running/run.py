"""A plain run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from dpml.algorithms import Algorithm
from dpml.atomic import write_atomically
from dpml.data import Files, Source
from dpml.data.partition import Partition, set_aside
from dpml.privacy import Budget, Problem
from dpml.running.cell import Cell, check_counts, measure
from dpml.running.environment import environment
from dpml.running.rows import tabulate


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
