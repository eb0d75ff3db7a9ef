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

STATISTICS = ("mean", "std", "count", "missing", "seeds", "interval", "replicates", *SIZES)
STATISTICS += ("reference", "difference", "difference_interval", "paired")


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
    """
    rows = rows.reset_index(drop=True)
    return _summary(rows, _lines(rows)).reset_index(drop=True)


def _summary(rows: pd.DataFrame, line: pd.Series) -> pd.DataFrame:
    """`summarise` for rows with the `line` of each (`_lines`), which is the index of the result."""
    keys = [*settings(rows), "metric"]
    number = _by_guarantee(rows, _numbered(rows.assign(line=line), ["line", "unit", "tuned"]))
    rows = _runs(rows, number, keys)
    number = number[rows.index]
    missing = rows["value"].isna()
    # a value that is no number makes all statistics of its line NaN: the others are no sample of all
    numbers = rows["value"].mask(missing.groupby(number).transform("any"))
    groups = numbers.groupby(number)
    values = groups.agg(["std", "min", "max", "size"])
    per_seed = numbers.groupby([number, rows["seed"]]).mean()
    seeds = per_seed.groupby(level=0).agg(["mean", "std", "size"])
    several = seeds["size"] > 1
    # draws that are all equal are not a sample: there is no noise
    over_draws = _half_width(values["std"], values["size"]).where(values["max"] > values["min"])
    lines = rows[~number.duplicated()].reset_index(drop=True)
    weakest = rows.loc[rows["proven_eps"].astype(float).fillna(-np.inf).groupby(number).idxmax()]
    lines[PRIVACY] = weakest[PRIVACY].set_axis(lines.index)
    summary = lines[[*keys, *PRIVACY, "tuned"]].assign(
        mean=seeds["mean"],
        std=values["std"],
        count=values["size"],
        missing=missing.groupby(number).sum(),
        seeds=seeds["size"],
        interval=_half_width(seeds["std"], seeds["size"]).where(several, over_draws),
        replicates=varied(lines).where(several, "draws"),
        n_min=rows["n_min"].groupby(number).min(),
        n_max=rows["n_max"].groupby(number).max(),
    )
    return summary.set_axis(line[rows.index[~number.duplicated()]])


def _differences(rows: pd.DataFrame, line: pd.Series, reference: str) -> pd.DataFrame:
    """The difference of every algorithm's mean from `reference`'s under the same settings, with a 95 % t-interval.

    Seeds fix data, partition and initial point, so algorithms that share seeds are compared in pairs: one difference
    per seed, of the means over its draws (`paired` = seeds). With one seed only the noise can be compared, which the
    algorithms do not share: the interval is then Welch's over the draws (`paired` = no).

    The index of the result is the `line` of rows (`_lines`).
    """
    keys = [*settings(rows), "metric"]
    rows = _runs(rows, line, keys)
    line = line[rows.index]
    values = rows["value"].mask(rows["value"].isna().groupby(line).transform("any"))  # as in `summarise`
    per_seed = values.groupby([line, rows["seed"]], sort=False).agg(["mean", "var", "count"]).reset_index()
    about = rows.loc[~line.duplicated(), keys].set_axis(line.unique())
    same = _numbered(about, [key for key in keys if key != "algo"])
    per_seed = per_seed.join(about[["algo"]].assign(same=same), on="line")
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
    return table[["difference"]].assign(
        reference=reference,
        difference_interval=_half_width(table["spread"], table["n"]).where(several, over_draws),
        paired=np.where(several, "seeds", "no"),
    )[["reference", "difference", "difference_interval", "paired"]]


def with_differences(rows: pd.DataFrame, reference: str, computed: Sequence[str]) -> pd.DataFrame:
    """`summarise`, with the differences from an algorithm in pairs, except in `computed` blocks."""
    rows = rows.reset_index(drop=True)
    line = _lines(rows)
    summary = _summary(rows, line)
    rows = rows[~rows["block"].isin(computed)]
    if reference in set(rows["algo"].unique()):
        summary = summary.join(_differences(rows, line[rows.index], reference))
    return summary.reset_index(drop=True)


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
    if not words and (summary["count"] <= 1).all():  # with noise or without
        words.append("one draw of one seed: no interval")
    elif not words and not np.isfinite(summary["mean"]).all():
        words.append("one seed with values that are no numbers: no interval")
    return "; ".join(words) or "one seed without noise: no interval"


def about_intervals(summary: pd.DataFrame) -> str:
    """What ± means beside the numbers of a summary, as a sentence."""
    over = replication(summary)
    return f"± is half a 95 % interval over {over}." if summary["interval"].notna().any() else f"No intervals: {over}."


def _span(numbers: pd.Series, noun: str) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return f"{low if low == high else f'{low} to {high}'} {noun}{'' if high == 1 else 's'}"


def _half_width(std: pd.Series, count: pd.Series) -> pd.Series:
    """Half the t-interval of a mean of `count` values; NaN for one value."""
    return stdtrit(np.maximum(count - 1, 1), 1 - LEVEL / 2) * std / np.sqrt(count)


def welch(variances: Array, counts: Index) -> tuple[Array, Array]:
    """The standard error of the difference of two means, and its degrees of freedom (Welch 1947).

    Args:
        variances, counts: of the values of the first and of the second, (2, ...).
    """
    parts = variances / counts
    with np.errstate(divide="ignore", invalid="ignore"):  # one value has no variance, and equal ones have no error
        freedom = parts.sum(axis=0) ** 2 / (parts**2 / (counts - 1)).sum(axis=0)
    return np.sqrt(parts.sum(axis=0)), freedom


def _lines(rows: pd.DataFrame) -> pd.Series:
    """The number of the settings and the metric of each row."""
    return _numbered(rows, [*settings(rows), "metric"]).rename("line")


def _numbered(rows: pd.DataFrame, keys: Sequence[str]) -> pd.Series:
    """The number of each row's combination of values of `keys`, in the order in which the combinations appear."""
    varying = [key for key in keys if rows[key].nunique(dropna=False) > 1]  # most keys do not: they need no grouping
    if not varying:
        return pd.Series(0, index=rows.index)
    return rows.groupby(varying, sort=False, dropna=False).ngroup()


