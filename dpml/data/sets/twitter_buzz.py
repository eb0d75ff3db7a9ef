"""Buzz in social media, Twitter (UCI 248): predict the mean number of active discussions from 77 features."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from dpml.data import Info
from dpml.data.info import described
from dpml.data.table import RandomSplit, Table, read_csv


@dataclass(frozen=True)
class TwitterBuzz(RandomSplit):
    """583,250 rows: eleven features of a topic in each of seven weeks. Used by Imtiaz et al. 2019, fig. 4."""

    info: ClassVar[Info] = described(__file__)["twitter_buzz"]
    steps: tuple[str, ...] = ("max_abs", "max_norm")

    def parse(self, paths: Mapping[str, Path]) -> Table:
        table = read_csv(paths["Twitter.data"], header=None, dtype=np.float64).to_numpy()
        return Table(table[:, :-1], table[:, -1])
