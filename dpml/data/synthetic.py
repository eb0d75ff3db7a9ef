"""Synthetic data with known weights: the linear recipe of Imtiaz et al. 2019 (fig. 3), and a logistic one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import expit, ndtri

from dpml.arrays import Array
from dpml.data import Dataset, Files, Info
from dpml.errors import UserError, nearest
from dpml.losses import Task

Recipe = Callable[[Generator, int, Array], tuple[Array, Array]]

_INSIDE = 1 - 1e-12  # keeps a rounded norm of one inside the unit ball


def linear(rng: Generator, rows: int, direction: Array) -> tuple[Array, Array]:
    """Rows uniform on [0, 1]^d, scaled to norm 1; y = x'w*, without noise (Imtiaz et al. 2019, their scripts)."""
    X = rng.random((rows, len(direction)))
    X *= _INSIDE / np.linalg.norm(X, axis=1, keepdims=True)
    return X, X @ direction


def logistic(rng: Generator, rows: int, direction: Array) -> tuple[Array, Array]:
    """Rows uniform in the unit ball; y = +1 with probability sigmoid(x'w*), else -1."""
    d = len(direction)
    numbers = rng.random((rows, d + 2))  # one row of numbers per sample, so that fewer rows are a prefix of more
    X = ndtri(numbers[:, :d])
    X *= _INSIDE * numbers[:, d : d + 1] ** (1 / d) / np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.where(numbers[:, d + 1] < expit(X @ direction), 1.0, -1.0)


RECIPES: dict[str, tuple[Recipe, Task]] = {"linear": (linear, "regression"), "logistic": (logistic, "binary")}


@dataclass(frozen=True)
class Synthetic:
    """`rows` training rows (N overrides), `test_rows` test rows, d features; w* is a random direction times `scale`."""

    recipe: str = "linear"
    d: int = 20
    rows: int = 5000
    test_rows: int = 2000
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.recipe not in RECIPES:
            raise UserError(f"unknown dataset.recipe={self.recipe!r}: {nearest(self.recipe, RECIPES)}")
        for key in ("d", "rows", "test_rows"):
            if getattr(self, key) < 1:
                raise UserError(f"dataset.{key} must be at least 1, got {getattr(self, key)}.")

    @property
    def info(self) -> Info:
        return Info(
            name="synthetic",
            title=f"Synthetic ({self.recipe})",
            task=RECIPES[self.recipe][1],
            citation="H. Imtiaz, J. Mohammadi, A. Sarwate, 2019, fig. 3 (linear); our own (logistic)",
            how_to_get="It is generated.",
        )

    def size(self, N: int | None) -> tuple[int, int]:
        return N or self.rows, self.d

    def load(self, files: Files, N: int | None, rng: Generator) -> Dataset:
        draw, task = RECIPES[self.recipe]
        truth = rng.uniform(-1, 1, self.d)
        truth *= self.scale / np.linalg.norm(truth)
        X_test, y_test = draw(rng, self.test_rows, truth)
        X, y = draw(rng, N or self.rows, truth)
        provenance: dict[str, Any] = {
            "source": repr(self),
            "sha256": None,
            "rows": len(y) + len(y_test),
            "preprocessing": [],
        }
        return Dataset(self.info.name, task, X, y, X_test, y_test, provenance, truth)
