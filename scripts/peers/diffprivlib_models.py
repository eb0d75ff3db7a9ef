"""diffprivlib's models with a pure eps-DP guarantee, which is stronger than (eps, 1e-5).

LogisticRegression is objective perturbation (Chaudhuri, Monteleoni & Sarwate 2011), LinearRegression the functional
mechanism with Laplace noise (Zhang et al. 2012). Options are the library's own defaults; without intercept, as here.
"""
# /// script
# requires-python = ">=3.11"
# dependencies = ["diffprivlib==0.6.6", "scikit-learn<1.7", "numpy"]
# ///

import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
from diffprivlib.models import LinearRegression, LogisticRegression
from rows import DRAWS, EPS, Array, Data, Row, run, set_by_set

NAME = "diffprivlib (pure ε)"


def fitted(data: Data, eps: float, state: np.random.RandomState) -> Array:
    """The scores of the test rows."""
    if data.binary:  # the rows are a hair shorter than 1, so that none is cut
        model = LogisticRegression(epsilon=eps, data_norm=1.0, fit_intercept=False, random_state=state)
    else:
        model = LinearRegression(
            epsilon=eps, bounds_X=(-1, 1), bounds_y=(-1, 1), fit_intercept=False, random_state=state
        )
    model.fit(data.X, data.y)
    return np.asarray(data.X_test @ np.ravel(model.coef_))


def scored(name: str, seed: int, data: Data) -> Iterator[Row]:
    """Scores on a data set."""
    for eps, draw in product(EPS, range(DRAWS)):
        for metric, value in data.scored(fitted(data, eps, np.random.RandomState([seed, draw]))).items():
            yield name, eps, seed, draw, NAME, metric, value


def measure(folder: Path) -> tuple[list[Row], list[str]]:
    """Scores on every data set."""
    warnings.simplefilter("ignore")  # that a fit stops at its limit of iterations
    notes = [
        f"{NAME}: LogisticRegression(data_norm=1, fit_intercept=False) for two classes, "
        "LinearRegression(bounds_X=(-1, 1), bounds_y=(-1, 1), fit_intercept=False) for regression, all else by "
        "default; eps-DP, delta = 0",
    ]
    return set_by_set(folder, scored), notes


if __name__ == "__main__":
    run(measure, ["diffprivlib", "scikit-learn", "numpy"])
