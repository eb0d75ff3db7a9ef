"""All statistics: summaries of rows, paired comparisons, and the tests of claims.

The unit of replication is the seed. A seed fixes the rows, the partition and the initial point. The draws of one seed
share them and differ only in the noise, so they are not independent of each other. Draws are therefore averaged within
seeds first, and every interval and every test is over the means of the seeds. With one seed only the noise can be
judged: intervals and tests are then over its draws, hold for these rows and this partition only, and say so.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import numpy as np
import pandas as pd
from scipy.special import stdtr, stdtrit

from dpml.arrays import Array, Index
from dpml.errors import UserError
from dpml.running.rows import PRIVACY, SETTING, SIZES, own_columns

K = TypeVar("K")

LEVEL = 0.05  # of every test; intervals are at level 1 - LEVEL
POWER = 0.8  # the power from which a number of seeds counts as enough
MOST_SEEDS = 10_000  # no larger number is reported

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
        which makes the mean NaN; `seeds`, their number; `interval`,
        half the 95 % t-interval of the mean; and `replicates`, what the interval is over: "seeds", or "draws" if there
        is one seed. An `interval` is NaN if it cannot be computed: one value, or one seed whose draws are all equal.
        `n_min` and `n_max` are those of all seeds. `claimed_eps` and `proven_eps` hold for every seed: the proven eps
        can depend on the sizes of the parties, and so on the seed.

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
    table = rows.loc[~number.duplicated(), keys].reset_index(drop=True)
    return table.assign(
        mean=seeds["mean"],
        std=values["std"],
        count=values["count"],
        missing=missing.groupby(number).sum(),
        seeds=seeds["count"],
        interval=_half_width(seeds["std"], seeds["count"]).where(several, over_draws),
        replicates=np.where(several, "seeds", "draws"),
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


# tests: a and b are runs, indexed by (seed, draw); if a test is not possible, p is 1


def below(a: pd.Series, b: pd.Series) -> float:
    """p-value of "the mean of a is below that of b", for one algorithm under two settings: a one-sided paired t-test.

    It is paired over seeds, or, with one seed, over draws, which share the noise's directions.
    """
    return _one_sided(_paired(a, b))


def algorithm_below(a: pd.Series, b: pd.Series) -> float:
    """The same for two algorithms: paired over seeds; by Welch's test over draws if there is one seed."""
    gaps = _gaps(a, b)
    if len(gaps) > 1:
        return _one_sided(gaps)
    return welch(*(runs[runs.index.get_level_values("seed").isin(gaps.index)] for runs in (a, b)))


def welch(a: pd.Series, b: pd.Series) -> float:
    """p-value of "the mean of a is below that of b" by Welch's test; without any spread the sign decides."""
    if min(len(a), len(b)) < 2:
        return 1.0
    if np.ptp(a) == 0 and np.ptp(b) == 0:
        return 0.0 if a.iloc[0] < b.iloc[0] else 1.0
    from scipy import stats  # slow to load, and only claims need it

    # from moments, because scipy's own test warns about a constant sample
    one, other = ((runs.mean(), runs.std(), len(runs)) for runs in (a, b))
    return float(stats.ttest_ind_from_stats(*one, *other, equal_var=False, alternative="less").pvalue)


def holm(values: Mapping[K, float]) -> dict[K, bool]:
    """Which of several p-values are significant when all are tested together."""
    left, significant = len(values), dict.fromkeys(values, False)
    for key in sorted(values, key=lambda key: values[key]):
        if values[key] > LEVEL / left:
            break
        significant[key] = True
        left -= 1
    return significant


@dataclass(frozen=True)
class Comparison:
    """Whether runs show that a mean lies below another.

    Args:
        holds: True, they do; False, they rule out a difference that matters; None, undecided.
        needed: for None, the number of seeds (or of draws, if there is one seed) with which a difference that matters
            would be significant with a probability of `POWER`, at the observed spread.
    """

    holds: bool | None
    needed: int | None = None


Matters = Callable[[float, float], float]
"""The smallest difference between two means that matters, of either sign."""


def matters(metric: str) -> Matters:
    """The difference that matters: 0.01 of an accuracy, an error or another share; otherwise a tenth of the larger.

    The metrics without a unit are losses, gaps and distances, which figures show on logarithmic axes.
    """
    share = metric.endswith(("accuracy", "error", "auc"))
    return (lambda a, b: 0.01) if share else (lambda a, b: 0.1 * max(abs(a), abs(b)))


def shows(
    pairs: Mapping[K, tuple[pd.Series, pd.Series]],
    matter: Matters,
    p_below: Callable[[pd.Series, pd.Series], float] = below,
) -> dict[K, Comparison]:
    """For every pair (a, b) of runs, whether the mean of a is below that of b.

    The answer is True if a one-sided test shows it, Holm-corrected over all pairs. It is False if the 95 % bound on how
    far b lies above a is less than the difference that matters. Otherwise these seeds do not decide.

    Args:
        pairs: runs indexed by (seed, draw).
        matter: the difference that matters (`matters`).
        p_below: the test: `below` for one algorithm under two settings, `algorithm_below` for two algorithms.
    """
    significant = holm({key: p_below(a, b) for key, (a, b) in pairs.items()})
    return {key: Comparison(True) if significant[key] else _not_below(a, b, matter) for key, (a, b) in pairs.items()}


