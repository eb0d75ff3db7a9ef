"""Summaries of rows and paired comparisons; the tests of claims are in `criteria`.

The unit of replication is the seed. A seed fixes the rows, the partition and the initial point; what it varies is in
`replicates`. The draws of one seed share them and differ only in the noise, so they are not independent of each other.
Draws are therefore averaged within seeds first, and every interval and every test is over the means of the seeds. With
one seed only the noise can be judged: intervals and tests are then over its draws, hold for these rows and this
partition only, and say so.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from dpml.arrays import Array, Index
from dpml.errors import UserError
from dpml.reporting.replicates import caution, varied
from dpml.running.rows import PRIVACY, SETTING, SIZES, own_columns

LEVEL = 0.05  # of every test; intervals are at level 1 - LEVEL

SUMMARY = ("mean", "std", "count", "missing", "seeds", "interval", "replicates", *SIZES)
STATISTICS = (*SUMMARY, "reference", "difference", "difference_interval", "paired")


# ---- summaries


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean, spread and 95 % t-interval of every metric for every combination of settings.

    Args:
        rows: tidy rows (`dpml.running.rows`). Rows that differ in a setting are never averaged; a duplicate run counts
            once.

    Returns:
        A line per combination of settings and metric: `mean` over seeds of the means over draws, so that every seed has
        the same weight however many draws it has; `std` and `count` of all values; `missing`, how many of them are NaN,
        which makes the mean NaN; `seeds`, their number; `interval`, half the 95 % t-interval of the mean; and
        `replicates`, what the interval is over: "seeds", of which "parties" or "noise" if every seed has the same rows
        (`replicates.varied`), or "draws" if there is one seed. An `interval` is NaN if it cannot be computed: one
        value, or one seed whose draws are all equal. `n_min` and `n_max` are those of all seeds. `claimed_eps` and
        `proven_eps` hold for every seed: the proven eps can depend on the sizes of the parties, and so on the seed.

    Raises:
        UserError: values of one run disagree.
    """
    keys = [*settings(rows), "metric"]
    rows = _worst_of_seeds(rows.reset_index(drop=True), [*keys, "unit", "tuned"])
    keys += [*PRIVACY, "tuned"]
    rows = _runs(rows, keys)
    groups = rows.groupby(keys, sort=False, dropna=False)
    number = groups.ngroup()
    missing = rows["value"].isna()
    # a value that is no number makes all statistics of its line NaN: the others are no sample of all
    numbers = rows["value"].mask(missing.groupby(number).transform("any"))
    values = numbers.groupby(number).agg(["std", "min", "max"]).assign(count=groups.size().to_numpy())
    per_seed = numbers.groupby([number, rows["seed"]]).mean()
    seeds = per_seed.groupby(level=0).agg(["mean", "std"]).assign(count=per_seed.groupby(level=0).size())
    several = seeds["count"] > 1
    # draws that are all equal are not a sample: there is no noise
    over_draws = _half_width(values["std"], values["count"]).where(values["max"] > values["min"])
    lines = rows[~number.duplicated()].reset_index(drop=True)
    return lines[keys].assign(
        mean=seeds["mean"],
        std=values["std"],
        count=values["count"],
        missing=missing.groupby(number).sum(),
        seeds=seeds["count"],
        interval=_half_width(seeds["std"], seeds["count"]).where(several, over_draws),
        replicates=varied(lines).where(several, "draws"),
        n_min=rows["n_min"].groupby(number).min(),
        n_max=rows["n_max"].groupby(number).max(),
    )


def compare(rows: pd.DataFrame, reference: str) -> pd.DataFrame:
    """The difference of every algorithm's mean from `reference`'s under the same settings, with a 95 % t-interval.

    Seeds fix data, partition and initial point, so algorithms that share seeds are compared in pairs: one difference
    per seed, of the means over its draws (`paired` = seeds, n of them). With one seed only the noise can be compared,
    which the algorithms do not share: the interval is then Welch's over the draws (`paired` = no).

    Raises:
        UserError: values of one run disagree.
    """
    keys = [*(key for key in settings(rows) if key != "algo"), "metric"]
    runs = _runs(rows.reset_index(drop=True), [*keys, "algo"])
    lines = runs["value"].isna().groupby([runs[key] for key in (*keys, "algo")], dropna=False)
    runs = runs.assign(value=runs["value"].mask(lines.transform("any")))  # as in `summarise`
    groups = runs.groupby([*keys, "algo", "seed"], sort=False, dropna=False)["value"]
    per_seed = groups.agg(["mean", "var", "count"]).reset_index()
    ours = per_seed[per_seed["algo"] != reference]
    theirs = per_seed[per_seed["algo"] == reference].drop(columns="algo")
    both = ours.merge(theirs, on=[*keys, "seed"], suffixes=("", "_reference"))
    both["difference"] = both["mean"] - both["mean_reference"]
    errors = both["var"] / both["count"], both["var_reference"] / both["count_reference"]
    both["error"] = sum(errors)
    denominator = errors[0] ** 2 / (both["count"] - 1) + errors[1] ** 2 / (both["count_reference"] - 1)
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
    over_draws = stdtrit(table["freedom"].clip(lower=1), 1 - LEVEL / 2) * np.sqrt(table["error"])
    table["interval"] = _half_width(table["spread"], table["n"]).where(several, over_draws)
    table["paired"] = np.where(several, "seeds", "no")
    table["reference"] = reference
    return table.drop(columns=["spread", "error", "freedom"])


