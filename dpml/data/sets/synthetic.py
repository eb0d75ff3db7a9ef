"""Synthetic data: three recipes from the papers, and a logistic recipe."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import expit, ndtri

from dpml.arrays import Array, blocks
from dpml.data import Dataset, Files, Info, preprocess
from dpml.data.info import Task, beside, info_of
from dpml.errors import UserError, nearest

Draw = Callable[[Generator, int, Array], tuple[Array, Array]]

_INSIDE = 1 - 1e-12  # keeps a rounded norm of one inside the unit ball
_MEAN = 0.25  # of the positive class, in every coordinate, when `scale` is 1: the initial value in the authors' scripts


def linear(rng: Generator, rows: int, direction: Array) -> tuple[Array, Array]:
    """Rows uniform on [0, 1]^d, scaled to norm 1; y = x'w*, without noise (Imtiaz et al. 2019, their scripts)."""
    X = rng.random((rows, len(direction)))
    _scale(X, np.full((rows, 1), _INSIDE))
    return X, X @ direction


def logistic(rng: Generator, rows: int, direction: Array) -> tuple[Array, Array]:
    """Rows uniform in the unit ball; y = +1 with probability sigmoid(x'w*), else -1."""
    X, uniform = _ball(rng, rows, len(direction))
    return X, np.where(uniform < expit(X @ direction), 1.0, -1.0)


def ball_sign(rng: Generator, rows: int, direction: Array) -> tuple[Array, Array]:
    """Rows uniform in the unit ball; y = sign(x'w*) (Rajkumar & Agarwal 2012, fig. 1, where d = 10)."""
    X, _ = _ball(rng, rows, len(direction))
    return X, np.where(X @ direction >= 0, 1.0, -1.0)


def two_gaussians(rng: Generator, rows: int, direction: Array) -> tuple[Array, Array]:
    """Unit variance around y ||w*|| / 4 in every coordinate, y = -1 or +1 evenly (Imtiaz et al. 2019, fig. 2).

    The rows are not in the unit ball: `Synthetic` scales them by the largest training norm.
    """
    d = len(direction)
    numbers = rng.random((rows, d + 1))
    y = np.where(numbers[:, d] < 0.5, -1.0, 1.0)
    X = ndtri(numbers[:, :d])
    X += _MEAN * np.linalg.norm(direction) * y[:, None]
    return X, y


def _ball(rng: Generator, rows: int, d: int) -> tuple[Array, Array]:
    """Rows uniform in the unit ball, and one additional uniform number for each row."""
    numbers = rng.random((rows, d + 2))  # one row of numbers per sample, so that fewer rows are a prefix of more
    X = ndtri(numbers[:, :d])
    _scale(X, _INSIDE * numbers[:, d : d + 1] ** (1 / d))
    return X, numbers[:, d + 1].copy()


def _scale(X: Array, lengths: Array) -> None:
    """Scale rows to lengths (n, 1), in place and in blocks: the squares of all rows would take as much memory."""
    for rows in blocks(*X.shape):
        X[rows] *= lengths[rows] / np.linalg.norm(X[rows], axis=1, keepdims=True)


@dataclass(frozen=True)
class Recipe:
    """How rows and labels are drawn, for which task, from which source, and how the rows are then scaled."""

    draw: Draw
    task: Task
    origin: str
    steps: tuple[str, ...] = ()
    weights: bool = True  # whether w* generates the labels


RECIPES: dict[str, Recipe] = {
    "linear": Recipe(linear, "regression", "H. Imtiaz, J. Mohammadi, A. Sarwate, 2019, fig. 3"),
    "logistic": Recipe(logistic, "binary", "our own"),
    "ball_sign": Recipe(ball_sign, "binary", "A. Rajkumar, S. Agarwal, 2012, fig. 1"),
    "two_gaussians": Recipe(
        two_gaussians, "binary", "H. Imtiaz, J. Mohammadi, A. Sarwate, 2019, fig. 2", ("max_norm",), weights=False
    ),
}


@dataclass(frozen=True)
class Synthetic:
    """`rows` training rows (N overrides), `test_rows` test rows, d features; w* is a random direction times `scale`.

    Args:
        recipe: `linear`, `logistic`, `ball_sign` or `two_gaussians`.
        d: Features.
        rows: Training rows, unless N says otherwise.
        test_rows: Rows for testing, beside them.
        scale: The norm of the true weights.
    """

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
        said = {
            "title": f"Synthetic ({self.recipe})",
            "task": RECIPES[self.recipe].task,
            "citation": "; ".join(f"{recipe.origin} ({name})" for name, recipe in RECIPES.items()),
            "rows": self.rows + self.test_rows,
            "features": self.d,
        }
        return info_of("synthetic", beside(__file__)["synthetic"] | said)

    def size(self, N: int | None) -> tuple[int, int]:
        return N or self.rows, self.d

    def checksum(self, files: Files) -> None:
        """None: rows are generated by code, not read from a file."""
        return None

    def load(self, files: Files, N: int | None, rng: Generator) -> Dataset:
        recipe = RECIPES[self.recipe]
        truth = rng.uniform(-1, 1, self.d)
        truth *= self.scale / np.linalg.norm(truth)
        X_test, y_test = recipe.draw(rng, self.test_rows, truth)
        X, y = recipe.draw(rng, N or self.rows, truth)
        X, X_test, record = preprocess.fit_apply(recipe.steps, X, X_test)
        provenance: dict[str, Any] = {
            "source": repr(self),
            "sha256": None,
            "rows": len(y) + len(y_test),
            "preprocessing": record,
        }
        weights = truth if recipe.weights else None
        return Dataset(self.info.name, recipe.task, X, y, X_test, y_test, provenance, weights)
