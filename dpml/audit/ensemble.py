"""The audit of what is made of the parties' own models: `avg`, `la`, `vote` and `soft`."""

import math
from functools import partial

import numpy as np
from scipy.special import lambertw

from dpml.algorithms.ensemble.averages import Average, LocalAggregation
from dpml.algorithms.ensemble.voting import Soft, Vote
from dpml.arrays import Array
from dpml.audit.exposure import Pair
from dpml.audit.neighbours import highest, one_replaced, polar, synthetic_parties, turned_label
from dpml.audit.pairs import worst_case
from dpml.audit.search import distance
from dpml.data.info import Task
from dpml.data.partition import Equal, Parties
from dpml.optim.logistic import LOCAL_TOLERANCE, fit, longest_minimiser
from dpml.privacy import Budget, Problem

_LONG = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)  # shares of long public rows that an attack tries


@worst_case.register
def turned_party(algorithm: Average | Vote, budget: Budget, problem: Problem) -> Pair:
    """Party 0 flips all its labels. Its rows, and the public ones, repeat the one with the longest minimiser."""
    M, K, multiclass = problem.M, max(problem.classes, 2), algorithm.loss.name == "softmax"
    theta = float(lambertw((K - 1) / math.e).real)
    reach = longest_minimiser(algorithm.loss, algorithm.lam, K) * (math.sqrt(K / (K - 1)) if multiclass else 1.0)
    row = np.eye(1, problem.d) * min(1.0, (1 + theta) / reach)
    sizes = Equal().sizes(problem.N, M, np.random.default_rng(0))
    party = np.repeat(np.arange(M), sizes)
    others = party <= M - math.ceil(M / 2)  # tied, so that party 0 decides the vote
    X, auxiliary = row.repeat(problem.N, axis=0), row.repeat(problem.auxiliary, axis=0)
    labels = [np.where(party == 0, vote, others).astype(float) for vote in (False, True)]
    if not multiclass:
        labels = [2 * y - 1 for y in labels]
    task: Task = "multiclass" if multiclass else "binary"
    first, second = (synthetic_parties(task, X, y, sizes, auxiliary, K) for y in labels)
    return first, second


@worst_case.register
def swung_party(algorithm: LocalAggregation, budget: Budget, problem: Problem) -> Pair:
    """A crowd (0, c) is fitted as well by a party's model as by its mirror image; a row (+-a, b) decides.

    For d = 1, a row changes its label.
    """
    if problem.d == 1:
        return turned_label(problem)
    n = problem.N // problem.M  # of the last party, whose row it is
    shares = np.array([[n - 1.0, 1.0]]) / n

    def swing(at: Array) -> Array:
        """How far from the axis the party's model lies, for log c and the row's log norm and angle (B, 3)."""
        X = np.stack([np.exp(at[:, :1]) * [0.0, 1.0], polar(*at[:, 1:].T)], axis=1)
        models = fit(X, np.ones((*X.shape[:2], 1)), algorithm.lam, shares.repeat(len(X), axis=0), LOCAL_TOLERANCE)
        return np.abs(models[:, 0])

    least = -math.log(2 + 2 * longest_minimiser(algorithm.loss, algorithm.lam))
    best = highest(swing, [least, least, -math.pi / 2], [0.0, 0.0, math.pi / 2])
    a, b = polar(*best[1:])
    return one_replaced("binary", problem, [a, b], [-a, b], (1.0, 1.0), rest=[0.0, math.exp(best[0])])


@worst_case.register
def tilted_party(algorithm: Soft, budget: Budget, problem: Problem) -> Pair:
    """All parties vote for y > 0, but party 0 tilts, to either side, and against one half of the long public rows.

    These, (a, b) and (-a, b), and the two models are mirror images of each other. The other public rows, a crowd
    (0, c), are fitted as well by either model. For d = 1, party 0 turns its labels.
    """
    n, M = problem.auxiliary, problem.M
    pair = turned_party(algorithm, budget, problem)
    if problem.d == 1 or n < 2 or algorithm.local is not None:
        return pair
    auxiliary = np.zeros((n, problem.d))
    auxiliary[:, :2] = public = _mirrored_rows(algorithm, problem) * (1 - 1e-15)  # rounding may put none outside
    a, b = np.abs(public[-1])
    party = np.repeat(np.arange(M), pair[0].sizes)

    def tilted(parties: Parties, side: int) -> Parties:
        X = np.zeros((problem.N, problem.d))
        X[party > 0, 1] = 1.0
        X[party == 0, :2] = np.array([side * b, a / 2]) / math.hypot(b, a / 2) * (1 - 1e-15)
        y, classes = np.ones(problem.N), max(problem.classes, 2)
        return synthetic_parties(parties.data.task, X, y, parties.sizes, auxiliary, classes)

    mirrored = tilted(pair[0], 1), tilted(pair[1], -1)
    far, mirrored_far = (distance(algorithm, each, budget) for each in (pair, mirrored))
    return mirrored if mirrored_far > far else pair


def _mirrored_rows(algorithm: Soft, problem: Problem) -> Array:
    """The public rows (n, 2) that swing the model farthest: a crowd (0, c), then rows (a, b) and (-a, b)."""
    n, K, M = problem.auxiliary, problem.classes if algorithm.loss.name == "softmax" else 1, problem.M
    lam = algorithm.strength(n)
    shares = np.array([1.0, 1.0, 1 - 1 / M])
    targets = shares[:, None] if K == 1 else np.stack([1 - shares, shares, *np.zeros((K - 2, 3))], axis=1)

    def rows(at: Array, few: int) -> Array:
        """A row of the crowd and two long ones, (B, 3, 2), for log c and an angle (B, 2).

        The long ones have length 1, unless there is no crowd: then c.
        """
        long = polar(np.where(2 * few == n, at[:, 0], 0.0), at[:, 1])
        return np.stack([np.exp(at[:, :1]) * [0.0, 1.0], long, long * [-1, 1]], axis=1)

    def swing(at: Array, few: int) -> Array:
        """How far the model lies from the axis, with `few` long rows on either side."""
        X, weights = rows(at, few), np.array([n - 2 * few, few, few]) / n
        w = fit(X, np.broadcast_to(targets, (*X.shape[:2], K)), lam, np.tile(weights, (len(X), 1)), LOCAL_TOLERANCE)
        return np.linalg.norm(w.reshape(len(X), K, 2)[:, :, 0], axis=1)

    least = -math.log(2 + 2 * longest_minimiser(algorithm.loss, lam, problem.classes))
    candidates = []
    for few in sorted({max(1, int(n / 2 * share)) for share in _LONG}):
        best = highest(partial(swing, few=few), [least, 1e-6], [0.0, math.pi / 2], points=33)[None]
        candidates.append((float(swing(best, few)[0]), few, rows(best, few)[0]))
    _, few, worst = max(candidates, key=lambda candidate: candidate[0])
    return np.repeat(worst, [n - 2 * few, few, few], axis=0)
