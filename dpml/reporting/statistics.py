"""Summarise rows by settings, and compare algorithms in pairs over seeds.

The unit of replication is the seed: intervals and tests are over the means of seeds. With one seed, intervals and tests
are over its noise draws, and hold for these rows and this partition only.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from dpml.arrays import Array, Index
from dpml.config import catalogue
from dpml.errors import UserError
from dpml.reporting.words import dataset
from dpml.running.rows import PRIVACY, SETTING, SIZES, own_columns

LEVEL = 0.05  # the significance level of every test; intervals have the confidence level 1 - LEVEL

STATISTICS = ("mean", "std", "count", "missing", "seeds", "interval", "replicates", *SIZES)
STATISTICS += ("reference", "difference", "difference_interval", "paired")


def summarise(rows: pd.DataFrame, reference: str = "", computed: Sequence[str] = ()) -> pd.DataFrame:
    """Return a table of means, standard deviations and 95 % t-intervals, by metric and combination of settings.

    `mean` is the mean over seeds of the means over draws. `std` and `count` are over all values. `missing` counts NaN;
    one NaN makes the mean, `std` and `interval` NaN. `interval` is half the 95 % t-interval of the mean, or NaN.
    `replicates` says what varies behind the interval: "draws" with one seed, otherwise see `varied`. `claimed_eps` and
    `proven_eps` hold for every seed. Different settings are never averaged; equal runs count once. If the algorithm
    `reference` has rows, lines outside the blocks `computed` also have the difference from its mean.
    """
    rows, keys = rows.reset_index(drop=True), [*settings(rows), "metric"]
    line = _by_guarantee(rows, _numbered(rows, [*keys, "unit", "tuned"]))
    rows = _runs(rows, line, keys)
    line = line[rows.index]
    missing = rows["value"].isna()
    # one NaN makes all statistics of its line NaN, because the other values would be a biased sample
    numbers = rows["value"].mask(missing.groupby(line).transform("any"))
    values = numbers.groupby(line).agg(["std", "min", "max", "size"])
    seeds = numbers.groupby([line, rows["seed"]]).mean().groupby(level=0).agg(["mean", "std", "size"])
    several = seeds["size"] > 1
    # without noise all draws are equal, and have no interval
    over_draws = _half_width(values["std"], values["size"]).where(values["max"] > values["min"])
    lines = rows[~line.duplicated()].reset_index(drop=True)
    weakest = rows.loc[rows["proven_eps"].astype(float).fillna(-np.inf).groupby(line).idxmax()]
    lines[PRIVACY] = weakest[PRIVACY].set_axis(lines.index)
    summary = lines[[*keys, *PRIVACY, "tuned"]].assign(
        mean=seeds["mean"],
        std=values["std"],
        count=values["size"],
        missing=missing.groupby(line).sum(),
        seeds=seeds["size"],
        interval=_half_width(seeds["std"], seeds["size"]).where(several, over_draws),
        replicates=varied(lines).where(several, "draws"),
        n_min=rows["n_min"].groupby(line).min(),
        n_max=rows["n_max"].groupby(line).max(),
    )
    compared = summary[~summary["block"].isin(computed)] if reference else summary.iloc[:0]
    if not (compared["algo"] == reference).any():
        return summary
    per_seed = numbers.groupby([line.rename("line"), rows["seed"]], sort=False).agg(["mean", "var", "count"])
    return summary.join(_differences(per_seed.reset_index(), compared[keys], reference))


def _differences(per_seed: pd.DataFrame, lines: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Return how much each algorithm's mean exceeds the `reference` algorithm's mean at equal settings, with intervals.

    Intervals are over differences at equal seeds (`paired` = seeds) or, with one seed, Welch's intervals over draws.
    """
    same = _numbered(lines, [key for key in map(str, lines) if key != "algo"])
    per_seed = per_seed.join(lines[["algo"]].assign(same=same), on="line", how="inner")
    is_reference = per_seed["algo"] == reference
    theirs = per_seed[is_reference].drop(columns=["algo", "line"])
    both = per_seed[~is_reference].merge(theirs, on=["same", "seed"], suffixes=("", "_reference"))
    both["difference"] = both["mean"] - both["mean_reference"]
    variances, counts = (both[[name, f"{name}_reference"]].to_numpy().T for name in ("var", "count"))
    both["error"], both["freedom"] = welch(variances, counts)
    table = both.groupby("line", sort=False).agg(
        difference=("difference", "mean"),
        spread=("difference", "std"),
        n=("difference", "count"),
        error=("error", "first"),
        freedom=("freedom", "first"),
    )
    several = table["n"] > 1
    over_draws = stdtrit(table["freedom"].clip(lower=1), 1 - LEVEL / 2) * table["error"]
    found = table[["difference"]].assign(reference=reference, paired=np.where(several, "seeds", "no"))
    found["difference_interval"] = _half_width(table["spread"], table["n"]).where(several, over_draws)
    return found[["reference", "difference", "difference_interval", "paired"]]


def settings(rows: pd.DataFrame) -> list[str]:
    """Return the columns of rows, or of a summary, that contain settings."""
    return [key for key in ("block", *SETTING, *own_columns(rows)) if key in rows and key not in STATISTICS]


def replication(summary: pd.DataFrame) -> str:
    """Return the numbers of seeds and noise draws behind an interval, such as "5 seeds with 20 noise draws each"."""
    over_seeds = summary[summary["seeds"] > 1]
    over_draws = summary[(summary["seeds"] <= 1) & summary["interval"].notna()]
    words = []
    if len(over_seeds):
        draws = _span((over_seeds["count"] / over_seeds["seeds"]).round().astype(int), "noise draw")
        words.append(f"{_span(over_seeds['seeds'], 'seed')} with {draws} each")
    if len(over_draws):
        words.append(f"{_span(over_draws['count'], 'noise draw')} of one seed, with fixed rows and a fixed partition")
    return ". ".join(filter(None, [" or ".join(words), caution(over_seeds)])) or "no interval"


