"""Compute the rows of an experiment by functions, for analytic curves and tables that need no fits.

A block of an experiment's `grid` names the function and its arguments:

    small_tau: {_target_: my_curves.delta_against_tau, N: 1000, M: 10, eps: 1e-3}

The function returns a table with one number per row: `metric` names the number in `value`. Panels can use other
columns. Arguments name classes and functions by their dotted paths.
"""

import inspect
import io
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpml import code
from dpml.config.build import class_of
from dpml.errors import UserError, refuse_unknown
from dpml.running.cell import limit_blas
from dpml.running.rows import COLUMNS
from dpml.running.store import Record, Store, digest

if TYPE_CHECKING:
    import pandas as pd

_FILLED = {"variant": "paper", "calibration": "published", "seed": 0, "draw": 0, "unit": "sample", "tuned": "fixed"}


@dataclass(frozen=True)
class Computed:
    """A block (part) of an experiment, whose rows the function `target` (a dotted path) computes from `arguments`."""

    block: str
    target: str
    arguments: Mapping[str, Any]

    @classmethod
    def from_content(cls, block: str, content: Mapping[str, Any], where: str) -> "Computed":
        """Read a computed block, which names a function and its arguments, from a part of an experiment file."""
        arguments = {key: value for key, value in content.items() if key != "_target_"}
        check_arguments(class_of(content["_target_"], where), arguments, where)
        return cls(block, str(content["_target_"]), arguments)

    @property
    def key(self) -> str:
        return digest([self.target, dict(self.arguments), COLUMNS])

    @property
    def code(self) -> str:
        return code.digest([*code.NUMBERS, "audit"], code.named([self.target, self.arguments]))

    def rows(self, store: Store) -> "pd.DataFrame":
        """Return the block's rows from `store`; if the store does not have the rows, compute and store them first."""
        import pandas as pd  # slow to load, and not needed to compute guarantees

        record = self.kept(store)
        if record is None:
            record = self.computed()
            store.write(self.key, record)
        # always read the stored text, so that the first run and later runs get equal rows
        text = store.numbers(self.key, record.code)
        return pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=[""])

    def computed(self) -> Record:
        start = time.thread_time()
        with limit_blas():
            rows = class_of(self.target, self.block)(**self.arguments)
        text = complete(rows, self.block).to_csv(index=False)
        return Record(text, seconds=time.thread_time() - start, code=self.code)

    def kept(self, store: Store) -> Record | None:
        """Return the stored record of the rows if the current version of the code computed them, otherwise None."""
        return store.glance(self.key, self.code)


def check_arguments(function: Callable[..., Any], given: Mapping[str, Any], where: str) -> None:
    """Raise UserError if a function has no parameter for a given argument, or if a required argument is missing."""
    parameters = inspect.signature(function).parameters
    refuse_unknown("key", given, parameters, where)
    missing = [one.name for one in parameters.values() if one.default is one.empty and one.name not in given]
    if missing:
        raise UserError(f"{where} needs a value for {missing[0]!r}.")


def complete(table: "pd.DataFrame", block: str) -> "pd.DataFrame":
    """Add missing standard columns to the table that a function returned, and put the function's own columns last."""
    import pandas as pd

    if not {"metric", "value"} <= set(table.columns) or not pd.api.types.is_numeric_dtype(table["value"]):
        raise ValueError(f"block {block} must have the columns metric and value, and value must contain numbers.")
    filled = {**_FILLED, "algo": block}
    missing: dict[str, Any] = {key: filled.get(key, np.nan) for key in COLUMNS if key not in table}
    own = [key for key in table.columns if key not in COLUMNS]
    return table.assign(**missing)[[*COLUMNS, *own]]
