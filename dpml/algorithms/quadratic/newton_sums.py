"""Fit logistic regression by Newton's method on noisy sums of gradients, Hessians and, for intervals, outer products.

A row x with the slope s of its loss adds s x to the gradient, |s| (1 - |s|) xx' to the Hessian, and s^2 xx' to the meat
of the sandwich covariance. With discrete noise, a row becomes an integer vector z, and its slope an integer q with |q|
at most Q = 2^9; it then adds q z, |q| (Q - |q|) zz' and q^2 zz'. The proof: docs/privacy/inference.md, Theorem 3.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit

from dpml.algorithms.quadratic.coefficients import entries, polynomial
from dpml.algorithms.quadratic.moments import NewtonMoments, Round
from dpml.arrays import Array, Index, blocks
from dpml.mechanism.discrete import checked, whole_steps
from dpml.privacy.discrete import to_integers
from dpml.privacy.discrete.rounding import Integers
from dpml.program import Carrier, Problem, Release, Statistic, Sum, Terms
from dpml.sums import TALL, PairwiseSum

SHARES = (0.04, 0.04, 0.04, 0.05, 0.08, 0.35, 0.4)
"""The share of mu^2 of each round. The last two rounds give the intervals, and the first rounds find a good model."""
LAST = (len(SHARES) - 2, len(SHARES) - 1)
"""The indices of the last two rounds."""
UNITS = (1.0, 1 / 4, 1 / 4 / math.sqrt(2), math.sqrt(2), 1.0)
"""The relative noise_std of the gradient, the Hessian's diagonal and the entries above it, the meat's diagonal and the
entries above it."""

_SUMS = 1 << 61  # the largest sum of integers
_ROW_BITS, _SLOPE_BITS = 13, 9  # double precision exactly sums 512 products q^2 z_i z_j of such integers
_GOLDEN = (math.sqrt(5) - 1) / 2  # the multiples of this number are evenly spread modulo 1


@dataclass(frozen=True)
class NewtonTerms(Terms["NewtonSums"]):
    """Compute sums of gradients, Hessians, and outer products of gradients over the parties' rows."""

    def total(self, *at: Array) -> Array:
        return self._real(slice(None), *at)

    def each(self, *at: Array) -> Array:
        return np.array([self._real(self.parties.of(k), *at) for k in range(self.parties.problem.M)])

    def _real(self, own: slice, models: Array) -> Array:
        X, y, total = self.parties.X[own], self.parties.y[own], PairwiseSum()
        for some in blocks(len(y), most=TALL):
            slopes = _slopes(models @ X[some].T, y[some])
            total.add(np.array([_packed(X[some], s, 1.0) for s in slopes]))
        return total.result()

    def integers(self, resolutions: Index, secure: bool, *at: Array) -> Integers:
        (models,), parties = at, self.parties
        owners = [parties.of(k) for k in range(parties.problem.M)] if secure else [slice(None)]
        spread = self._in_parties if secure else self._together
        Q, answers = 1 << _SLOPE_BITS, []
        for bits, w in zip(resolutions.tolist(), models, strict=True):
            z = checked(to_integers(parties.X, bits, 1.0), 1 << bits)
            q = np.clip(np.floor(Q * _slopes(_scores(parties.X, w), parties.y) + spread), -Q, Q)
            answers.append([_whole(z[own], q[own], bits) for own in owners])
        return np.stack(answers, axis=1)

    @cached_property
    def _together(self) -> Array:
        return _spread(self.parties.X, self.parties.y)

    @cached_property
    def _in_parties(self) -> Array:
        X, y = self.parties.X, self.parties.y
        return np.concatenate([_spread(X[own], y[own]) for own in map(self.parties.of, range(self.parties.problem.M))])


def _spread(X: Array, y: Array) -> Array:
    """Return an offset in [0, 1) for each row, which is added to the row's loss derivative before rounding down.

    Copies of a row get different offsets, by their order. The sum of all copies' terms thus depends only on the row and
    its number of copies, so the sums of neighbours differ only in the replaced row's terms.
    """
    rows, numbers = np.column_stack([X, y]), np.arange(len(y))
    order = np.lexsort(rows.T)
    new = np.any(np.diff(rows[order], axis=0, prepend=np.nan) != 0, axis=1)
    copies = np.empty(len(y))
    copies[order] = numbers - np.maximum.accumulate(np.where(new, numbers, 0))
    return (0.5 + copies * _GOLDEN) % 1


