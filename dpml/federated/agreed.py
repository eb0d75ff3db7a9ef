"""What a federation's release is to be: typed values, of which none is code, a path, or a reference to anything.

A plan comes from somebody else. So its algorithm is a name out of those that come with dpml, which is looked up before
anything of it is built, and its options are plain values of that algorithm's class.
"""

import csv
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from inspect import isclass
from typing import Any

from dpml.algorithms import Algorithm
from dpml.config.build import algorithm_of, budget, class_of, epsilon, require_all_rows
from dpml.data import Task
from dpml.data.sets.csv import CSV, USUAL
from dpml.errors import UserError, nearest
from dpml.files import shipped_folder
from dpml.mechanism.counting import counting
from dpml.mechanism.program import Program
from dpml.optim.losses import Loss
from dpml.options import convert
from dpml.privacy import Budget
from dpml.release.facts import exact_algorithm, has_exact_noise, option_node, require_exact

Scalar = str | float | int | bool | None

_NAME = re.compile(r"[A-Za-z0-9_.+-]{1,40}")  # of an algorithm or an option, and a word that is its value
_LONGEST = 200  # characters of a column's name
_MOST = 10_000  # columns that are left out, or steps
_SET = {"loss", "calibration", "protocol"}  # of an algorithm's options: what a federation chooses itself


def _word(value: Any, key: str) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value) or ".." in value:
        raise UserError(f"{key} must be a name of at most 40 letters, digits and signs, got {str(value)[:60]!r}.")
    return value


def _number(value: Any, key: str) -> Any:
    return convert(value, float, key)


