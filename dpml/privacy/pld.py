"""Compose releases by privacy loss distributions, rounded so that delta is never too small.

docs/privacy.md ("Several releases") has the proof. If swapping the neighbours changes the losses, each order is
composed separately. The library dp-accounting does not bound the error of its FFTs at a delta below 1e-9.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import gammaln

from dpml.arrays import Array

_ULP = 2.0**-53
_REACH, _OUTSIDE = 12.0, 2e-33  # a normal loss is cut off at so many standard deviations; the probability beyond them
_LEAST = -140.0  # losses with a smaller log probability are merged
_TAIL = 40.0  # the part of a tilted distribution outside a window is at most e^-40
_DEEPEST = -75.0  # log of the least delta that is distinguished from 0
_FEW, _MANY = 1 << 16, 1 << 20  # least and largest number of points of a window
_WIDE = 1 << 21  # the largest loss of a single release, in steps of the grid
_SPREAD = 1e-4  # rounding the losses to a grid may add this share of their variance
_SLACK = 1e-14  # relative error of a probability
FADED = -700.0  # log of a negligible probability; exp takes twenty times as long where it underflows


@dataclass(frozen=True)
class Losses:
    """An upper bound on a privacy loss distribution: Pr[loss = at[i]] is mass[i], and Pr[loss = inf] is `infinite`."""

    at: Array
    mass: Array
    infinite: float = 0.0

    @cached_property
    def centred(self) -> tuple[float, Array, Array]:
        middle = float(self.at[np.argmax(self.mass)])
        with np.errstate(divide="ignore"):
            return middle, self.at - middle, np.log(self.mass)

    def delta(self, eps: float) -> float:
        """Return the delta at `eps`, which is ``E[(1 - e^(eps - loss))+]``."""
        first = int(np.searchsorted(self.at, eps, side="right"))
        return min(self.infinite + self._finite_delta(first, eps), 1.0)

    def _finite_delta(self, first: int, eps: float) -> float:
        total = float(-np.expm1(eps - self.at[first:]) @ self.mass[first:])
        return total * (1 + (len(self.at) + 8) * _ULP)  # covers the rounding errors of the sum

    def eps(self, delta: float) -> float:
        """Return the least eps >= 0 at `delta`; inf if the probability of an infinite loss is at least `delta`."""
        if self.infinite >= delta:
            return math.inf
        if self.delta(0.0) <= delta:
            return 0.0
        left = (delta - self.infinite) * (1 - 1e-12)  # covers the rounding of the interpolation below
        low, high = int(np.searchsorted(self.at, 0.0, side="right")), len(self.at)
        while low < high:  # find the first loss at which delta is small enough; delta is 0 at the last one
            middle = (low + high) // 2
            if self._finite_delta(middle + 1, float(self.at[middle])) <= left:
                high = middle
            else:
                low = middle + 1
        top = float(self.at[low])
        below = max(float(self.at[low - 1]) if low else 0.0, 0.0)
        # delta is linear in e^eps between two neighbouring losses
        over, under = self._finite_delta(low, below), self._finite_delta(low + 1, top)
        share = min((over - left) / (over - under), 1.0) if over > under else 1.0
        gap = top - below
        step = math.log1p(share * math.expm1(gap)) if gap < 1 else gap + math.log(share + (1 - share) * math.exp(-gap))
        return min(below + step, top) * (1 + 4 * _ULP)


def gaussians(mus: Array, weights: Array, panels: int = 512) -> Losses:
    """Return the privacy losses of a mu-GDP Gaussian release whose mu is random, but known to the observer.

    The values `mus` (k,) have probabilities `weights` (k,). The loss is ``mu^2/2 + mu z``, z ~ N(0, 1). Gauss's rule
    splits the probability of an interval of z between its ends, with a relative error below 1e-14 for |z| <= 12.
    """
    nodes, node_weights = leggauss(6)
    edges = np.linspace(-_REACH, _REACH, panels + 1)
    width = edges[1] - edges[0]
    inside = width * (1 + nodes) / 2
    z = edges[:-1, None] + inside
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * node_weights * width / 2 * (1 + _SLACK)
    upper, whole = np.empty((len(mus), panels)), density.sum(axis=1)
    for j, m in enumerate(mus):
        # an interval's upper end gets the share that preserves its probabilities under P and Q, or 1, which is safe
        flat = m * width < 1e-12
        share = inside / width if flat else np.expm1(-m * inside) / np.expm1(-m * width) if m * width < 1 else 1.0
        upper[j] = (density * share).sum(axis=1)
    mass = np.zeros((len(mus), panels + 1))
    mass[:, 1:] = upper
    mass[:, :-1] += np.maximum(whole - upper, 0.0)
    mass[:, 0] += _OUTSIDE
    at = mus[:, None] * (mus[:, None] / 2 + edges)
    order = np.argsort(at, axis=None)
    masses = (mass * weights[:, None]).ravel()
    return Losses(at.ravel()[order], masses[order], _OUTSIDE * float(weights.sum()))


def gaussian(mu: float) -> Losses:
    """Return the privacy losses of a mu-GDP release."""
    return gaussians(np.array([mu]), np.ones(1), 1 << 12)


def pure(eps: float, times: int = 1) -> Losses:
    """Return the privacy losses of `times` eps-DP releases; randomised response is worst (Kairouz et al. 2015)."""
    lies = np.arange(times, -1, -1.0)
    log_truth, log_lie = -np.log1p(np.exp(-eps)), -np.logaddexp(0.0, eps)
    ways = gammaln(times + 1) - gammaln(lies + 1) - gammaln(times - lies + 1)
    log_mass = ways + (times - lies) * log_truth + lies * log_lie
    # each term has an error of a few ulps of the largest term
    slack = 16 * _ULP * (gammaln(times + 1) + (times + 1) * (1 + eps))
    log_mass += slack
    kept = log_mass > _LEAST
    low, high = np.flatnonzero(kept)[[0, -1]]
    mass = np.exp(log_mass[low : high + 1])
    mass[0] += times * math.exp(_LEAST)
    at = (times - 2 * lies[low : high + 1]) * eps
    return Losses(at + 2 * _ULP * np.abs(at), mass, times * math.exp(_LEAST) if high < times else 0.0)


def from_curve(eps: Array, delta: Array) -> Losses:
    """Convert points (eps, delta) of a privacy curve to privacy losses; `eps` (n,) must be ascending.

    Every privacy curve is convex in e^eps, so lines between the points are an upper bound.
    """
    eps, delta = eps[eps > eps[-1] - 650], delta[eps > eps[-1] - 650]  # e^eps of the other points is negligible
    x = np.exp(eps - eps[-1])  # relative to the last point
    kept: list[int] = []
    heights = np.concatenate([[1.0], delta])
    at = np.concatenate([[0.0], x])
    for i in range(len(at)):
        while len(kept) > 1 and _not_below_chord(at, heights, kept[-2], kept[-1], i):
            kept.pop()
        kept.append(i)
    slopes = np.append(np.diff(heights[kept]) / np.diff(at[kept]), 0.0)
    # the delta at the curve's end counts as an infinite loss, not as a part of the last point's mass
    mass = np.maximum(np.diff(slopes), 0.0) * at[kept][1:] * (1 + _SLACK)
    return Losses(eps[np.array(kept[1:]) - 1], mass, float(heights[-1]))


def _not_below_chord(x: Array, y: Array, a: int, b: int, c: int) -> bool:
    return bool((y[b] - y[a]) * (x[c] - x[a]) >= (y[c] - y[a]) * (x[b] - x[a]))


def compose(parts: Sequence[tuple[Losses, int]], *, delta: float = 0.0, eps: float = 0.0) -> Losses:
    """Compose `parts` of (privacy losses, number of releases); the result is most precise near `delta` or `eps`."""
    infinite = -math.expm1(sum(count * math.log1p(-min(part.infinite, 1 - _ULP)) for part, count in parts))
    if infinite >= delta > 0:
        return Losses(np.zeros(1), np.ones(1), infinite)
    tilt = _tilt(parts, math.log(delta - infinite) if delta else None, eps)
    low, high = _window(parts, tilt)
    releases = sum(count for _, count in parts)
    step = min(math.sqrt(6 * _SPREAD * _moments(parts, tilt)[2] / releases), (high - low) / _FEW)
    step = max(step, (high - low) / _MANY, _largest(parts) / _WIDE)

    grids = [(*_on_grid(part, step), count) for part, count in parts]
    parts = [(Losses(step * (k + np.arange(len(mass), dtype=float)), mass), count) for k, mass, count in grids]
    low, high = _window(parts, tilt)
    first = math.floor(low / step)
    n = 1 << max(1, math.ceil(math.log2(high / step - first + 2)))
    log_moment, mean, _ = _moments(parts, tilt)
    log_moment += releases * _SLACK
    tilted = np.roll(_power(parts, grids, tilt, n), -(first % n))
    at = step * (first + np.arange(n, dtype=float))
    with np.errstate(under="ignore", divide="ignore"):
        mass = np.exp(np.clip(np.log(tilted) + (log_moment + tilt * (mean - at)), FADED, 1.0))
    # values above the sum of the largest losses are numerical errors
    at = np.minimum(at, sum(count * float(part.at[-1]) for part, count in parts))
    beyond = math.exp(min(log_moment - _TAIL + tilt * (mean - step * (first + n - 1)), 0.0))
    return Losses(at, mass, min(infinite + beyond, 1.0))


def _moments(parts: Sequence[tuple[Losses, int]], tilt: float) -> tuple[float, float, float]:
    """Return log E[e^(tilt L)] of the sum L of privacy losses, and the mean and variance of L weighted by e^(tilt L).

    The logarithm is reduced by ``tilt * mean``, because losses may be large compared with their standard deviation.
    """
    log_moment = mean = variance = 0.0
    for part, count in parts:
        middle, apart, log_mass = part.centred
        with np.errstate(under="ignore"):
            exponents = tilt * apart + log_mass
            top = float(exponents.max())
            weights = np.exp(np.maximum(exponents - top, FADED))
        total = float(weights.sum())
        centre = float(weights @ apart) / total
        log_moment += count * (top + math.log(total) - tilt * centre)
        mean += count * (middle + centre)
        variance += count * float(weights @ (apart - centre) ** 2) / total
    return log_moment, mean, variance


def _tilt(parts: Sequence[tuple[Losses, int]], log_delta: float | None, eps: float) -> float:
    """Choose the tilt at which the Chernoff bound is e^log_delta or, if that is None, the tilted mean loss is `eps`."""
    # every tilt gives a valid bound
    top = sum(count * float(part.at[-1]) for part, count in parts)

    def short(tilt: float) -> bool:
        log_moment, mean, _ = _moments(parts, tilt)
        if tilt * (top - mean) < 0.01 or log_moment < _DEEPEST:
            return False
        return mean < eps if log_delta is None else log_moment > log_delta

    unit = 1 / max(math.sqrt(_moments(parts, 0.0)[2]), 1e-9 * _largest(parts))
    low, high = 1e-3 * unit, 1e-3 * unit
    if not short(low):
        return 0.0
    while short(high) and high < 1e6 * unit:
        low, high = high, 4 * high
    for _ in range(6):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if short(middle) else (low, middle)
    return high


def _largest(parts: Sequence[tuple[Losses, int]]) -> float:
    return max(float(np.abs(part.at[[0, -1]]).max()) for part, _ in parts) + 1e-300


def _window(parts: Sequence[tuple[Losses, int]], tilt: float) -> tuple[float, float]:
    """Return an interval of the sum L of losses; weighted by e^(tilt L), each tail outside has mass at most e^-40."""
    log_moment, mean, variance = _moments(parts, tilt)
    low = sum(count * float(part.at[0]) for part, count in parts)
    high = sum(count * float(part.at[-1]) for part, count in parts)
    unit = math.sqrt(2 * _TAIL) / max(math.sqrt(variance), 1e-9 * _largest(parts))
    for more in unit * 2.0 ** np.arange(-3, 4):
        above, mean_above, _ = _moments(parts, tilt + more)
        below, mean_below, _ = _moments(parts, tilt - more)
        high = min(high, mean_above + (above - log_moment + tilt * (mean_above - mean) + _TAIL) / more)
        low = max(low, mean_below - (below - log_moment + tilt * (mean_below - mean) + _TAIL) / more)
    return min(low, high), high


def _on_grid(part: Losses, step: float) -> tuple[int, Array]:
    """Round losses to multiples of `step` on the safe side; return the first multiple and the probabilities (k,)."""
    at = part.at + 4 * _ULP * np.abs(part.at)
    below = np.floor(at / step)
    inside = np.clip(at - below * step, 0.0, step)
    share = np.expm1(-inside) / math.expm1(-step)
    first = int(below.min())
    cells = (below - first).astype(np.int64)
    size = int(cells.max()) + 2
    upper = np.bincount(cells + 1, part.mass * share * (1 + _SLACK), size)
    return first, np.asarray(upper + np.bincount(cells, part.mass * (1 - share), size), dtype=float)


def _power(parts: Sequence[tuple[Losses, int]], grids: Sequence[tuple[int, Array, int]], tilt: float, n: int) -> Array:
    """Bound the probabilities of the sum L of losses, weighted by e^(tilt L), from above on a cyclic grid (n,)."""
    relative = 8 * math.log2(n) * _ULP  # relative error of an FFT
    log_size, log_most = np.zeros(n // 2 + 1), np.zeros(n // 2 + 1)
    angle, rounding = np.zeros(n // 2 + 1), np.zeros(n // 2 + 1)
    for (part, count), (first, mass, _) in zip(parts, grids, strict=True):
        log_moment, mean, _ = _moments([(part, 1)], tilt)
        with np.errstate(divide="ignore", under="ignore"):
            weights = np.exp(np.maximum(np.log(mass) + (tilt * (part.at - mean) - log_moment), FADED))
            spectrum = np.fft.rfft(np.bincount((first + np.arange(len(mass))) % n, weights, n))
            size = np.abs(spectrum)
            log_size += count * np.log(size)
        log_most += count * np.log(size + relative)
        angle += count * np.angle(spectrum)
        rounding += count * 4 * _ULP * (math.pi + np.abs(np.log(size + relative)))
    with np.errstate(under="ignore"):
        most = np.exp(log_most)
        error = most * (-np.expm1(log_size - log_most) + rounding + relative)
        sums = np.fft.irfft(np.exp(log_size) * np.exp(1j * angle), n)
    return np.maximum(sums + 2 * float(error.sum()) / n, 0.0)
