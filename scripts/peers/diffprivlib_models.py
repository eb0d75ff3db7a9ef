"""diffprivlib's models with a pure eps-DP guarantee, which is stronger than (eps, 1e-5).

LogisticRegression is objective perturbation (Chaudhuri, Monteleoni & Sarwate 2011), LinearRegression the functional
mechanism with Laplace noise (Zhang et al. 2012). Options are the library's own defaults; without intercept, as here.
"""
# /// script
# requires-python = ">=3.11"
# dependencies = ["diffprivlib==0.6.6", "scikit-learn<1.7", "numpy"]
# ///

import warnings
from pathlib import Path

import numpy as np
from diffprivlib.models import LinearRegression, LogisticRegression
from rows import DRAWS, EPS, SEEDS, Row, load, run

NAME = "diffprivlib (pure ε)"


def measure(folder: Path) -> tuple[list[Row], list[str]]:
    """Accuracy on adult and bank, RMSE on crime."""
    warnings.simplefilter("ignore")  # that a fit stops at its limit of iterations
    rows: list[Row] = []
    for name in ("adult", "bank"):
        for seed in SEEDS:
            data = load(folder, name, seed)
            for eps in EPS:
                for draw in range(DRAWS):
                    state = np.random.RandomState([seed, draw])
                    # the rows are a hair shorter than 1, so that none is cut
                    model = LogisticRegression(epsilon=eps, data_norm=1.0, fit_intercept=False, random_state=state)
                    model.fit(data.X, data.y)
                    rows.append((name, eps, seed, draw, NAME, "accuracy", float(data.accuracy(model.coef_[0]))))
    for seed in SEEDS:
        data = load(folder, "crime", seed)
        for eps in EPS:
            for draw in range(DRAWS):
                state = np.random.RandomState([seed, draw])
                model = LinearRegression(
                    epsilon=eps, bounds_X=(-1, 1), bounds_y=(-1, 1), fit_intercept=False, random_state=state
                )
                model.fit(data.X, data.y)
                rmse = np.sqrt(np.mean((data.X_test @ np.ravel(model.coef_) - data.y_test) ** 2))
                rows.append(("crime", eps, seed, draw, NAME, "rmse", float(rmse)))
    notes = [
        f"{NAME}: LogisticRegression(data_norm=1, fit_intercept=False) on adult and bank, "
        "LinearRegression(bounds_X=(-1, 1), bounds_y=(-1, 1), fit_intercept=False) on crime, all else by default; "
        "eps-DP, delta = 0",
    ]
    return rows, notes


if __name__ == "__main__":
    run(measure, ["diffprivlib", "scikit-learn", "numpy"])
