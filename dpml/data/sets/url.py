"""URL Reputation (UCI 187): malicious (+1) or benign (-1) addresses, 3.2 million sparse features, PCA to d = 50."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from scipy import sparse

from dpml.data import Info, Raw
from dpml.data.sources.files import open_raw
from dpml.data.table import OfficialSplit, Table

_FEATURES = 3_231_961
_ARCHIVES = (
    "https://archive.ics.uci.edu/static/public/187/url+reputation.zip!url_svmlight.tar.gz",
    "https://archive.ics.uci.edu/ml/machine-learning-databases/url/url_svmlight.tar.gz",
    "https://www.sysnet.ucsd.edu/projects/url/url_svmlight.tar.gz",
)


def _day(day: int) -> Raw:
    name = f"Day{day}.svm"
    urls = tuple(f"{archive}!url_svmlight/{name}" for archive in _ARCHIVES)
    return Raw(name, urls, lines=16_000 if day == 0 else 20_000)


@dataclass(frozen=True)
class URL(OfficialSplit):
    """Days 0 to 9 for training, days 10 to 19 for testing. Used by Hamm et al. 2016, fig. 4."""

    info: ClassVar[Info] = Info(
        name="url",
        title="URL Reputation, days 0 to 19",
        task="binary",
        citation="J. Ma, L. K. Saul, S. Savage, G. M. Voelker, Identifying Suspicious URLs: An Application of "
        "Large-Scale Online Learning, ICML 2009",
        how_to_get="It is part of https://archive.ics.uci.edu/dataset/187/url+reputation.",
        homepage="https://archive.ics.uci.edu/dataset/187/url+reputation",
        licence="CC BY 4.0",
        files=tuple(_day(day) for day in range(20)),
        rows=396_000,
        train_rows=196_000,
        features=_FEATURES,
        parties="M = 5000, 10000, 20000 of 9 rows each (Hamm et al. 2016)",
        schema="3,231,961 sparse features of addresses and their hosts, anonymous. Label +1: malicious. Day 0 has "
        "16,000 rows, every other day in use 20,000: both counts follow from the published total.",
        papers="Hamm et al. 2016 reduce to d = 50 by PCA and use about 16,000 auxiliary rows; which rows the PCA saw "
        "and how the features were scaled is not stated.",
        differences="The PCA is fitted on the training rows in use (a truncated SVD of the sparse matrix, centred "
        "without making it dense); then all rows are divided by the largest training norm.",
        bounds="its features are anonymous and too many for steps other than pca:D, which is fitted to training rows",
    )
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
