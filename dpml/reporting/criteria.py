"""Define the criteria of claims: what "better", "equal" and "as good as" mean.

A criterion is about one number, the *effect*: by how much the first of two sets of runs is better, computed from one
mean per seed on the metric's scale in figures.

- A *share* (accuracy, error, AUC) has a linear axis. The effect is a difference. It is *relevant* if it is at least a
  tenth of the distance (the room) between the constant baseline and the model without privacy.
- A *size* (loss, gap, distance, absolute error) has a logarithmic axis, and smaller is better. The effect is the
  logarithm of the ratio of two absolute values. It is *relevant* if the smaller one is at most 0.9 of the other.

- *Better*, *falls*, *degrades*, *depends* (`better`): the claim holds if the effect is relevant and significantly above
  0, by a one-sided t-test at 5 %, Holm-corrected over the comparisons of a test. It is false if the upper 95 % bound on
  the effect is not relevant. A significant and relevant opposite effect also refutes a claim about most or some x.
- *Equal*, *similar*, *steady*, *reaches* (`similar`): the claim holds if the effect is within a limit on both sides (by
  default, the smallest relevant effect or, for sizes, a factor of two), by two one-sided t-tests at 5 %. It is false if
  the effect reaches the limit and differs significantly from 0.
- *As good as* (`similar` with `better_too`): the same, but with a limit on the worse side only.
- *With probability at least p* (`covers`): the claim holds if the lower 95 % bound on the share of runs with the
  property is at least p, and is false if the upper bound is below p (Clopper & Pearson 1934).

In all other cases a claim is undecided. experiments/CRITERIA.md says when each criterion was chosen.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from scipy.special import stdtr, stdtrit

from dpml.arrays import Array
from dpml.reporting.statistics import LEVEL, per_seed, welch

K = TypeVar("K", bound=Hashable)

FLOOR = 2.0**-52  # smaller sizes are rounding errors
RELEVANT = 0.1  # the smallest relevant difference of shares, as a share of the room


@dataclass(frozen=True)
class MetricScale:
    """A metric's scale: linear or log, its smallest relevant effect (`matters`), and its limit for *equal* (`near`)."""

    log: bool
    up: bool
    matters: float
    near: float
    zero: float = FLOOR  # sizes below this count as zero

    def badness(self, values: Array) -> Array:
        """Return values on the scale of the metric, with a sign such that smaller values are better."""
        if self.log:
            return np.asarray(np.log(np.maximum(np.abs(values), self.zero)))
        return -values if self.up else values

    def sizes(self, runs: pd.Series) -> pd.Series:
        """Return values of runs; on a logarithmic scale, return their absolute values, raised to at least `zero`."""
        return pd.Series(np.maximum(np.abs(runs.to_numpy(float)), self.zero), runs.index) if self.log else runs

    def words(self, effect: float) -> str:
        return f"{math.exp(min(effect, 700.0)):.3g}×" if self.log else f"{effect:+.2g}"

    def interval(self, effect: "Effect") -> str:
        middle, low, high = effect.estimate, *effect.interval()
        if not self.log or abs(math.expm1(middle)) < 0.05:
            name = "ratio " if self.log else ""
            return f"{name}{self.words(middle)} [{self.words(low)}, {self.words(high)}]"
        word, logs = ("lower", [middle, low, high]) if middle > 0 else ("higher", [-middle, -high, -low])
        factors = (float(f"{math.exp(min(one, 700.0)):.3g}") for one in logs)
        factor, *ends = (f"{one:.0f}" if 100 <= one < 1e5 else f"{one:.2g}" for one in factors)
        return f"{factor}× {word} [{', '.join(ends)}]"


def is_share(metric: str) -> bool:
    """Return whether a metric is a share from 0 to 1, such as an accuracy, an error or an AUC."""
    return metric.endswith(("accuracy", "auc")) or metric in ("error", "trimmed")


def scale(metric: str, room: float = math.nan, zero: float = FLOOR) -> MetricScale:
    """Return a metric's scale. For a share, `room` is the distance from the constant to the non-private baseline."""
    if is_share(metric):
        return MetricScale(False, metric != "error", RELEVANT * room, RELEVANT * room)
    return MetricScale(True, False, -math.log(0.9), math.log(2.0), zero)


@dataclass(frozen=True, eq=False)
class Pair:
    """Two series of a metric's values, by seed and noise draw: an algorithm's, and a series to compare it with."""

    block: str
    algorithm: str
    against: str
    x: Any
    ours: pd.Series  # values of `algorithm`
    theirs: pd.Series  # values of `against`, which can be the same algorithm at another x
    scale: MetricScale


@dataclass(frozen=True)
class Effect:
    """An estimate of how much better one set of runs is than another, with the standard error for a t-test."""

    estimate: float
    error: float  # the standard error; infinite if there are too few runs to estimate it
    freedom: float  # the degrees of freedom of the t-test
    seeds: int

    def interval(self, level: float = 1 - LEVEL) -> tuple[float, float]:
        half = float(stdtrit(self.freedom, (1 + level) / 2)) * self.error
        return self.estimate - half, self.estimate + half

    def p_above(self, sign: int = 1) -> float:
        """Return the one-sided p-value for an effect above 0, or below 0 if `sign` is -1."""
        if self.error == math.inf:
            return 1.0
        if self.error == 0:
            return 0.0 if sign * self.estimate > 0 else 1.0
        return float(stdtr(self.freedom, -sign * self.estimate / self.error))