def with_differences(rows: pd.DataFrame, reference: str, computed: Sequence[str]) -> pd.DataFrame:
    """`summarise`, with the differences from an algorithm by `compare`, except in `computed` blocks."""
    summary = summarise(rows)
    rows = rows[~rows["block"].isin(computed)]
    if reference not in set(rows["algo"]):
        return summary
    paired = compare(rows, reference).rename(columns={"interval": "difference_interval"})
    keys = [*settings(rows), "metric"]
    columns = ["reference", "difference", "difference_interval", "paired"]
    # a setting that some algorithms lack can be a column of objects (with None) in one table, of numbers in the other
    mixed = [key for key in keys if summary[key].dtype != paired[key].dtype]
    summary, paired = (
        table.assign(**{key: table[key].astype(object).where(table[key].notna(), np.nan) for key in mixed})
        for table in (summary, paired)
    )
    return summary.merge(paired[[*keys, *columns]], on=keys, how="left")


def settings(rows: pd.DataFrame) -> list[str]:
    """The columns of rows, or of a summary, that distinguish settings: those of every cell, and `own_columns`."""
    return [key for key in ("block", *SETTING, *own_columns(rows)) if key in rows and key not in STATISTICS]


def replication(summary: pd.DataFrame) -> str:
    """The replicates that the intervals of a summary are over, in words.

    "5 seeds, 20 draws each"; "10 draws of one seed: these rows and this partition only"; both, if its lines differ; or
    a statement that there is no interval.
    """
    over_seeds = summary[summary["seeds"] > 1]
    over_draws = summary[(summary["seeds"] <= 1) & summary["interval"].notna()]
    words = []
    if len(over_seeds):
        draws = _span((over_seeds["count"] / over_seeds["seeds"]).round().astype(int), "draw")
        words.append(f"{_span(over_seeds['seeds'], 'seed')}, {draws} each")
    if len(over_draws):
        words.append(f"{_span(over_draws['count'], 'draw')} of one seed: these rows and this partition only")
    words += filter(None, [caution(over_seeds)])
    return "; ".join(words) or "one seed without noise: no interval"


def _span(numbers: pd.Series, noun: str) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return f"{low if low == high else f'{low} to {high}'} {noun}{'' if high == 1 else 's'}"


def _half_width(std: pd.Series, count: pd.Series) -> pd.Series:
    """Half the t-interval of a mean of `count` values; NaN for one value."""
    return stdtrit(np.maximum(count - 1, 1), 1 - LEVEL / 2) * std / np.sqrt(count)


def _worst_of_seeds(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Rows with the weakest guarantee of all seeds under the same `keys`.

    If rows of one seed differ in it, as in a computed block over proven eps, it is a setting and is kept.
    """
    group = rows.groupby([*keys], sort=False, dropna=False).ngroup()
    several = rows.groupby([group, "seed"])["proven_eps"].transform("nunique") > 1
    stays = several.groupby(group).transform("any")
    worst = rows["proven_eps"].astype(float).fillna(-np.inf).groupby(group).idxmax()
    guarantee = ["claimed_eps", "proven_eps", "proven_view", "not_proven", "conditional_eps"]
    weakest = rows.loc[group.map(worst), guarantee].set_axis(rows.index)
    return rows.assign(**{key: rows[key].where(stays, weakest[key]) for key in guarantee})


def _runs(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Rows without duplicates: every run, a seed and a draw under the same `keys`, appears once.

    Raises:
        UserError: the same run has different values, so a setting has no column.
    """
    run = rows.groupby([*keys, "seed", "draw"], sort=False, dropna=False).ngroup()
    ends = rows["value"].groupby(run).agg(["min", "max"])
    # another processor may round differently
    apart = ends.index[~np.isclose(ends["min"], ends["max"], rtol=1e-6, atol=1e-9, equal_nan=True)]
    if len(apart):
        row = rows.loc[(run == apart[0]).idxmax()]
        where = ", ".join(
            f"{key}={row[key]}" for key in (*keys, "seed", "draw") if key in _NAMED and pd.notna(row[key])
        )
        raise UserError(f"rows differ in a setting that has no column: two values of {row['metric']} for {where}.")
    return rows[~run.duplicated()]


_NAMED = ("block", "dataset", "algo", "variant", "calibration", "eps", "delta", "M", "N", "seed", "draw")


def per_seed(runs: pd.Series) -> pd.Series:
    """The mean over the draws of every seed that has a value."""
    seeds, means = means_of_seeds(runs)
    return pd.Series(means, pd.Index(seeds, name="seed"))


def means_of_seeds(runs: pd.Series) -> tuple[Index, Array]:
    """The seeds that have a run, ascending, and the mean over the draws of each; NaN is no run."""
    seeds, places = np.unique(runs.index.get_level_values("seed"), return_inverse=True)
    values = runs.to_numpy(dtype=float)
    known = ~np.isnan(values)
    counts = np.bincount(places[known], minlength=len(seeds))
    sums = np.bincount(places[known], values[known], len(seeds))
    return seeds[counts > 0], sums[counts > 0] / counts[counts > 0]
