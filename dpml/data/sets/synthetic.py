"""Draw synthetic data by one of four recipes: three recipes from papers, and one for logistic regression."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.random import Generator
from scipy.special import expit, ndtri

from dpml.arrays import Array, blocks
from dpml.data import Dataset, Files, Info, preprocess
from dpml.data.info import Task, beside, info_of
from dpml.options import at_least, check_options

_INSIDE = 1 - 1e-12  # keeps rows of norm 1 inside the unit ball in spite of rounding
_MEAN = 0.25  # mean of each coordinate in class +1 if `scale` is 1, from the authors' scripts


def linear(rng: Generator, rows: int, direction: Array) -> tuple[Array, Array]:
    """Draw rows x uniform on [0, 1]^d, scaled to norm 1; y = x'w* for weights w* (scripts of Imtiaz et al. 2019)."""
    X = rng.random((rows, len(direction)))
    _scale(X, np.full((rows, 1), _INSIDE))
    return X, X @ direction


def logistic(rng: Generator, rows: int, direction: Array) -> tuple[Array, Array]:
    """Draw rows x uniform in the unit ball; label each +1 with probability sigmoid(x'w*) for weights w*, else -1."""
    X, uniform = _ball(rng, rows, len(direction))
    return X, np.where(uniform < expit(X @ direction), 1.0, -1.0)


def ball_sign(rng: Generator, rows: int, direction: Array) -> tuple[Array, Array]:
    """Draw rows x uniform in the unit ball, and set y = sign(x'w*) for weights w* (Rajkumar & Agarwal 2012, fig. 1)."""
    X, _ = _ball(rng, rows, len(direction))
    return X, np.where(X @ direction >= 0, 1.0, -1.0)


def two_gaussians(rng: Generator, rows: int, direction: Array) -> tuple[Array, Array]:
    """Draw labels y = -1 or +1, and each feature from N(y ||w*||/4, 1) for weights w* (Imtiaz et al. 2019, fig. 2)."""
    d = len(direction)
    numbers = rng.random((rows, d + 1))
    y = np.where(numbers[:, d] < 0.5, -1.0, 1.0)
    X = ndtri(numbers[:, :d])
    X += _MEAN * np.linalg.norm(direction) * y[:, None]
    return X, y


def _ball(rng: Generator, rows: int, d: int) -> tuple[Array, Array]:
    numbers = rng.random((rows, d + 2))  # row by row, so that a smaller sample is a prefix of a larger one
    X = ndtri(numbers[:, :d])
    _scale(X, _INSIDE * numbers[:, d : d + 1] ** (1 / d))
    return X, numbers[:, d + 1].copy()


def _scale(X: Array, lengths: Array) -> None:
    for rows in blocks(*X.shape):  # in blocks, to avoid an array of the squares of all rows
        X[rows] *= lengths[rows] / np.linalg.norm(X[rows], axis=1, keepdims=True)


@dataclass(frozen=True)
class Recipe:
    """A recipe for synthetic data: how to draw rows and labels, the task, and the preprocessing steps."""

    draw: Callable[[Generator, int, Array], tuple[Array, Array]]
    task: Task
    steps: tuple[str, ...] = ()
    weights: bool = True  # whether w* generates the labels


RecipeName = Literal["linear", "logistic", "ball_sign", "two_gaussians"]
RECIPES: dict[RecipeName, Recipe] = {
    "linear": Recipe(linear, "regression"),
    "logistic": Recipe(logistic, "binary"),
    "ball_sign": Recipe(ball_sign, "binary"),
    "two_gaussians": Recipe(two_gaussians, "binary", ("max_norm",), weights=False),
}


@dataclass(frozen=True)
class Synthetic:
    """Synthetic rows with d features; the labels depend on true weights w*, which have a random direction.

    Args:
        recipe: How rows and labels are drawn: `linear`, `logistic`, `ball_sign` or `two_gaussians`.
        d: The number of features.
        rows: The number of training rows, unless N is set.
        test_rows: The number of additional rows for testing.
        scale: The norm of the true weights w*.
    """

    recipe: RecipeName = "linear"
    d: Annotated[int, at_least(1)] = 20
    rows: Annotated[int, at_least(1)] = 5000
    test_rows: Annotated[int, at_least(1)] = 2000
    scale: float = 1.0

    def __post_init__(self) -> None:
        check_options(self, "dataset")

    @property
    def info(self) -> Info:
        said = {
            "title": f"Synthetic ({self.recipe})",
            "task": RECIPES[self.recipe].task,
            "rows": self.rows + self.test_rows,
            "features": self.d,
        }
        return info_of("synthetic", beside(__file__)["synthetic"] | said)

    def size(self, N: int | None) -> tuple[int, int]:
        return N or self.rows, self.d

    def checksum(self, files: Files) -> None:
        return None

    def load(self, files: Files, N: int | None, rng: Generator) -> Dataset:
        recipe = RECIPES[self.recipe]
        truth = rng.uniform(-1, 1, self.d)
        truth *= self.scale / np.linalg.norm(truth)
        X_test, y_test = recipe.draw(rng, self.test_rows, truth)
        X, y = recipe.draw(rng, N or self.rows, truth)
        X, X_test, record = preprocess.apply_steps(recipe.steps, X, X_test)
        provenance = {"source": repr(self), "sha256": None, "rows": len(y) + len(y_test), "preprocessing": record}
        weights = truth if recipe.weights else None
        return Dataset(self.info.name, recipe.task, X, y, X_test, y_test, provenance, weights)
