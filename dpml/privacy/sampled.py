"""Gaussian noise on sums that a unit's part is in with some probability only: an eps from above, and one from below.

In every round the sum moves by at most 1 for a unit, and noise of deviation s is added. Each of these pairs dominates
one round (m = 1/s, N(a) a normal distribution of mean a and variance 1, q the rate):

- *Poisson, add or remove* (or a part that becomes zero): ((1-q) N(0) + q N(m), N(0)) and its reverse (Zhu, Dong & Wang
  2022, Thm 11);
- *Poisson, replace*: ((1-q) N(0) + q N(-m), (1-q) N(0) + q N(m)). With parts x and x' and the divergence as
  ``sup_A N(x)(A) - a N(x')(A) - b N(0)(A)``, a, b >= 0, the best A is closed under translations u with <u, x> >= 0 and
  <u, x'-x> <= 0. So moving x along such a u, or x' along -u, makes it no smaller. It depends on angles and lengths
  only. To turn x' about the origin away from x is such a move at every angle (the velocity w of x' has <w, x> <= 0 and
  <w, x'-x> = <w, -x> >= 0); with x' opposite to x, so are making x' longer and then x;
- *fixed size, replace*: two sums differ by at most 2 however a record is swapped, so with M = 2/s the curve at eps >= 0
  is that of ((1-q) N(0) + q N(M), N(0)), and below 0 that of the reverse (Balle, Barthe & Gaboardi 2018, Thm 9; Zhu,
  Dong & Wang 2022, Thm 11).

A unit's part may also need its client, which takes part with a probability that is independent of rows, and seen: the
loss is then 0 in the other rounds. Rounds compose by `pld`, whose errors only ever raise delta; grids of losses come
from points z, at which both tails are closed forms.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.special import ndtr, ndtri

from dpml.arrays import Array
from dpml.privacy import gdp, pld
from dpml.privacy.safe import up

Neighbours = Literal["replace", "add_remove", "zero_out"]
Sampling = Literal["none", "poisson", "fixed"]
Mixture = tuple[tuple[float, float], ...]
NONE: Mixture = ((1.0, 0.0),)

_POINTS = 6000  # of a grid
_LOST = 1e-7  # the part of delta that the ends of all grids may have
_COUNTS = 4000  # of rounds with the unit, for an attack


@dataclass(frozen=True)
class SampledGaussian:
    """What a view sees of a unit in all rounds.

    Args:
        noise: the deviation of the noise, over the largest norm of what a unit adds to the sum; positive.
        rounds: how many.
        neighbours: `replace` a unit's part by any other, `add_remove` it, or `zero_out`: it becomes zero.
        sampling: how units come into a sum, which the view does not see. `fixed` size has no pair for `add_remove`.
        rate: the probability that a unit is in a sum, if its client takes part.
        present: the probability that its client takes part in a round, which is seen.
        steps: sums in a round, each of its own sample.
    """

    noise: float
    rounds: int
    neighbours: Neighbours
    sampling: Sampling = "none"
    rate: float = 1.0
    present: float = 1.0
    steps: int = 1

    @property
    def moved(self) -> float:
        """How far a unit that is in the sum moves it, over the noise."""
        return (2 if self.neighbours == "replace" or self.sampling == "fixed" else 1) / self.noise

    @property
    def mu(self) -> float | None:
        """All rounds are mu-GDP; None: they are no Gaussian release."""
        if self.sampling != "none" or self.present < 1:
            return None
        return up(self.moved * math.sqrt(self.rounds * self.steps))

    def eps(self, delta: float) -> float:
        """An eps that is proven at `delta` in (0, 1)."""
        if self.mu is not None:
            return gdp.eps_of(self.mu, delta)
        return _proven(self, delta)

    def reached(self, delta: float) -> float | None:
        """The eps of the best threshold on the sum of all rounds: a lower bound for whoever sees the released model.

        It is that of the final model alone if losses are linear and steps equal; of one round, and of rounds without
        sampling, it is the best attack. None where a client's taking part is seen, or where the sums are of fixed size
        and there are several.
        """
        if self.mu is not None:
            return gdp.eps_of(self.mu, delta) * (1 - 1e-9)
        if self.present < 1 or (self.sampling == "fixed" and self.neighbours != "replace"):
            return None
        return _threshold(self, delta)


@lru_cache(maxsize=256)
def _proven(seen: SampledGaussian, delta: float) -> float:
    reach = -float(ndtri(_LOST * delta / (seen.rounds * seen.steps)))
    worst = 0.0
    for one in _directions(seen, reach):
        if seen.present == 1:
            ways = [(one, seen.rounds * seen.steps)]
        elif seen.steps == 1:
            ways = [(_sometimes(one, seen.present), seen.rounds)]
        else:  # precise for many rounds, whose usual losses count, or for few, whose rare ones do; both are bounds
            steps = (pld.compose([(one, seen.steps)], delta=near) for near in (0.1, delta / seen.rounds / 10))
            ways = [(_sometimes(each, seen.present), seen.rounds) for each in steps]
        worst = max(worst, min(_composed(*way, delta).eps(delta) for way in ways))
    return worst


def _composed(losses: pld.Losses, times: int, delta: float) -> pld.Losses:
    return losses if times == 1 else pld.compose([(losses, times)], delta=delta)


def _directions(seen: SampledGaussian, reach: float) -> list[pld.Losses]:
    """The losses of one sum, a bound for each direction of the neighbours that differs."""
    m, q = seen.moved, seen.rate
    if seen.sampling == "none":
        return [pld.gaussian(up(m))]
    m = up(m)
    some: Mixture = ((1 - q, 0.0), (q, m))
    if seen.sampling == "fixed":
        above, below = _curve(some, NONE, reach), _curve(NONE, some, reach)
        kept = below[0] < 0
        eps = np.concatenate([below[0][kept], [0.0], above[0][above[0] > 0]])
        half = _removed_at_zero(m, q)
        return [pld.from_curve(eps, np.concatenate([below[1][kept], [half], above[1][above[0] > 0]]))]
    if seen.neighbours == "replace":
        return [pld.from_curve(*_curve(((1 - q, 0.0), (q, -m / 2)), ((1 - q, 0.0), (q, m / 2)), reach))]
    return [pld.from_curve(*_curve(*pair, reach)) for pair in ((some, NONE), (NONE, some))]


def _curve(first: Mixture, second: Mixture, reach: float) -> tuple[Array, Array]:
    """eps, ascending, and delta of two mixtures of N(a, 1), (weight, a) each, whose likelihood ratio is monotone."""
    far = reach + max(abs(a) for _, a in (*first, *second))
    z = np.linspace(-far, far, _POINTS)
    eps = _log_ratio(first, z) - _log_ratio(second, z)
    above = 1 if eps[0] < eps[-1] else -1  # on which side of z the loss is larger
    z, eps = z[::above], eps[::above]
    p, q = (np.sum([w * ndtr(above * (a - z)) for w, a in mixture], axis=0) for mixture in (first, second))
    return _safe(eps, p, q, z)


def _log_ratio(mixture: Mixture, z: Array) -> Array:
    """The log of its density at z over that of N(0, 1)."""
    parts = [np.log(w) + a * z - a * a / 2 for w, a in mixture if w]
    return np.asarray(parts[0] if len(parts) == 1 else np.logaddexp(*parts))


def _removed_at_zero(m: float, q: float) -> float:
    """The total variation of both directions."""
    return q * (2 * float(ndtr(m / 2)) - 1) * (1 + 1e-14) + 1e-16


def _safe(eps: Array, first: Array, second: Array, z: Array) -> tuple[Array, Array]:
    """Points of a curve ``first - e^eps second``, rounded up by more than both are off, without points too close."""
    with np.errstate(over="ignore", invalid="ignore"):
        other = np.where(second > 0, np.exp(eps + np.log(np.maximum(second, 5e-324))), 0.0)
    delta = np.maximum(first - other, 0.0) + (16 + 4 * z * z) * 2.0**-52 * (first + other)
    keep = np.append(True, np.diff(eps) > 1e-12 * (1 + np.abs(eps[1:])))
    return eps[keep], np.minimum(delta[keep], 1.0)


def _sometimes(losses: pld.Losses, present: float) -> pld.Losses:
    """The losses of a round that happens with this probability, which is seen."""
    at = int(np.searchsorted(losses.at, 0.0))
    mass = np.insert(losses.mass * present, at, (1 - present) * (1 + 2.0**-50))
    return pld.Losses(np.insert(losses.at, at, 0.0), mass, losses.infinite * present)


def _threshold(seen: SampledGaussian, delta: float) -> float | None:
    """The largest ``log((P - delta) / Q)`` of the tails P and Q of both neighbours' sums, in either direction."""
    from scipy.stats import binom  # slow to load

    rounds = seen.rounds * seen.steps
    if seen.sampling == "fixed" and rounds > 1:
        return None  # what others add is not the same in every round
    q, m = seen.rate, seen.moved / (2 if seen.neighbours == "replace" and seen.sampling == "poisson" else 1)
    low, high = (int(binom.ppf(p, rounds, q)) for p in (delta * 1e-4, 1 - delta * 1e-4))
    if high - low > _COUNTS:
        return None
    counts = np.arange(low, high + 1)
    weights = binom.pmf(counts, rounds, q)[:, None]
    shifts = (counts * m / math.sqrt(rounds))[:, None]
    z = np.linspace(-12 - float(shifts.max()), 12 + float(shifts.max()), 2001)
    rest = max(1 - float(weights.sum()), 0.0) + 1e-15

    def tail(sign: float, above: bool = True) -> Array:  # without the counts that are left out
        return np.asarray((weights * ndtr((sign * shifts - z) * (1 if above else -1))).sum(axis=0))

    if seen.neighbours == "replace" and seen.sampling == "poisson":
        pairs = [(tail(1.0), tail(-1.0) + rest)]
    else:
        nothing = ndtr(-z)
        pairs = [(tail(1.0), nothing), (ndtr(z), tail(1.0, above=False) + rest)]
    best = 0.0
    for first, second in pairs:
        won = (first * (1 - 1e-8) > delta) & (second > 1e-13)
        if won.any():
            best = max(best, float(np.log((first[won] * (1 - 1e-9) - delta) / (second[won] * (1 + 1e-9))).max()))
    return best
