"""Compute the Gaussian-DP parameter mu of the last model of a noisy iteration whose earlier models nobody sees.

The bound is by shifted interpolation (Bok, Su & Altschuler 2024): docs/privacy/kang2019.md, Theorem 2.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from dpml.arrays import Array


def last_iterate_mu(contractions: ArrayLike, moves: ArrayLike, noises: ArrayLike) -> float:
    """Return the mu of the model after T noisy rounds, rounded up; inf if no noise follows a map that a row changes.

    Args:
        contractions: The Lipschitz constant c_t of every round's map, (T,); it may exceed 1.
        moves: The largest change m_t, at any model, of every round's map if a row is replaced, (T,).
        noises: The standard deviation s_t of every round's Gaussian noise, (T,); it may be 0.
    """
    c, m, s = (np.asarray(numbers, dtype=float) for numbers in (contractions, moves, noises))
    if not (c.ndim == 1 and c.shape == m.shape == s.shape):
        raise ValueError(f"contractions, moves and noises must have one length, got {c.shape}, {m.shape}, {s.shape}.")
    if not (np.all((c >= 0) & (c < math.inf)) and np.all((m >= 0) & (m < math.inf)) and np.all(s >= 0)):
        raise ValueError("contractions, moves and noises must be non-negative, contractions and moves finite.")
    forgotten = np.flatnonzero(c == 0)
    if len(forgotten):  # the last model does not depend on rounds before one with c_t = 0
        c, m, s = (numbers[forgotten[-1] :] for numbers in (c, m, s))
    with np.errstate(divide="ignore"):
        later = np.concatenate([np.cumsum(np.log(c[:0:-1]))[::-1], [0.0]]) if len(c) else c
        log_shifts, log_noises = np.log(m), np.log(s)
    # relative error of sums of T logarithms; where a product of contractions is tiny, its error is negligible
    rounding = 8 * np.finfo(float).eps * len(c)
    pieces = _convex_minorant(later + log_shifts, 2 * (later + log_noises))
    shifted = _root_of_sum(2 * pieces[0], pieces[1]) * (1 + rounding * (1 + float(later.max(initial=0.0))))
    return float(min(shifted, _root_of_sum(2 * log_shifts, 2 * log_noises) * (1 + rounding)))


def _convex_minorant(heights: Array, widths: Array) -> tuple[Array, Array]:
    """Given log heights and log widths of a path's steps, return those of its greatest convex minorant's pieces."""
    slopes = _slope(heights, widths)
    first = np.concatenate([[0], 1 + np.flatnonzero(slopes[1:] > slopes[:-1])]) if len(slopes) else np.zeros(0, int)
    if len(first) < len(slopes):
        heights, widths = np.logaddexp.reduceat(heights, first), np.logaddexp.reduceat(widths, first)
        slopes = _slope(heights, widths)
    if np.all(slopes[1:] > slopes[:-1]):
        return heights, widths
    pieces: list[tuple[float, float, float]] = []
    for height, width, slope in zip(heights.tolist(), widths.tolist(), slopes.tolist(), strict=True):
        while pieces and pieces[-1][2] >= slope:
            below = pieces.pop()
            height, width = _log_add(below[0], height), _log_add(below[1], width)
            slope = height - width if width > -math.inf else math.inf
        pieces.append((height, width, slope))
    merged = np.array(pieces)
    return merged[:, 0], merged[:, 1]


def _slope(heights: Array, widths: Array) -> Array:
    """Return log(height / width) for given log heights and log widths; inf if the width is 0."""
    return np.where(widths > -math.inf, heights - np.where(widths > -math.inf, widths, 0.0), math.inf)


def _log_add(a: float, b: float) -> float:
    low, high = (a, b) if a < b else (b, a)
    return high if low == -math.inf or high == math.inf else high + math.log1p(math.exp(low - high))


def _root_of_sum(tops: Array, bottoms: Array) -> float:
    """Return sqrt(sum of e^(tops - bottoms)) without overflow; a term is 0 if its top is -inf."""
    silent = tops == -math.inf
    logs = np.where(silent, -math.inf, tops - np.where(silent, 0.0, bottoms))
    highest = float(logs.max(initial=-math.inf))
    if highest in (-math.inf, math.inf):
        return 0.0 if highest < 0 else math.inf
    with np.errstate(over="ignore"):
        return float(np.exp(highest / 2) * math.sqrt(float(np.exp(logs - highest).sum())))
