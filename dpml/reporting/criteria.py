"""The criteria of claims: what "better", "similar" and "reaches" mean, and what would decide an open comparison.

Every criterion is about one number, the effect: by how much the first of two runs is better, on the scale on which
figures show the metric.

- A *share* (accuracy, error, AUC) is shown on a linear axis. The effect is a difference. 0.01 *matters*; up to 0.05 is
  *near*: half of the first digit that a text or an axis shows.
- A *size* (loss, gap, distance) is shown on a logarithmic axis, in absolute value. The effect is the logarithm of a
  ratio. A tenth matters; up to a factor of two is near. Sizes below `FLOOR` are equal: rounding errors of
  values near 1.

The unit of replication is the seed, whose draws are averaged first (`dpml.reporting.statistics`). With one seed it is
the draw: the effect then holds for these rows and this partition only.

- *Better*, *falls*, *degrades*, *depends* (`better`): the effect is significantly above 0, by a one-sided t-test at
  5 %, Holm-corrected over the comparisons of a test, and is at least what matters. It is false if the 95 % bound on
  the effect is less than what matters. What speaks against a claim is held to the same: significant, and it matters.
- *Similar*, *steady*, *weak*, *not affected*, *reaches*, *comes down to* (`similar`): the effect is near 0 on both
  sides, by two one-sided t-tests at 5 %. It is false if the effect differs significantly from 0, at 5 %, and is not
  near. A curve reaches another at the first x from which on it is similar to it at every x. None of this depends on
  where the grid starts.
- *As good as*, *roughly above* (`similar` with `better_too`): the same on one side.
- *With probability at least p* (`covers`): the 95 % bound on the share of runs that keep it is at least p.

Where every seed has the same test file, intervals of accuracies are about this file. What its rows add is known to be
at most McNemar's variance of a paired difference (`replicates.error_of_difference`); every claim is judged a second
time with it, which decides nothing and is told (`fixed_rows`).

Anything else is open. These criteria apply to all papers. When each was chosen: experiments/CRITERIA.md.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TypeVar

import numpy as np
import pandas as pd
from scipy.special import betaincinv, stdtr, stdtrit

from dpml.arrays import Array, Index
from dpml.reporting.replicates import error_of_difference
from dpml.reporting.statistics import LEVEL, means_of_seeds, moments_of_seeds, welch

K = TypeVar("K", bound=Hashable)

POWER = 0.8  # the probability from which a number of seeds or draws counts as enough
MOST_SEEDS = 10_000  # no larger number is reported
FLOOR = 2.0**-52
TEST_FILE = "test_file"
"""The attribute of runs that names their one test file and its number of rows (`dpml.reporting.fixed_rows`)."""


@dataclass(frozen=True)
class MetricScale:
    """How figures show a metric: on a logarithmic axis or not, and whether more is better.

    `matters` and `near` are effects: the smallest that matters, and the largest of what is similar.
    """

    log: bool
    up: bool
    matters: float
    near: float

    def badness(self, values: Array) -> Array:
        """Values on the axis, turned so that less is better."""
        if self.log:
            return np.asarray(np.log(np.maximum(np.abs(values), FLOOR)))
        return -values if self.up else values

    def words(self, effect: float) -> str:
        """An effect as a difference, or as the factor between two sizes."""
        return f"x{math.exp(min(effect, 700.0)):.3g}" if self.log else f"{effect:+.2g}"


def scale(metric: str) -> MetricScale:
    """The scale of a metric."""
    if metric.endswith(("accuracy", "error", "auc")):
        return MetricScale(False, not metric.endswith("error"), 0.01, 0.05)
    return MetricScale(True, False, -math.log(0.9), math.log(2.0))


@dataclass(frozen=True)
class Effect:
    """An estimate, its standard error, and the degrees of freedom of its t-test; without any, it shows nothing.

    `file` is the test file whose rows the error counts, by name and number of rows; None if it counts none.
    """

    estimate: float
    error: float
    freedom: float
    file: tuple[str, int] | None = None

    def interval(self, level: float) -> tuple[float, float]:
        """The two-sided interval at a level of confidence."""
        if self.freedom <= 0:
            return -math.inf, math.inf
        half = float(stdtrit(self.freedom, (1 + level) / 2)) * self.error
        return self.estimate - half, self.estimate + half

    def p_above(self) -> float:
        """p-value of "the effect is above 0"; without any spread the sign decides."""
        if self.freedom <= 0:
            return 1.0
        if self.error == 0:
            return 0.0 if self.estimate > 0 else 1.0
        return float(stdtr(self.freedom, -self.estimate / self.error))

    def __neg__(self) -> "Effect":
        return Effect(-self.estimate, self.error, self.freedom)


@dataclass(frozen=True)
class Needs:
    """What would decide an open comparison if its effect stays what it is: more seeds, or more draws of each.

    None: no number of them would.
    """

    seeds: int | None
    draws: int | None

    @property
    def words(self) -> str:
        counts = ((self.seeds, "seed", ""), (self.draws, "draw", " of each seed" if self.seeds else ""))
        found = [
            f"{f'over {MOST_SEEDS:,}' if number >= MOST_SEEDS else number} {noun}s{of}"
            for number, noun, of in counts
            if number
        ]
        return " or ".join(found) or "nothing known"


@dataclass(frozen=True)
class Comparison:
    """What two sets of runs say about a criterion.

    Args:
        holds: True, it is met; False, it is not; None, it is open.
        effect: by how much the first is better.
        scale: of the effect.
        significant: whether the effect is significantly above 0, however small.
        against: whether the opposite of a criterion of `better` is met.
        slack: by how much the estimate meets the criterion.
        needs: what would decide it, if it is open.
        share: of a criterion of `covers`, in words.
        cells: what tells the cells of both sets of runs: their block, data set, algorithm and settings.
    """

    holds: bool | None
    effect: Effect | None = None
    scale: MetricScale | None = None
    significant: bool = False
    against: bool = False
    slack: float = math.nan
    needs: Needs | None = None
    share: str = ""
    cells: Sequence[Mapping[str, object]] = ()

    @property
    def words(self) -> str:
        """The effect, or the share, and its 95 % interval."""
        if self.share:
            return self.share
        if self.effect is None or self.scale is None:
            return ""
        low, high = self.effect.interval(1 - LEVEL)
        return f"{self.scale.words(self.effect.estimate)} [{self.scale.words(low)}, {self.scale.words(high)}]"


def better(
    pairs: Mapping[K, tuple[pd.Series, pd.Series]], scale: MetricScale, same_noise: bool = False
) -> dict[K, Comparison]:
    """For every pair (a, b) of runs, whether a is better than b, by what matters.

    Args:
        pairs: runs indexed by (seed, draw).
        scale: of their metric.
        same_noise: the draws of a and b share the noise's directions: one algorithm under two settings.
    """
    compared = {key: _Compared(a, b, scale, same_noise) for key, (a, b) in pairs.items()}
    effects = {key: one.effect for key, one in compared.items()}
    above = holm({key: one.p_above() for key, one in effects.items()})
    below = holm({key: (-one).p_above() for key, one in effects.items()})
    found = {}
    for key, one in effects.items():
        matters = one.estimate >= scale.matters
        ruled_out = one.interval(1 - 2 * LEVEL)[1] < scale.matters
        holds = True if above[key] and matters else False if ruled_out else None
        distance, level = (one.estimate, LEVEL / len(pairs)) if matters else (scale.matters - one.estimate, LEVEL)
        needs = compared[key].needs(distance, level) if holds is None else None
        against = below[key] and -one.estimate >= scale.matters
        slack, cells = one.estimate - scale.matters, cells_of(*pairs[key])
        found[key] = Comparison(holds, one, scale, above[key], against, slack, needs, cells=cells)
    return found


def similar(
    a: pd.Series,
    b: pd.Series,
    scale: MetricScale,
    limit: float | None = None,
    better_too: bool = False,
    same_noise: bool = False,
) -> Comparison:
    """Whether a and b are near each other, or at most `limit` apart; with `better_too` a may be better by any amount.

    `same_noise` is that of `better`.
    """
    compared = _Compared(a, b, scale, same_noise)
    one = compared.effect
    limit = scale.near if limit is None else limit
    apart = -one.estimate if better_too else abs(one.estimate)
    low, high = one.interval(1 - 2 * LEVEL)
    inside = low > -limit and (better_too or high < limit)
    low, high = one.interval(1 - LEVEL)
    holds = True if inside else False if apart >= limit and not low <= 0 <= high else None
    distance, level = (limit - apart, LEVEL) if apart < limit else (apart, LEVEL / 2)
    needs = compared.needs(distance, level) if holds is None else None
    return Comparison(holds, one, scale, one.p_above() <= LEVEL, False, limit - apart, needs, cells=cells_of(a, b))


def cells_of(*several: pd.Series) -> list[dict[str, object]]:
    """What tells the cells of some runs, if their evidence is traced (`claims.Evidence`)."""
    return [
        cell | ({} if runs.attrs["x"] in ("eps", "delta") else {runs.attrs["x"]: runs.name})
        for runs in several
        for cell in runs.attrs.get("cells", ())
    ]


def covers(kept: int, of: int, share: float, cells: Sequence[Mapping[str, object]] = ()) -> Comparison:
    """Whether a statement with a probability of at least `share` is kept, by trials that are independent.

    Yes if the lower 95 % bound on the probability (Clopper & Pearson 1934) is at least `share`; no if the upper one is
    below it.
    """

    def lower(kept: Array, of: Array) -> Array:
        return np.where(kept > 0, betaincinv(np.maximum(kept, 1), of - kept + 1, LEVEL), 0.0)

    low, high = (float(lower(np.array(k), np.array(of))) for k in (kept, of - kept))
    holds = True if low >= share else False if 1 - high < share else None
    trials = np.arange(of, MOST_SEEDS + 1, dtype=np.float64)
    enough = lower(np.floor(kept / of * trials), trials) >= share
    needs = Needs(int(trials[enough.argmax()]) if enough.any() else MOST_SEEDS, None) if holds is None else None
    words = f"kept by {kept} of {of} [{low:.3g}, {1 - high:.3g}]"
    return Comparison(holds, slack=kept / of - share, needs=needs, share=words, cells=cells)


@dataclass(frozen=True)
class _Compared:
    """Two sets of runs whose effect is estimated: by how much a is better than b, paired over seeds.

    With one seed it is over the draws, in pairs for one algorithm (`same_noise`), by Welch's test for two.
    """

    a: pd.Series
    b: pd.Series
    scale: MetricScale
    same_noise: bool

    @cached_property
    def means(self) -> tuple[Array, Array]:
        """The values of both for every seed that both have."""
        (ours, first), (theirs, second) = means_of_seeds(self.a), means_of_seeds(self.b)
        _, i, j = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
        return first[i], second[j]

    @cached_property
    def gaps(self) -> Array:
        """By how much a is better for every seed that both have."""
        first, second = self.means
        return self.scale.badness(second) - self.scale.badness(first)

    @cached_property
    def effect(self) -> Effect:
        """Its error has a part for the rows of the test file, where both have the same one and runs are marked so.

        The variance of that part is a known bound, so degrees of freedom are added as by Satterthwaite.
        """
        found, file = self._of_runs(), self.a.attrs.get(TEST_FILE)
        if file is None or file != self.b.attrs.get(TEST_FILE) or found.freedom <= 0:
            return found
        a, b = (float(values.mean()) for values in self.means)
        error = math.hypot(found.error, error_of_difference(a, b, file[1]))
        share = (found.error / error) ** 4 if error else 1.0
        return Effect(found.estimate, error, found.freedom / share if share else math.inf, file)

    def _of_runs(self) -> Effect:
        gaps = self.gaps
        if len(gaps) == 1 and not self.same_noise:
            return self._welch()
        if len(gaps) < 2 and self.same_noise:
            a, b = self.a.dropna().align(self.b.dropna(), join="inner")
            gaps = self.scale.badness(b.to_numpy(float)) - self.scale.badness(a.to_numpy(float))
        if not len(gaps):
            return Effect(math.nan, math.nan, 0)
        spread = float(gaps.std(ddof=1)) if len(gaps) > 1 else math.nan
        return Effect(float(gaps.mean()), spread / math.sqrt(len(gaps)), len(gaps) - 1)

    def _welch(self) -> Effect:
        """The effect in the draws of the one seed that both have, which are independent."""
        a, b = self.a.dropna(), self.b.dropna()
        seed = np.intersect1d(a.index.get_level_values("seed"), b.index.get_level_values("seed"))
        ours, theirs = (
            self.scale.badness(runs[runs.index.get_level_values("seed").isin(seed)].to_numpy(float)) for runs in (a, b)
        )
        estimate = float(theirs.mean() - ours.mean())
        if min(len(ours), len(theirs)) < 2:
            return Effect(estimate, math.nan, 0)
        sizes = len(ours), len(theirs)
        error, freedom = map(float, welch(np.array([ours.var(ddof=1), theirs.var(ddof=1)]), np.array(sizes)))
        return Effect(estimate, error, freedom if error else sum(sizes) - 2)

    def needs(self, distance: float, level: float) -> Needs:
        """The seeds, or draws, with which an effect this far from the criterion's limit would be seen, at `POWER`.

        The variance of a seed's effect has two parts: that of seeds, which more draws do not reduce, and that of the
        noise, which they divide.
        """
        if self.effect.freedom <= 0:
            return Needs(2, None)
        n = len(self.gaps)
        if n < 2:
            spread = self.effect.error * math.sqrt(min(len(self.a), len(self.b)))
            return Needs(None, enough(spread, distance, level))
        variance = float(self.gaps.var(ddof=1))
        seeds = enough(math.sqrt(variance), distance, level)
        noise = min(self._noise(), variance)
        quantile = float(stdtrit(n - 1, 1 - level) + stdtrit(n - 1, POWER))
        room = n * (distance / quantile) ** 2 - (variance - noise)
        if room <= 0 or noise <= 0:
            return Needs(seeds, None)
        draws = len(self.a) / self.a.index.get_level_values("seed").nunique()
        return Needs(seeds, min(math.ceil(draws * noise / room), MOST_SEEDS))

    def _noise(self) -> float:
        """The part of the variance of a seed's effect that is due to the draws: pooled over seeds.

        On a logarithmic scale by the delta method: that of the logarithm of a mean.
        """
        parts = [self.a, self.b]
        if self.scale.log:
            parts = [_by_size(runs) for runs in parts]
        if self.same_noise:
            parts = [parts[0] - parts[1]]
        return float(np.nansum([_noise_of_means(runs) for runs in parts]))


def _by_size(runs: pd.Series) -> pd.Series:
    """Runs divided by the size of their seed's mean."""
    seeds, means = means_of_seeds(runs)
    if not len(seeds):
        return runs
    places = np.searchsorted(seeds, runs.index.get_level_values("seed"))
    return runs / np.maximum(np.abs(means.take(places, mode="clip")), FLOOR)  # a seed without a mean has no values


