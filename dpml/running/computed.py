"""Computed blocks: rows of an experiment that a function computes, instead of cells, for analytic curves and tables.

A block of an experiment's `grid` with a ``_target_`` names the function and its arguments:

    grid:
      small_tau: {_target_: my_curves.delta_against_tau, N: 1000, M: 10, eps: 1e-3}
    panels:
      - {block: small_tau, x: tau, y: delta, curve: [reading], yscale: log}

The function returns a tidy DataFrame, one number per row, in columns `metric` and `value`. It may have any of the
columns that rows of cells have, and any of its own, which panels use as `x`, `where` and `curve`, and which claims
read. `complete` fills in missing columns. All metrics go to the tables; a block that no panel draws becomes a table
with a column per metric.

The arguments name classes and functions by their dotted paths, so that their code counts for the store. The command
line sets an argument as ``experiment.grid.BLOCK.ARGUMENT=VALUE``; settings such as `draws` do not affect it.
"""

import inspect
import io
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dpml import code
from dpml.config.build import class_of
from dpml.errors import UserError, refuse_unknown
from dpml.running.cell import limit_blas
from dpml.running.rows import COLUMNS
from dpml.running.store import DamagedError, Record, Store, digest

_FILLED = {"variant": "paper", "calibration": "published", "seed": 0, "draw": 0, "unit": "sample", "tuned": "fixed"}


@dataclass(frozen=True)
class Computed:
    """A block whose rows come from the function `target` (a dotted path), called with `arguments` (plain values)."""

    block: str
    target: str
    arguments: Mapping[str, Any]

    @classmethod
    def from_content(cls, block: str, content: Mapping[str, Any], where: str) -> "Computed":
        """The block described by the content of a file."""
        block_of = cls(block, str(content["_target_"]), {k: v for k, v in content.items() if k != "_target_"})
        check_arguments(class_of(block_of.target, where), block_of.arguments, where)
        return block_of

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
        record = self.kept(store)
        if record is None:
            record = self.computed()
            store.write(self.key, record)
        # always read from the stored text, so that the first run and later runs see the same
        text = store.numbers(self.key, record.code)
        return pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=[""])

    def computed(self) -> Record:
        """Its rows, computed."""
        start = time.thread_time()
        with limit_blas():
            rows = class_of(self.target, self.block)(**self.arguments)
        text = complete(rows, self.block).to_csv(index=False)
        return Record(text, seconds=time.thread_time() - start, code=self.code)

    def kept(self, store: Store) -> Record | None:
        """Its record in the store, if its rows would be the same now."""
        with suppress(DamagedError):
            return store.glance(self.key, self.code)
        return None


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
