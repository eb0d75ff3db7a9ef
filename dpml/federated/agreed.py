"""What a federation's release is to be: typed values, of which none is code, a path, or a reference to anything.

A plan comes from somebody else. So its algorithm is a name out of those that come with dpml, which is looked up before
anything of it is built, and its options are plain values of that algorithm's class.
"""

import csv
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from inspect import isclass
from typing import Any

from dpml import paths
from dpml.algorithms import Algorithm
from dpml.config.build import algorithm_of, budget, class_of, epsilon, number
from dpml.config.complete import require_all_rows
from dpml.data import Task
from dpml.data.sets.csv import CSV
from dpml.errors import UserError, nearest
from dpml.mechanism.counting import Counting
from dpml.mechanism.program import Program
from dpml.optim.losses import Loss
from dpml.privacy import Budget
from dpml.release.exactness import exact_algorithm, has_exact_noise, option_node, require_exact

Scalar = str | float | int | bool | None

_NAME = re.compile(r"[A-Za-z0-9_.+-]{1,40}")  # of an algorithm or an option, and a word that is its value
_LONGEST = 200  # characters of a column's name
_MOST = 10_000  # columns that are left out, or steps
_LISTS = ("drop", "steps", "na")
_WRITTEN = ("encoding", "separator", "decimal")  # how files are written
_SET = {"loss", "calibration", "protocol"}  # of an algorithm's options: what a federation chooses itself


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
    steps: tuple[str, ...] = CSV.steps
    encoding: str = CSV.encoding
    separator: str | None = CSV.separator
    decimal: str = CSV.decimal
    na: tuple[str, ...] = ()
    count_errors: float | None = None

    def __post_init__(self) -> None:
        for name in ("algo", "missing", "encoding", *(["loss"] if self.loss is not None else [])):
            _word(getattr(self, name), name)
        for name in ("label", "decimal", *(["separator"] if self.separator is not None else [])):
            _column(getattr(self, name), f"dataset.{name}")
        for name in _LISTS:
            values = getattr(self, name)
            if not isinstance(values, list | tuple) or len(values) > _MOST:
                raise UserError(f"dataset.{name} must be a list of at most {_MOST:,} names.")
            object.__setattr__(self, name, tuple(_column(value, f"dataset.{name}") for value in values))
        object.__setattr__(self, "eps", epsilon(self.eps, "eps"))
        object.__setattr__(self, "delta", number(self.delta, "delta"))
        if self.count_errors is not None:
            object.__setattr__(self, "count_errors", epsilon(self.count_errors, "count_errors"))
        if not math.isfinite(self.eps):
            raise UserError("eps=inf is no private release: choose a finite eps.")
        require_all_rows(self.missing)
        if not isinstance(self.options, Mapping):
            raise UserError("the options of a plan's algorithm must be names with values.")
        allowed = {each.name for each in fields(self._kind)} - _SET
        for name, value in self.options.items():
            if name not in allowed:
                raise UserError(f"a plan has no {f'algo.{name}'!r}: {nearest(str(name), allowed)}")
            _scalar(f"algo.{name}", value)
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
        options = {f"algo.{name}": value for name, value in self.options.items()}
        lists = {f"dataset.{name}": f"[{','.join(getattr(self, name))}]" for name in _LISTS}
        lists |= {f"dataset.{name}": value for name in _WRITTEN if (value := getattr(self, name)) != getattr(CSV, name)}
        given = {"algo": self.algo, **options, "eps": self.eps, "delta": self.delta, "loss": self.loss}
        given["count_errors"] = self.count_errors
        given |= {"dataset.label": self.label, "dataset.missing": self.missing, **lists}
        return tuple(f"{key}={_typed(value)}" for key, value in given.items() if value not in (None, "[]"))

    @property
    def budget(self) -> Budget:
        """The privacy of a release."""
        return budget(self.eps, self.delta)

    @property
    def dataset(self) -> CSV:
        """The options of the columns; no file is named."""
        return CSV(**{name: getattr(self, name) for name in ("label", "missing", *_LISTS, *_WRITTEN)})

    @cached_property
    def _kind(self) -> Any:
        known = {path.stem for path in (paths.folder("conf") / "algo").glob("*.yaml")}
        if self.algo not in known:
            raise UserError(f"unknown algo={self.algo!r}: {nearest(self.algo, known)}")
        kind = class_of(option_node(self.algo)["_target_"], "algo")
        if not (isclass(kind) and issubclass(kind, Program)):
            raise UserError(no_sums(self.algo))
        return kind

    def _node(self) -> dict[Any, Any]:
        return option_node(self.algo) | dict(self.options)

    def algorithm(self, loss: Loss, task: Task) -> Algorithm:
        """The algorithm, with the least noise that is proven to suffice, and the count of its errors."""
        algorithm: Any = algorithm_of(self._node(), loss, "tight")
        return algorithm if self.count_errors is None else Counting(algorithm, self.count_errors, task == "regression")

    def with_exact_noise(self, loss: Loss, floating: bool) -> "Agreed":
        """The same with ``algo.noise=discrete`` if they say nothing of the noise and there is such noise."""
        algorithm = exact_algorithm(self._node(), loss, "tight")
        if not floating:
            require_exact(algorithm, "say --floating", ("dpgd", "ssp"))
        if "noise" in self.options or not has_exact_noise(algorithm):
            return self
        return Agreed(**{**_plain(self), "options": {**self.options, "noise": "discrete"}})

    def content(self) -> dict[str, Any]:
        """The same in the form of a plan's file, for `read`."""
        content = _plain(self) | {"options": dict(self.options), "drop": list(self.drop), "steps": list(self.steps)}
        return {key: value for key, value in content.items() if (key, value) != ("count_errors", None)}


