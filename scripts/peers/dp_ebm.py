"""InterpretML's differentially private boosting of one feature at a time, DP-EBM (Nori et al. 2021, ICML).

It uses the raw columns, with symbolic columns as categories. Ranges are those of the training rows, which no budget
accounts for, as in all programs here. Its neighbours differ by one added row. A replaced row is two such changes, so it
gets eps/2 and delta/(1 + exp(eps/2)). Its own accounting was not checked. Options are the library's defaults.
"""
# /// script
# requires-python = ">=3.11"
# dependencies = ["interpret-core==0.7.8", "numpy"]
# ///

import math
import warnings
from pathlib import Path

import numpy as np
from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor
from rows import DELTA, DRAWS, Array, Data, Row, on_every_set, run

NAME = "DP-EBM"


def fitted(data: Data, eps: float, seed: int, draw: int) -> Array:
    """Return the scores of the test rows."""
    train, test = (data.X, data.X_test) if data.plain is None else (data.plain, data.plain_test)
    levels = np.zeros(train.shape[1], int) if data.levels is None else data.levels
    low, high = np.nanmin(train, axis=0), np.nanmax(train, axis=0)
    missing = np.isnan(train).any(axis=0)
    middle = np.nanmedian(train, axis=0)
    train, test = (np.where(np.isnan(X) & missing, middle, np.clip(X, low, high)) for X in (train, test))
    options = {
        "epsilon": eps / 2,
        "delta": DELTA / (1 + math.exp(eps / 2)),
        "feature_types": ["nominal" if count else "continuous" for count in levels],
        "privacy_bounds": np.column_stack([low, np.where(high > low, high, low + 1)]),
        "random_state": 1000 * seed + draw,
        "n_jobs": 1,
    }
    if data.binary:
        model = DPExplainableBoostingClassifier(**options).fit(train, data.y > 0)
        return np.asarray(model.decision_function(test))
    model = DPExplainableBoostingRegressor(privacy_target_min=-1.0, privacy_target_max=1.0, **options)
    return np.asarray(model.fit(train, data.y).predict(test))


def measure(folder: Path) -> tuple[list[Row], list[str]]:
    """Return the scores on every data set."""
    warnings.simplefilter("ignore")
    notes = [
        f"{NAME}: DPExplainableBoosting of interpret-core on the columns before any step, its defaults, at eps/2 and "
        "delta/(1 + exp(eps/2)), for its neighbours differ in a row more; its own accounting was not checked",
    ]
    return list(on_every_set(folder, NAME, fitted, lambda _: DRAWS)), notes


if __name__ == "__main__":
    run(measure, ["interpret-core", "numpy"])
