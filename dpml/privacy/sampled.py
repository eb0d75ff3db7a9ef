"""Bound the eps of Gaussian noise on sums over samples of rows or parties (docs/privacy.md, "Sampled rounds")."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.special import ndtr, ndtri

from dpml.arrays import Array
from dpml.errors import UserError
from dpml.privacy import gdp, pld
from dpml.privacy.safe import round_down, round_up

Neighbours = Literal["replace", "add_remove", "zero_out"]
Sampling = Literal["none", "poisson", "fixed", "random_allocation"]
Mixture = tuple[tuple[float, float], ...]
NONE: Mixture = ((1.0, 0.0),)

_POINTS = 6000  # points of a grid of losses
_LOST = 1e-7  # the share of delta for losses above the grids of all sums, which count as infinite
_COUNTS = 4000  # no test if the number of sums that contain the unit has more than so many likely values


@dataclass(frozen=True)
class SampledGaussian:
    """Noisy sums over random samples, from which an observer may learn about one unit (a row or a party).

    Args:
        noise: The noise_std, relative to the largest norm of a unit's contribution; positive.
        rounds: The number of rounds.
        neighbours: `replace` a unit's contribution by any other, `add_remove` it, or `zero_out` (set it to zero).
        sampling: How the units of a sum are sampled, unseen by the observer; `fixed` (size) excludes `add_remove`. With
            `random_allocation`, which excludes `replace`, each unit is in exactly one random sum per round.
        rate: The probability that a sum contains a given unit, if the unit's client takes part in the round.
        present: The probability that the client with the unit takes part in a round; the observer sees whether it does.
        steps: The number of sums per round, each over its own sample.
    """

    noise: float
    rounds: int
    neighbours: Neighbours
    sampling: Sampling = "none"
    rate: float = 1.0
    present: float = 1.0
    steps: int = 1

    @property
    def ratio(self) -> float:
        return (2 if self.neighbours == "replace" or self.sampling == "fixed" else 1) / self.noise

    @property
    def mu(self) -> float | None:
        """The mu of all rounds together; None if units or clients are sampled, so rounds are not Gaussian releases."""
        if self.sampling != "none" or self.present < 1:
            return None
        return round_up(self.ratio * math.sqrt(self.rounds * self.steps))

    def eps(self, delta: float) -> float:
        """Return an eps that is proven for all sums together at `delta` in (0, 1)."""
        if self.mu is not None:
            return gdp.eps_of(self.mu, delta)
        return _allocated(self, delta) if self.sampling == "random_allocation" else _proven(self, delta)

    def reached(self, delta: float) -> float | None:
        """Return a lower bound on the final model's eps, from hypothesis tests on the total of all rounds' noisy sums.

        For one sum or without sampling, there is no better test. The result is None if ``present < 1``, for samples
        of fixed size (except one sum with `replace`), and if the number of the unit's sums varies too much (`_COUNTS`).
        """
        if self.mu is not None:
            return gdp.eps_of(self.mu, delta) * (1 - 1e-9)
        if self.sampling == "random_allocation":  # the total of all sums contains the unit once per round
            return gdp.eps_of(self.ratio * math.sqrt(self.rounds / self.steps), delta) * (1 - 1e-9)
        if self.present < 1 or (self.sampling == "fixed" and self.neighbours != "replace"):
            return None
        return _threshold(self, delta)


@lru_cache(maxsize=256)
def _allocated(seen: SampledGaussian, delta: float) -> float:
    """Bound eps from above for random allocation, with the library of Feldman & Shenfeld (arXiv 2602.17284)."""
    try:
        from PLD_accounting import gaussian_allocation_epsilon_range
    except ImportError:
        raise UserError("row_sampling=random_allocation needs pld-accounting: pip install pld-accounting.") from None
    above, _ = gaussian_allocation_epsilon_range(
        delta=delta, sigma=round_down(seen.noise), num_steps=seen.steps, num_epochs=seen.rounds
    )
    return round_up(above)


@lru_cache(maxsize=256)
def _proven(seen: SampledGaussian, delta: float) -> float:
    reach = -float(ndtri(_LOST * delta / (seen.rounds * seen.steps)))
    worst = 0.0
    for losses in _directions(seen, reach):
        if seen.present == 1:
            ways = [(losses, seen.rounds * seen.steps)]
        elif seen.steps == 1:
            ways = [(_sometimes(losses, seen.present), seen.rounds)]
        else:  # the first bound is precise for many rounds, the second for few, where eps is decided by rare losses
            steps = (pld.compose([(losses, seen.steps)], delta=near) for near in (0.1, delta / seen.rounds / 10))
            ways = [(_sometimes(each, seen.present), seen.rounds) for each in steps]
        worst = max(worst, min(_composed(*way, delta).eps(delta) for way in ways))
    return worst


def _composed(losses: pld.Losses, times: int, delta: float) -> pld.Losses:
    return losses if times == 1 else pld.compose([(losses, times)], delta=delta)


def _directions(seen: SampledGaussian, reach: float) -> list[pld.Losses]:
    """Return the privacy loss distributions of one noisy sum: two if the order of the neighbours matters, else one."""
    m, q = seen.ratio, seen.rate
    if seen.sampling == "none":
        return [pld.gaussian(round_up(m))]
    m = round_up(m)
    some: Mixture = ((1 - q, 0.0), (q, m))
    if seen.sampling == "fixed":
        above, below = _curve(some, NONE, reach), _curve(NONE, some, reach)
        kept = below[0] < 0
        eps = np.concatenate([below[0][kept], [0.0], above[0][above[0] > 0]])
        half = _total_variation(m, q)
        return [pld.from_curve(eps, np.concatenate([below[1][kept], [half], above[1][above[0] > 0]]))]
    if seen.neighbours == "replace":
        return [pld.from_curve(*_curve(((1 - q, 0.0), (q, -m / 2)), ((1 - q, 0.0), (q, m / 2)), reach))]
    return [pld.from_curve(*_curve(*pair, reach)) for pair in ((some, NONE), (NONE, some))]


def _curve(first: Mixture, second: Mixture, reach: float) -> tuple[Array, Array]:
    """Return the privacy curve (ascending eps, deltas) of two Gaussian mixtures with a monotone likelihood ratio."""
    far = reach + max(abs(a) for _, a in (*first, *second))
    z = np.linspace(-far, far, _POINTS)
    eps = _log_ratio(first, z) - _log_ratio(second, z)
    above = 1 if eps[0] < eps[-1] else -1  # 1 if the loss grows with z
    z, eps = z[::above], eps[::above]
    p, q = (np.sum([w * ndtr(above * (a - z)) for w, a in mixture], axis=0) for mixture in (first, second))
    return _safe(eps, p, q, z)


def _log_ratio(mixture: Mixture, z: Array) -> Array:
    parts = [np.log(w) + a * z - a * a / 2 for w, a in mixture if w]
    return np.asarray(parts[0] if len(parts) == 1 else np.logaddexp(*parts))


def _total_variation(m: float, q: float) -> float:
    return q * (2 * float(ndtr(m / 2)) - 1) * (1 + 1e-14) + 1e-16


def _safe(eps: Array, first: Array, second: Array, z: Array) -> tuple[Array, Array]:
    """Return points (eps, delta) of a privacy curve, rounded up by more than the numerical errors."""
    with np.errstate(over="ignore", invalid="ignore"):
        other = np.where(second > 0, np.exp(eps + np.log(np.maximum(second, 5e-324))), 0.0)
    delta = np.maximum(first - other, 0.0) + (16 + 4 * z * z) * 2.0**-52 * (first + other)
    keep = np.append(True, np.diff(eps) > 1e-12 * (1 + np.abs(eps[1:])))
    return eps[keep], np.minimum(delta[keep], 1.0)


def _sometimes(losses: pld.Losses, present: float) -> pld.Losses:
    at = int(np.searchsorted(losses.at, 0.0))
    mass = np.insert(losses.mass * present, at, (1 - present) * (1 + 2.0**-50))
    return pld.Losses(np.insert(losses.at, at, 0.0), mass, losses.infinite * present)


def _threshold(seen: SampledGaussian, delta: float) -> float | None:
    from scipy.stats import binom  # slow to load

    rounds = seen.rounds * seen.steps
    if seen.sampling == "fixed" and rounds > 1:
        return None  # no test is known: the contributions of other units differ between rounds
    q, m = seen.rate, seen.ratio / (2 if seen.neighbours == "replace" and seen.sampling == "poisson" else 1)
    low, high = (int(binom.ppf(p, rounds, q)) for p in (delta * 1e-4, 1 - delta * 1e-4))
    if high - low > _COUNTS:
        return None
    counts = np.arange(low, high + 1)
    weights = binom.pmf(counts, rounds, q)[:, None]
    shifts = (counts * m / math.sqrt(rounds))[:, None]
    z = np.linspace(-12 - float(shifts.max()), 12 + float(shifts.max()), 2001)
    rest = max(1 - float(weights.sum()), 0.0) + 1e-15

    def tail(sign: float, above: bool = True) -> Array:  # omits unlikely counts
        return np.asarray((weights * ndtr((sign * shifts - z) * (1 if above else -1))).sum(axis=0))

    if seen.neighbours == "replace" and seen.sampling == "poisson":
        pairs = [(tail(1.0), tail(-1.0) + rest)]
    else:
        nothing = ndtr(-z)
        pairs = [(tail(1.0), nothing), (ndtr(z), tail(1.0, above=False) + rest)]
    best = 0.0
    for first, second in pairs:
        valid = (first * (1 - 1e-8) > delta) & (second > 1e-13)
        if valid.any():
            best = max(best, float(np.log((first[valid] * (1 - 1e-9) - delta) / (second[valid] * (1 + 1e-9))).max()))
    return best
