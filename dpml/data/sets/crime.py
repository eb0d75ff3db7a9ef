"""Communities and Crime (UCI 183): predict violent crimes per head from 101 features of 1,994 communities."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from dpml.data import Info
from dpml.data.info import described
from dpml.data.table import RandomSplit, Table, read_csv


@dataclass(frozen=True)
class Crime(RandomSplit):
    """1,994 rows; of the 127 columns before the target the 102 without a missing value, without the community's name.

    These are the d = 101 features of Imtiaz et al. 2019, fig. 4 (they include the state and fold numbers).
    """

    info: ClassVar[Info] = described(__file__)["crime"]
    steps: tuple[str, ...] = ("max_abs", "max_norm")

    def parse(self, paths: Mapping[str, Path]) -> Table:
        table = read_csv(paths["communities.data"], header=None, na_values="?", skipinitialspace=True)
        features = table.iloc[:, :-1].dropna(axis=1).select_dtypes("number")
        return Table(features.to_numpy(np.float64), table.iloc[:, -1].to_numpy(np.float64))
