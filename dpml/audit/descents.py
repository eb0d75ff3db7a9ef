"""The audit of networks and of noisy descents, whose rounds start at a public point."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.random import Generator

from dpml.algorithms.descent.network import Network, initial_weights, with_ones
from dpml.algorithms.descent.noisy_descent import NoisyDescent, initial_model
from dpml.algorithms.descent.noisy_runs import PreparedNoisyDescent
from dpml.arrays import Array
from dpml.audit.exposure import Exposure, Pair
from dpml.audit.neighbours import in_a_crowd, turned_label, turned_target, undecided
from dpml.audit.pairs import worst_case
from dpml.audit.programs import recorded
from dpml.audit.transcript import Recorder, Transcript, transcripts
from dpml.audit.views import exposures
from dpml.data.partition import Parties
from dpml.data.preprocess import distinct
from dpml.errors import UserError
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.observer import Channel, Observer
from dpml.optim.descent import Rows
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
        path: Array = algorithm.prepare(crowd, far_start(problem.d)).path(budget)[:, -1] @ ahead
        return path

    return in_a_crowd(problem, ahead, reached, algorithm.slopes)


@exposures.register
def of_descent(algorithm: NoisyDescent, pair: Pair, budget: Budget) -> list[Exposure]:
    """Last models, or all rounds as a view sees them.

    Raises:
        UserError: the step is `validated`.
    """
    if algorithm.step_selection == "validated":
        raise UserError("algo.step_selection=validated has no guarantee that could be audited: choose rule or fixed.")
    problem = pair[0].problem
    both = [algorithm.prepare(parties, far_start(problem.d)) for parties in pair]
    hidden = algorithm.layout.last_iterates(problem)
    last = [view for view in algorithm.layout.round_mus(problem) if view == "release" or view in hidden]
    others = [view for view in algorithm.layout.round_mus(problem) if view not in last]
    models = [last_models(algorithm, view, both, budget) for view in last]
    return [*models, *all_rounds(algorithm, others, both, budget)]


@dataclass(frozen=True)
class Attacked(PreparedNoisyDescent):
    """What an attacker knows of rows in one place: equal ones, of which a crowd has thousands, are added up once."""

    @cached_property
    def groups(self) -> list[Rows]:
        """The distinct rows, in double precision: how a release rounds its sums is not attacked by its noise."""
        X, y, v = self.parties.X, self.parties.y, self.algorithm.layout.row_weights(self.parties)
        first, where, _ = distinct(X, y)
        return [self.algorithm.slopes.rows(X[first], y[first], np.bincount(where, weights=v).astype(float), np.float64)]


def all_rounds(
    algorithm: NoisyDescent, views: Sequence[View], both: Sequence[PreparedNoisyDescent], budget: Budget
) -> list[Transcript]:
    """All rounds as views see them."""
    problem = both[0].parties.problem
    scales = np.tile(algorithm.per_rows(budget, problem), algorithm.rounds)
    known = [Attacked(each.algorithm, each.parties, each.start) for each in both]

    def recorder(channel: Channel) -> Callable[[], Recorder]:
        return lambda: Recorder(known, channel, scales)

    def release(which: int, rng: Generator, draws: int, observer: Observer) -> None:
        both[which].release([budget], rng, draws, observer)

    recorders = {view: recorder(algorithm.layout.channel(view, both[0].parties)) for view in views}
    return transcripts(recorders, release, len(scales))


def last_models(algorithm: NoisyDescent, view: View, both: Sequence[PreparedNoisyDescent], budget: Budget) -> Exposure:
    """The release with the chosen step size; for a client, or colluders with a server, the models that they see."""
    hidden = view in ("client", "colluders") and algorithm.layout.last_iterates(both[0].parties.problem)

    def sample(which: int, rng: Generator, draws: int) -> Array:
        if hidden:
            models = both[which].models([budget], rng, draws)[-1 if view == "client" else 0 :, 0]
            return np.moveaxis(models, 2, 0).reshape(draws, -1).astype(float)
        release = both[which].release([budget], rng, draws)
        assert release.weights is not None
        return np.column_stack([release.weights[0], *(metric[0] for metric in release.metrics.values())])

    return Exposure(view, sample)
