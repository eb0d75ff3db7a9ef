"""Save estimators to, and load them from, the file of a published model (`dpml.release.model`)."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from dpml.data.csv.column_bounds import ColumnBounds
from dpml.data.info import Range, Task
from dpml.errors import UserError
from dpml.files import reserved
from dpml.optim.losses import for_task
from dpml.release.model import Model, read_model
from dpml.running.environment import provenance

_STEPS = {True: ("symmetric", "bias", "sample_norm"), False: ("symmetric", "sample_norm")}
"""The steps of `rows.into_ball`, with and without a constant feature."""


def save(estimator: Any, path: Path, **allowed: bool) -> None:
    """Write a fitted estimator's model, from which `dpml predict` and `load` make the same predictions."""
    _check(estimator, **allowed)
    names = getattr(estimator, "feature_names_in_", [f"x{number}" for number in range(estimator.n_features_in_)])
    low, high = estimator.bounds_
    columns = {str(name): Range(float(a), float(b)) for name, a, b in zip(names, low, high, strict=True)}
    classes = tuple(map(str, getattr(estimator, "classes_", ())))
    task: Task = "regression" if not classes else "binary" if len(classes) == 2 else "multiclass"
    offset, scale, target = 0.0, 1.0, None
    if task == "regression":
        first, last = estimator.y_bounds_
        offset, scale, target = (first + last) / 2, (last - first) / 2, Range(first, last)
    model = Model(
        task=task,
        loss=for_task(task).name,
        label="label",
        stated=ColumnBounds.of_columns(path, columns, classes, target),
        steps=_STEPS[estimator._constant],
        weights=estimator._weights,
        guarantees=estimator.facts_.guarantees if estimator.facts_.open else estimator.facts_.held,
        statement=estimator.statement_,
        setting=estimator.setting_,
        versions=provenance()["versions"],
        offset=offset,
        scale=scale,
        certificate=None if estimator.facts_.open else estimator.facts_.certificate,
    )
    text = model.text()
    with reserved(path) as write:
        write(text)
        if estimator.entry_ is not None:
            estimator.ledger_.publish(estimator.entry_, hashlib.sha256(text.encode()).hexdigest())


def _check(estimator: Any, floating: bool, unsafe: bool, declared: bool) -> None:
    """Raise UserError unless a fitted estimator's model may be written to a file."""
    facts = getattr(estimator, "facts_", None)
    if facts is None:
        raise UserError("this model was loaded from a file, which is what to copy.")
    if facts.ranges == "fitted":  # what was given at the fit, which a parameter set since does not change
        key = "y_bounds" if estimator.bounds is not None and hasattr(estimator, "y_bounds") else "bounds"
        raise UserError(
            f"a model's file needs public ranges, and {key} were fitted to the rows: give {key}=(low, high)."
        )
    if not (floating or facts.exact):
        raise UserError(
            f"this model of algo={estimator.algo} has floating-point noise, whose last bits can tell neighbours apart: "
            "fit one whose noise is exact, such as algo='wdgd' with calibration='tight', or save(path, floating=True), "
            "and its file says that it is proven for real numbers, not for these bits."
        )
    facts.require_messages()
    if facts.author and not declared:
        raise UserError(
            f"what this model guarantees is declared by {facts.author}, which is not part of dpml, and nobody here has "
            "proven it: save(path, declared=True) says so in it."
        )
    if not unsafe and facts.open:
        raise UserError(
            f"nothing is proven of this model, because {facts.open[0]}: save(path, unsafe=True) says so in it."
        )
    if not unsafe and estimator.entry_ is None:
        raise UserError(
            "this fit is in no ledger, so that nobody can say what it adds to: fit with dpml.Ledger(path, cap=...), or "
            "save(path, unsafe=True), which says so in the file."
        )


def load(estimator: Any, path: Path) -> Any:
    """Fill an unfitted estimator with the content of a model file."""
    model = read_model(path)
    columns = list(model.stated.columns.values())
    target = [] if model.stated.target is None else [model.stated.target]
    plain = all(isinstance(column, Range) and not column.log for column in [*columns, *target])
    own = tuple(step for step in model.steps if step != "one_hot")  # which leaves numbers as they are
    intercept = next((key for key, steps in _STEPS.items() if steps == own), None)
    if not plain or intercept is None:
        raise UserError(
            f"{path} is a model of more than plain ranges, which are all an estimator has: use dpml predict."
        )
    if (model.task == "regression") != hasattr(estimator, "y_bounds"):
        raise UserError(f"{path} is a model for {model.task}: {type(estimator).__name__} is not.")
    ranges = [column for column in columns if isinstance(column, Range)]
    low, high = (np.array([getattr(column, end) for column in ranges]) for end in ("low", "high"))
    estimator.set_params(bounds=(low, high), fit_intercept=intercept)
    estimator.bounds_, estimator.n_features_in_ = (low, high), len(ranges)
    names = list(model.stated.columns)
    if names != [f"x{number}" for number in range(len(names))]:  # those of rows without names
        estimator.feature_names_in_ = np.array(names, dtype=object)  # so that columns in another order are refused
    estimator._constant, estimator._loss = intercept, model.loss
    estimator.guarantees_, estimator.statement_ = list(model.guarantees), model.statement
    weights = model.weights
    if model.task == "multiclass" and len(weights) == 2:  # softmax of two scores is the sigmoid of their difference
        weights = weights[1:] - weights[:1]
    coefficients, constants = (weights[:, :-1], weights[:, -1]) if intercept else (weights, np.zeros(len(weights)))
    if model.task == "regression":
        ends = model.offset - model.scale, model.offset + model.scale
        estimator.set_params(y_bounds=ends)
        estimator.y_bounds_, estimator.coef_, estimator.intercept_ = ends, coefficients[0], float(constants[0])
    else:
        estimator.classes_, estimator.coef_, estimator.intercept_ = (
            np.array(model.stated.classes),
            coefficients,
            constants,
        )
    return estimator
