"""Compute what every observer sees of two neighbouring data sets, from an algorithm's messages."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, singledispatch
from typing import Any

import numpy as np
from numpy.random import Generator

from dpml.algorithms.descent.layouts import GradientMeans
from dpml.algorithms.descent.network import Network, initial_weights, with_ones
from dpml.algorithms.descent.noisy_descent import NoisyDescent, initial_model
from dpml.algorithms.descent.private_sgd import PrivateSGD
from dpml.algorithms.perturbation import GaussianObjectivePerturbation, ObjectivePerturbation
from dpml.arrays import Array
from dpml.audit import black_box
from dpml.audit import output_density as density
from dpml.audit.exposure import Exposure, Pair, difference, model_exposure, prepared
from dpml.audit.transcript import NoNumberError, Recorder, Transcript
from dpml.data.preprocess import distinct
from dpml.errors import UserError
from dpml.mechanism.carriers import Carrier, Prepared
from dpml.mechanism.message import Statistic, Sum, Terms, sums_in
from dpml.mechanism.objectives import Perturbed
from dpml.mechanism.program import Program
from dpml.optim.gradients import Rows
from dpml.optim.losses import Loss
from dpml.optim.network import Models, clipped_sum
from dpml.privacy import Budget, Problem, View

_EXACT = 1e-9  # the noise_std of a number that is released without noise
_SEEDS = 1000
_SIDE_BY_SIDE = 1 << 9  # networks that are trained together, so that gradients fit into the CPU cache


@singledispatch
def exposures(algorithm: Any, pair: Pair, budget: Budget) -> list[Exposure]:
    """Return what each observer (view) with a guarantee sees of releases of two neighbouring data sets.

    An algorithm that is not registered may define a method `exposures`; otherwise, views show only released models.
    """
    own = getattr(algorithm, "exposures", None)
    return list(own(pair, budget)) if own else black_box.seen(algorithm, pair, budget)


@exposures.register
def of_program(algorithm: Program, pair: Pair, budget: Budget) -> list[Exposure]:
    """Return what an attacker sees of the released model, and what each observer sees of the messages."""
    both, problem = prepared(algorithm, pair), pair[0].problem
    if algorithm.pure(budget, problem):
        return [model_exposure(both, budget), _of_laplace(both, budget, *algorithm.messages(budget, problem))]
    return [model_exposure(both, budget), *recorded(algorithm.sharing(problem).views(problem), both, budget)]


def _of_laplace(both: list[Prepared], budget: Budget, message: Sum) -> Exposure:
    of, d = message.of, both[0].problem.d
    size = sum(of.state(d)[1])
    about = (np.broadcast_to(both[0].start, (1, size)).astype(float),) if size else ()
    first, second = (mechanism.terms(of).total(*about).reshape(-1) for mechanism in both)
    widths, averaged = message.widths(d), np.repeat(of.deviations(d), of.lengths(d)) < 1
    kept = (widths > 0) | (first != second)  # constant numbers need no noise
    first, second, averaged = first[kept], second[kept], averaged[kept]
    unit = np.where(widths > 0, widths, _EXACT)[kept] / np.where(averaged, 2, 1)  # the mean of two noise values

    def source(which: int, rng: Generator, draws: int, views: Sequence[View]) -> dict[View, Array]:
        asked = (np.repeat(each, draws, axis=0) for each in about)
        return {"release": Carrier(both[which], [budget], rng, draws, None).ask(0, *asked)[:, kept]}

    def log_density(x: Array) -> Array:
        if message.law != "laplace":
            return -np.linalg.norm(x, axis=1)
        total: Array = np.sum(np.where(averaged, np.log1p(np.abs(x)), 0.0) - np.abs(x), axis=1)
        return total

    def score(seen: Array) -> Array:
        return log_density((seen - second) / unit) - log_density((seen - first) / unit)

    loss = float(np.linalg.norm((second - first) / unit, 1 if message.law == "laplace" else 2))
    return Exposure("release", source, score, loss=loss)


def recorded(
    views: Iterable[View],
    both: list[Prepared],
    budget: Budget,
    gaussian: bool = True,
    known: Sequence[Prepared] | None = None,
) -> list[Transcript]:
    """Return what each observer sees of the messages in releases of two data sets."""
    algorithm, problem = both[0].algorithm, both[0].problem
    messages, sharing = algorithm.messages(budget, problem), algorithm.sharing(problem)
    channels = {view: sharing.channel(view, problem) for view in views}
    in_time = None if gaussian else _in_time(messages, problem)
    blocks = [message.of.lengths(problem.d) for message in messages for _ in range(message.times)]
    apart = _mu_of_statistics(both, messages)

    def source(which: int, rng: Generator, draws: int, views: Sequence[View]) -> dict[View, Array]:
        recorders = {view: Recorder(channels[view], blocks, in_time) for view in views}

        def observe(message: Array, parts: Array, exact: Callable[[Any], Array]) -> None:
            first, second = (np.asarray(exact(mechanism), dtype=float) for mechanism in known or both)
            residual, shift = np.asarray(message, dtype=float) - first, difference(first, second)
            if not np.isfinite(shift).all():
                raise NoNumberError
            for recorder in recorders.values():
                recorder.add(residual, shift, np.asarray(parts, dtype=float))

        both[which].release([budget], rng, draws, observe)
        return {view: each.seen() for view, each in recorders.items()}

    return [
        Transcript(view, source, mu=apart / channel.spread, messages=len(blocks), gaussian=gaussian)
        for view, channel in channels.items()
    ]


def _in_time(messages: tuple[Sum, ...], problem: Problem) -> Array:
    """Return covariances (T, T) of one coordinate of a party's noise in T messages, each divided by its noise scale.

    In psgd's published noise, a party draws rho for every message, with variance d + 1 per coordinate, and eta once.
    """
    constant = np.repeat([(m.constant or 0.0) / m.noise for m in messages], [m.times for m in messages])
    return (problem.d + 1) * np.eye(sums_in(messages)) + np.outer(constant, constant) / problem.M


def _mu_of_statistics(both: list[Prepared], messages: tuple[Sum, ...]) -> float:
    """Return mu: the norm of (second data set's sum - first's) / noise_std; NaN if sums depend on earlier results."""
    d = both[0].problem.d
    if any(message.of.state(d)[1] for message in messages):
        return math.nan
    squares = 0.0
    for message in messages:
        first, second = (mechanism.terms(message.of).total() for mechanism in both)
        wide = message.widths(d) * np.repeat(message.of.deviations(d), message.of.lengths(d))
        squares += float(np.sum((difference(first, second) / np.where(wide > 0, wide, _EXACT)) ** 2))
    return math.sqrt(squares)


@exposures.register
def of_psgd(algorithm: PrivateSGD, pair: Pair, budget: Budget) -> list[Exposure]:
    """Return the last model, which readers of the release see, and all rounds' messages, which other observers see."""
    both = prepared(algorithm, pair)
    return [model_exposure(both, budget), *recorded(_of_rounds(both[0]), both, budget, algorithm.tight)]


