"""Define the criteria of claims: what "better", "equal" and "as good as" mean.

Every criterion is about one number, the *effect*: by how much the first of two runs is better, on the scale on which
figures show the metric. The effect is computed from the means of seeds (`dpml.reporting.statistics`).

- A *share* (accuracy, error, AUC) is shown on a linear axis. The effect is a difference. A difference is *relevant* if
  it is at least a tenth of the room: the distance between the constant baseline and the model without privacy.
- A *size* (loss, gap, distance, absolute error) is shown on a logarithmic axis, in absolute value. The effect is the
  logarithm of a ratio. A size is better than another if it is smaller by a tenth. Sizes are equal up to a factor of
  two. They have no room, as an optimality gap has no constant baseline. Sizes below `FLOOR` are rounding errors.

- *Better*, *falls*, *degrades*, *depends* (`better`): the claim holds if the effect is relevant and significantly above
  0, by a one-sided t-test at 5 %, Holm-corrected over the comparisons of a test. It is false if the 95 % bound on the
  effect is below the relevant size. A comparison counts against a claim only if it is significant and relevant, too.
- *Equal*, *similar*, *steady*, *reaches* (`similar`): the claim holds if the effect is less than relevant on both
  sides, by two one-sided t-tests at 5 %. It is false if the effect is relevant and differs significantly from 0.
- *As good as* (`similar` with `better_too`): the same on one side.
- *With probability at least p* (`covers`): the 95 % bound on the share of runs that keep the statement is at least p.

In all other cases a claim is open. The criteria apply to all papers. experiments/CRITERIA.md says when each was chosen.
"""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pandas as pd
from scipy.special import stdtr, stdtrit

from dpml.arrays import Array
from dpml.reporting.statistics import LEVEL, means_of_seeds, welch

K = TypeVar("K", bound=Hashable)

FLOOR = 2.0**-52
RELEVANT = 0.1  # a difference is relevant from this share of the room on


@dataclass(frozen=True)
class MetricScale:
    """How figures show a metric, the smallest effect that is "better", and the largest effect that is "equal"."""

    log: bool
    up: bool
    matters: float
    near: float

    def badness(self, values: Array) -> Array:
        """Return the positions of values on the axis, with the sign for which less is better."""
        if self.log:
            return np.asarray(np.log(np.maximum(np.abs(values), FLOOR)))
        return -values if self.up else values

    def words(self, effect: float) -> str:
        """Return an effect as a difference, or as the factor between two sizes."""
        return f"x{math.exp(min(effect, 700.0)):.3g}" if self.log else f"{effect:+.2g}"


SIZE = MetricScale(log=True, up=False, matters=-math.log(0.9), near=math.log(2.0))


def is_share(metric: str) -> bool:
    """Return whether a metric is a share of the test rows, or of pairs of test rows."""
    return metric.endswith(("accuracy", "auc")) or metric == "error"


def scale(metric: str, room: float = math.nan) -> MetricScale:
    """Return the scale of a metric. A share needs the `room` between the constant baseline and no privacy."""
    return MetricScale(False, metric != "error", RELEVANT * room, RELEVANT * room) if is_share(metric) else SIZE


@dataclass(frozen=True)
class Effect:
    """An estimate, its standard error, and the degrees of freedom of its t-test. With 0 of them it decides nothing."""

    estimate: float
    error: float
    freedom: float

    def interval(self, level: float) -> tuple[float, float]:
        """Return the two-sided confidence interval at a level."""
        if self.freedom <= 0:
            return -math.inf, math.inf
        half = float(stdtrit(self.freedom, (1 + level) / 2)) * self.error
        return self.estimate - half, self.estimate + half

    def p_above(self, sign: int = 1) -> float:
        """Return the p-value for an effect, times `sign`, above 0; without a standard error, the sign decides."""
        if self.freedom <= 0:
            return 1.0
        if self.error == 0:
            return 0.0 if sign * self.estimate > 0 else 1.0
        return float(stdtr(self.freedom, -sign * self.estimate / self.error))


@dataclass(frozen=True)
class Comparison:
    """The result of a criterion for two sets of runs.

    Args:
        holds: whether the criterion is met; None if that is open.
        effect: by how much the first set is better.
        scale: the scale of the effect.
        significant: whether the effect is significantly above 0, even if it is not relevant.
        against: whether the second set is better, by the criterion `better`.
        slack: by how much the estimate exceeds what the criterion needs.
        needs: what the effect has to be.
        value: the compared number if it is not an effect, such as a share or an exact number.
    """

    holds: bool | None
    effect: Effect | None = None
    scale: MetricScale = SIZE
    significant: bool = False
    against: bool = False
    slack: float = math.nan
    needs: str = ""
    value: str = ""

    @property
    def words(self) -> str:
        """Return the effect and its 95 % interval, or the value."""
        if self.value or self.effect is None:
            return self.value
        low, high = self.effect.interval(1 - LEVEL)
        return f"{self.scale.words(self.effect.estimate)} [{self.scale.words(low)}, {self.scale.words(high)}]"


