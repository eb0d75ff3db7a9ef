"""Adult / Census Income (UCI 2): does a person earn more than 50,000 dollars a year? 45,222 complete rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from dpml.data import Info
from dpml.data.info import described
from dpml.data.table import OfficialSplit, Table, encode, read_csv

_NUMERIC = (0, 2, 4, 10, 11, 12)  # age, fnlwgt, education-num, capital-gain, capital-loss, hours-per-week


@dataclass(frozen=True)
class Adult(OfficialSplit):
    """The official split without the rows that have a missing value: 30,162 for training, 15,060 for testing."""

    info: ClassVar[Info] = described(__file__)["adult"]
    steps: tuple[str, ...] = ("one_hot", "min_max", "max_norm")

    def parse(self, paths: Mapping[str, Path]) -> Table:
        whole = [
            read_csv(path, header=None, na_values="?", skipinitialspace=True, comment="|") for path in paths.values()
        ]
        parts = [part.dropna() for part in whole]
        X, levels = encode([part.iloc[:, :14] for part in parts], set(range(14)) - set(_NUMERIC), self.stated)
        # labels of the test file end in a full stop
        y = np.concatenate([np.where(part[14].str.startswith(">50K"), 1.0, -1.0) for part in parts])
        return Table(X, y, levels, left_out=sum(map(len, whole)) - len(y))
