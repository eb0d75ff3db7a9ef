"""One model for publication: entered into the ledger first, with noise from the operating system's random numbers."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dpml.algorithms import Algorithm
from dpml.atomic import write_atomically
from dpml.data import Files, Source, checksum
from dpml.data.csv.column_bounds import ColumnBounds
from dpml.data.partition import Partition, partition
from dpml.errors import UserError
from dpml.privacy import Adversary, Budget, Guarantee, worst
from dpml.privacy.entropy import SystemGenerator
from dpml.release.ledger import Cap, Ledger, LedgerEntry
from dpml.release.model import Model
from dpml.release.statement import has_exact_noise, statement
from dpml.running.cell import limit_blas
from dpml.running.environment import provenance


@dataclass(frozen=True)
class Request:
    """The specification of a release.

    Attributes:
        dataset, partition, algorithm, adversary, budget, M, N: as in a cell.
        stated: the statements about the features and about the label.
        label: the name of the column to predict.
        files: the paths of the data.
        setting: the requested setting, as on the command line.
    """

    dataset: Source
    stated: ColumnBounds
    label: str
    partition: Partition
    algorithm: Algorithm
    M: int
    N: int | None
    budget: Budget
    adversary: Adversary
    files: Files
    setting: str


def release(request: Request, ledger: Ledger, cap: Cap | None, place: Path) -> tuple[Model, LedgerEntry]:
    """Enter a release into the ledger, draw its noise, and write the model to `place`, which must not exist.

    Raises:
        UserError: the data or the settings do not allow it, the ledger refuses it, or a file cannot be written. An
            entry made before the error remains.
    """
    algorithm, budget = request.algorithm, request.budget
    if place.exists():
        raise UserError(f"{place} is there already: choose another name, a published model is not overwritten.")
    if math.isinf(budget.eps):
        raise UserError("eps=inf is no private release: choose a finite eps.")
    if algorithm.auxiliary:
        raise UserError(f"algo={request.algorithm.name} takes some rows as public, which those of a release are not.")
    digest = checksum(request.dataset, request.files)
    if digest is None:
        raise UserError("this data set is made up anew for every run: there is nothing to release about it.")
    with limit_blas():
        data = request.dataset.load(request.files, request.N, entropy())
        parties = partition(data, request.partition, request.M, entropy(), request.adversary)
        guarantees = _proven(algorithm, budget, algorithm.guarantees(budget, parties.problem))
        mechanism = algorithm.prepare(parties, entropy())
        entry = ledger.enter(digest, request.setting, guarantees, cap)
        exact = has_exact_noise(algorithm)
        weights = mechanism.release([budget], entropy(), 1).weights
    if weights is None:
        raise UserError(
            f"algo={algorithm.name} releases no linear model, so that nothing was published; entry {entry.number} of "
            f"{ledger.path} stays."
        )
    K = parties.problem.classes if data.task == "multiclass" else 1
    model = Model(
        task=data.task,
        loss=algorithm.loss.name,
        label=request.label,
        stated=_named(request.stated, data.provenance.get("classes", {})),
        steps=tuple(request.dataset.steps),  # type: ignore[attr-defined]
        weights=np.reshape(weights[0, 0], (K, -1)),
        guarantees=tuple(guarantees),
        statement=statement(guarantees, parties.problem, exact),
        setting=request.setting,
        versions=provenance()["versions"],
        scale=_scale(request.stated),
    )
    text = model.text()
    write_atomically(place, text)
    ledger.publish(entry, hashlib.sha256(text.encode()).hexdigest())
    return model, entry


def _named(stated: ColumnBounds, classes: Mapping[str, str]) -> ColumnBounds:
    """The statements, with classes in the weights' order: -1 and +1, as in `dataset.positive`, or 0 to K-1."""
    return replace(stated, classes=tuple(classes.values())) if classes else stated


def _scale(stated: ColumnBounds) -> float:
    """The divisor of a regression target (`dpml.data.preprocess.scale_target`)."""
    if stated.target is None:
        return 1.0
    ends = np.array([stated.target.low, stated.target.high])
    return float(np.abs(np.log1p(ends) if stated.target.log else ends).max())


def entropy() -> np.random.Generator:
    """Secret random numbers, which are not stored."""
    return SystemGenerator()


def _proven(algorithm: Algorithm, budget: Budget, guarantees: Sequence[Guarantee]) -> list[Guarantee]:
    """The proven guarantees, if they are at least as strong as requested."""
    proven = [guarantee for guarantee in guarantees if guarantee.basis == "proven"]
    if not proven or worst(proven).eps > budget.eps * (1 + 1e-9):
        least = worst(proven).eps if proven else math.inf
        found = "nothing" if math.isinf(least) else f"eps={least:.4g}"
        remedy = "" if algorithm.calibration == "tight" else "set calibration=tight, or "
        raise UserError(
            f"eps={budget.eps:g} was asked for, and {found} is proven of algo={algorithm.name} in its worst view: "
            f"{remedy}take another algorithm."
        )
    return proven
