"""Adult / Census Income (UCI 2): does a person earn more than 50,000 dollars a year? 45,222 complete rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from dpml.data import Info, Raw
from dpml.data.sources.files import open_raw
from dpml.data.table import OfficialSplit, Table, encode

_UCI = "https://archive.ics.uci.edu"
_NUMERIC = (0, 2, 4, 10, 11, 12)  # age, fnlwgt, education-num, capital-gain, capital-loss, hours-per-week


def _raw(name: str, sha256: str) -> Raw:
    return Raw(
        name,
        urls=(
            f"{_UCI}/static/public/2/adult.zip!{name}",
            f"{_UCI}/ml/machine-learning-databases/adult/{name}",
        ),
        sha256=(sha256,),
    )


@dataclass(frozen=True)
class Adult(OfficialSplit):
    """The official split without the rows that have a missing value: 30,162 for training, 15,060 for testing."""

    info: ClassVar[Info] = Info(
        name="adult",
        title="Adult (Census Income)",
        task="binary",
        citation="B. Becker, R. Kohavi, Adult, UCI, 1996, doi:10.24432/C5XW20",
        how_to_get="It is part of https://archive.ics.uci.edu/dataset/2/adult.",
        homepage="https://archive.ics.uci.edu/dataset/2/adult",
        licence="CC BY 4.0",
        files=(
            _raw("adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),
            _raw("adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),
        ),
        rows=45_222,
        train_rows=30_162,
        features=104,
        classes={-1: 34_014, +1: 11_208},
        parties="M = 2, 4, 8, 16, 32 (Kang et al. 2019)",
        schema="Six numeric features, then one 0/1 column for every value of the eight symbolic ones: 6 + 98 = 104. "
        "Label +1: more than 50,000 dollars. The 3,620 rows with a missing value (`?`) are left out.",
        papers="Kang et al. 2019 use the 45,222 complete rows; their split and scaling are not stated.",
        differences="We keep the official split and scale each feature to [0, 1], then all rows by the largest "
        "training norm.",
    )
    steps: tuple[str, ...] = ("one_hot", "min_max", "max_norm")

    def parse(self, paths: Mapping[str, Path]) -> Table:
        parts = []
        for path in paths.values():
            with open_raw(path) as file:
                parts.append(pd.read_csv(file, header=None, na_values="?", skipinitialspace=True, comment="|").dropna())
        X, levels = encode([part.iloc[:, :14] for part in parts], set(range(14)) - set(_NUMERIC))
        # labels of the test file end in a full stop
        y = np.concatenate([np.where(part[14].str.startswith(">50K"), 1.0, -1.0) for part in parts])
        return Table(X, y, levels)
