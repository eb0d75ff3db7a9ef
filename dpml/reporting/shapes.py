"""Draw how each feature of a published model contributes to the model's score."""

import re
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from dpml.arrays import Array
from dpml.data.info import Range
from dpml.files import write_atomically
from dpml.release.model import Model
from dpml.reporting.figures import save
from dpml.reporting.style import DISTINCT, in_style
from dpml.screen import plain_cell, printable

_POINTS = 400  # of a curve


@dataclass(frozen=True)
class Shape:
    """The contribution of a feature to the score of a model.

    Attributes:
        values: (n,) points of a number's range, in its unit, or 0, 1, ... for the values of a category.
        effects: (n, K) scores at these points, minus their mean; K = 1 for two classes or a regression.
    """

    name: str
    column: Range | tuple[str, ...]
    values: Array
    effects: Array


def shapes(model: Model) -> list[Shape]:
    """Return the score's dependence on each feature, at mid-range or the first category of all other features."""
    columns = model.stated.columns
    usual = np.array([c.low / 2 + c.high / 2 if isinstance(c, Range) else 0.0 for c in columns.values()])
    found = []
    for place, (name, column) in enumerate(columns.items()):
        values = _points(column)
        rows = np.tile(usual, (len(values), 1))
        rows[:, place] = values
        effects = model.scale * model.scores(rows).reshape(len(values), -1)
        found.append(Shape(printable(name), column, values, effects - effects.mean(axis=0)))
    return found


def _points(column: Range | tuple[str, ...]) -> Array:
    if not isinstance(column, Range):
        return np.arange(len(column), dtype=float)
    even = np.array([column.low, *column.parts(_POINTS), column.high])
    edges = np.array(column.edges)
    return np.unique(np.concatenate([even, edges, np.nextafter(edges, -np.inf)]))  # both sides of a step


def write(model: Model, folder: Path) -> list[Path]:
    """Draw each feature's contribution to the score (.png, .svg), and write all points to shapes.csv. Return paths."""
    folder.mkdir(parents=True, exist_ok=True)
    found, lines = shapes(model), _lines(model)
    written = []
    with in_style(**{"text.parse_math": False}):
        for number, shape in enumerate(found, 1):
            bars = 0 if isinstance(shape.column, Range) else len(shape.column) * max(1.0, len(lines) / 3)
            figure = Figure(figsize=(4.2 + (len(lines) > 1), max(2.9, 0.9 + 0.19 * bars)), layout="constrained")
            axes = figure.subplots()
            _draw(axes, shape, model, lines)
            if len(lines) > 1:
                figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", fontsize=7)
            readable = re.sub(r"[^A-Za-z0-9]+", "_", shape.name).strip("_")[:60]
            written += save(figure, folder / f"{number:03d}_{readable}")
    path = folder / "shapes.csv"
    write_atomically(path, pd.concat([_table(shape, lines) for shape in found]).to_csv(index=False))
    return [*written, path]


def _lines(model: Model) -> tuple[str, ...]:
    """Return the names of a model's scores: the names of classes or, for a regression, the name of the label."""
    if model.task == "regression":
        label = printable(model.label)
        return (f"log(1 + {label})" if model.stated.target and model.stated.target.log else label,)
    return tuple(map(printable, model.stated.classes if len(model.weights) > 1 else model.stated.classes[1:]))


def _table(shape: Shape, lines: tuple[str, ...]) -> pd.DataFrame:
    values = shape.values if isinstance(shape.column, Range) else [plain_cell(value) for value in shape.column]
    parts = [
        pd.DataFrame({"feature": plain_cell(shape.name), "value": values, "of": plain_cell(line), "effect": effect})
        for line, effect in zip(lines, shape.effects.T, strict=True)
    ]
    return pd.concat(parts)


def _draw(axes: Axes, shape: Shape, model: Model, lines: tuple[str, ...]) -> None:
    axes.set_prop_cycle(color=DISTINCT if len(lines) <= len(DISTINCT) else mpl.color_sequences["tab20"])
    unit = _cut({"logistic": f"log odds of {lines[0]}", "softmax": "score"}.get(model.loss, lines[0]), 40)
    if isinstance(shape.column, Range):
        axes.axhline(0, color="#7F7F7F", linewidth=0.8)
        axes.plot(shape.values, shape.effects, label=lines)
        if shape.column.log:
            axes.set_xscale("symlog", linthresh=1)
        if model.stated.kind_of(shape.name) == "date":  # in days since 1970, as Matplotlib counts
            axes.xaxis.set_major_locator(places := AutoDateLocator(minticks=3, maxticks=7))  # type: ignore[no-untyped-call]
            axes.xaxis.set_major_formatter(ConciseDateFormatter(places))  # type: ignore[no-untyped-call]
        axes.set(xlim=(shape.column.low, shape.column.high), xlabel=shape.name, ylabel=f"contribution to {unit}")
        return
    axes.axvline(0, color="#7F7F7F", linewidth=0.8)
    high = 0.8 / len(lines)
    for number, (line, effect) in enumerate(zip(lines, shape.effects.T, strict=True)):
        axes.barh(shape.values + (number - (len(lines) - 1) / 2) * high, effect, high, label=line)
    axes.set_yticks(shape.values, [_cut(printable(value), 24) for value in shape.column])
    axes.invert_yaxis()
    axes.set(xlabel=f"contribution to {unit}", title=shape.name)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
