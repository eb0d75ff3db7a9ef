"""Compute the coefficients of a released `regression`, with intervals and p-values, from the noisy sums alone.

The computation is post-processing. The variance accounts for the sample and for the noise (docs/privacy/inference.md,
Theorems 2 and 4).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from dpml.algorithms import Algorithm
from dpml.algorithms.quadratic.moments import Estimated, least_curvature
from dpml.algorithms.quadratic.regression import Regression, square_noise
from dpml.arrays import Array
from dpml.data.csv.column_bounds import ColumnBounds
from dpml.data.info import Range
from dpml.data.preprocess import apply_steps
from dpml.errors import UserError, nearest
from dpml.mechanism.program import Program
from dpml.privacy import Budget, Problem
from dpml.release.model import Model

STEPS = ("impute", "treatment", "symmetric", "constant", "max_norm")
"""The preprocessing steps with which the coefficients are those of ordinary regression."""

_SCALES = {"symmetric", "min_max", "max_abs", "centre"}
_MOST_BIAS = 0.3  # the largest bias of a reported effect by the directions that noise hides, in standard errors
_CONFOUNDED = 0.5  # a hidden effect's note names effects with over half of the largest overlap with its hidden part


@dataclass(frozen=True)
class Coefficient:
    """The effect of a column on the label, in the label's unit or in log odds; NaN if the noise hides the effect.

    `unit` is the change of the column with this effect: an increase of a number, or from the first value to another.
    """

    column: str
    unit: str
    estimate: float = math.nan
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan
    note: str = ""


def check_effects(algorithm: Algorithm, steps: tuple[str, ...], stated: ColumnBounds) -> None:
    """Raise UserError unless loss and preprocessing let algo=regression estimate ordinary regression coefficients."""
    if algorithm.name != Regression.name:
        return
    if (stated.target is None) != (algorithm.loss.name == "logistic"):
        raise UserError("algo=regression needs loss=squared for a numeric label and loss=logistic for two classes.")
    others = set(steps) - _SCALES - set(STEPS)
    if others or not {"constant", "max_norm"} <= set(steps):
        raise UserError(
            f"algo=regression needs dataset.steps=[{','.join(STEPS)}], where the step symmetric may be left out or "
            f"replaced by another scaling, got [{','.join(steps)}]."
        )


def expected(algorithm: Algorithm, budget: Budget, problem: Problem) -> tuple[str, ...]:
    """Return sentences that predict from public numbers which coefficients of a `regression` the noise hides."""
    if not isinstance(algorithm, Program) or algorithm.name != Regression.name:
        return ()
    noise = square_noise(algorithm.messages(budget, problem))
    variance = 2 * problem.d * least_curvature(problem.d, noise) / problem.N  # the least one of a 0/1 column
    if variance > 0.25:
        return ("Expect no table: the noise hides most coefficients. Use more rows, a larger eps, or fewer columns.",)
    share = 50 - 50 * math.sqrt(1 - 4 * variance)
    return (
        f"Expect a coefficient for a value of a category if it and the first value have at least {share:.2g} % of the "
        "records each. The noise hides more if values are rarer, or if numbers use a small part of their range.",
    )


def coefficient_table(model: Model, level: float = 0.95, per: Mapping[str, float] | None = None) -> list[Coefficient]:
    """Return the table of coefficients in a model of algo=regression, for the constant and for every column.

    Intervals have the confidence `level`. `per` maps columns of numbers to the increase whose effect is estimated.
    """
    if model.moments is None:
        raise UserError(
            "the weights of this model are for prediction, and do not estimate effects: only a model of "
            "algo=regression has a table of coefficients."
        )
    if not 0 < level < 1:
        raise UserError(f"--level must lie strictly between 0 and 1, got {level:g}.")
    named = list(_contrasts(model, per or {}))
    fitted = model.moments.estimated()
    directions = np.array([direction for _, _, direction in named])
    hidden = hidden_directions(directions, fitted)
    if fitted.refusal:
        raise UserError(f"{fitted.refusal}, so no effect is estimated: use more rows, a larger eps, or fewer columns.")
    if 2 * hidden.sum() > len(named):
        raise UserError(
            f"the noise hides {hidden.sum()} of {len(named)} coefficients, too many for a table: use more rows, a "
            "larger eps or fewer columns, or merge rare values."
        )
    estimates = model.scale * directions @ fitted.coefficients
    estimates[0] += model.offset  # the estimate of the constant
    errors = model.scale * fitted.errors(directions)
    reach = norm.ppf((1 + level) / 2) * errors
    lines = []
    for i, (column, unit, direction) in enumerate(named):
        if hidden[i]:
            lines.append(Coefficient(column, unit, note=_confounded(i, direction, named, fitted)))
            continue
        p = float(2 * norm.sf(abs(estimates[i]) / errors[i])) if errors[i] else 0.0
        low, high = estimates[i] - reach[i], estimates[i] + reach[i]
        lines.append(Coefficient(column, unit, float(estimates[i]), float(low), float(high), p))
    return lines


def hidden_directions(directions: Array, fitted: Estimated) -> Array:
    """Return which combinations (m, d) of coefficients the noise hides: their bias may exceed 0.3 standard errors."""
    shift = np.linalg.norm(directions @ fitted.hidden, axis=1) * np.linalg.norm(fitted.coefficients)
    return np.asarray(shift > _MOST_BIAS * fitted.errors(directions))


def _confounded(own: int, direction: Array, named: list[tuple[str, str, Array]], fitted: Estimated) -> str:
    lost = direction @ fitted.hidden
    shares = np.array([abs(each @ lost) / np.linalg.norm(each) for _, _, each in named])
    shares[own] = 0.0
    others = [f"{named[k][0]} ({named[k][1]})" for k in np.flatnonzero(shares > _CONFOUNDED * shares.max())]
    return f"not determined at this noise: confounded with {', '.join(others[:3])}"


def _contrasts(model: Model, per: Mapping[str, float]) -> Iterator[tuple[str, str, Array]]:
    """Yield each effect's column, its unit, and the vector (d,) whose inner product with the weights is the effect."""
    columns = model.stated.columns
    kinds = {name: model.stated.kind_of(name) for name in columns}
    numbers = {name: c for name, c in columns.items() if isinstance(c, Range) and kinds[name] != "boolean"}
    for name in per:
        if name not in numbers:
            raise UserError(f"--per {name}=... must name a column of numbers: {nearest(name, numbers)}")
    usual = np.array([numbers[name].low / 2 + numbers[name].high / 2 if name in numbers else 0.0 for name in columns])

    def features(*rows: Array) -> Array:
        return apply_steps(model.steps, np.array(rows), np.empty((0, len(columns))), columns)[0]

    yield "constant", "numbers at mid-range, others at their first value", features(usual)[0]
    for place, (name, column) in enumerate(columns.items()):
        values = (column.low, column.high) if isinstance(column, Range) else range(len(column))
        rows = np.tile(usual, (len(values), 1))
        rows[:, place] = values
        first, *others = features(*rows)
        if isinstance(column, Range):
            ends = np.array([column.low, column.high])
            low, high = np.log1p(ends) if column.log else ends
            step = per.get(name, 1.0)
            unit = f"{step:+g}" + (f" of log(1 + {name})" if column.log else " days" * (kinds[name] == "date"))
            yield name, "if true" if kinds[name] == "boolean" else unit, step * (others[0] - first) / (high - low)
            continue
        for value, other in zip(column[1:], others, strict=True):
            yield name, f"{value} against {column[0]}", other - first


def heading(model: Model, level: float) -> str:
    """Return sentences that explain what the table of a regression's coefficients shows."""
    moments, target = model.moments, model.stated.target
    assert moments is not None
    if model.task == "binary":
        outcome = f"{model.label} = {model.stated.classes[1]}"
        of = f"Logistic regression of {outcome}: the odds ratios of the best logistic fit"
    else:
        label = f"log(1 + {model.label})" if target is not None and target.log else model.label
        of = f"Linear regression of {label}: the coefficients of the best linear fit"
    return (
        f"{of} in the population, with numbers clipped to their stated ranges. {100 * level:g}% intervals and p-values "
        f"account for the sample of {moments.present:,} rows and for the noise. They assume that rows are independent "
        "and that columns were chosen without looking at the rows."
    )
