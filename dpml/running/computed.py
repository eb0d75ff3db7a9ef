"""Computed blocks: rows of an experiment that a function computes, instead of cells, for analytic curves and tables.

A block of an experiment's `grid` with a ``_target_`` names the function and its arguments:

    grid:
      small_tau: {_target_: my_curves.delta_against_tau, N: 1000, M: 10, eps: 1e-3}
    panels:
      - {block: small_tau, x: tau, y: delta, curve: [reading], yscale: log}

The function returns a tidy DataFrame, one number per row, in columns `metric` and `value`. In addition it may have any
of the columns that rows of cells have (`algo`, `eps`, `M`, `seed`, ...), and any of its own (`tau`, `reading`, ...),
which panels use as `x`, `where` and `curve`, and which claims read. Missing columns are filled in: `algo` is the
block's name, `variant` is ``paper``, `calibration` is ``published``, `seed` and `draw` are 0, sizes and privacy are
empty. Rows that agree in all columns except `seed` and `draw` are runs: their mean and interval are shown. All metrics
go to the tables; a block that no panel draws becomes a table with a column per metric, where text columns are shown
unchanged.

A block is computed again when its arguments or its code (`dpml.code`) have changed. Until then its rows are read from
the store of the cells. The arguments name classes and functions by their dotted paths, so that their code counts. The
command line sets an argument
as ``experiment.grid.BLOCK.ARGUMENT=VALUE``; settings such as `draws` do not affect it.
"""

import importlib
import inspect
import io
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from dpml import code
from dpml.errors import UserError, refuse_unknown
from dpml.running.cell import limit_blas
from dpml.running.environment import made_with
from dpml.running.rows import COLUMNS
from dpml.running.store import DamagedError, Store, digest

_FILLED = {"variant": "paper", "calibration": "published", "seed": 0, "draw": 0, "unit": "sample", "tuned": "fixed"}


@dataclass(frozen=True)
class Written:
    """The rows of a block, as the text that is stored, the checksum of their code, and its CPU seconds."""

    text: str
    code: str
    made_with: Mapping[str, str] = field(default_factory=made_with)
    seconds: float = 0.0


@dataclass(frozen=True)
class Computed:
    """A block whose rows come from the function `target` (a dotted path), called with `arguments` (plain values)."""

    block: str
    target: str
    arguments: Mapping[str, Any]

    @classmethod
    def from_content(cls, block: str, content: Mapping[str, Any], where: str) -> "Computed":
        """The block described by the content of a file."""
        made = cls(block, str(content["_target_"]), {k: v for k, v in content.items() if k != "_target_"})
        try:
            function = made._function()
        except (ImportError, AttributeError, ValueError) as error:
            raise UserError(f"_target_ of {where}: {error}") from None
        check_arguments(function, made.arguments, where)
        return made

    @property
    def key(self) -> str:
        """The key under which its rows are stored: what is computed, and which columns are filled in."""
        return digest([self.target, dict(self.arguments), COLUMNS])

    @property
    def code(self) -> str:
        """The checksum of the code that makes its rows."""
        return code.digest([*code.NUMBERS, "audit"], code.named([self.target, self.arguments]))

    def rows(self, store: Store) -> pd.DataFrame:
        """Its rows, from `store` if they are there."""
        written = self.kept(store)
        if written is None:
            written = self.written()
            self.keep(store, written)
        # always read from the stored text, so that the first run and later runs see the same
        return pd.read_csv(io.StringIO(written.text), keep_default_na=False, na_values=[""])

    def written(self) -> Written:
        """Its rows, computed."""
        start = time.thread_time()
        with limit_blas():
            text = complete(self._function()(**self.arguments), self.block).to_csv(index=False)
        return Written(text, self.code, seconds=time.thread_time() - start)

    def keep(self, store: Store, written: Written) -> None:
        """Store its rows."""
        store.keep(self.key, written.code, f"{json.dumps([written.made_with, written.seconds])}\n{written.text}")

    def kept(self, store: Store) -> Written | None:
        """Its stored rows, if they would be the same now."""
        try:
            return self._read(store)
        except DamagedError:
            return None

    def damaged(self, store: Store) -> bool:
        """Whether there are stored rows that do not match their checksum."""
        try:
            self._read(store)
        except DamagedError:
            return True
        return False

    def _read(self, store: Store) -> Written | None:
        code = self.code
        content = store.content(self.key, code)
        if content is None:
            return None
        head, _, text = content.partition("\n")
        return Written(text, code, *json.loads(head))

    def _function(self) -> Any:
        module, _, name = self.target.rpartition(".")
        return getattr(importlib.import_module(module), name)


def check_arguments(function: Callable[..., Any], given: Mapping[str, Any], where: str) -> None:
    """Raise UserError if a function does not have one of the given arguments, or needs another one."""
    parameters = inspect.signature(function).parameters
    refuse_unknown("key", given, parameters, where)
    missing = [one.name for one in parameters.values() if one.default is one.empty and one.name not in given]
    if missing:
        raise UserError(f"{where} needs a value for {missing[0]!r}.")


def complete(table: pd.DataFrame, block: str) -> pd.DataFrame:
    """A function's rows with every column that rows of cells have, followed by the function's own columns.

    Raises:
        ValueError: there is no `metric` or no number in `value`.
    """
    if not {"metric", "value"} <= set(table.columns) or not pd.api.types.is_numeric_dtype(table["value"]):
        raise ValueError(f"block {block} must have the columns metric and value, the latter numbers.")
    filled = {**_FILLED, "algo": block}
    missing: dict[str, Any] = {key: filled.get(key, np.nan) for key in COLUMNS if key not in table}
    own = [key for key in table.columns if key not in COLUMNS]
    return table.assign(**missing)[[*COLUMNS, *own]]
