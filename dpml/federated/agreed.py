"""Read and check the terms of a federation, which somebody else wrote and which contain no code and no paths."""

import csv
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from inspect import isclass
from typing import Annotated, Any, get_type_hints

from dpml.algorithms import Algorithm
from dpml.algorithms.quadratic.regression import Regression
from dpml.config.build import Epsilon, algorithm_of, budget, class_of, require_all_rows
from dpml.data import Task
from dpml.data.csv.column_bounds import USUAL
from dpml.data.sets.csv import CSV
from dpml.errors import UserError, nearest, refuse_unknown
from dpml.files import shipped_folder
from dpml.mechanism.counting import counting
from dpml.mechanism.program import Program
from dpml.optim.losses import Loss
from dpml.options import Bound, convert
from dpml.privacy import Budget
from dpml.release.facts import exact_algorithm, has_exact_noise, option_node, require_exact
from dpml.release.inference import STEPS

Scalar = str | float | int | bool | None

_NAME = re.compile(r"[A-Za-z0-9_.+-]{1,40}")
Word = Annotated[
    str,
    Bound("a name of at most 40 letters, digits and signs", lambda x: bool(_NAME.fullmatch(x)) and ".." not in x),
]
Text = Annotated[str, Bound("1 to 200 printable characters", lambda x: 0 < len(x) <= 200 and x.isprintable())]
Texts = Annotated[tuple[Text, ...], Bound("at most 10,000 names", lambda x: len(x) <= 10_000)]

_SET = {"loss", "calibration", "protocol"}  # options of an algorithm that the federation sets
_LISTS = ("drop", "steps", "na")
_DATASET = ("label", "missing", "drop", "steps", "na", "encoding", "separator", "decimal")
"""The fields that users write as ``dataset.NAME``."""


def _key(name: str) -> str:
    return f"dataset.{name}" if name in _DATASET else name


@dataclass(frozen=True)
class Agreed:
    """The terms on which all parties of a federation agree: the algorithm, the budget, and how columns are used.

    Attributes:
        algo: the name of an algorithm that comes with dpml and uses only secure sums.
        eps, delta: the budget, for one record or one party, depending on the algorithm's `unit`.
        label: the name of the column to predict.
        options: options of the algorithm.
        loss: the loss to minimise; None: the usual loss of the task.
        drop: columns that are not used.
        missing: how missing values are treated: `refuse`, or `keep` with the step `impute`.
        steps: the preprocessing steps, in order.
        encoding, separator, decimal, na: the format of every party's file.
        count_errors: an additional eps, at the same delta, for counting the model's errors on all rows; None: errors
            are not counted.
    """

    algo: Word
    eps: Epsilon
    delta: float
    label: Text
    options: Mapping[str, Scalar] = field(default_factory=dict)
    loss: Word | None = None
    drop: Texts = ()
    missing: Word = "refuse"
    steps: Texts = USUAL["steps"]
    encoding: Word = USUAL["encoding"]
    separator: Text | None = None
    decimal: Text = USUAL["decimal"]
    na: Texts = ()
    count_errors: Epsilon | None = None

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(Agreed, include_extras=True).items():
            object.__setattr__(self, name, convert(getattr(self, name), hint, _key(name)))
        if not math.isfinite(self.eps):
            raise UserError("eps=inf does not make a private release: choose a finite eps.")
        require_all_rows(self.missing)
        if not isinstance(self.options, Mapping):
            raise UserError("the options of a plan's algorithm must be a JSON object with names and values.")
        allowed = {f"algo.{each.name}" for each in fields(self._kind) if each.name not in _SET}
        refuse_unknown("key", [f"algo.{name}"[:60] for name in self.options], allowed, "a plan")
        for name, value in self.options.items():
            if isinstance(value, str):
                convert(value, Word, f"algo.{name}")
            elif not isinstance(value, bool | int | float | None):
                raise UserError(f"algo.{name} must be a number, a word, true, false or null.")
        _ = self.budget, self.dataset

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "Agreed":
        names = [each.name for each in fields(cls)]
        if not isinstance(content, Mapping) or {*content, "count_errors"} != {*names}:
            raise UserError(
                f"the terms of a plan must have the keys {', '.join(names)}; only count_errors may be missing."
            )
        return cls(**content)

    @property
    def words(self) -> tuple[str, ...]:
        typed = {"algo": self.algo} | {f"algo.{name}": value for name, value in self.options.items()}
        for name in ("eps", "delta", "loss", "count_errors", *_DATASET):
            value = getattr(self, name)
            if value not in (None, ()) and (name not in ("encoding", "decimal") or value != USUAL[name]):
                typed[_key(name)] = value
        return tuple(f"{key}={_typed(value)}" for key, value in typed.items())

    @property
    def budget(self) -> Budget:
        return budget(self.eps, self.delta)

    @cached_property
    def dataset(self) -> CSV:
        return CSV(**{name: getattr(self, name) for name in _DATASET})

    @cached_property
    def _kind(self) -> Any:
        known = {path.stem for path in (shipped_folder("conf") / "algo").glob("*.yaml")}
        if self.algo not in known:
            raise UserError(f"unknown algo={self.algo!r}: {nearest(self.algo, known)}")
        kind = class_of(option_node(self.algo)["_target_"], "algo")
        if not (isclass(kind) and issubclass(kind, Program) and "protocol" in kind.allows):
            raise UserError(no_sums(self.algo))
        return kind

    def _node(self) -> dict[Any, Any]:
        return option_node(self.algo) | dict(self.options)

    def algorithm(self, loss: Loss, task: Task) -> Algorithm:
        """Return the agreed algorithm; if `count_errors` is set, it also releases the model's noisy error."""
        algorithm: Any = algorithm_of(self._node(), loss, "tight")
        return algorithm if self.count_errors is None else counting(algorithm, self.count_errors, task == "regression")

    def with_exact_noise(self, loss: Loss, floating: bool) -> "Agreed":
        """Return these terms, with ``algo.noise=discrete`` if that key is not set and the algorithm supports it."""
        algorithm = exact_algorithm(self._node(), loss, "tight")
        if not floating:
            require_exact(algorithm)
        if "noise" in self.options or not has_exact_noise(algorithm):
            return self
        return replace(self, options={**self.options, "noise": "discrete"})

    def content(self) -> dict[str, Any]:
        content = {each.name: getattr(self, each.name) for each in fields(self)} | {"options": dict(self.options)}
        return {key: value for key, value in content.items() if (key, value) != ("count_errors", None)}