def no_sums(algo: str) -> str:
    """The sentence about an algorithm that is no program of secure sums."""
    return (
        f"algo={algo} cannot run between parties on machines of their own: choose an algorithm of secure "
        "sums, as algo=ssp, ssp_descent, wdgd, dpgd or capefm."
    )


def agreed_of(words: Iterable[str]) -> Agreed:
    """The terms that somebody typed, KEY=VALUE each."""
    given: dict[str, Any] = {}
    options: dict[str, Scalar] = {}
    columns = (f"dataset.{name}" for name in ("label", "missing", *_LISTS, *_WRITTEN))
    names = ["algo", "eps", "delta", "loss", "count_errors", *columns]
    for word in words:
        key, equals, value = word.partition("=")
        into, name = (options, key[5:]) if key.startswith("algo.") else (given, key.removeprefix("dataset."))
        if not equals:
            raise UserError(f"what parties agree on is KEY=VALUE, got {word!r}.")
        if into is given and key not in names:
            raise UserError(f"a plan has no {key!r}: {nearest(key, names)}")
        if name in into:
            raise UserError(f"{key} is given twice.")
        into[name] = _value(key, value)
    for key in ("algo", "eps", "delta", "dataset.label"):
        if key.removeprefix("dataset.") not in given:
            raise UserError(f"{key} is missing: a plan needs algo, eps, delta and dataset.label.")
    return Agreed(**given, options=options)


def _value(key: str, said: str) -> Any:
    if key.removeprefix("dataset.") in _LISTS:
        inside = said.strip().removeprefix("[").removesuffix("]")
        return [part.strip() for part in next(csv.reader([inside], skipinitialspace=True), [])]
    if key in ("algo", "loss") or key.startswith("dataset."):
        bare = said.strip("'\"")
        return None if key == "loss" and bare == "null" else bare
    try:
        return json.loads(said)
    except (ValueError, RecursionError):
        return said


def _typed(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _plain(terms: Agreed) -> dict[str, Any]:
    return {each.name: getattr(terms, each.name) for each in fields(terms)}


def _word(value: Any, key: str) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value) or ".." in value:
        raise UserError(f"{key} must be a name of at most 40 letters, digits and signs, got {str(value)[:60]!r}.")
    return value


def _column(value: Any, key: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST or not value.isprintable():
        raise UserError(f"{key} must be names of at most {_LONGEST} printable characters, got {str(value)[:60]!r}.")
    return value


def _scalar(key: str, value: Any) -> None:
    if isinstance(value, str):
        _word(value, key)
    elif not isinstance(value, bool | int | float | None):
        raise UserError(f"{key} must be a number, a word, true, false or null.")
