"""Compute a cell: one algorithm on one partition of one data set, with all budgets and noise draws."""

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cache, lru_cache
from typing import Annotated, Any

import numpy as np
from numpy.random import Generator
from threadpoolctl import ThreadpoolController

from dpml import code
from dpml.algorithms import Algorithm, Mechanism, Release
from dpml.algorithms.descent.in_step import in_step
from dpml.arrays import Array
from dpml.data import Dataset, Files, Source
from dpml.data.partition import Parties, Partition, partition, party_sizes
from dpml.data.sources.cache import keyed
from dpml.errors import UserError
from dpml.mechanism.carriers import Carrier, Prepared
from dpml.mechanism.guarantees import guaranteed
from dpml.optim import NotConvergedError
from dpml.options import at_least, check_options
from dpml.privacy import Adversary, Budget, Guarantee, Problem
from dpml.running.metrics import evaluate
from dpml.seeds import generator


@dataclass(frozen=True)
class Cell:
    """The unit of work: fit an algorithm to data, and release models at all privacy budgets, with all noise draws."""

    dataset: Source
    partition: Partition
    algorithm: Algorithm
    M: int
    N: Annotated[int | None, at_least(1)]
    seed: Annotated[int, at_least(0)]
    budgets: tuple[Budget, ...]
    draws: Annotated[int, at_least(1)]
    first: int = 0  # number of the first draw: many draws are split into several cells
    adversary: Adversary = field(default_factory=Adversary)
    metrics: tuple[str, ...] = ()  # dotted paths of metrics in addition to dpml's own
    files: Files = field(default_factory=Files)

    def __post_init__(self) -> None:
        check_options(self)

    def check(self) -> None:
        """Raise UserError if the noise cannot be calibrated for any of the budgets; the check needs no data."""
        _calibrated(self.algorithm, self.budgets, self.problem)

    @property
    def problem(self) -> Problem:
        """Return the public numbers that determine noise and guarantees; unknown party sizes are taken to be equal."""
        rows, d = self.dataset.size(self.N)
        info = self.dataset.info
        self.partition.check_task(info.task, info.name)
        aside = self.partition.aside(rows)
        colluders = self.adversary.count(self.M)
        problem = Problem(self.M, rows - aside, d, aside, info.width, colluders=colluders)
        sizes = party_sizes(self.partition, rows, self.M, generator(self.seed, "partition"))
        return problem if sizes is None else problem.of_sizes(sizes)

    def identity(self, checksum: str | None) -> dict[str, Any]:
        """Return the settings and the checksum of the data as plain values; the key of the cell is their hash."""
        parts = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "files"}
        values = {name: _plain(part) if is_dataclass(part) else part for name, part in parts.items()}
        budgets = [[budget.eps, budget.delta] for budget in self.budgets]
        return {**values, "budgets": budgets, "data": self._folder if checksum is None else checksum}

    @property
    def code(self) -> str:
        return code.digest(code.NUMBERS, code.named(self))

    @property
    def _folder(self) -> str | None:
        ours = type(self.dataset).__module__.partition(".")[0] == __name__.partition(".")[0]
        return None if ours or self.files.chosen is None else str(self.files.chosen.resolve())


def digest_of(dataset: Source, checksum: str | None) -> str | None:
    """Return the data's checksum to store with results: `checksum` or, for a user's file, a hash with a secret key."""
    return keyed(checksum) if checksum is not None and getattr(dataset, "own", False) else checksum


def _plain(part: Any) -> dict[str, Any]:
    values = {f.name: getattr(part, f.name) for f in fields(part) if not f.metadata.get("place")}
    loss = {"loss": values["loss"].name} if "loss" in values else {}
    return {"class": f"{type(part).__module__}.{type(part).__qualname__}"} | values | loss


@dataclass(frozen=True)
class Measured:
    """The results of a `Cell`: at each privacy budget, metrics and guarantees, or the reason why there are none."""

    problem: Problem
    metrics: Mapping[str, Array]  # arrays (budgets, draws)
    guarantees: Sequence[Sequence[Guarantee]]  # the guarantees of every budget
    provenance: Mapping[str, Any]
    sizes: tuple[int, int]  # the row counts of the smallest and the largest party
    refused: Mapping[int, str] = field(default_factory=dict)  # the reasons, by the numbers of budgets without results

    def text(self) -> str:
        return json.dumps(asdict(self), default=lambda value: value.tolist())

    @classmethod
    def of_text(cls, text: str) -> "Measured":
        values = json.loads(text)
        metrics = {name: np.array(table, dtype=float) for name, table in values["metrics"].items()}
        guarantees = [[Guarantee(**guarantee) for guarantee in budget] for budget in values["guarantees"]]
        refused = {int(number): reason for number, reason in values["refused"].items()}  # JSON has no integer keys
        smallest, largest = values["sizes"]
        provenance = values["provenance"]
        return cls(Problem(**values["problem"]), metrics, guarantees, provenance, (smallest, largest), refused)