def _by_guarantee(rows: pd.DataFrame, number: pd.Series) -> pd.Series:
    """The numbers of rows, split where the guarantee is a setting: rows of one seed differ in it.

    They do in a computed block over proven eps. Elsewhere the weakest guarantee of all seeds is that of their mean.
    """
    several = rows["proven_eps"].groupby([number, rows["seed"]]).nunique() > 1
    split = number.map(several.groupby(level=0).any())
    if not split.any():
        return number
    kept = rows[PRIVACY].where(split)
    return _numbered(kept.assign(number=number), ["number", *PRIVACY])


def _runs(rows: pd.DataFrame, number: pd.Series, keys: Sequence[str]) -> pd.DataFrame:
    """Rows without duplicates: every run, a seed and a draw under the same `number`, appears once."""
    run = rows[["seed", "draw"]].assign(number=number)
    again = run.duplicated()
    if not again.any():
        return rows
    several = rows[run.duplicated(keep=False)]
    ends = several["value"].groupby(_numbered(run.loc[several.index], ["seed", "draw", "number"])).agg(["min", "max"])
    # another processor may round differently
    apart = ~np.isclose(ends["min"], ends["max"], rtol=1e-6, atol=1e-9, equal_nan=True)
    if apart.any():
        row = several[~run.loc[several.index].duplicated()].loc[apart].iloc[0]
        where = ", ".join(
            f"{key}={row[key]}" for key in (*keys, "seed", "draw") if key in _NAMED and pd.notna(row[key])
        )
        raise UserError(f"rows differ in a setting that has no column: two values of {row['metric']} for {where}.")
    return rows[~again]


_NAMED = ("block", "dataset", "algo", "variant", "calibration", "eps", "delta", "M", "N", "seed", "draw")


def per_seed(runs: pd.Series) -> pd.Series:
    """The mean over the draws of every seed that has a value."""
    seeds, means = means_of_seeds(runs)
    return pd.Series(means, pd.Index(seeds, name="seed"))


def means_of_seeds(runs: pd.Series) -> tuple[Index, Array]:
    """The seeds that have a run, ascending, and the mean over the draws of each; NaN is no run."""
    seeds, places = _seeds(runs.index)
    values = runs.to_numpy(dtype=float)
    known = ~np.isnan(values)
    counts = np.bincount(places[known], minlength=len(seeds))
    some = counts > 0
    return seeds[some], np.bincount(places[known], values[known], len(seeds))[some] / counts[some]


def _seeds(index: pd.Index) -> tuple[Index, Index]:
    """The seeds of an index, ascending, and the place of each run's among them; some may have none."""
    if isinstance(index, pd.MultiIndex):
        level = index.names.index("seed")
        seeds = index.levels[level]
        if seeds.is_monotonic_increasing:  # as of `Evidence.runs`: nothing is left to be sorted
            return seeds.to_numpy(), np.asarray(index.codes[level], dtype=np.intp)
    found: tuple[Index, Index] = np.unique(index.get_level_values("seed").to_numpy(), return_inverse=True)
    return found
