"""The samples that Imtiaz et al. 2019 used, as published with the authors' code, already scaled by the authors."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dpml.data import Dataset, Files, Info, Raw, preprocess, split_rows, training_rows
from dpml.data.steps import PRIVATE
from dpml.errors import UserError

_URL = "https://raw.githubusercontent.com/hafizimtiaz/capeFM/96550f3b39969fb257caadae82a5c7dffcceab04/datasets"
_SHA256 = {
    "crime_D_101_N_200.mat": "2f0864be73b53a08016ffba334c39494edbc653c287699df97bf5ee6e5bf038f",
    "crime_D_101_N_400.mat": "6a93367ca4335e4fbd147004ae4f729a29a9ad6e51f356877249dc9b762c4306",
    "crime_D_101_N_600.mat": "5c025ab6b9a38aba6e7f675c66b469f1a200fdb88c5eba0b759ef78f0447c2af",
    "crime_D_101_N_800.mat": "5624a7275ab0a706f1424d93267b269a050ed6820c37b04381e2f568f2a22f68",
    "crime_D_101_N_1000.mat": "cc17c0b25aa45e5fa06337488f872ba1238dd768534cb8bcc3f25f770e56786a",
    "crime_D_101_N_1200.mat": "88156877db529407ac2474375acb0c628bfe5f66d940f8758b1ed32949b4bd0b",
    "crime_D_101_N_1400.mat": "5fcad22a7ade874667429103845aa709ea79799cb1ed08fb6613b0ac9044a1c1",
    "crime_D_101_N_1600.mat": "606d5502399be17384890bdad045539a9f6c9fdc05c175d41b6cdd6c91408732",
    "crime_D_101_N_1800.mat": "93427b76dc25977db2df66cd3db6bf9cc69a143fd1d1c3cd1b675cf6e1233f18",
    "synth_D_20_N_1000.mat": "7ff06a0e1b79779f80e6b3a4759deaffc13018b6943f58209fe933783b0e7938",
    "synth_D_20_N_5000.mat": "43a9b5743f8852d5da068755945fbeb261b2a21e15b987b4aac4a872dfd4ee94",
    "synth_D_20_N_20000.mat": "d94a3790650bb3457d5ec37add30a9443f4752fd8df33d18a652c9a9802d92e4",
    "twitter_D_77_N_500.mat": "92d42656124d15710fa94b57ee8ccd7eb5b88a667b4b7307812ce6c7699dfa06",
    "twitter_D_77_N_1000.mat": "08b24700bc607114d4784c125ac01c5d0797ceb8bceb02c1d996be2d72ada91b",
    "twitter_D_77_N_2000.mat": "e352dfeced0fa98e2b0173eb0ab128270446ae4afe43f31bdc8357a5c11c3f4f",
    "twitter_D_77_N_5000.mat": "5841dd6d0860d32be2f370fecacab8b72f61a5c7008b48ff9987e2e929b850ec",
    "twitter_D_77_N_10000.mat": "035a99fd7528affeb8b972e4155ba0e7aaafc9e78105b9960996bf5db32448f5",
    "twitter_D_77_N_20000.mat": "b71b61f4ebe776f95dfbda54725cfe415e8af39039f0e4392bf78b0742bca09d",
}


@dataclass(frozen=True)
class Authors:
    """One of the authors' files, selected by `rows`. All its rows are for training unless `test_fraction` is set.

    Args:
        test_fraction: The share of the rows, drawn at random, that is for testing.
        steps: Preprocessing, in order.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    choices: ClassVar[tuple[int, ...]]
    schema: ClassVar[str]
    rows: int = 0
    test_fraction: float = 0.0
    steps: tuple[str, ...] = ("clip",)

    def __post_init__(self) -> None:
        if self.rows not in self.choices:
            raise UserError(
                f"dataset.rows={self.rows}: the authors have samples of {self._sizes} rows; choose one of them."
            )

    @property
    def _sizes(self) -> str:
        return ", ".join(map(str, self.choices))

    @property
    def features(self) -> int:
        """Columns of the file."""
        raise NotImplementedError

    @property
    def filename(self) -> str:
        """Which of the authors' files it is."""
        raise NotImplementedError

    @property
    def info(self) -> Info:
        known = _SHA256.get(self.filename)
        return Info(
            name=self.name,
            title=self.title,
            task="regression",
            citation="H. Imtiaz, J. Mohammadi, A. Sarwate, Distributed Differentially Private Computation of Functions "
            "with Correlated Noise, 2019; github.com/hafizimtiaz/capeFM",
            how_to_get=f"It is datasets/{self.filename} of https://github.com/hafizimtiaz/capeFM.",
            homepage="https://github.com/hafizimtiaz/capeFM",
            licence="none stated",
            files=(Raw(self.filename, (f"{_URL}/{self.filename}",), (known,) if known else ()),),
            folders=("imtiaz_authors",),
            rows=self.rows,
            features=self.features,
            parties="M = 5 (Imtiaz et al. 2019)",
            schema=self.schema,
            papers="This is what the authors' figures were computed on; they train on all rows and report the training "
            f"loss. Samples of {self._sizes} rows exist.",
            differences="Nothing is scaled again, but a row whose norm exceeds 1 by rounding is clipped. The authors "
            "scaled by maxima over private rows, and each row of results says so.",
            bounds="the authors had scaled it by maxima over its rows",
        )

    def size(self, N: int | None) -> tuple[int, int]:
        return N or training_rows(self.rows, self.test_fraction), preprocess.width(self.steps, self.features)

    def checksum(self, files: Files) -> str:
        """The checksum of the file's content, as in a loaded data set's provenance.

        Raises:
            UserError: the file is missing or damaged.
        """
        _, digest = files.verified(self.info)[self.filename]
        return digest

    def load(self, files: Files, N: int | None, rng: Generator) -> Dataset:
        from scipy.io import loadmat  # slow to load, and only this data set needs it

        info = self.info
        path, digest = files.verified(info)[self.filename]
        content = loadmat(path)
        X, y = content["X"].astype(np.float64), content["y"].ravel().astype(np.float64)
        if X.shape != (self.rows, self.features) or y.shape != (self.rows,):
            raise UserError(
                f"{path} holds {X.shape[0]} x {X.shape[1]} values instead of {self.rows} x {self.features}."
            )
        train, test = split_rows(info, self.rows, N, rng, self.test_fraction)
        X_train, X_test, record = preprocess.fit_apply(self.steps, X[train], X[test])
        provenance = {
            "source": str(path),
            "sha256": digest,
            "files": {self.filename: digest},
            "rows": self.rows,
            "preprocessing": [{"step": "the authors' scaling", "fitted_on": PRIVATE}, *record],
        }
        truth = content["beta"].ravel() if "beta" in content else None
        return Dataset(info.name, info.task, X_train, y[train], X_test, y[test], provenance, truth)