def _of_rounds(mechanism: Prepared) -> list[View]:
    problem = mechanism.problem
    return [view for view in mechanism.algorithm.sharing(problem).views(problem) if view != "release"]


@exposures.register(ObjectivePerturbation)
@exposures.register(GaussianObjectivePerturbation)
def of_objectives(algorithm: Perturbed, pair: Pair, budget: Budget) -> list[Exposure]:
    """Return what an attacker sees of objective perturbation, and the likelihood-ratio attack if one is known."""
    sent: Any = algorithm.messages(budget, pair[0].problem)[0]
    if isinstance(sent, Sum):
        return of_program(algorithm, pair, budget)
    exposure = model_exposure(prepared(algorithm, pair), budget)
    if algorithm.loss.lipschitz is None:  # squared loss: minimisers on the surface of the ball have no density
        return [exposure]
    rows = [parties.folded for parties in pair]
    score = density.minimiser_score(algorithm.trained, rows, sent.ridge, density.log_density(sent.law, sent.scale))
    loss, mu, normal = density.distance(algorithm.trained, rows, sent, budget.delta)
    return [replace(exposure, score=score, loss=loss, mu=mu, normal=normal)]


@exposures.register
def of_network(algorithm: Network, pair: Pair, budget: Budget) -> list[Exposure]:
    """Return what readers of the released neural network see, and what other observers see of all rounds' messages."""
    d = pair[0].problem.d
    seed = _steep_seed(algorithm.loss, algorithm.hidden, d)
    both = [algorithm.prepare(parties, np.random.default_rng(seed)) for parties in pair]

    def network(which: int, rng: Generator, draws: int, views: Sequence[View]) -> dict[View, Array]:
        return {"release": algorithm.train(Carrier(both[which], [budget], rng, draws, None))[0].flat()}

    shown = [Exposure("release", network), *recorded(_of_rounds(both[0]), both, budget)]
    return [replace(each, most=_SIDE_BY_SIDE) for each in shown]