def _scores(X: Array, w: Array) -> Array:
    """Compute the scores of rows X (n, d) so that equal rows have bitwise equal scores.

    In a matrix product the last bits of a score can depend on the place of its row.
    """
    scores = np.zeros(len(X))
    for some in blocks(*X.shape):
        for column, weight in zip(X[some].T, w.tolist(), strict=True):
            scores[some] += weight * column
    return scores


def _slopes(scores: Array, y: Array) -> Array:
    return -y * expit(-y * scores)


def _packed(X: Array, s: Array, most: float) -> Array:
    size, where = np.abs(s), entries(X.shape[1])
    hessian, meat = (((weights[:, None] * X).T @ X)[where] for weights in (size * (most - size), s * s))
    return np.concatenate([s @ X, hessian, meat])


def _whole(z: Integers, q: Array, bits: int) -> Integers:
    """Return exact sums of integer gradients, Hessians and outer products, given rows z and slopes q as integers."""
    d = z.shape[1]
    total = np.zeros(d + d * (d + 1), np.int64)  # of blocks with sums below 2^53
    for some in blocks(len(z), most=1 << 53 - 2 * (bits + _SLOPE_BITS)):
        total += _packed(z[some].astype(float), q[some], 1 << _SLOPE_BITS).astype(np.int64)
    return total


@dataclass(frozen=True)
class NewtonSums(Statistic):
    """The sums over rows of logistic gradients, Hessians, and outer products of gradients."""

    terms = NewtonTerms

    def lengths(self, d: int) -> tuple[int, ...]:
        above = d * (d - 1) // 2
        return (d, d, above, d, above)

    def largest(self, problem: Problem) -> float:
        return problem.N

    def resolution(self, widths: Sequence[float], problem: Problem) -> int:
        """Return the number of fractional bits of rounded rows, at most 13, so that noisy sums fit into 64 bits."""
        slope = 4**_SLOPE_BITS
        finest = min(4**_ROW_BITS, _SUMS // (problem.N * slope))
        return (whole_steps(finest, max(widths) * slope).bit_length() - 1) // 2

    def steps(self, resolution: int, problem: Problem) -> tuple[float, ...]:
        step = 0.5 ** (resolution + _SLOPE_BITS)
        return (step, *(step**2,) * 4)

    def state(self, d: int) -> tuple[str, tuple[int, ...]]:
        return "<f8", (d,)


def newton_messages(mu: float) -> tuple[Sum, ...]:
    """Return the noisy sums of all Newton rounds, which together spend `mu`."""
    return tuple(Sum(NewtonSums(), 2.0, 2.0 / (math.sqrt(share) * mu), UNITS) for share in SHARES)


def newton_release(carrier: Carrier) -> Release:
    """Run Newton's method on noisy sums, and combine its last two rounds to estimate the regression coefficients."""
    d, rows = carrier.problem.d, carrier.problem.N
    half = d + d * (d + 1) // 2
    w, rounds = np.zeros((len(carrier.budgets) * carrier.draws, d)), []
    for number in range(len(SHARES)):
        sums = carrier.ask(number, w)
        gradient, hessian = polynomial(sums[:, :half], d, 1, 0.0)
        _, meat = polynomial(sums[:, half:], d, 1, 0.0)
        noises = carrier.per_run([float(messages[number].noise * carrier.widening) for messages in carrier.messages])
        parts = zip(w, gradient, hessian, meat, noises.tolist(), strict=True)
        rounds.append([Round(*sums_of_run, carrier.scaled_up) for sums_of_run in parts])
        w = np.array([each.next_model() for each in rounds[-1]])
    runs = [NewtonMoments(*each, rows) for each in zip(rounds[0], rounds[-2], rounds[-1], strict=True)]
    weights = np.array([moments.estimated().coefficients for moments in runs])
    return Release(carrier.by_budget(weights), {}, runs[0] if len(runs) == 1 else None)
