"""Communities and Crime (UCI 183): predict violent crimes per head from 101 features of 1,994 communities."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.random import Generator

from dpml.data import Dataset, Files, Info, preprocess, sha256, split_rows, training_rows
from dpml.errors import UserError

_ROWS, _COLUMNS = 1994, 128


@dataclass(frozen=True)
class Crime:
    """1,994 rows; of the 127 columns before the target the 102 without a missing value, less the community's name.

    These are the d = 101 features of Imtiaz et al. 2019, fig. 4 (state and fold numbers among them).
    """

    info: ClassVar[Info] = Info(
        name="crime",
        title="Communities and Crime",
        task="regression",
        citation="M. Redmond, Communities and Crime, UCI, 2002, doi:10.24432/C53W3X",
        how_to_get="It is communities.data of https://archive.ics.uci.edu/dataset/183/communities+and+crime.",
    )
    test_fraction: float = 0.2
    steps: tuple[str, ...] = ("max_abs", "max_norm")

    def size(self, N: int | None) -> tuple[int, int]:
        return N or training_rows(_ROWS, self.test_fraction), preprocess.width(self.steps, 101)

    def load(self, files: Files, N: int | None, rng: Generator) -> Dataset:
        path = files.find(self.info, "communities.data")
        table = pd.read_csv(path, header=None, na_values="?", skipinitialspace=True)
        if table.shape != (_ROWS, _COLUMNS):
            raise UserError(
                f"{path} has {table.shape[0]} rows x {table.shape[1]} columns instead of {_ROWS} x {_COLUMNS}: "
                f"it is not the official file, or it is damaged. {self.info.how_to_get}"
            )
        features = table.iloc[:, :-1].dropna(axis=1).select_dtypes("number")
        X, y = features.to_numpy(np.float64), table.iloc[:, -1].to_numpy(np.float64)
        train, test = split_rows(self.info, len(y), N, rng, self.test_fraction)
        X_train, X_test, record = preprocess.fit_apply(self.steps, X[train], X[test])
        y_train, y_test, target = preprocess.scale_target(y[train], y[test])
        provenance = {
            "source": str(path),
            "sha256": sha256(path.read_bytes()),
            "rows": len(y),
            "preprocessing": [*record, target],
        }
        return Dataset(self.info.name, self.info.task, X_train, y_train, X_test, y_test, provenance)
