"""URL Reputation (UCI 187): malicious (+1) or benign (-1) addresses, 3.2 million sparse features, PCA to d = 50."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from scipy import sparse

from dpml.data import Info
from dpml.data.info import described
from dpml.data.sources.files import open_raw
from dpml.data.table import OfficialSplit, Table


@dataclass(frozen=True)
class URL(OfficialSplit):
    """Days 0 to 9 for training, days 10 to 19 for testing. Used by Hamm et al. 2016, fig. 4."""

    info: ClassVar[Info] = described(__file__)["url"]
    steps: tuple[str, ...] = ("pca:50", "max_norm")

    def parse(self, paths: Mapping[str, Path]) -> Table:
        from sklearn.datasets import load_svmlight_file  # slow to load

        days, labels = [], []
        for path in paths.values():
            with open_raw(path) as file:
                X, y = load_svmlight_file(file, n_features=self.info.features, zero_based=False)
            # 32 bits are enough for every column number and every count here; the loader uses 64 for some
            days.append(
                sparse.csr_matrix((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
            )
            labels.append(np.where(y > 0, 1.0, -1.0))
        return Table(sparse.vstack(days, format="csr"), np.concatenate(labels))
