"""Load data sets from the files of their publishers; official.yaml has the metadata of these data sets."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from numpy.random import Generator
from scipy import sparse

from dpml.arrays import Array, Index
from dpml.data import Info, Range
from dpml.data.info import described
from dpml.data.sources.files import open_raw
from dpml.data.table import RandomSplit, Table, Tabular, encode, read_csv
from dpml.options import between

_INFOS = described(__file__)
_CODED: tuple[str, ...] = ("one_hot", "min_max", "max_norm")


@dataclass(frozen=True)
class Adult(Tabular):
    """Adult: 30,162 training rows and 15,060 test rows, the official split without rows that have missing values."""

    info: ClassVar[Info] = _INFOS["adult"]
    steps: tuple[str, ...] = _CODED

    def parse(self, paths: Mapping[str, Path]) -> Table:
        whole = [
            read_csv(path, header=None, na_values="?", skipinitialspace=True, comment="|") for path in paths.values()
        ]
        parts = [part.dropna() for part in whole]
        numeric = {0, 2, 4, 10, 11, 12}  # age, fnlwgt, education-num, capital-gain, capital-loss, hours-per-week
        X, levels = encode([part.iloc[:, :14] for part in parts], set(range(14)) - numeric, self.stated)
        # labels of the test file end in a full stop
        y = np.concatenate([np.where(part[14].str.startswith(">50K"), 1.0, -1.0) for part in parts])
        return Table(X, y, levels, left_out=sum(map(len, whole)) - len(y))


@dataclass(frozen=True)
class Bank(RandomSplit):
    """Bank marketing: 41,188 rows with ten numeric and ten categorical features."""

    info: ClassVar[Info] = _INFOS["bank"]
    steps: tuple[str, ...] = _CODED

    def parse(self, paths: Mapping[str, Path]) -> Table:
        table = read_csv(paths["bank-additional-full.csv"], sep=";")
        X, levels = encode([table.iloc[:, :20]], (1, 2, 3, 4, 5, 6, 7, 8, 9, 14), self.stated)
        return Table(X, np.where(table["y"] == "yes", 1.0, -1.0), levels)


@dataclass(frozen=True)
class BreastCancer(RandomSplit):
    """Breast Cancer Wisconsin (Original): 699 rows with nine features graded 1 to 10; not the same as `wdbc`."""

    info: ClassVar[Info] = _INFOS["breast_cancer"]
    steps: tuple[str, ...] = ("impute", "min_max", "max_norm")

    def parse(self, paths: Mapping[str, Path]) -> Table:
        (path,) = paths.values()
        table = read_csv(path, header=None, na_values="?")
        return Table(table.iloc[:, 1:10].to_numpy(np.float64), np.where(table[10] == 4, 1.0, -1.0))


_FRAUDS = 492


@dataclass(frozen=True)
class CreditCard(RandomSplit):
    """Credit card transactions: all 492 frauds, and `normals` normal transactions drawn without replacement.

    Args:
        normals: The number of normal transactions, in addition to the 492 frauds.
    """

    info: ClassVar[Info] = _INFOS["creditcard"]
    normals: Annotated[int, between(1, 284_315)] = _FRAUDS
    steps: tuple[str, ...] = ("min_max", "max_norm")

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
    """The data set `creditcard`, drawn from a file with a tenth of the normal transactions (Kang et al. 2019)."""

    info: ClassVar[Info] = _INFOS["creditcard_subset"]


@dataclass(frozen=True)
class Crime(RandomSplit):
    """Communities and Crime: 1,994 rows with the 101 numeric features that have no missing values.

    The features include the state and fold numbers, as in figure 4 of Imtiaz et al. 2019.
    """

    info: ClassVar[Info] = _INFOS["crime"]
    steps: tuple[str, ...] = ("max_abs", "max_norm")

    def parse(self, paths: Mapping[str, Path]) -> Table:
        table = read_csv(paths["communities.data"], header=None, na_values="?", skipinitialspace=True)
        features = table.iloc[:, :-1].dropna(axis=1).select_dtypes("number")
        return Table(features.to_numpy(np.float64), table.iloc[:, -1].to_numpy(np.float64))


def _of_har(name: str) -> Info:
    columns = {f"feature {number}": Range(-1, 1) for number in range(1, _INFOS[name].features + 1)}
    return replace(_INFOS[name], columns=columns)


@dataclass(frozen=True)
class HAR(Tabular):
    """Human activity recognition: 7,352 training rows of 21 people and 2,947 test rows of 9 other people."""

    info: ClassVar[Info] = _of_har("har")
    steps: tuple[str, ...] = ("pca:50", "max_norm")

    def parse(self, paths: Mapping[str, Path]) -> Table:
        names = ("train/y_train.txt", "test/y_test.txt", "train/subject_train.txt")
        train, test, people = (read_csv(paths[name], header=None)[0].to_numpy() for name in names)
        y = np.concatenate([train, test]).astype(float) - 1
        X = np.concatenate([self.features(paths[raw.name]) for raw in self.info.files[:2]])
        return Table(X, y, party=np.unique(people, return_inverse=True)[1])

    def features(self, path: Path) -> Array:
        return read_csv(path, header=None, sep=r"\s+", dtype=np.float64).to_numpy()


@dataclass(frozen=True)
class HAR73(HAR):
    """The data set `har` with 73 of its 561 features: every mean, standard deviation and angle."""

    info: ClassVar[Info] = _of_har("har_73of561")

    def features(self, path: Path) -> Array:
        return read_csv(path, dtype=np.float64).to_numpy()


def _kdd(loader: Tabular, paths: Mapping[str, Path]) -> Table:
    categorical = (1, 2, 3)  # protocol, service, flag
    kinds = {column: "category" if column in (*categorical, 41) else "float64" for column in range(42)}
    tables = [read_csv(path, header=None, dtype=kinds) for path in paths.values()]
    X, levels = encode([table.iloc[:, :41] for table in tables], categorical, loader.stated)
    return Table(X, np.concatenate([np.where(table[41] == "normal.", -1.0, 1.0) for table in tables]), levels)


@dataclass(frozen=True)
class KDDCup99(Tabular):
    """KDD Cup 1999: 494,021 training rows (the 10 % file) and 311,029 test rows (the file `corrected`)."""

    info: ClassVar[Info] = _INFOS["kddcup99"]
    steps: tuple[str, ...] = _CODED
    parse = _kdd


@dataclass(frozen=True)
class KDDCup9970k(RandomSplit):
    """KDD Cup 1999: `sample` rows of the 10 % file, drawn without replacement.

    Args:
        sample: The number of rows to draw.
    """

    info: ClassVar[Info] = _INFOS["kddcup99_70k"]
    sample: Annotated[int, between(1, 494_021)] = 70_000
    steps: tuple[str, ...] = _CODED
    parse = _kdd

    def drawn(self) -> int:
        return self.sample


@dataclass(frozen=True)
class TwitterBuzz(RandomSplit):
    """Buzz in social media (Twitter): 583,250 rows with eleven measures of a topic in each of seven weeks."""

    info: ClassVar[Info] = _INFOS["twitter_buzz"]
    steps: tuple[str, ...] = ("max_abs", "max_norm")

    def parse(self, paths: Mapping[str, Path]) -> Table:
        table = read_csv(paths["Twitter.data"], header=None, dtype=np.float64).to_numpy()
        return Table(table[:, :-1], table[:, -1])


@dataclass(frozen=True)
class URL(Tabular):
    """Malicious URLs: days 0 to 9 are for training, days 10 to 19 for testing (as in Hamm et al. 2016, figure 4)."""

    info: ClassVar[Info] = _INFOS["url"]
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