def no_sums(algo: str) -> str:
    """Return the error message for an algorithm that cannot run in a federation."""
    return (
        f"algo={algo} cannot run between parties on their own machines: choose an algorithm of secure sums, such as "
        "algo=ssp, ssp_descent, wdgd, dpgd or capefm."
    )


def agreed_of(words: Iterable[str], reading: Mapping[str, Any] | None = None) -> Agreed:
    """Build a federation's terms from words KEY=VALUE. `reading` contains a bounds file's options for reading data."""
    names = {_key(each.name): each.name for each in fields(Agreed) if each.name != "options"}
    typed: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise UserError(f"the terms of a plan must have the form KEY=VALUE, got {word!r}.")
        if not key.startswith("algo."):
            refuse_unknown("key", [key], names, "a plan")
        if key in typed:
            raise UserError(f"{key} is given twice: give each option once.")
        typed[key] = _value(key, value)
    given = {"algo": "wdgd"} | {name: value for name, value in (reading or {}).items() if name in _DATASET}
    given |= {names[key]: value for key, value in typed.items() if key in names}
    if given["algo"] == Regression.name:
        given.setdefault("steps", STEPS)
    for name in ("eps", "delta", "label"):
        if name not in given:
            raise UserError(f"{_key(name)} is missing: a plan needs eps, delta and dataset.label.")
    options = {key.removeprefix("algo."): value for key, value in typed.items() if key not in names}
    return Agreed(**given, options=options)


def _value(key: str, text: str) -> Any:
    if key.removeprefix("dataset.") in _LISTS:
        inside = text.strip().removeprefix("[").removesuffix("]")
        return [part.strip() for part in next(csv.reader([inside], skipinitialspace=True), [])]
    if key in ("algo", "loss") or key.startswith("dataset."):
        bare = text.strip("'\"")
        return None if key == "loss" and bare == "null" else bare
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _typed(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{','.join(value)}]"
    return value if isinstance(value, str) else json.dumps(value)
