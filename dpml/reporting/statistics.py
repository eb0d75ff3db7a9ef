"""Statistics of rows."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from dpml.running.rows import PRIVACY, SETTING

_SAME = ["block", *(key for key in SETTING if key not in ("algo", "loss")), "metric"]

STATISTICS = ("mean", "std", "count", "interval", "reference", "difference", "difference_interval", "paired")


def summarise(rows: pd.DataFrame, also: Sequence[str] = ()) -> pd.DataFrame:
    """Mean, standard deviation, number and 95 % t-interval (half width) of every metric over seeds and draws.

    Columns in `also` tell settings apart, too.
    """
    table = (
        rows.groupby([*SETTING, *also, "metric", *PRIVACY, "tuned"], sort=False, dropna=False)["value"]
        .agg(["mean", "std", "count"])
        .reset_index()
    )
    table["interval"] = stdtrit(np.maximum(table["count"] - 1, 1), 0.975) * table["std"] / np.sqrt(table["count"])
    return table


def compare(rows: pd.DataFrame, reference: str, also: Sequence[str] = ()) -> pd.DataFrame:
    """How much every algorithm's mean lies above `reference`'s under the same settings, with a 95 % t-interval.

    Seeds fix data, partition and initial point, so algorithms that share seeds are compared in pairs: one difference
    per seed, of the means over its draws (`paired` = seeds, n of them). With one seed all that can be told apart is the
    noise, which the algorithms do not share: then it is Welch's interval over the draws (`paired` = no). Columns in
    `also` tell settings apart, too.
    """
    # exchangeable only within a seed: draws are averaged first
    keys = [*(key for key in _SAME if key in rows), *also]
    groups = rows.groupby([*keys, "algo", "seed"], sort=False, dropna=False)["value"]
    per_seed = groups.agg(["mean", "var", "count"]).reset_index()
    ours = per_seed[per_seed["algo"] != reference]
    theirs = per_seed[per_seed["algo"] == reference].drop(columns="algo")
    both = ours.merge(theirs, on=[*keys, "seed"], suffixes=("", "_reference"))
    both["difference"] = both["mean"] - both["mean_reference"]
    parts = both["var"] / both["count"], both["var_reference"] / both["count_reference"]
    both["error"] = sum(parts)
    denominator = parts[0] ** 2 / (both["count"] - 1) + parts[1] ** 2 / (both["count_reference"] - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        both["freedom"] = both["error"] ** 2 / denominator
    table = (
        both.groupby([*keys, "algo"], sort=False, dropna=False)
        .agg(
            difference=("difference", "mean"),
            spread=("difference", "std"),
            n=("difference", "count"),
            error=("error", "first"),
            freedom=("freedom", "first"),
        )
        .reset_index()
    )
    several = table["n"] > 1
    over_seeds = stdtrit(np.maximum(table["n"] - 1, 1), 0.975) * table["spread"] / np.sqrt(table["n"])
    over_draws = stdtrit(table["freedom"].clip(lower=1), 0.975) * np.sqrt(table["error"])
    table["interval"] = np.where(several, over_seeds, over_draws)
    table["paired"] = np.where(several, "seeds", "no")
    table["reference"] = reference
    return table.drop(columns=["spread", "error", "freedom"])


def replication(summary: pd.DataFrame) -> str:
    """What the intervals of a summary are over, in words."""
    return f"{summary['count'].max()} runs (seeds and draws)"