def _noise_of_means(runs: pd.Series) -> float:
    """The variance that draws give a seed's mean: its average over seeds of several draws, NaN without any."""
    _, counts, _, variances = moments_of_seeds(runs)
    parts = (variances / counts)[counts > 1]
    return float(parts.mean()) if len(parts) else math.nan


def holm(values: Mapping[K, float]) -> dict[K, bool]:
    """Which of several p-values are significant when all are tested together."""
    left, significant = len(values), dict.fromkeys(values, False)
    for key in sorted(values, key=lambda key: values[key]):
        if values[key] > LEVEL / left:
            break
        significant[key] = True
        left -= 1
    return significant


# ---- what would decide


def enough(spread: float, distance: float, level: float = LEVEL) -> int:
    """How many values of this spread show an effect of this size by a one-sided t-test, with probability `POWER`."""
    if not distance > 0:
        return MOST_SEEDS
    n, quantiles = _quantiles(level)
    reach = quantiles * spread / np.sqrt(n)
    return int(n[np.argmax(reach <= distance)]) if reach[-1] <= distance else MOST_SEEDS


@cache
def _quantiles(level: float) -> tuple[Index, Array]:
    """Numbers n of values, and the effect in standard errors that each n can show: (k,) each."""
    n = np.arange(2, MOST_SEEDS + 1)
    return n, np.asarray(stdtrit(n - 1, 1 - level) + stdtrit(n - 1, POWER), dtype=np.float64)


