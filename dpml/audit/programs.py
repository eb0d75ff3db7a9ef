"""The audit of programs of noisy sums: what every view sees of their messages, and the worst known neighbours.

Any program is recorded in the same way, by the messages that it declares (`dpml.mechanism.program`). One that registers
no neighbours is attacked with the farthest of several that are bad for sums of rows, of gradients and of parties.
"""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.random import Generator

from dpml.algorithms.descent.clipped import ClippedDescent
from dpml.algorithms.descent.preconditioned import PreconditionedDescent
from dpml.algorithms.descent.private_sgd import GradientTerms, PrivateSGD
from dpml.algorithms.quadratic.coefficients import Coefficients, Scales, worst_neighbours
from dpml.algorithms.quadratic.functional_mechanism import FunctionalMechanism
from dpml.algorithms.quadratic.laplace_functional_mechanism import LaplaceFunctionalMechanism
from dpml.algorithms.quadratic.sufficient_statistics import SufficientStatistics
from dpml.arrays import Array
from dpml.audit.exposure import Exposure, Pair, difference, laplace_exposure, model_exposure, prepared
from dpml.audit.neighbours import (
    in_a_crowd,
    in_classes,
    one_replaced,
    one_replaced_for_loss,
    turned_label,
    undecided,
    undecided_parties,
    whole_party,
)
from dpml.audit.pairs import worst_case
from dpml.audit.search import distance
from dpml.audit.transcript import Recorder, Transcript, transcripts
from dpml.audit.views import exposures
from dpml.data.partition import Parties
from dpml.mechanism.carriers import Prepared
from dpml.mechanism.message import Sum, sums_in
from dpml.mechanism.program import Program
from dpml.mechanism.sharing import Channel, Observer
from dpml.privacy import Budget, Problem, View

_EXACT = 1e-9  # the scale of a number that is released without noise


def recorded(
    views: Iterable[View],
    both: list[Prepared],
    budget: Budget,
    gaussian: bool = True,
    known: Sequence[Prepared] | None = None,
) -> list[Transcript]:
    """All messages as views see them, of the same releases; `known` are the rows as an attacker sums them."""
    algorithm, problem = both[0].algorithm, both[0].problem
    messages, sharing = algorithm.messages(budget, problem), algorithm.sharing(problem)
    number, channels = sums_in(messages), {view: sharing.channel(view, problem) for view in views}
    in_time = _in_time(messages, number, problem, gaussian)
    blocks = [message.of.lengths(problem.d) for message in messages for _ in range(message.times)]

    def release(which: int, rng: Generator, draws: int, observer: Observer) -> None:
        both[which].release([budget], rng, draws, observer)

    def recorder(channel: Channel) -> Callable[[], Recorder]:
        return lambda: Recorder(known or both, channel, np.ones(number), in_time, blocks)

    apart = _mu_of_statistics(both, messages)
    recorders = {view: recorder(channel) for view, channel in channels.items()}
    return transcripts(recorders, release, number, gaussian, lambda view: apart / channels[view].spread)


def _in_time(messages: tuple[Sum, ...], number: int, problem: Problem, gaussian: bool) -> Array | None:
    """The covariance of all messages' noise in units of theirs, of one of M sources; None: the identity.

    The published noise of psgd has variance d + 1 in every coordinate of a party's rho, and a part that stays.
    """
    if gaussian:
        return None
    constant = np.repeat([(m.constant or 0.0) / m.noise for m in messages], [m.times for m in messages])
    return (problem.d + 1) * np.eye(number) + np.outer(constant, constant) / problem.M


def _mu_of_statistics(both: list[Prepared], messages: tuple[Sum, ...]) -> float:
    """How far apart two neighbours' exact sums are, in units of their noise, where they depend on nothing before; else
    NaN."""
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
def of_program(algorithm: Program, pair: Pair, budget: Budget) -> list[Exposure]:
    """The model, and all messages, as every view sees them: those of the release, too, which is made of them."""
    both = prepared(algorithm, pair)
    messages = algorithm.messages(budget, pair[0].problem)
    if algorithm.pure(budget, pair[0].problem):
        return [laplace_exposure(both, budget, messages[0])]
    views = algorithm.sharing(pair[0].problem).views(pair[0].problem)
    return [model_exposure(both, budget), *recorded(views, both, budget)]


@exposures.register
def of_psgd(algorithm: PrivateSGD, pair: Pair, budget: Budget) -> list[Exposure]:
    """The last model, and what each view sees of all rounds.

    The sum of a few Laplace vectors is not normal: it is matched in its variances.
    """
    both = prepared(algorithm, pair)
    views = [view for view in algorithm.sharing(pair[0].problem).views(pair[0].problem) if view != "release"]
    return [model_exposure(both, budget), *recorded(views, both, budget, algorithm.tight)]


