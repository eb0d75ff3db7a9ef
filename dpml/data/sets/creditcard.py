"""Credit Card Fraud Detection (ULB): all 492 frauds (+1) and as many normal transactions (-1), drawn at random."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array, Index
from dpml.data import Info, Raw
from dpml.data.table import RandomSplit, Table, read_csv
from dpml.errors import UserError

_FRAUDS = 492


@dataclass(frozen=True)
class CreditCard(RandomSplit):
    """All 492 frauds and `normals` others, drawn without replacement. Used by Kang et al. 2019.

    Args:
        normals: Normal transactions drawn beside the 492 frauds.
    """

    info: ClassVar[Info] = Info(
        name="creditcard",
        title="Credit Card Fraud Detection",
        task="binary",
        citation="A. Dal Pozzolo, O. Caelen, R. A. Johnson, G. Bontempi, Calibrating Probability with Undersampling "
        "for Unbalanced Classification, IEEE CIDM 2015; Kaggle mlg-ulb/creditcardfraud",
        how_to_get="It is creditcard.csv of https://www.kaggle.com/datasets/mlg-ulb/creditcardfraud.",
        homepage="https://www.kaggle.com/datasets/mlg-ulb/creditcardfraud",
        licence="ODbL 1.0 / DbCL 1.0",
        files=(
            Raw(
                "creditcard.csv",
                urls=(
                    "https://www.kaggle.com/api/v1/datasets/download/mlg-ulb/creditcardfraud!creditcard.csv",
                    "https://storage.googleapis.com/download.tensorflow.org/data/creditcard.csv",
                ),
                sha256=("76274b691b16a6c49d3f159c883398e03ccd6d1ee12d9d8ee38f4b4b98551a89",),
            ),
        ),
        rows=284_807,
        features=30,
        classes={-1: 284_315, +1: _FRAUDS},
        parties="M = 2, 4, 8, 16, 32 (Kang et al. 2019)",
        schema="Time, 28 principal components that the publisher computed (V1 to V28), and Amount. Label +1: fraud.",
        papers="Kang et al. 2019 use all 492 frauds and 492 normal transactions; which ones is not stated.",
        differences="The normal transactions are drawn anew for every seed. A fifth of the 984 rows is for testing; "
        "each feature is scaled to [0, 1], then all rows by the largest training norm. 4 to 7 of the 197 test rows are "
        "copies of training rows, as the file repeats transactions (ten seeds, counted on creditcard_subset).",
        bounds="V1 to V28 are principal components of unpublished features, and nothing documents their ranges",
    )
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

    info: ClassVar[Info] = replace(
        CreditCard.info,
        name="creditcard_subset",
        title="Credit Card Fraud Detection, a subset of the file",
        how_to_get="It is not published: use dataset=creditcard, whose file is.",
        files=(
            Raw(
                "creditcard_subset.csv",
                sha256=("c9a9a14b1cfbaa451f28513d900872bf769289f1db23efe6af67c74e8bbf8b41",),
            ),
        ),
        folders=("creditcard",),
        rows=28_870,
        classes={-1: 28_378, +1: _FRAUDS},
        schema="As creditcard: all 492 frauds, and 28,378 of the 284,315 normal transactions, gathered from public "
        "random samples of the file.",
        differences="A substitute, and named so: normal transactions are drawn from about 10 % of them. Otherwise as "
        "creditcard.",
    )
