"""Measure how much a release's sums change between neighbouring data sets, relative to the proven sensitivity."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import PCG64

from dpml.arrays import Array
from dpml.audit.exposure import Pair, Quiet, difference, prepared
from dpml.audit.neighbours import with_rows
from dpml.errors import UserError
from dpml.mechanism.carriers import Carrier, Prepared
from dpml.mechanism.message import Sum, eps_of, mu_of
from dpml.mechanism.program import Program
from dpml.privacy import Budget

_COPIES = 0.05  # the share of copied rows
_MODELS = 4  # models that are compared at once
_ROUNDS, _ROWS = 8, 3_000_000  # compare at most so many first rounds, with at most so many rows in total


def moved(algorithm: Any, budget: Budget, pairs: Sequence[Pair]) -> float:
    """Return the largest ratio of measured to proven sensitivity over several pairs of data sets."""
    ratios = []
    for pair in pairs:
        with suppress(UserError):  # the solver may not converge
            ratios.append(ratio(algorithm, pair, budget))
    return max((each for each in ratios if not math.isnan(each)), default=math.nan)


def ratio(algorithm: Any, pair: Pair, budget: Budget) -> float:
    """Compare a few sums of one pair of data sets, and return the largest ratio of measured to proven sensitivity."""
    if not isinstance(algorithm, Program):
        return math.nan
    carrier = Beside(prepared(algorithm, pair), budget)
    with suppress(_EnoughError):
        algorithm.run(carrier)
    return carrier.farthest


class _EnoughError(Exception):
    """Raised to stop a release after enough sums have been compared."""


class Beside(Carrier):
    """Run an algorithm on the first data set, and compare both data sets' noiseless sums at the models of this run."""

    def __init__(self, both: Sequence[Prepared], budget: Budget) -> None:
        super().__init__(both[0], [budget], np.random.default_rng(0), _MODELS, None)
        self.quiet = [Carrier(each, [budget], Quiet(PCG64(0)), _MODELS, None) for each in both]
        rounds = max(1, min(_ROUNDS, _ROWS // self.problem.N))
        self.farthest, self.left = 0.0, dict.fromkeys(range(len(self.messages[0])), rounds)

    def ask(self, number: int, *at: Any) -> Array:
        message, of, d = self.messages[0][number], self.statistic(number), self.problem.d
        units = np.repeat(np.array(message.units) * of.deviations(d), of.lengths(d))
        first, second = (quiet.ask(number, *at) for quiet in self.quiet)
        order = 1 if message.law == "laplace" else 2
        moves = np.linalg.norm(difference(first, second) / np.where(units > 0, units, 1.0), order, axis=-1)
        self.farthest = max(self.farthest, float(moves.max()) / counted(message, self))
        self.left[number] -= 1
        if not any(left > 0 for left in self.left.values()):
            raise _EnoughError
        return super().ask(number, *at)


def counted(message: Sum, carrier: Carrier) -> float:
    """Return the proof's sensitivity of a sum, including rounding, if block j is divided by ``message.units[j]``."""
    one, discrete = replace(message, times=1, joined=None), carrier.algorithm.noise == "discrete"
    if message.pure:
        return message.noise * eps_of((one,), carrier.problem, discrete)
    return message.sensitivity * mu_of((one,), carrier.problem, discrete) / one.mu


def rounding_pairs(pair: Pair, unit: str, tries: int = 2) -> list[Pair]:
    """Return neighbouring data sets whose sums have large rounding errors; the parties are as large as in `pair`.

    Labels are equal, so that sums grow with every row, or balanced, so that large parts of a sum cancel. In every third
    pair, one row in twenty is a copy of another row, and a copy is replaced. Code that merges equal rows then adds the
    rows of the two data sets in different orders.
    """
    parties, (N, d) = pair[0], pair[0].X.shape
    low, high = (0.0, 1.0) if parties.data.task == "multiclass" else (-1.0, 1.0)
    alike, balanced = np.full(N, high), np.where(np.arange(N) % 2, low, high)
    long, last = np.eye(1, d) * (1 - 1e-15), parties.of(len(parties.sizes) - 1)
    found = []
    for rng in np.random.default_rng(0).spawn(tries):
        X = np.zeros((N, d))
        X[:, 0] = rng.uniform(0.85, 0.95, N)
        X[:, 1:] = rng.uniform(-0.3, 0.3, (N, d - 1)) / np.sqrt(d)
        copied, unlike = X.copy(), N - int(np.ceil(_COPIES * N))
        copied[unlike:] = X[: N - unlike]
        place = last.start + int(rng.integers((last.stop - last.start + 1) // 2))
        own = last if unit == "party" else slice(place, place + 1)
        copied[[place, N - 1]] = copied[[N - 1, place]]
        for rows, y, row in ((X, alike, long), (X, balanced, long), (copied, alike, copied[own])):
            first, second, labels, turned = rows.copy(), rows.copy(), y.copy(), y.copy()
            first[own], second[own], labels[own], turned[own] = row, long, high, low
            found.append((with_rows(parties, first, labels), with_rows(parties, second, turned)))
    return found