@dataclass(frozen=True)
class Comparison:
    """The result of a criterion: whether a number, such as an effect, meets what the criterion requires."""

    holds: bool | None  # whether the criterion is met; None: undecided
    value: str = ""  # the compared number in words, such as an effect with its 95 % interval
    needs: str = ""  # what the number has to be
    slack: float = math.nan  # the number's distance from the limit; negative on the side against the claim
    seeds: int | None = None  # the number of seeds; None if no runs are compared
    against: bool = False  # whether the second set of runs is better, by the criterion `better`


def better(pairs: Sequence[Pair]) -> list[Comparison]:
    """Decide for every pair whether the first algorithm is better by a significant and relevant difference."""
    effects = [effect(pair) for pair in pairs]
    above, below = (holm({n: one.p_above(sign) for n, one in enumerate(effects)}) for sign in (1, -1))
    found = []
    for n, (pair, one) in enumerate(zip(pairs, effects, strict=True)):
        least = pair.scale.matters
        ruled_out = one.interval(1 - 2 * LEVEL)[1] < least
        holds = True if above[n] and one.estimate >= least else False if ruled_out else None
        against = below[n] and -one.estimate >= least
        needs = f"at least {pair.scale.words(least)}"
        slack = one.estimate - least
        found.append(Comparison(holds, pair.scale.interval(one), needs, slack, one.seeds, against))
    return found


def similar(pair: Pair, limit: float | str | None = None, better_too: bool = False) -> Comparison:
    """Decide whether the means of two sets of runs differ by at most `limit`.

    If `limit` is "matters", it is the smallest relevant difference. With `better_too`, decide whether the mean of the
    first set is worse by at most `limit`.
    """
    one, scale = effect(pair), pair.scale
    limit = scale.near if limit is None else scale.matters if limit == "matters" else float(limit)
    apart = -one.estimate if better_too else abs(one.estimate)
    low, high = one.interval(1 - 2 * LEVEL)
    inside = low > -limit and (better_too or high < limit)
    wider = one.interval()
    holds = True if inside else False if apart >= limit and not wider[0] <= 0 <= wider[1] else None
    needs = f"above {scale.words(-limit)}" if better_too else f"{scale.words(-limit)} to {scale.words(limit)}"
    return Comparison(holds, scale.interval(one), needs, limit - apart, one.seeds)


def exact(value: float, most: float, least: float = -math.inf) -> Comparison:
    """Compare an exact number with its lower limit `least` and its upper limit `most`."""
    limits = [f"at least {least:.4g}" if least > -math.inf else "", f"at most {most:.4g}" if most < math.inf else ""]
    # a relative slack, so that numbers of different sizes can be compared
    slack = float(min(most - value, value - least) / max(abs(value), 1e-300))
    holds = bool(least - 1e-12 * abs(least) <= value <= most + 1e-12 * abs(most))
    return Comparison(holds, f"{value:.4g}", ", ".join(filter(None, limits)), slack)


def covers(kept: int, of: int, share: float, seeds: int | None = None) -> Comparison:
    """Decide whether a statement, which held in `kept` of `of` trials, holds with probability at least `share`."""
    from scipy.stats import binomtest  # slow to load

    low, high = binomtest(kept, of).proportion_ci(1 - 2 * LEVEL, "exact")
    holds = True if low >= share else False if high < share else None
    words = f"kept by {kept} of {of} [{low:.3g}, {high:.3g}]"
    return Comparison(holds, words, f"at least {share:.3g} of them", kept / of - share, seeds)


def effect(pair: Pair) -> Effect:
    """Estimate how much better the first set of runs is, from the differences at the seeds that both sets have.

    With one seed, its draws are compared: in pairs for two settings of one algorithm, otherwise by Welch's test.
    """
    badness, same = pair.scale.badness, pair.algorithm == pair.against
    a, b = map(pair.scale.sizes, (pair.ours, pair.theirs))
    ours, theirs = per_seed(a), per_seed(b)
    both, i, j = np.intersect1d(ours.index, theirs.index, assume_unique=True, return_indices=True)
    gaps, seeds = badness(theirs.to_numpy()[j]) - badness(ours.to_numpy()[i]), min(len(ours), len(theirs))
    if len(gaps) < 2 and same:
        a, b = a.dropna().align(b.dropna(), join="inner")
        gaps = badness(b.to_numpy(float)) - badness(a.to_numpy(float))
    elif len(gaps) == 1:
        x, y = (badness(runs.dropna().xs(both[0], level="seed").to_numpy(float)) for runs in (a, b))
        draws, apart = np.array([len(x), len(y)]), float(y.mean() - x.mean())
        if draws.min() < 2:
            return Effect(apart, math.inf, 1, seeds)
        error, freedom = map(float, welch(np.array([x.var(ddof=1), y.var(ddof=1)]), draws))
        return Effect(apart, error, freedom if error else float(draws.sum()) - 2, seeds)
    if len(gaps) < 2:
        return Effect(float(gaps.sum()) if len(gaps) else math.nan, math.inf, 1, seeds)
    return Effect(float(gaps.mean()), float(gaps.std(ddof=1)) / math.sqrt(len(gaps)), len(gaps) - 1, seeds)


def holm(values: Mapping[K, float]) -> dict[K, bool]:
    """Return which p-values are significant after Holm's correction for several tests."""
    left, significant = len(values), dict.fromkeys(values, False)
    for key in sorted(values, key=lambda key: values[key]):
        if values[key] > LEVEL / left:
            break
        significant[key] = True
        left -= 1
    return significant