Rule = Callable[[Mapping[K, bool | None]], bool | None]
"""What a test decides from the outcomes of its comparisons, in three-valued logic."""


def settling(shown: Mapping[K, Comparison], rule: Rule[K]) -> list[K]:
    """A smallest set of open comparisons whose outcomes, as they lean now, settle the rule; the cheapest come first.

    No comparison of it can be left out. It is empty if nothing is open.
    """

    def cost(key: K) -> float:
        needs = shown[key].needs
        return min((n for n in (needs.seeds, needs.draws) if n), default=MOST_SEEDS) if needs else MOST_SEEDS

    known = {key: one.holds for key, one in shown.items()}
    chosen: list[K] = []
    for key in sorted((key for key, holds in known.items() if holds is None), key=cost):
        if rule(known) is not None:
            break
        known[key] = shown[key].slack >= 0
        chosen.append(key)
    for key in chosen[::-1]:
        if rule(known | {key: None}) is not None:
            known[key] = None
            chosen.remove(key)
    return chosen


def decisive(shown: Mapping[K, Comparison], holds: bool | None) -> K | None:
    """The comparison that a decision hangs on: of those that turned out like it, the one nearest to the limit.

    For what does not hold it is the one furthest beyond.
    """
    alike = [key for key in shown if shown[key].holds is holds and not math.isnan(shown[key].slack)]
    return min(alike, key=lambda key: shown[key].slack, default=None)
