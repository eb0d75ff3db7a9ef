"""InterpretML's differentially private boosting of one feature at a time, DP-EBM (Nori et al. 2021, ICML).

It uses the raw columns, with categorical columns as categories. Ranges are those of the training rows, which no budget
accounts for, as in all programs here. Its neighbours differ by one added row. A replaced row is two such changes, so it
gets eps/2 and delta/(1 + exp(eps/2)). Its own accounting was not checked. Options are the library's defaults.
"""
# /// script
# requires-python = ">=3.11"
# dependencies = ["multiparty-dp", "interpret-core==0.7.8"]
# [tool.uv.sources]
# multiparty-dp = { path = "../..", editable = true }
# ///

import math
import warnings

import numpy as np
from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor
from rows import DELTA, DRAWS, Data, Row, on_every_set, run

from dpml.arrays import Array
from dpml.data import Files

NAME = "DP-EBM"


def fitted(data: Data, eps: float, seed: int, draw: int) -> Array:
    """Return the scores of the test rows."""
    train, low, high = data.plain, data.plain.min(axis=0), data.plain.max(axis=0)
    test = np.clip(data.plain_test, low, high)
    options = {
        "epsilon": eps / 2,
        "delta": DELTA / (1 + math.exp(eps / 2)),
        "feature_types": ["nominal" if count else "continuous" for count in data.levels],
        "privacy_bounds": np.column_stack([low, np.where(high > low, high, low + 1)]),
        "random_state": 1000 * seed + draw,
        "n_jobs": 1,
    }
    if data.binary:
        model = DPExplainableBoostingClassifier(**options).fit(train, data.y > 0)
        return np.asarray(model.decision_function(test))
    model = DPExplainableBoostingRegressor(privacy_target_min=-1.0, privacy_target_max=1.0, **options)
    return np.asarray(model.fit(train, data.y).predict(test))


def measure(files: Files) -> tuple[list[Row], list[str]]:
    """Return the scores on every data set."""
    warnings.simplefilter("ignore")
    notes = [
        f"{NAME}: DPExplainableBoosting of interpret-core on the columns before any step, its defaults, at eps/2 and "
        "delta/(1 + exp(eps/2)), for its neighbours differ in a row more; its own accounting was not checked",
    ]
    return list(on_every_set(files, NAME, fitted, lambda _: DRAWS)), notes


if __name__ == "__main__":
    run(measure, ["interpret-core", "numpy"])