@exposures.register
def of_laplace_coefficients(algorithm: LaplaceFunctionalMechanism, pair: Pair, budget: Budget) -> list[Exposure]:
    """The model, and every number that is released and could differ, with the exact score of its Laplace noise."""
    if not algorithm.laplace:
        return of_program(algorithm, pair, budget)
    both = prepared(algorithm, pair)
    (message,) = algorithm.messages(budget, pair[0].problem)
    d = pair[0].problem.d
    lengths, deviations = message.of.lengths(d), np.array(message.of.deviations(d))
    widths = message.widths(d)
    first, second = (mechanism.terms(message.of).total() for mechanism in both)
    kept = (widths > 0) | (first != second)  # what never moves may go without
    averaged = np.repeat(deviations < 1, lengths)[kept]  # the mean of two noises
    scale = np.where(widths > 0, widths, _EXACT)
    unit = scale[kept] / np.where(averaged, 2, 1)
    to_numbers = np.where(widths > 0, widths * np.repeat(deviations, lengths), _EXACT)[kept]
    first, second = first[kept], second[kept]

    def sample(which: int, rng: Generator, draws: int) -> Array:
        message = OneMessage()
        both[which].release([budget], rng, draws, message)
        return np.concatenate(message.sent_in_blocks)[:, kept] * to_numbers

    def log_density(x: Array) -> Array:
        """Of Laplace noise, or of the mean of two, (1 + |x|) e^-|x| / 4 in units of half their scale."""
        total: Array = np.sum(np.where(averaged, np.log1p(np.abs(x)), 0.0) - np.abs(x), axis=1)
        return total

    def score(seen: Array) -> Array:
        return log_density((seen - second) / unit) - log_density((seen - first) / unit)

    loss = float(np.sum(np.abs(second - first) / unit))
    return [model_exposure(both, budget), Exposure("release", sample, score, loss=loss)]


class OneMessage:
    """An observer that keeps the only message of a release, block of draws by block of draws."""

    def __init__(self) -> None:
        self.sent_in_blocks: list[Array] = []

    def drawn(self, parts: Array) -> None:
        """Nothing is kept of the noise."""

    def sent(self, message: Array, exact: object) -> None:
        """Keep the message, in units of its noise."""
        self.sent_in_blocks.append(message)


# The worst known neighbours.


@worst_case.register
def of_any_program(algorithm: Program, budget: Budget, problem: Problem) -> Pair:
    """The farthest of several: a label turns, a row becomes its opposite, or a label where all others are balanced."""
    if algorithm.loss.name == "squared":
        pairs = [one_replaced_for_loss(algorithm.loss, problem, [1.0], [end], other_label=-1.0) for end in (1.0, -1.0)]
    else:
        opposite = one_replaced("binary", problem, [1.0], [-1.0], (1.0, 1.0))
        pairs = [turned_label(problem), opposite, undecided(problem)]
    if algorithm.unit == "party":
        pairs = [(whole_party(first), whole_party(second)) for first, second in pairs]
        if algorithm.loss.name != "squared":
            pairs.append(undecided_parties(problem))
    if algorithm.loss.name == "softmax":
        pairs = [in_classes(pair, problem.classes) for pair in pairs]
    known = [distance(algorithm, pair, budget) for pair in pairs]
    return pairs[int(np.argmax(np.nan_to_num(known, nan=-1.0)))]


@worst_case.register(FunctionalMechanism)
@worst_case.register(SufficientStatistics)
def of_coefficients(algorithm: FunctionalMechanism | SufficientStatistics, budget: Budget, problem: Problem) -> Pair:
    """The last site replaces one row by the other one of `worst_neighbours`; all other rows are zero.

    With `unit=party`, all rows of the last party are that row.
    """
    (message,) = algorithm.messages(budget, problem)
    assert isinstance(message.of, Coefficients)
    constant = message.units[0] if message.of.constant else math.inf
    scales = Scales(constant, message.units[-3], message.units[-1])
    worst = worst_neighbours(message.of.quadratic, scales, problem.d)
    if algorithm.loss.name == "softmax":  # two rows of one class, as if at an obtuse angle with opposite labels
        pair = one_replaced("binary", problem, [1.0], [-each for each in worst.other], labels=(1.0, 1.0))
        pair = in_classes(pair, problem.classes)
    else:
        pair = one_replaced_for_loss(algorithm.loss, problem, [1.0], worst.other, other_label=-worst.label)
    return (whole_party(pair[0]), whole_party(pair[1])) if algorithm.unit == "party" else pair


@worst_case.register
def of_even_rows(algorithm: LaplaceFunctionalMechanism, budget: Budget, problem: Problem) -> Pair:
    """Rows whose entries are as even as they can be, so that their L1 norms are largest; signs alternate in one."""
    if not algorithm.laplace:
        return of_coefficients(algorithm, budget, problem)  # type: ignore[arg-type]
    even = np.full(problem.d, 1 / math.sqrt(problem.d))
    return one_replaced_for_loss(algorithm.loss, problem, even, even * (-1.0) ** np.arange(problem.d), other_label=-1.0)


@worst_case.register(ClippedDescent)
@worst_case.register(PreconditionedDescent)
def of_balanced_labels(algorithm: ClippedDescent | PreconditionedDescent, budget: Budget, problem: Problem) -> Pair:
    """Labels are balanced, so that slopes stay clipped; the label of a row, or all labels of a party, flip."""
    pair = undecided(problem) if algorithm.unit == "sample" else undecided_parties(problem)
    return in_classes(pair, problem.classes) if algorithm.loss.name == "softmax" else pair


@worst_case.register
def of_driven_model(algorithm: PrivateSGD, budget: Budget, problem: Problem) -> Pair:
    """A row in a crowd that drives the model away from 0."""
    if problem.d == 1:
        return turned_label(problem)
    ahead = np.eye(problem.d)[0]
    strength = np.array([[algorithm.lam + algorithm.perturbation(budget, problem).extra]])

    def reached(crowd: Parties) -> Array:
        """The models of every round along `ahead`, if there was no noise."""
        terms, models = GradientTerms(crowd), []

        def exact(w: Array, t: int) -> Array:
            models.append(w[0].copy())
            return terms.total(w)

        algorithm.descend(problem, strength, exact)
        along: Array = np.array(models) @ ahead
        return along

    return in_a_crowd(problem, ahead, reached, algorithm.loss)
