"""What a seed varies, and what an interval is therefore about.

A seed draws the rows, deals them to parties, and starts the noise. Where a data set has an official split and all of
its training rows are in use, it draws no rows: every seed has the same ones, and the same test file. With one party
seeds then differ in noise only; with more, also in who holds which row. An interval over such seeds says nothing about
other rows. What the test file adds is known from its number of rows.
"""

import math
from functools import cache

import pandas as pd
from scipy.special import ndtri

from dpml.config import catalogue
from dpml.errors import UserError
from dpml.files import shipped_folder

_HALF = float(ndtri(0.975))  # of a 95 % interval, in standard errors


@cache
def official(dataset: str) -> tuple[int, int] | None:
    """The numbers of training and test rows of a data set's official split; None if it has none, or is not known."""
    if not shipped_folder("conf").joinpath("dataset", f"{dataset}.yaml").is_file():
        return None
    try:
        info = catalogue.source(dataset).info
    except UserError:  # it has no name of its own: a file of the user's
        return None
    return None if info.train_rows is None else (info.train_rows, info.rows - info.train_rows)


def same_rows(rows: pd.DataFrame) -> pd.Series:
    """Whether every seed has the same rows: all training rows of an official split are in use."""
    if "dataset" not in rows or "N" not in rows:
        return pd.Series(False, index=rows.index)
    all_rows = {name: found[0] for name in rows["dataset"].unique() if (found := official(str(name)))}
    return rows["N"] == rows["dataset"].map(all_rows)


def varied(rows: pd.DataFrame) -> pd.Series:
    """What seeds vary: "seeds", everything; "parties", who holds which row, and the noise; or "noise"."""
    found = pd.Series("seeds", index=rows.index)
    same = same_rows(rows)
    if same.any():
        found[same] = "parties"
        found[same & (rows["M"] == 1)] = "noise"
    return found


def of_test_file(share: float, n: int) -> float:
    """Half the 95 % interval of a share (accuracy, error) over test files of n rows like this one."""
    return _HALF * math.sqrt(share * (1 - share) / n)


def caution(summary: pd.DataFrame) -> str:
    """Of which data sets of a summary every seed has the same rows, and what their test files add, in a sentence."""
    told = []
    same = summary[same_rows(summary)]
    for name, part in same.groupby("dataset", sort=False) if len(same) else ():
        shares = part.loc[part["metric"].isin(["accuracy", "error"]), "mean"].dropna()
        split = official(str(name))
        assert split is not None  # `same_rows`
        most = max((of_test_file(share, split[1]) for share in shares), default=0.0)
        adds = f" (another test file of {split[1]:,} rows: ±{most:.1g})"
        varies = "the noise" if (part["M"] == 1).all() else "the noise and who holds which row"
        told.append(f"on {name} seeds vary {varies} only{adds if len(shares) else ''}")
    return "; ".join(told)