def worse(
    pairs: Mapping[K, tuple[pd.Series, pd.Series]],
    matter: Matters,
    p_below: Callable[[pd.Series, pd.Series], float] = below,
) -> list[K]:
    """The pairs (a, b) with a significantly below b, Holm-corrected, by at least the difference that matters.

    For outcomes that a claim rules out: a fall by one in ten thousand, however significant, contradicts no claim.
    """
    significant = holm({key: p_below(a, b) for key, (a, b) in pairs.items()})
    return [
        key
        for key, (a, b) in pairs.items()
        if significant[key] and b.mean() - a.mean() >= matter(float(a.mean()), float(b.mean()))
    ]


def alike(a: pd.Series, b: pd.Series, matter: Matters) -> Comparison:
    """Whether two means are equal up to `matter`: two one-sided tests at 5 % each (`Comparison.holds` True).

    False if a two-sided test at 5 % finds a difference, and the observed one is at least `matter`.
    """
    gaps = _paired(a, b)
    n = len(gaps)
    if n < 2:
        return Comparison(None, 2)
    margin, spread = matter(float(a.mean()), float(b.mean())), float(gaps.std())
    error = spread / np.sqrt(n)
    if abs(gaps.mean()) + stdtrit(n - 1, 1 - LEVEL) * error < margin or not gaps.any():
        return Comparison(True)
    if abs(gaps.mean()) > stdtrit(n - 1, 1 - LEVEL / 2) * error and abs(gaps.mean()) >= margin:
        return Comparison(False)
    return Comparison(None, _enough(spread, margin))


def _not_below(a: pd.Series, b: pd.Series, matter: Matters) -> Comparison:
    """Whether a mean that is not significantly below another is shown not to be, or is undecided."""
    gaps = _paired(b, a)
    n = len(gaps)
    if n < 2:
        return Comparison(None, 2)
    least, spread = matter(float(a.mean()), float(b.mean())), float(gaps.std())
    if gaps.mean() + stdtrit(n - 1, 1 - LEVEL) * spread / np.sqrt(n) < least or spread == 0:
        return Comparison(False)
    return Comparison(None, _enough(spread, least))


def _enough(spread: float, difference: float) -> int:
    """How many values of this spread are needed to show a difference with power `POWER`, by a one-sided t-test."""
    if not difference > 0:
        return MOST_SEEDS
    n, quantiles = _seen_by_seeds()
    reach = quantiles * spread / np.sqrt(n)
    return int(n[np.argmax(reach <= difference)]) if reach[-1] <= difference else MOST_SEEDS


@cache
def _seen_by_seeds() -> tuple[Index, Array]:
    """Numbers n of values, and the difference in standard errors that each n can show: (k,) each."""
    n = np.arange(2, MOST_SEEDS + 1)
    return n, np.asarray(stdtrit(n - 1, 1 - LEVEL) + stdtrit(n - 1, POWER), dtype=np.float64)


def per_seed(runs: pd.Series) -> pd.Series:
    """The mean over the draws of every seed that has a value."""
    seeds, means = _means(runs)
    return pd.Series(means, pd.Index(seeds, name="seed"))


def _means(runs: pd.Series) -> tuple[Index, Array]:
    """The seeds that have a value, ascending, and the mean over the draws of each."""
    seeds, places = np.unique(runs.index.get_level_values("seed"), return_inverse=True)
    values = runs.to_numpy(dtype=float)
    known = ~np.isnan(values)
    counts = np.bincount(places[known], minlength=len(seeds))
    sums = np.bincount(places[known], values[known], len(seeds))
    return seeds[counts > 0], sums[counts > 0] / counts[counts > 0]


def _gaps(a: pd.Series, b: pd.Series) -> pd.Series:
    """a - b for every seed that both have."""
    (ours, first), (theirs, second) = _means(a), _means(b)
    seeds, i, j = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    return pd.Series(first[i] - second[j], pd.Index(seeds, name="seed")).dropna()


def _paired(a: pd.Series, b: pd.Series) -> pd.Series:
    """a - b for every seed that both have; for every draw if there are fewer than two such seeds."""
    gaps = _gaps(a, b)
    return gaps if len(gaps) > 1 else (a - b).dropna()


def _one_sided(differences: pd.Series) -> float:
    """p-value of "the mean is below 0"; without any spread the sign decides."""
    values: Array = differences.to_numpy(dtype=float)
    if len(values) < 2:
        return 1.0
    if np.ptp(values) == 0:
        return 0.0 if values[0] < 0 else 1.0
    t = values.mean() / (values.std(ddof=1) / np.sqrt(len(values)))
    return float(stdtr(len(values) - 1, t))
