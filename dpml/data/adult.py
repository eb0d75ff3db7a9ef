"""Adult / Census Income (UCI 2): does a person earn more than 50,000 dollars a year? 45,222 complete rows."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.random import Generator

from dpml.data import Dataset, Files, Info, check_rows, preprocess, sha256
from dpml.errors import UserError

_ROWS = {"adult.data": 32_561, "adult.test": 16_281}
_COMPLETE = {"adult.data": 30_162, "adult.test": 15_060}
_NUMERIC = (0, 2, 4, 10, 11, 12)  # age, fnlwgt, education-num, capital-gain, capital-loss, hours-per-week


@dataclass(frozen=True)
class Adult:
    """The official split without the rows that have a missing value: 30,162 for training, 15,060 for testing.

    Six numeric features, then one column for every value of the eight symbolic ones: d = 104. Labels +1: over 50K.
    """

    info: ClassVar[Info] = Info(
        name="adult",
        title="Adult (Census Income)",
        task="binary",
        citation="B. Becker, R. Kohavi, Adult, UCI, 1996, doi:10.24432/C5XW20",
        how_to_get="It is part of https://archive.ics.uci.edu/dataset/2/adult.",
    )
    steps: tuple[str, ...] = ("min_max", "max_norm")

    def size(self, N: int | None) -> tuple[int, int]:
        return N or _COMPLETE["adult.data"], preprocess.width(self.steps, 104)

    def load(self, files: Files, N: int | None, rng: Generator) -> Dataset:
        check_rows(self.info, N, _COMPLETE["adult.data"])
        paths = {filename: files.find(self.info, filename) for filename in _ROWS}
        parts = []
        for filename, path in paths.items():
            table = pd.read_csv(path, header=None, na_values="?", skipinitialspace=True, comment="|")
            if table.shape != (_ROWS[filename], 15):
                raise UserError(
                    f"{path} has {table.shape[0]} rows x {table.shape[1]} columns instead of {_ROWS[filename]} x 15: "
                    f"it is not the official file, or it is damaged. {self.info.how_to_get}"
                )
            parts.append(table.dropna())
        both = pd.concat(parts, ignore_index=True)
        symbolic = [column for column in range(14) if column not in _NUMERIC]
        X = np.column_stack(
            [
                both[list(_NUMERIC)].to_numpy(np.float64),
                pd.get_dummies(both[symbolic].astype(str), prefix=list(map(str, symbolic))).to_numpy(np.float64),
            ]
        )
        y = np.where(both[14].str.startswith(">50K"), 1.0, -1.0)
        official = len(parts[0])
        train = rng.permutation(official)[:N]
        X_train, X_test, record = preprocess.fit_apply(self.steps, X[train], X[official:])
        provenance = {
            "source": ", ".join(str(path) for path in paths.values()),
            "sha256": sha256(*(path.read_bytes() for path in paths.values())),
            "rows": len(y),
            "preprocessing": [{"step": "one_hot", "fitted_on": "both parts: the list of values only"}, *record],
        }
        return Dataset(self.info.name, self.info.task, X_train, y[train], X_test, y[official:], provenance)