@dataclass(frozen=True)
class CrimeAuthors(Authors):
    """Communities and Crime, d = 101.

    Args:
        rows: 200, 400, ..., 1800.
    """

    name: ClassVar[str] = "crime_authors"
    title: ClassVar[str] = "Communities and Crime, the samples of Imtiaz et al. 2019"
    choices: ClassVar[tuple[int, ...]] = tuple(range(200, 2000, 200))
    schema: ClassVar[str] = (
        "The 101 features of crime, each divided by its largest absolute value over all 1,994 rows, then all rows of "
        "the draw by their largest norm; the target by its largest value in the draw."
    )
    rows: int = 800

    @property
    def features(self) -> int:
        return 101

    @property
    def filename(self) -> str:
        return f"crime_D_101_N_{self.rows}.mat"


@dataclass(frozen=True)
class TwitterAuthors(Authors):
    """Buzz in social media (Twitter), d = 77.

    Args:
        rows: 500, 1000, 2000, 5000, 10000 or 20000.
    """

    name: ClassVar[str] = "twitter_authors"
    title: ClassVar[str] = "Buzz in social media (Twitter), the samples of Imtiaz et al. 2019"
    choices: ClassVar[tuple[int, ...]] = (500, 1000, 2000, 5000, 10_000, 20_000)
    schema: ClassVar[str] = (
        "The 77 features of twitter_buzz, each divided by its largest absolute value over all 583,250 rows, then all "
        "rows of the draw by their largest norm; the target by its largest value in the draw."
    )
    rows: int = 20_000

    @property
    def features(self) -> int:
        return 77

    @property
    def filename(self) -> str:
        return f"twitter_D_77_N_{self.rows}.mat"


@dataclass(frozen=True)
class SyntheticAuthors(Authors):
    """Rows uniform on [0, 1]^d scaled to norm 1, y = x'w* without noise, d = 20 or 50; the file includes w*.

    Args:
        rows: 500, 1000, 2000, 5000, 10000 or 20000.
        d: 20 or 50.
    """

    name: ClassVar[str] = "synthetic_authors"
    title: ClassVar[str] = "Linear synthetic data, the samples of Imtiaz et al. 2019"
    choices: ClassVar[tuple[int, ...]] = (500, 1000, 2000, 5000, 10_000, 20_000)
    schema: ClassVar[str] = (
        "Rows uniform on [0, 1]^d, each scaled to norm 1; y = x'w* without noise; w* uniform on [-1, 1]^d, scaled to "
        "norm 1."
    )
    rows: int = 5000
    d: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d not in (20, 50):
            raise UserError(f"dataset.d={self.d}: the authors have samples with d = 20 and d = 50; choose one of them.")

    @property
    def features(self) -> int:
        return self.d

    @property
    def filename(self) -> str:
        return f"synth_D_{self.d}_N_{self.rows}.mat"