def _optional(check: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    return lambda value, key: None if value is None else check(value, key)


def _column(value: Any, key: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST or not value.isprintable():
        raise UserError(f"{key} must be names of at most {_LONGEST} printable characters, got {str(value)[:60]!r}.")
    return value


def _columns(value: Any, key: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or len(value) > _MOST:
        raise UserError(f"{key} must be a list of at most {_MOST:,} names.")
    return tuple(_column(each, key) for each in value)


def _scalar(value: Any, key: str) -> Scalar:
    if isinstance(value, str):
        return _word(value, key)
    if not isinstance(value, bool | int | float | None):
        raise UserError(f"{key} must be a number, a word, true, false or null.")
    return value


_DATASET: dict[str, Callable[[Any, str], Any]] = {
    "label": _column, "missing": _word, "drop": _columns, "steps": _columns, "na": _columns, "encoding": _word,
    "separator": _optional(_column), "decimal": _column,
}  # fmt: skip
_CHECKS = {
    "algo": _word,
    "eps": epsilon,
    "delta": _number,
    "loss": _optional(_word),
    "count_errors": _optional(epsilon),
}
_CHECKS |= _DATASET
"""The check of every field but `options`; the values of `_DATASET` are typed as ``dataset.NAME``."""


def _key(name: str) -> str:
    return f"dataset.{name}" if name in _DATASET else name


@dataclass(frozen=True)
class Agreed:
    """The algorithm, the budget, and the role of every column.

    Attributes:
        algo: the name of an algorithm that comes with dpml, a program of secure sums.
        eps, delta: the budget, for one record or one party, as the algorithm's `unit` says.
        label: the name of the column to predict.
        options: options of the algorithm.
        loss: the loss to minimise; None: that of the task.
        drop: columns that are not used.
        missing: what becomes of missing values: `refuse`, or `keep` with the step `impute`.
        steps: preprocessing, in order.
        encoding, separator, decimal, na: how every party's file is written.
        count_errors: the eps, at the same delta, for which the model's errors on all rows are counted; None: they are
            not. It comes on top of `eps`.
    """

    algo: str
    eps: float
    delta: float
    label: str
    options: Mapping[str, Scalar] = field(default_factory=dict)
    loss: str | None = None
    drop: tuple[str, ...] = ()
    missing: str = "refuse"
    steps: tuple[str, ...] = USUAL["steps"]
    encoding: str = USUAL["encoding"]
    separator: str | None = CSV.separator
    decimal: str = USUAL["decimal"]
    na: tuple[str, ...] = ()
    count_errors: float | None = None

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            object.__setattr__(self, name, check(getattr(self, name), _key(name)))
        if not math.isfinite(self.eps):
            raise UserError("eps=inf is no private release: choose a finite eps.")
        require_all_rows(self.missing)
        if not isinstance(self.options, Mapping):
            raise UserError("the options of a plan's algorithm must be names with values.")
        allowed = {each.name for each in fields(self._kind)} - _SET
        for name, value in self.options.items():
            if name not in allowed:
                raise UserError(f"a plan has no {f'algo.{name}'!r}: {nearest(str(name), allowed)}")
            _scalar(value, f"algo.{name}")
        _ = self.budget, self.dataset

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "Agreed":
        """The terms that a plan's file has."""
        names = [each.name for each in fields(cls)]
        if not isinstance(content, Mapping) or {*content, "count_errors"} != {*names}:
            raise UserError(f"the terms of a plan must be {', '.join(names)}, the last where errors are counted.")
        return cls(**content)

    @property
    def words(self) -> tuple[str, ...]:
        """The same as they are typed."""
        typed = {"algo": self.algo} | {f"algo.{name}": value for name, value in self.options.items()}
        for name in ("eps", "delta", "loss", "count_errors", *_DATASET):
            value = getattr(self, name)
            if value not in (None, ()) and (name not in ("encoding", "decimal") or value != USUAL[name]):
                typed[_key(name)] = value
        return tuple(f"{key}={_typed(value)}" for key, value in typed.items())

    @property
    def budget(self) -> Budget:
        """The privacy of a release."""
        return budget(self.eps, self.delta)

    @property
    def dataset(self) -> CSV:
        """The options of the columns; no file is named."""
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
        """The algorithm, with the least noise that is proven to suffice, and the count of its errors."""
        algorithm: Any = algorithm_of(self._node(), loss, "tight")
        return algorithm if self.count_errors is None else counting(algorithm, self.count_errors, task == "regression")

    def with_exact_noise(self, loss: Loss, floating: bool) -> "Agreed":
        """The same with ``algo.noise=discrete`` if they say nothing of the noise and there is such noise."""
        algorithm = exact_algorithm(self._node(), loss, "tight")
        if not floating:
            require_exact(algorithm)
        if "noise" in self.options or not has_exact_noise(algorithm):
            return self
        return replace(self, options={**self.options, "noise": "discrete"})

    def content(self) -> dict[str, Any]:
        """The same in the form of a plan's file, for `read`."""
        content = {each.name: getattr(self, each.name) for each in fields(self)} | {"options": dict(self.options)}
        return {key: value for key, value in content.items() if (key, value) != ("count_errors", None)}


def no_sums(algo: str) -> str:
    """The sentence about an algorithm that is no program of secure sums."""
    return (
        f"algo={algo} cannot run between parties on machines of their own: choose an algorithm of secure "
        "sums, as algo=ssp, ssp_descent, wdgd, dpgd or capefm."
    )


def agreed_of(words: Iterable[str], reading: Mapping[str, Any] | None = None) -> Agreed:
    """Return the terms that somebody typed, KEY=VALUE each; and of others those that a bounds file states."""
    given: dict[str, Any] = {}
    options: dict[str, Scalar] = {}
    names = {_key(name): name for name in _CHECKS}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise UserError(f"what parties agree on is KEY=VALUE, got {word!r}.")
        if not key.startswith("algo.") and key not in names:
            raise UserError(f"a plan has no {key!r}: {nearest(key, names)}")
        into, name = (given, names[key]) if key in names else (options, key.removeprefix("algo."))
        if name in into:
            raise UserError(f"{key} is given twice.")
        into[name] = _value(key, value)
    given = {name: value for name, value in (reading or {}).items() if name in _DATASET} | given
    given.setdefault("algo", "wdgd")
    for name in ("eps", "delta", "label"):
        if name not in given:
            raise UserError(f"{_key(name)} is missing: a plan needs eps, delta and dataset.label.")
    return Agreed(**given, options=options)


def _value(key: str, text: str) -> Any:
    check = _CHECKS.get(key.removeprefix("dataset."))
    if check is _columns:
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