@lru_cache
def _steep_seed(loss: Loss, hidden: int, d: int) -> int:
    """Return the seed, among a thousand, whose initial network has the largest gradients for both labels.

    The guarantee holds for every public initial network.
    """
    row = with_ones(np.eye(d)[[0]])
    starts = [initial_weights(np.random.default_rng(seed), hidden, d) for seed in range(_SEEDS)]
    models = Models.of(np.concatenate([start.flat() for start in starts]), hidden)
    lengths = [
        np.linalg.norm(clipped_sum(models, row, np.array([label]), loss, np.inf), axis=1) for label in (1.0, -1.0)
    ]
    return int(np.argmax(np.min(lengths, axis=0)))


@exposures.register
def of_descent(algorithm: NoisyDescent, pair: Pair, budget: Budget) -> list[Exposure]:
    """Return what each observer of noisy gradient descent sees: only last models, or the messages of all rounds."""
    if algorithm.step_selection == "validated":
        raise UserError("algo.step_selection=validated has no guarantee to audit: set it to rule or fixed.")
    problem = pair[0].problem
    both = [algorithm.prepare(parties, far_start(problem.d)) for parties in pair]
    hidden, views = algorithm.layout.last_iterates(problem), list(algorithm.layout.round_mus(problem))
    last = [view for view in views if view == "release" or view in hidden]
    models = [_last_models(algorithm, view, both, budget) for view in last]
    known = [Attacked(algorithm, each.parties) for each in both]
    return [*models, *recorded([view for view in views if view not in last], both, budget, known=known)]


def far_start(d: int) -> Generator:
    """Return the random generator, among a thousand, that draws the initial model with the largest norm."""
    return np.random.default_rng(_far_seed(d))


@lru_cache
def _far_seed(d: int) -> int:
    return max(range(_SEEDS), key=lambda seed: float(np.linalg.norm(initial_model(np.random.default_rng(seed), d))))


@dataclass(frozen=True)
class Attacked(Prepared):
    """A prepared algorithm that merges equal rows, because the data sets of an audit have thousands of equal rows."""

    def terms(self, statistic: Statistic) -> Terms[Any]:
        if statistic not in self._terms:
            self._terms[statistic] = Distinct(statistic, self.parties)  # type: ignore[arg-type]
        return self._terms[statistic]


class Distinct(GradientMeans):
    """Compute mean gradients in double precision, after merging equal rows."""

    @cached_property
    def groups(self) -> list[Rows]:
        groups = []
        for X, y, v in self.weighted():
            first, where, _ = distinct(X, y)
            weights = np.bincount(where, weights=v).astype(float)
            slopes = self.statistic.slopes
            groups.append(Rows.of(slopes.loss, X[first], y[first], weights, np.float64, slopes.clip))
        return groups


def _last_models(algorithm: NoisyDescent, view: View, both: Sequence[Prepared], budget: Budget) -> Exposure:
    """Return the last models that an observer sees: the released model, or the last model of one or all clients."""
    hidden = view in ("client", "colluders") and algorithm.layout.last_iterates(both[0].problem)

    def source(which: int, rng: Generator, draws: int, views: Sequence[View]) -> dict[View, Array]:
        if hidden:
            carrier = Carrier(both[which], [budget], rng, draws, None)
            numbers = np.arange(len(carrier.messages[0]))[None]
            tried = [algorithm.descend(own, number) for number, own in algorithm.one_by_one(carrier, numbers)]
            seen = np.array(tried)[..., -carrier.problem.d :] if view == "client" else np.array(tried)
            return {view: np.moveaxis(seen, 1, 0).reshape(draws, -1)}
        release = both[which].release([budget], rng, draws)
        assert release.weights is not None
        return {view: np.column_stack([release.weights[0], *(metric[0] for metric in release.metrics.values())])}

    return Exposure(view, source)
