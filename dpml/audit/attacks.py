"""Attacks: tests that distinguish the releases of two neighbours."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array
from dpml.audit.exposure import BlackBox, Exposure
from dpml.audit.transcript import Transcript

LEARNED, RATIO, MATCHED = "learned direction", "likelihood ratio", "matched filter"
MEDIANS, NORMALS = "learned medians", "learned normal laws"


class Attack(NamedTuple):
    """`score` gives a number (draws,) for what is seen (draws, k), higher for the second data set.

    `normal`: whether the scores are normal with one variance under both, if the noise is as specified.
    """

    name: str
    score: Callable[[Array], Array]
    normal: bool = False


def informed(exposure: Exposure, first: Array, second: Array, rng: Generator) -> tuple[list[Attack], float]:
    """The attacks that know everything but the noise, and the mu of the pair (`Exposure.mu`).

    They are trained on observations of either data set, (n, k). `rng` is the attacker's own.
    """
    if isinstance(exposure, BlackBox):
        return [Attack(MEDIANS, learn_medians(first, second)), Attack(NORMALS, learn_normals(first, second))], math.nan
    if isinstance(exposure, Transcript):
        return _of_rounds(exposure, first, second, rng)
    return ([Attack(RATIO, exposure.score, exposure.normal)] if exposure.score else []), exposure.mu


def _of_rounds(exposure: Transcript, first: Array, second: Array, rng: Generator) -> tuple[list[Attack], float]:
    """The likelihood ratio of a run, and a score that is exactly normal.

    The information in a run, the sum of the squared shifts, depends on the models. The second attack stops as soon as
    that reaches C^2, which nearly every run does, and adds noise of its own for what the last round has beyond it. A
    sum of normal numbers with weights m_t, chosen before each is seen, of which the squares sum to C^2 in every run, is
    N(0, C^2), because exp(x sum - x^2 C^2/2) has the mean 1 for every x. So the score is N(0, C^2) or N(C^2, C^2), and
    the pair surely shows ``mu = C``; it may show more.
    """
    enough = min(float(np.sum(exposure.along(seen)[1] ** 2, axis=1).min()) for seen in (first, second))

    def ratio(seen: Array) -> Array:
        along, length = exposure.along(seen)
        score: Array = np.einsum("bt,bt->b", along, length) - np.einsum("bt,bt->b", length, length) / 2
        return score

    def stopped(seen: Array) -> Array:
        along, length = exposure.along(seen)
        shown = np.minimum(np.cumsum(length**2, axis=1), enough)
        gained = np.diff(shown, axis=1, prepend=0.0)
        weights = np.divide(gained, length, out=np.zeros_like(length), where=length > 0)
        missing = np.sqrt(np.maximum(enough - np.sum(weights**2, axis=1), 0.0))
        score: Array = np.einsum("bt,bt->b", weights, along) + missing * rng.standard_normal(len(seen))
        return score

    if not exposure.gaussian:
        return [Attack(MATCHED, ratio)], math.nan
    return [Attack(RATIO, ratio), Attack(RATIO, stopped, normal=True)], math.sqrt(enough)


def uninformed(exposure: Exposure, first: Array, second: Array) -> Attack:
    """The direction that separates observations of the two data sets, (n, k), best, without knowing the mechanism."""

    visible = exposure.numbers if isinstance(exposure, Transcript) else lambda seen: seen
    project = learn_direction(visible(first), visible(second))
    return Attack(LEARNED, lambda seen: project(visible(seen)))


def learn_direction(first: Array, second: Array) -> Callable[[Array], Array]:
    """The projection of observations, (n, k) -> (n,), that separates two samples best: Fisher's discriminant."""
    both = np.concatenate([first, second])
    both[np.isnan(both)] = 0.0
    low, centre, high = np.quantile(both, [0.25, 0.5, 0.75], axis=0)
    spread = np.where(high > low, high - low, np.where(both.std(axis=0) > 0, both.std(axis=0), 1.0))

    def standard(seen: Array) -> Array:
        scaled = np.clip((seen - centre) / spread, -4, 4)
        scaled[np.isnan(scaled)] = 4.0  # or one release that is no number would leave nothing to be learned
        return scaled

    a, b = standard(first), standard(second)
    within = np.cov(a, rowvar=False) + np.cov(b, rowvar=False)
    k = first.shape[1]
    within = np.reshape(within, (k, k)) + 1e-9 * np.eye(k)
    direction = np.linalg.solve(within, b.mean(axis=0) - a.mean(axis=0))

    def project(seen: Array) -> Array:
        projected: Array = standard(seen) @ direction
        return projected

    return project


def learn_medians(first: Array, second: Array) -> Callable[[Array], Array]:
    """The log of the likelihood ratio of independent Laplace coordinates, as two samples (n, k) suggest them."""
    centres = [np.median(each, axis=0) for each in (first, second)]
    wide = sum(np.mean(np.abs(each - at), axis=0) for each, at in zip((first, second), centres, strict=True)) / 2
    wide = np.where(wide > 0, wide, 1.0)

    def score(seen: Array) -> Array:
        closer: Array = np.sum((np.abs(seen - centres[0]) - np.abs(seen - centres[1])) / wide, axis=1)
        return np.round(closer, 9)  # beyond both medians it is constant, but for low bits, which tell of floats only

    return score


def learn_normals(first: Array, second: Array) -> Callable[[Array], Array]:
    """The log of the likelihood ratio of the normal laws that two samples (n, k) suggest: also their spreads tell."""
    k = first.shape[1]
    unit = np.where((spread := first.std(axis=0) + second.std(axis=0)) > 0, spread, 1.0)

    def log_density(sample: Array) -> Callable[[Array], Array]:
        centre = sample.mean(axis=0)
        covariance = np.reshape(np.cov((sample - centre) / unit, rowvar=False), (k, k)) + 1e-9 * np.eye(k)
        inverse, (_, log_volume) = np.linalg.inv(covariance), np.linalg.slogdet(covariance)

        def at(seen: Array) -> Array:
            apart = (seen - centre) / unit
            found: Array = -(np.einsum("ni,ij,nj->n", apart, inverse, apart) + log_volume) / 2
            return found

        return at

    before, after = log_density(first), log_density(second)
    return lambda seen: after(seen) - before(seen)