def about_intervals(summary: pd.DataFrame) -> str:
    """Return a sentence that explains the numbers after ± in a table."""
    if summary["interval"].isna().all():
        return "The table has no intervals, because an interval needs several seeds or noise draws."
    return f"The number after ± is half the width of a 95 % confidence interval over {replication(summary)}."


def _span(numbers: pd.Series, noun: str) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return f"{low if low == high else f'{low} to {high}'} {noun}{'' if high == 1 else 's'}"


def _half_width(std: pd.Series, count: pd.Series) -> pd.Series:
    return stdtrit(np.maximum(count - 1, 1), 1 - LEVEL / 2) * std / np.sqrt(count)


def welch(variances: Array, counts: Index) -> tuple[Array, Array]:
    """Return the standard error of the difference of two means, and its degrees of freedom (Welch 1947)."""
    parts = variances / counts
    with np.errstate(divide="ignore", invalid="ignore"):  # one value has no variance; equal values have no error
        freedom = parts.sum(axis=0) ** 2 / (parts**2 / (counts - 1)).sum(axis=0)
    return np.sqrt(parts.sum(axis=0)), freedom


def _numbered(rows: pd.DataFrame, keys: Sequence[str]) -> pd.Series:
    """Number the combinations of values in the columns `keys` by first appearance, and return each row's number."""
    return rows.groupby([*keys], sort=False, dropna=False).ngroup()


def _by_guarantee(rows: pd.DataFrame, number: pd.Series) -> pd.Series:
    """Split a group of rows by guarantee if a single seed of the group has several guarantees."""
    several = rows["proven_eps"].groupby([number, rows["seed"]]).nunique() > 1
    split = number.map(several.groupby(level=0).any())
    if not split.any():
        return number
    kept = rows[PRIVACY].where(split)
    return _numbered(kept.assign(number=number), ["number", *PRIVACY])


def _runs(rows: pd.DataFrame, number: pd.Series, keys: Sequence[str]) -> pd.DataFrame:
    """Drop copies of runs; raise UserError if runs with equal seed, noise draw and settings have different values."""
    run = rows[["seed", "draw"]].assign(number=number)
    again = run.duplicated()
    if not again.any():
        return rows
    several = rows[run.duplicated(keep=False)]
    first = several["value"].groupby([run[key][several.index] for key in run]).transform("first")
    # another processor may round differently
    apart = ~np.isclose(several["value"], first, rtol=1e-6, atol=1e-9, equal_nan=True)
    if apart.any():
        row = several[apart].iloc[0]
        where = ", ".join(f"{key}={row[key]}" for key in (*keys, "seed", "draw") if pd.notna(row[key]))
        raise UserError(
            f"there are two values of {row['metric']} for {where}: the runs differ in a setting that is not stored."
        )
    return rows[~again]


def per_seed(runs: pd.Series) -> pd.Series:
    """Return, for every seed that has a value, the mean over the seed's noise draws. NaN is not a value."""
    return runs.groupby(level="seed").mean().dropna()


def rows_of(rows: pd.DataFrame, calibration: str) -> pd.DataFrame:
    """Return the rows with one noise calibration, and the noiseless algorithms' rows in the same blocks of settings."""
    own = rows[rows["calibration"] == calibration]
    noiseless = rows[rows["block"].isin(own["block"]) & ~rows["algo"].isin(own["algo"])]
    return pd.concat([noiseless.assign(calibration=calibration), own]) if len(noiseless) else own


@cache
def official(name: str) -> tuple[int, int] | None:
    """Return the numbers of training and test rows in a data set's official split, or None if it has no such split."""
    try:
        info = catalogue.source(name).info
    except UserError:  # a user's file is not a named data set
        return None
    return None if info.train_rows is None else (info.train_rows, info.rows - info.train_rows)


def same_rows(rows: pd.DataFrame) -> pd.Series:
    """Return for each result whether it used a whole official training set, so that all seeds have the same rows."""
    all_rows = {name: found[0] for name in rows["dataset"].unique() if (found := official(str(name)))}
    return rows["N"] == rows["dataset"].map(all_rows)


def varied(rows: pd.DataFrame) -> pd.Series:
    """Return what seeds change: "noise", "parties" (noise and partition), or "seeds" (noise, partition and data)."""
    same = same_rows(rows)
    return pd.Series("seeds", index=rows.index).mask(same, "parties").mask(same & (rows["M"] == 1), "noise")


def caution(summary: pd.DataFrame) -> str:
    """Return a warning that names the data sets on which all seeds use the same rows, or "" if there are none."""
    told = []
    same = summary[same_rows(summary)]
    for name, part in same.groupby("dataset", sort=False) if len(same) else ():
        rows = (official(str(name)) or (0, 0))[1]
        shares = part.loc[part["metric"].isin(["accuracy", "error"]), "mean"].dropna()
        half = 1.96 * np.sqrt(shares * (1 - shares) / rows).max()  # half the interval, if test rows are random
        adds = f". Drawing the {rows:,} test rows at random would alone give an interval of up to ±{half:.1g}"
        varies = "the noise" if (part["M"] == 1).all() else "the noise and in the partition into parties"
        told.append(f"On {dataset(str(name))}, the seeds differ only in {varies}{adds if len(shares) else ''}")
    return ". ".join(told)
