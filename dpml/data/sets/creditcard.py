"""Credit Card Fraud Detection (ULB): all 492 frauds (+1) and as many normal transactions (-1), drawn at random."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array, Index
from dpml.data import Info
from dpml.data.info import described
from dpml.data.table import RandomSplit, Table, read_csv
from dpml.errors import UserError

_INFOS = described(__file__)
_FRAUDS = 492


@dataclass(frozen=True)
class CreditCard(RandomSplit):
    """All 492 frauds and `normals` others, drawn without replacement. Used by Kang et al. 2019.

    Args:
        normals: Normal transactions drawn beside the 492 frauds.
    """

    info: ClassVar[Info] = _INFOS["creditcard"]
    normals: int = _FRAUDS
    steps: tuple[str, ...] = ("min_max", "max_norm")

    def __post_init__(self) -> None:
        super().__post_init__()
        most = self.info.classes[-1]
        if not 1 <= self.normals <= most:
            raise UserError(f"dataset.normals must be in 1..{most}, got {self.normals}.")

    def parse(self, paths: Mapping[str, Path]) -> Table:
        (path,) = paths.values()
        table = read_csv(path)
        return Table(table.iloc[:, :-1].to_numpy(np.float64), np.where(table["Class"] == 1, 1.0, -1.0))

    def drawn(self) -> int:
        return _FRAUDS + self.normals

    def draw(self, y: Array, rng: Generator) -> Index:
        normals = rng.permutation(np.flatnonzero(y < 0))[: self.normals]
        return rng.permutation(np.concatenate([np.flatnonzero(y > 0), normals]))


@dataclass(frozen=True)
class CreditCardSubset(CreditCard):
    """The same, drawn from a tenth of the normal transactions: a substitute if creditcard.csv is not available."""

    info: ClassVar[Info] = _INFOS["creditcard_subset"]