def measure(cell: Cell, release: Release | None = None) -> Measured:
    """Compute a cell: partition the data, release models (unless `release` contains them), and compute the metrics."""
    with limit_blas():
        algorithm = cell.algorithm
        parties = deal(cell)
        guarantees, refused = _calibrated(algorithm, cell.budgets, parties.problem)
        mechanism = algorithm.prepare(parties, generator(cell.seed, "start"))
        failed: dict[int, str] = {}
        if release is None:
            release, failed = _released(cell, mechanism, {number: cell.budgets[number] for number in guarantees})
        metrics = evaluate(release.weights, parties, algorithm.loss, algorithm.lam, cell.metrics)
        metrics |= dict(release.metrics)
    provenance = {"N": len(parties.data.y), **parties.data.provenance}
    given = [guarantees[number] for number in guarantees if number not in failed]
    sizes = int(parties.sizes.min()), int(parties.sizes.max())
    return Measured(parties.problem, metrics, given, provenance, sizes, {**refused, **failed})


def _calibrated(
    algorithm: Algorithm, budgets: Sequence[Budget], problem: Problem
) -> tuple[dict[int, list[Guarantee]], dict[int, str]]:
    guarantees, refused = {}, {}
    for number, budget in enumerate(budgets):
        try:
            guarantees[number] = guaranteed(algorithm, budget, problem)
        except UserError as error:
            refused[number] = str(error)
    if not guarantees:
        raise UserError(refused[0])
    return guarantees, refused


def _released(cell: Cell, mechanism: Mechanism, budgets: Mapping[int, Budget]) -> tuple[Release, dict[int, str]]:
    """Release models at all budgets, and return the reason for each failed budget; raise an error if all failed."""

    def released(some: Sequence[Budget]) -> Release:  # with the same noise directions for any subset
        return mechanism.release(some, _noise(cell), cell.draws)

    try:
        return released(list(budgets.values())), {}
    except NotConvergedError:
        if len(budgets) == 1:
            raise
    releases, failed = [], {}
    for number, budget in budgets.items():
        try:
            releases.append(released([budget]))
        except NotConvergedError as error:
            failed[number] = str(error)
    if not releases:
        raise NotConvergedError(next(iter(failed.values())))
    weights = [release.weights for release in releases if release.weights is not None]
    metrics = {name: np.concatenate([release.metrics[name] for release in releases]) for name in releases[0].metrics}
    return Release(np.concatenate(weights) if weights else None, metrics), failed


def _noise(cell: Cell) -> Generator:
    further = (str(cell.first),) if cell.first else ()
    return generator(cell.seed, "noise", cell.algorithm.name, cell.algorithm.variant, *further)


def step_key(cell: Cell) -> Any:
    """Return the same key for cells that `released_in_step` can compute in one call; None for a cell computed alone."""
    return _rows_of(cell) if getattr(cell.algorithm, "in_step", False) else None


def released_in_step(cells: Sequence[Cell]) -> list[Release]:
    """Release at once the models of several fits with the same `step_key`; only rounding differs from separate fits."""
    carriers = []
    for cell in cells:
        parties = deal(cell)
        guarantees, _ = _calibrated(cell.algorithm, cell.budgets, parties.problem)
        mechanism = cell.algorithm.prepare(parties, generator(cell.seed, "start"))
        assert isinstance(mechanism, Prepared)
        budgets = [cell.budgets[number] for number in guarantees]
        carriers.append(Carrier(mechanism, budgets, _noise(cell), cell.draws, None))
    with limit_blas():
        return in_step(carriers)


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def limit_blas() -> AbstractContextManager[Any]:
    """Limit BLAS to one thread, for reproducible rounding: in a `with` statement, or permanently without one."""
    return _blas().limit(limits=1)


def deal(cell: Cell) -> Parties:
    """Deal the rows of a data set to the parties of a `Cell`. Only the result of the last call is cached."""
    return _parties(*_rows_of(cell))


def _rows_of(cell: Cell) -> tuple[Any, ...]:
    return cell.partition, cell.M, cell.dataset, cell.files, cell.N, cell.seed, cell.adversary


# consecutive cells share their data, so one entry is enough; two data sets may not fit into memory


@lru_cache(maxsize=1)
def _parties(*arguments: Any) -> Parties:
    rule, M, dataset, files, N, seed, adversary = arguments
    return partition(_data(dataset, files, N, seed), rule, M, generator(seed, "partition"), adversary)


@lru_cache(maxsize=1)
def _data(dataset: Any, files: Files, N: int | None, seed: int) -> Dataset:
    data: Dataset = dataset.load(files, N, generator(seed, "data"))
    return data
