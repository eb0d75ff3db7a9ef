"""KDD Cup 1999: attack (+1) or normal (-1) network connection, from the 10 % file and the labelled test file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array, Index
from dpml.data import Info
from dpml.data.info import Column, described
from dpml.data.table import OfficialSplit, RandomSplit, Table, encode, read_csv
from dpml.errors import UserError

_SYMBOLIC = (1, 2, 3)  # protocol, service, flag
_INFOS = described(__file__)


def _parse(paths: Mapping[str, Path], stated: Mapping[str, Column]) -> Table:
    kinds = {column: "category" if column in (*_SYMBOLIC, 41) else "float64" for column in range(42)}
    parts, labels = [], []
    for path in paths.values():
        table = read_csv(path, header=None, dtype=kinds)
        labels.append(np.where(table[41] == "normal.", -1.0, 1.0))
        parts.append(table.iloc[:, :41])
    X, levels = encode(parts, _SYMBOLIC, stated)
    return Table(X, np.concatenate(labels), levels)


@dataclass(frozen=True)
class KDDCup99(OfficialSplit):
    """494,021 training rows (the 10 % file) and 311,029 test rows (`corrected`). Used by Hamm et al. 2016, fig. 3."""

    info: ClassVar[Info] = _INFOS["kddcup99"]
    steps: tuple[str, ...] = ("one_hot", "min_max", "max_norm")

    def parse(self, paths: Mapping[str, Path]) -> Table:
        return _parse(paths, self.stated)


@dataclass(frozen=True)
class KDDCup9970k(RandomSplit):
    """`sample` rows of the 10 % file, drawn without replacement, then split. Used by Kang et al. 2019.

    Args:
        sample: Rows drawn, without replacement.
    """

    info: ClassVar[Info] = _INFOS["kddcup99_70k"]
    sample: int = 70_000
    steps: tuple[str, ...] = ("one_hot", "min_max", "max_norm")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.sample <= self.info.rows:
            raise UserError(f"dataset.sample must be in 1..{self.info.rows}, got {self.sample}.")

    def parse(self, paths: Mapping[str, Path]) -> Table:
        return _parse(paths, self.stated)

    def drawn(self) -> int:
        return self.sample

    def draw(self, y: Array, rng: Generator) -> Index:
        return rng.permutation(len(y))[: self.sample]