def better(
    pairs: Mapping[K, tuple[pd.Series, pd.Series]], scales: Mapping[K, MetricScale], same_noise: bool = False
) -> dict[K, Comparison]:
    """Return for every pair (a, b) of runs whether a is better than b, by a relevant difference.

    Runs are indexed by (seed, draw). Set `same_noise` if a and b are one algorithm under two settings: their draws then
    have the same noise directions.
    """
    effects = {key: _effect(a, b, scales[key], same_noise) for key, (a, b) in pairs.items()}
    above, below = (holm({key: one.p_above(sign) for key, one in effects.items()}) for sign in (1, -1))
    found = {}
    for key, one in effects.items():
        least = scales[key].matters
        ruled_out = one.interval(1 - 2 * LEVEL)[1] < least
        holds = True if above[key] and one.estimate >= least else False if ruled_out else None
        against = below[key] and -one.estimate >= least
        needs = f"at least {scales[key].words(least)}"
        found[key] = Comparison(holds, one, scales[key], above[key], against, one.estimate - least, needs)
    return found


def similar(
    a: pd.Series,
    b: pd.Series,
    scale: MetricScale,
    limit: float | None = None,
    better_too: bool = False,
    same_noise: bool = False,
) -> Comparison:
    """Return whether a and b are at most `limit` apart. With `better_too`, a can be better by any amount."""
    one = _effect(a, b, scale, same_noise)
    limit = scale.near if limit is None else limit
    apart = -one.estimate if better_too else abs(one.estimate)
    low, high = one.interval(1 - 2 * LEVEL)
    inside = low > -limit and (better_too or high < limit)
    low, high = one.interval(1 - LEVEL)
    holds = True if inside else False if apart >= limit and not low <= 0 <= high else None
    needs = f"above {scale.words(-limit)}" if better_too else f"{scale.words(-limit)} to {scale.words(limit)}"
    return Comparison(holds, one, scale, slack=limit - apart, needs=needs)


def exact(value: float, most: float, least: float = -math.inf) -> Comparison:
    """Return whether an exact number is at most `most` and at least `least`."""
    limits = [f"at least {least:.4g}" if least > -math.inf else "", f"at most {most:.4g}" if most < math.inf else ""]
    # a relative slack, so that numbers of different sizes can be compared
    slack = float(min(most - value, value - least) / max(abs(value), 1e-300))
    needs = ", ".join(filter(None, limits))
    return Comparison(bool(least <= value <= most), slack=slack, needs=needs, value=f"{value:.4g}")


def covers(kept: int, of: int, share: float) -> Comparison:
    """Return whether a statement holds with a probability of at least `share`, if `kept` of `of` trials keep it.

    The decision uses the 95 % bounds on the probability (Clopper & Pearson 1934).
    """
    from scipy.stats import binomtest  # slow to load

    low, high = binomtest(kept, of).proportion_ci(1 - 2 * LEVEL, "exact")
    holds = True if low >= share else False if high < share else None
    words = f"kept by {kept} of {of} [{low:.3g}, {high:.3g}]"
    return Comparison(holds, slack=kept / of - share, needs=f"at least {share:.3g} of them", value=words)


def _effect(a: pd.Series, b: pd.Series, scale: MetricScale, same_noise: bool) -> Effect:
    """Estimate by how much a is better than b, in pairs over the seeds that both have.

    With one seed, the estimate is over draws: in pairs for one algorithm (`same_noise`), by Welch's test for two.
    """
    (ours, first), (theirs, second) = means_of_seeds(a), means_of_seeds(b)
    seeds, i, j = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    gaps = scale.badness(second[j]) - scale.badness(first[i])
    if len(gaps) == 1 and not same_noise:
        x, y = (scale.badness(runs.dropna().xs(seeds[0], level="seed").to_numpy(float)) for runs in (a, b))
        sizes = np.array([len(x), len(y)])
        if sizes.min() < 2:
            return Effect(float(y.mean() - x.mean()), math.nan, 0)
        error, freedom = map(float, welch(np.array([x.var(ddof=1), y.var(ddof=1)]), sizes))
        return Effect(float(y.mean() - x.mean()), error, freedom if error else float(sizes.sum()) - 2)
    if len(gaps) < 2 and same_noise:
        a, b = a.dropna().align(b.dropna(), join="inner")
        gaps = scale.badness(b.to_numpy(float)) - scale.badness(a.to_numpy(float))
    if not len(gaps):
        return Effect(math.nan, math.nan, 0)
    spread = float(gaps.std(ddof=1)) if len(gaps) > 1 else math.nan
    return Effect(float(gaps.mean()), spread / math.sqrt(len(gaps)), len(gaps) - 1)


def holm(values: Mapping[K, float]) -> dict[K, bool]:
    """Return which of several p-values are significant after Holm's correction."""
    left, significant = len(values), dict.fromkeys(values, False)
    for key in sorted(values, key=lambda key: values[key]):
        if values[key] > LEVEL / left:
            break
        significant[key] = True
        left -= 1
    return significant
