"""The audit of networks and of noisy descents, whose rounds start at a public point."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.random import Generator

from dpml.algorithms.descent.layouts import GradientMeans
from dpml.algorithms.descent.network import Network, initial_weights, with_ones
from dpml.algorithms.descent.noisy_descent import NoisyDescent, initial_model
from dpml.arrays import Array
from dpml.audit.exposure import Exposure, Pair
from dpml.audit.neighbours import in_a_crowd, turned_label, turned_target, undecided
from dpml.audit.pairs import worst_case
from dpml.audit.programs import recorded
from dpml.audit.views import exposures
from dpml.data.partition import Parties
from dpml.data.preprocess import distinct
from dpml.errors import UserError
from dpml.mechanism.carriers import Carrier, Prepared
from dpml.mechanism.message import Statistic, Terms
from dpml.optim.gradients import Rows
from dpml.optim.losses import Loss
from dpml.optim.network import Models, clipped_sum
from dpml.privacy import Budget, Problem, View

_SEEDS = 1000
_SIDE_BY_SIDE = 1 << 9  # networks that an attacked release trains side by side: their gradients stay in cache


# Networks.


@worst_case.register
def of_network(algorithm: Network, budget: Budget, problem: Problem) -> Pair:
    """A row turns its label, where the network is steep: both gradients are longer than the clip, and opposite."""
    return undecided(problem)


@exposures.register
def of_rounds(algorithm: Network, pair: Pair, budget: Budget) -> list[Exposure]:
    """The trained network, and all rounds as a view sees them."""
    problem = pair[0].problem
    both = [algorithm.prepare(parties, steep_start(algorithm.loss, algorithm.hidden, problem.d)) for parties in pair]

    def network(which: int, rng: Generator, draws: int) -> Array:
        return algorithm.train(Carrier(both[which], [budget], rng, draws, None))[0].flat()

    views = [view for view in algorithm.sharing(problem).views(problem) if view != "release"]
    return [
        Exposure("release", network, most=_SIDE_BY_SIDE),
        *(replace(each, most=_SIDE_BY_SIDE) for each in recorded(views, both, budget)),
    ]


def steep_start(loss: Loss, hidden: int, d: int) -> Generator:
    """Of a thousand seeds the one whose network has the longest gradients at the first axis, for both labels.

    Initial weights are public, and the guarantee holds for any.
    """
    return np.random.default_rng(_steep_seed(loss, hidden, d))


@lru_cache
def _steep_seed(loss: Loss, hidden: int, d: int) -> int:
    row = with_ones(np.eye(d)[[0]])
    starts = [initial_weights(np.random.default_rng(seed), hidden, d) for seed in range(_SEEDS)]
    models = Models.of(np.concatenate([start.flat() for start in starts]), hidden)
    lengths = [
        np.linalg.norm(clipped_sum(models, row, np.array([label]), loss, np.inf).flat(), axis=1)
        for label in (1.0, -1.0)
    ]
    return int(np.argmax(np.min(lengths, axis=0)))


# Noisy descents.


def far_start(d: int) -> Generator:
    """Of a thousand seeds the one with the longest initial model: it is public, and the guarantee holds for any."""
    return np.random.default_rng(_far_seed(d))


@lru_cache
def _far_seed(d: int) -> int:
    return max(range(_SEEDS), key=lambda seed: float(np.linalg.norm(initial_model(np.random.default_rng(seed), d))))


def path(algorithm: NoisyDescent, parties: Parties, budget: Budget) -> Array:
    """Return the models of the last party in every round from a far start, without noise: (rounds, d)."""
    models: list[Array] = []
    d, largest = parties.problem.d, float(algorithm.tried(budget, parties.problem).max())
    fixed = replace(algorithm, step_selection="fixed", step=largest).prepare(parties, far_start(d))
    heard = replace(fixed, announce=lambda of, at: models.append(at[0][0, -d:]))
    heard.release([Budget(math.inf, budget.delta)], np.random.default_rng(0), 1)
    return np.array(models)


@worst_case.register
def of_driven_descent(algorithm: NoisyDescent, budget: Budget, problem: Problem) -> Pair:
    """One row differs among many equal ones, which drive the model from a far start still farther.

    Clipped slopes are as steep as they get where a row has no score, and no crowd is needed: of the squared loss a
    label turns there.
    """
    start = initial_model(far_start(problem.d), problem.d)
    if algorithm.loss.name == "squared":
        return turned_target(problem, start)
    if problem.d == 1:
        return undecided(problem) if algorithm.slopes.cut else turned_label(problem)
    ahead = start / np.linalg.norm(start)

    def reached(crowd: Parties) -> Array:
        lengths: Array = path(algorithm, crowd, budget) @ ahead
        return lengths

    return in_a_crowd(problem, ahead, reached, algorithm.slopes)


@exposures.register
def of_descent(algorithm: NoisyDescent, pair: Pair, budget: Budget) -> list[Exposure]:
    """Last models, or all rounds as a view sees them."""
    if algorithm.step_selection == "validated":
        raise UserError("algo.step_selection=validated has no guarantee that could be audited: choose rule or fixed.")
    problem = pair[0].problem
    both = [algorithm.prepare(parties, far_start(problem.d)) for parties in pair]
    hidden = algorithm.layout.last_iterates(problem)
    last = [view for view in algorithm.layout.round_mus(problem) if view == "release" or view in hidden]
    others = [view for view in algorithm.layout.round_mus(problem) if view not in last]
    models = [last_models(algorithm, view, both, budget) for view in last]
    known = [Attacked(algorithm, each.parties) for each in both]
    return [*models, *recorded(others, both, budget, known=known)]


@dataclass(frozen=True)
class Attacked(Prepared):
    """What an attacker knows of rows: equal ones, of which a crowd has thousands, are added up once."""

    def terms(self, statistic: Statistic) -> Terms:
        if statistic not in self._terms:
            self._terms[statistic] = Distinct(statistic, self.parties)  # type: ignore[arg-type]
        return self._terms[statistic]


class Distinct(GradientMeans):
    """The gradients of distinct rows, in double precision: how a release rounds its sums is not attacked here."""

    @cached_property
    def groups(self) -> list[Rows]:
        groups = []
        for X, y, v in self.weighted():
            first, where, _ = distinct(X, y)
            weights = np.bincount(where, weights=v).astype(float)
            groups.append(self.statistic.slopes.rows(X[first], y[first], weights, np.float64))
        return groups


def last_models(algorithm: NoisyDescent, view: View, both: Sequence[Prepared], budget: Budget) -> Exposure:
    """The release with the chosen step size; for a client, or colluders with a server, the models that they see."""
    hidden = view in ("client", "colluders") and algorithm.layout.last_iterates(both[0].parties.problem)

    def sample(which: int, rng: Generator, draws: int) -> Array:
        if hidden:
            carrier = Carrier(both[which], [budget], rng, draws, None)
            numbers = np.arange(len(carrier.messages[0]))[None]
            tried = [algorithm.descend(own, number) for number, own in algorithm.one_by_one(carrier, numbers)]
            seen = np.array(tried)[..., -carrier.problem.d :] if view == "client" else np.array(tried)
            return np.moveaxis(seen, 1, 0).reshape(draws, -1)
        release = both[which].release([budget], rng, draws)
        assert release.weights is not None
        return np.column_stack([release.weights[0], *(metric[0] for metric in release.metrics.values())])

    return Exposure(view, sample)
