"""Release one model: enter the release into the ledger, draw its secret noise, and write the model's file."""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dpml.algorithms import Algorithm
from dpml.algorithms.quadratic.regression import Regression
from dpml.data import Dataset, Files, Source
from dpml.data.csv.column_bounds import WRITTEN, ColumnBounds
from dpml.data.partition import ByLabel, Natural, Partition, partition
from dpml.data.preprocess import check_ball
from dpml.data.sets.csv import CSV
from dpml.errors import UserError
from dpml.files import reserved
from dpml.privacy import Adversary, Budget
from dpml.privacy.entropy import SystemGenerator
from dpml.release.facts import Facts, facts_about, gaps, require_exact, require_linear_model, statement
from dpml.release.inference import check_effects, expected
from dpml.release.ledger import Cap, Ledger, LedgerEntry, Unit
from dpml.release.model import Model
from dpml.running.cell import limit_blas
from dpml.running.environment import provenance

_LINE = 32  # the greatest length of a line with one number in a model's file


@dataclass(frozen=True)
class Request:
    """The data, the algorithm and the privacy budget of a requested release of one model."""

    dataset: Source
    stated: ColumnBounds  # the public statements about the features and about the label
    label: str  # the name of the column to predict
    partition: Partition
    algorithm: Algorithm
    M: int
    N: int | None
    budget: Budget
    adversary: Adversary
    files: Files
    setting: str  # the requested setting as KEY=VALUE words, without file paths
    floating: bool = False  # whether floating-point noise is allowed, whose guarantee holds for real numbers only
    declared: bool = False  # whether guarantees that code outside dpml declares are allowed

    @property
    def unit(self) -> Unit:
        return "party" if getattr(self.algorithm, "unit", "sample") == "party" else "sample"


def release(
    request: Request, ledger: Ledger, cap: Cap | None, place: Path, say: Callable[[str], None] = lambda _: None
) -> tuple[Model, LedgerEntry]:
    """Enter a release into the ledger, draw the release's noise, and write the model to the new file `place`.

    Before that, a placeholder as large as any such model reserves disk space, and `say` gets sentences on what to
    expect. If a step after the entry fails, the entry stays in the ledger, and the error message names it.
    """
    algorithm, budget, dataset, rule = request.algorithm, request.budget, request.dataset, request.partition
    _check_setting(request)
    with reserved(place) as write, limit_blas():
        data = dataset.load(request.files, request.N, entropy())
        parties = partition(data, rule, request.M, entropy(), request.adversary)
        missing = getattr(dataset, "missing", "refuse") == "drop" or bool(data.provenance.get("rows_left_out", 0))
        dealt = "natural" if isinstance(rule, Natural) else "by labels" if isinstance(rule, ByLabel) else "at random"
        facts = facts_about(algorithm, parties.problem, budget, dealt=dealt, missing=missing)
        facts.require_proof(budget.eps, request.declared)
        facts.require_messages()
        if not request.floating:
            require_exact(algorithm)
        facts.require_small_delta()
        mechanism = algorithm.prepare(parties, entropy())
        model = _model(request, data, facts)
        # a regression also publishes up to six vectors and six matrices
        numbers = model.weights.size + 6 * (parties.problem.d + 1) ** 2 * isinstance(algorithm, Regression)
        write(" " * (len(model.text().encode()) + _LINE * numbers))
        for sentence in expected(algorithm, budget, parties.problem):
            say(sentence)
        holdings = dataset.holdings if isinstance(rule, Natural) and isinstance(dataset, CSV) else None
        entry = ledger.enter(request.setting, facts.held, cap, holdings)
        try:
            released = mechanism.release([budget], entropy(), 1)
            assert released.weights is not None  # `require_linear_model`
            weights = np.reshape(released.weights[0, 0], model.weights.shape)
            model = replace(model, weights=weights, moments=released.moments)
            text = model.text()
            write(text)
            # enter the checksum before the file gets its name, so that the ledger knows every model that exists
            ledger.publish(entry, hashlib.sha256(text.encode()).hexdigest())
        except (UserError, OSError, ValueError, ArithmeticError) as error:
            said = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}."
            raise UserError(
                f"{said} The ledger {ledger.path} keeps entry {entry.number}, because the release may have drawn noise."
            ) from error
    return model, entry


def _check_setting(request: Request) -> None:
    algorithm = request.algorithm
    if math.isinf(request.budget.eps):
        raise UserError("eps=inf does not make a private release: choose a finite eps.")
    if getattr(algorithm, "auxiliary", 0):
        raise UserError(f"algo={algorithm.name} needs public rows, and a release has none: choose another algorithm.")
    require_linear_model(algorithm)
    check_effects(algorithm, request.dataset.steps, request.stated)  # type: ignore[attr-defined]
    check_ball(request.dataset.steps, request.stated.columns)  # type: ignore[attr-defined]


def _model(request: Request, data: Dataset, facts: Facts) -> Model:
    stated, K = request.stated, facts.problem.classes if data.task == "multiclass" else 1
    return Model(
        task=data.task,
        loss=request.algorithm.loss.name,
        label=request.label,
        # classes in the order of the weights; of the options for reading files, only those that predictions need
        stated=replace(
            stated,
            reading={key: said for key, said in stated.reading.items() if key in WRITTEN},
            classes=tuple(data.provenance.get("classes", {}).values()) or stated.classes,
        ),
        steps=tuple(request.dataset.steps),  # type: ignore[attr-defined]
        weights=np.zeros((K, facts.problem.d)),
        guarantees=facts.held,
        statement=(*statement(facts), *gaps(stated.gaps("impute" in request.dataset.steps))),  # type: ignore[attr-defined]
        setting=request.setting,
        versions=provenance()["versions"],
        scale=divisor(stated),
        certificate=facts.certificate,
    )


def divisor(stated: ColumnBounds) -> float:
    """Return the number by which preprocessing divides the labels of a regression."""
    if stated.target is None:
        return 1.0
    ends = np.array([stated.target.low, stated.target.high])
    return float(np.abs(np.log1p(ends) if stated.target.log else ends).max())


def entropy() -> np.random.Generator:
    """Return a generator of secret random numbers from the operating system."""
    return SystemGenerator()
