"""Find the prediction task that a label column implies, and convert the labels to numbers for this task."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpml.arrays import Array
from dpml.data.csv.column_bounds import ColumnBounds
from dpml.data.csv.columns import ColumnKind, as_text
from dpml.data.csv.reading import FileColumn
from dpml.data.info import Task
from dpml.errors import UserError, nearest

TaskChoice = Literal["auto", "binary", "multiclass", "regression"]
"""The values of `dataset.task`."""

CLASSES = 100
"""The largest number of classes."""

_INTEGER_CLASSES = 20  # at most so many different integers are read as classes, unless dataset.task is set


@dataclass(frozen=True)
class Labels:
    """The task that the labels imply, and the names of the classes -1, +1 or 0, ..., K-1 (none for regression).

    If `rest` is true, all labels except the positive label belong to class -1.
    """

    task: Task
    classes: tuple[str, ...] = ()
    rest: bool = False

    @property
    def numbers(self) -> tuple[int, ...]:
        return (-1, 1) if self.task == "binary" else tuple(range(len(self.classes)))

    @property
    def names(self) -> dict[str, str]:
        """A dict from the numbers of the classes, as texts such as "+1", to the names of the classes."""
        sign = "+d" if self.task == "binary" else "d"
        return {f"{number:{sign}}": name for number, name in zip(self.numbers, self.classes, strict=True)}


def find_labels(column: FileColumn, choice: TaskChoice, positive: Any, stated: ColumnBounds | None) -> Labels:
    """Find the task (such as regression) and classes in a bounds file or the labels; label `positive` becomes +1."""
    positive = positive if isinstance(positive, str | None) else as_text(positive)
    where = f"{column.name!r} of {column.file.path}"
    names, numbers = column.texts, column.is_number
    if stated is not None:
        names, numbers = stated.classes, stated.target is not None
    elif numbers:
        names = tuple(as_text(number) for number in sorted({n for n in column.numbers if n is not None and n == n}))
    if stated is None and len(names) < 2:
        has = f"{names[0]!r} in every row" if names else "no values"
        raise UserError(f"the label {where} has {has}, so there is nothing to learn: set another dataset.label.")
    task = _task(choice, positive, names, numbers)
    if positive is not None and task != "binary":
        raise UserError(
            f"dataset.positive={positive} is for two classes, but the task is {task}: remove dataset.positive."
        )
    if stated is not None and (task == "regression") != (stated.target is not None):
        needs, has = ("target", "classes") if task == "regression" else ("classes", "target")
        raise UserError(f"dataset.task={task} needs `{needs}` in {stated.path}, but the file has `{has}`.")
    if task == "regression":
        return Labels(task)
    if positive is not None and positive not in names:
        raise UserError(f"dataset.positive={positive} is not in the column {where}: {nearest(positive, names)}")
    if task == "multiclass":
        if len(names) > CLASSES:
            raise UserError(
                f"the column {where} has {len(names):,} classes, but at most {CLASSES} are possible; "
                "if its labels are numbers, set dataset.task=regression."
            )
        return Labels(task, names)
    if len(names) > 2:
        if positive is None:
            raise UserError(
                f"the column {where} has {len(names):,} classes, but dataset.task=binary needs two: set "
                "dataset.positive=VALUE, which makes that label +1 and all others -1."
            )
        return Labels(task, (f"not {positive}", positive), rest=True)
    last = positive or names[1]
    return Labels(task, (next(name for name in names if name != last), last))


def _task(choice: TaskChoice, positive: str | None, names: tuple[str, ...], numbers: bool) -> Task:
    if choice != "auto":
        return choice
    few = len(names) <= _INTEGER_CLASSES and all(float(name).is_integer() for name in names if numbers)
    if numbers and positive is None and len(names) != 2 and not (names and few):
        return "regression"
    return "binary" if len(names) == 2 or positive is not None else "multiclass"


def to_labels(column: FileColumn, labels: Labels) -> Array:
    """Map labels row by row to -1 or +1 (binary), 0 to K-1 (multiclass) or numbers (regression); NaN if missing."""
    if labels.task == "regression":
        return ColumnKind("number").cells(column)
    number = {name: float(k) for name, k in zip(labels.classes, labels.numbers, strict=True)}
    other = -1.0 if labels.rest else np.inf

    def value(text: str, found: float | None) -> float:
        if found is not None and np.isnan(found):
            return np.nan
        written = "" if found is None or np.isinf(found) else as_text(found)
        return number.get(text, number.get(written, other))

    y = column.rows([value(text, found) for text, found in zip(column.texts, column.numbers, strict=True)])
    shown = ", ".join(labels.classes[:10]) + (", ..." if len(labels.classes) > 10 else "")
    column.refuse(np.isinf(y), f"not one of the classes {shown}")
    return y
