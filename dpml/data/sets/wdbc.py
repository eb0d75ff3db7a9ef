"""Load Breast Cancer Wisconsin (Diagnostic) from scikit-learn: 569 rows with 30 features, malignant or benign."""

import math
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array, Index
from dpml.data import Files, Info, sha256
from dpml.data.info import described
from dpml.data.table import RandomSplit, Table
from dpml.options import between


@dataclass(frozen=True)
class WDBC(RandomSplit):
    """Breast Cancer Wisconsin (Diagnostic): 569 rows with 30 real features; 212 rows are malignant (+1).

    Args:
        bounds: `fitted` takes scales from the training rows; `public` is refused, because no public ranges exist.
        folds: Cross-validation instead of `test_fraction`: with 5, seeds 0 to 4 test on one fifth each; None: off.
    """

    info: ClassVar[Info] = described(__file__)["wdbc"]
    folds: Annotated[int, between(2, 569)] | None = None
    steps: tuple[str, ...] = ("min_max", "centre", "max_norm")

    def available(self) -> int:
        return super().available() if self.folds is None else 569 - math.ceil(569 / self.folds)

    def split(self, y: Array, N: int | None, rng: Generator) -> tuple[Index, Index | slice]:
        """Draw the training and the test rows; in cross-validation, the seed of `rng` determines the test fold."""
        if self.folds is None:
            return super().split(y, N, rng)
        sequence = rng.bit_generator.seed_seq
        turn, fold = divmod(int(sequence.entropy), self.folds)  # type: ignore[attr-defined]
        order = np.random.default_rng([turn, self.folds]).permutation(len(y))
        blocks = np.array_split(order, self.folds)
        train = np.concatenate([block for k, block in enumerate(blocks) if k != fold])
        return train[:N], blocks[fold]

    def checksum(self, files: Files) -> str:
        return str(self.table(files)[1]["sha256"])

    def table(self, files: Files) -> tuple[Table, dict[str, Any]]:
        # scikit-learn's file is read directly, because importing scikit-learn takes longer than a run
        spec: Any = find_spec("sklearn")
        file = Path(spec.origin).with_name("datasets") / "data" / "breast_cancer.csv"
        content = np.loadtxt(file, delimiter=",", skiprows=1)
        X = np.ascontiguousarray(content[:, :-1])
        y = np.where(content[:, -1] == 0, 1.0, -1.0)  # scikit-learn codes malignant as 0
        digest = sha256(X.tobytes(), y.tobytes())
        return Table(X, y), {"source": "sklearn.datasets.load_breast_cancer", "sha256": digest}
