"""diffprivlib's models with a pure eps-DP guarantee, which is stronger than (eps, 1e-5).

LogisticRegression is objective perturbation (Chaudhuri, Monteleoni & Sarwate 2011), LinearRegression the functional
mechanism with Laplace noise (Zhang et al. 2012). Options are the library's defaults, but without intercept, as in dpml.
"""
# /// script
# requires-python = ">=3.11"
# dependencies = ["multiparty-dp", "diffprivlib==0.6.6", "scikit-learn<1.7"]
# [tool.uv.sources]
# multiparty-dp = { path = "../..", editable = true }
# ///

import warnings

import numpy as np
from diffprivlib.models import LinearRegression, LogisticRegression
from rows import DRAWS, Data, Row, on_every_set, run

from dpml.arrays import Array
from dpml.data import Files

NAME = "diffprivlib (pure ε)"


def fitted(data: Data, eps: float, seed: int, draw: int) -> Array:
    """Return the scores of the test rows."""
    state = np.random.RandomState([seed, draw])
    if data.binary:  # rows are slightly shorter than 1, so that none is clipped
        model = LogisticRegression(epsilon=eps, data_norm=1.0, fit_intercept=False, random_state=state)
    else:
        model = LinearRegression(
            epsilon=eps, bounds_X=(-1, 1), bounds_y=(-1, 1), fit_intercept=False, random_state=state
        )
    model.fit(data.X, data.y)
    return np.asarray(data.X_test @ np.ravel(model.coef_))


def measure(files: Files) -> tuple[list[Row], list[str]]:
    """Return the scores on every data set."""
    warnings.simplefilter("ignore")  # fits that stop at the limit of iterations
    notes = [
        f"{NAME}: LogisticRegression(data_norm=1, fit_intercept=False) for two classes, "
        "LinearRegression(bounds_X=(-1, 1), bounds_y=(-1, 1), fit_intercept=False) for regression, all else by "
        "default; eps-DP, delta = 0",
    ]
    return list(on_every_set(files, NAME, fitted, lambda _: DRAWS)), notes


if __name__ == "__main__":
    run(measure, ["diffprivlib", "scikit-learn", "numpy"])
