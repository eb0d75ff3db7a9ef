"""Find the worst known pair of neighbouring data sets for every algorithm."""

import math
from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator
from scipy.special import lambertw

from dpml.algorithms.descent.clipped import ClippedDescent
from dpml.algorithms.descent.network import Network
from dpml.algorithms.descent.noisy_descent import NoisyDescent, initial_model
from dpml.algorithms.descent.private_sgd import PrivateSGD
from dpml.algorithms.ensemble import Average, LocalAggregation, Soft, Vote
from dpml.algorithms.perturbation import GaussianObjectivePerturbation, ObjectivePerturbation
from dpml.algorithms.quadratic.coefficients import Coefficients, Scales, worst_neighbours
from dpml.algorithms.quadratic.functional_mechanism import FunctionalMechanism
from dpml.algorithms.quadratic.laplace_functional_mechanism import LaplaceFunctionalMechanism
from dpml.algorithms.quadratic.sufficient_statistics import PreconditionedDescent, SufficientStatistics
from dpml.arrays import Array
from dpml.audit import black_box
from dpml.audit import output_density as density
from dpml.audit.exposure import Pair, Quiet
from dpml.audit.neighbours import (
    highest,
    in_a_crowd,
    one_replaced,
    polar,
    synthetic_parties,
    turned_label,
    turned_target,
    undecided,
    whole_party,
    with_rows,
)
from dpml.audit.transcript import Transcript
from dpml.audit.views import exposures, far_start
from dpml.data.info import Task
from dpml.data.partition import Equal, Parties
from dpml.errors import UserError
from dpml.mechanism.carriers import Prepared
from dpml.mechanism.message import Sum
from dpml.mechanism.objectives import Perturbed
from dpml.mechanism.program import Program
from dpml.optim.convex import LOCAL_TOLERANCE, fit
from dpml.optim.losses import longest_minimiser
from dpml.privacy import Budget, Problem

TRIES = 200
FEWER = 40  # the number of tries if each is a run of many rounds
_STEPS = (0.003, 0.03, 0.3)  # step sizes of the search, relative to the radius of the ball of rows


@singledispatch
def worst_case(algorithm: Any, budget: Budget, problem: Problem) -> Pair:
    """Return two neighbouring data sets, with the problem's M, N and d, that are the easiest known to distinguish.

    An algorithm that is not registered may define a method `worst_case`; otherwise, trial releases select the pair.
    """
    own = getattr(algorithm, "worst_case", None)
    pair: Pair = own(budget, problem) if own else black_box.farthest(algorithm, budget, problem)
    return pair


@worst_case.register
def of_any_program(algorithm: Program, budget: Budget, problem: Problem) -> Pair:
    """Return the two neighbouring data sets, among nine pairs, that an attacker distinguishes best."""
    pairs = list(black_box.candidates(algorithm.loss, problem, algorithm.unit))
    known = [distance(algorithm, pair, budget) for pair in pairs]
    return pairs[int(np.argmax(np.nan_to_num(known, nan=-1.0)))]


@worst_case.register(FunctionalMechanism)
@worst_case.register(SufficientStatistics)
def of_coefficients(algorithm: FunctionalMechanism | SufficientStatistics, budget: Budget, problem: Problem) -> Pair:
    """Return two data sets whose last rows are the worst case of the sensitivity proof; all other rows are zero."""
    (message,) = algorithm.messages(budget, problem)
    assert isinstance(message.of, Coefficients)
    constant = message.units[0] if message.of.constant else math.inf
    scales = Scales(constant, message.units[-3], message.units[-1])
    worst = worst_neighbours(message.of.quadratic, scales, problem.d)
    task = algorithm.loss.task
    if task == "multiclass":  # a negated row in the same class acts like a row with the opposite label
        pair = one_replaced(task, problem, [1.0], [-each for each in worst.other], (1.0, 1.0))
    else:
        pair = one_replaced(task, problem, [1.0], worst.other, (1.0, -worst.label if task == "regression" else -1.0))
    return whole_party(pair) if algorithm.unit == "party" else pair


@worst_case.register
def of_even_rows(algorithm: LaplaceFunctionalMechanism, budget: Budget, problem: Problem) -> Pair:
    """Return two data sets that differ in the signs of one row's entries; this row has the largest possible L1 norm."""
    if not algorithm.laplace:
        return of_coefficients(algorithm, budget, problem)  # type: ignore[arg-type]
    even = np.full(problem.d, 1 / math.sqrt(problem.d))
    return one_replaced(algorithm.loss.task, problem, even, even * (-1.0) ** np.arange(problem.d))


@worst_case.register(ClippedDescent)
@worst_case.register(PreconditionedDescent)
@worst_case.register(Network)
def of_balanced_labels(algorithm: Program, budget: Budget, problem: Problem) -> Pair:
    """Return two data sets with nearly balanced labels, which differ in one row's label or in all labels of a party."""
    multiclass = algorithm.loss.task == "multiclass"  # regression also gets labels -1 and +1, the ends of its range
    return undecided(problem, algorithm.unit, "multiclass" if multiclass else "binary")


@worst_case.register
def of_driven_model(algorithm: PrivateSGD, budget: Budget, problem: Problem) -> Pair:
    """Return two data sets that differ in one row; all other rows drive the model away from 0."""
    if problem.d == 1:
        return turned_label(problem)
    ahead = np.eye(problem.d)[0]
    rng = np.random.default_rng(0)
    return in_a_crowd(problem, ahead, lambda crowd: _path(algorithm.prepare(crowd, rng), budget, ahead), algorithm.loss)


def _path(mechanism: Prepared, budget: Budget, ahead: Array) -> Array:
    """Project the models of T noiseless rounds onto the direction `ahead`, and return one number per round, (T,)."""
    models: list[Array] = []
    heard = replace(mechanism, announce=lambda of, at: models.append(at[0][0, -len(ahead) :]))
    heard.release([budget], Quiet(PCG64(0)), 1)
    along: Array = np.array(models) @ ahead
    return along


@worst_case.register(ObjectivePerturbation)
@worst_case.register(GaussianObjectivePerturbation)
def worst_objectives(algorithm: Perturbed, budget: Budget, problem: Problem) -> Pair:
    """Return two data sets that differ in one row; the row's gradient is large in both data sets."""
    sent: Any = algorithm.messages(budget, problem)[0]
    if isinstance(sent, Sum) or algorithm.loss.lipschitz is None or problem.d == 1:
        return turned_label(problem, algorithm.loss.task)

    def shows(pair: density.Folded) -> float:
        loss, mu, _ = density.distance(algorithm.trained, pair, sent, budget.delta)
        return float(np.fmax(loss, mu))

    return density.held_pair(algorithm.trained, problem, sent.ridge, shows)


@worst_case.register
def of_driven_descent(algorithm: NoisyDescent, budget: Budget, problem: Problem) -> Pair:
    """Return two data sets that differ in one row; all other rows drive a distant initial model even farther from 0.

    Slopes clipped at 1/2 or less are largest at score 0, and need no such rows. For the squared loss, a target differs.
    """
    start = initial_model(far_start(problem.d), problem.d)
    if algorithm.loss.task == "regression":
        return turned_target(problem, start)
    if problem.d == 1:
        return undecided(problem) if algorithm.slopes.cut else turned_label(problem)
    ahead = start / np.linalg.norm(start)

    def reached(crowd: Parties) -> Array:
        largest = float(algorithm.tried(budget, crowd.problem).max())
        fixed = replace(algorithm, step_selection="fixed", step=largest).prepare(crowd, far_start(problem.d))
        return _path(fixed, Budget(math.inf, budget.delta), ahead)

    return in_a_crowd(problem, ahead, reached, algorithm.slopes)


@worst_case.register
def turned_party(algorithm: Average | Vote, budget: Budget, problem: Problem) -> Pair:
    """Return two data sets that differ in the labels of party 0; in both, its model has the largest possible norm."""
    M, K, multiclass = problem.M, max(problem.classes, 2), algorithm.loss.task == "multiclass"
    theta = float(lambertw((K - 1) / math.e).real)
    reach = longest_minimiser(algorithm.loss, algorithm.lam, K) * (math.sqrt(K / (K - 1)) if multiclass else 1.0)
    row = np.eye(1, problem.d) * min(1.0, (1 + theta) / reach)
    sizes = Equal().sizes(problem.N, M, np.random.default_rng(0))
    party = np.repeat(np.arange(M), sizes)
    others = party <= M - math.ceil(M / 2)  # a tie, so that party 0 decides the vote
    X, auxiliary = row.repeat(problem.N, axis=0), row.repeat(problem.auxiliary, axis=0)
    labels = [np.where(party == 0, vote, others).astype(float) for vote in (False, True)]
    if not multiclass:
        labels = [2 * y - 1 for y in labels]
    task: Task = "multiclass" if multiclass else "binary"
    first, second = (synthetic_parties(task, X, y, sizes, auxiliary, K) for y in labels)
    return first, second


@worst_case.register
def swung_party(algorithm: LocalAggregation, budget: Budget, problem: Problem) -> Pair:
    """Return two data sets that differ in one row; the models of this row's party are mirrored, (u, v) and (-u, v).

    The different row is (a, b) or (-a, b), and all other rows are (0, c). For d = 1, only the label of a row differs.
    """
    if problem.d == 1:
        return turned_label(problem)
    n = problem.N // problem.M  # rows of the last party, which has the replaced row
    shares = np.array([[n - 1.0, 1.0]]) / n

    def swing(at: Array) -> Array:
        X = np.stack([np.exp(at[:, :1]) * [0.0, 1.0], polar(*at[:, 1:].T)], axis=1)
        models = fit(X, np.ones((*X.shape[:2], 1)), algorithm.lam, shares.repeat(len(X), axis=0), LOCAL_TOLERANCE)
        return np.abs(models[:, 0])

    least = -math.log(2 + 2 * longest_minimiser(algorithm.loss, algorithm.lam))
    best = highest(swing, [least, least, -math.pi / 2], [0.0, 0.0, math.pi / 2])
    a, b = polar(*best[1:])
    return one_replaced("binary", problem, [a, b], [-a, b], (1.0, 1.0), rest=[0.0, math.exp(best[0])])


@worst_case.register
def tilted_party(algorithm: Soft, budget: Budget, problem: Problem) -> Pair:
    """Return two data sets that differ in party 0's rows; party 0's models in the two data sets are mirror images.

    Public rows are (0, c), (a, b) and (-a, b). All parties vote for label 1, except that party 0 votes against it on
    the rows (-a, b) in one data set, and on the rows (a, b) in the other. For d = 1, party 0's labels differ instead.
    """
    n, M = problem.auxiliary, problem.M
    pair = turned_party(algorithm, budget, problem)
    if problem.d == 1 or n < 2 or algorithm.local is not None:
        return pair
    auxiliary = np.zeros((n, problem.d))
    auxiliary[:, :2] = public = _mirrored_rows(algorithm, problem) * (1 - 1e-15)  # rounding puts none outside
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
    """Search for public rows (n, 2) on which replacing one party's votes most changes the model fitted to all votes."""
    n, K, M = problem.auxiliary, problem.classes if algorithm.loss.task == "multiclass" else 1, problem.M
    lam = algorithm.strength(n)
    shares = np.array([1.0, 1.0, 1 - 1 / M])
    targets = shares[:, None] if K == 1 else np.stack([1 - shares, shares, *np.zeros((K - 2, 3))], axis=1)

    def rows(at: Array) -> tuple[Array, Array]:
        """Return B candidate sets of public rows: (0, c), (a, b) and (-a, b), (B, 3, 2), and the rows' counts, (B, 3).

        `at` (B, 3) has log c, the angle of (a, b) and its count. Its norm is 1 or, if there are no rows (0, c), c.
        """
        few = np.floor(at[:, 2])
        long = polar(np.where(2 * few == n, at[:, 0], 0.0), at[:, 1])
        counts = np.stack([n - 2 * few, few, few], axis=1)
        return np.stack([np.exp(at[:, :1]) * [0.0, 1.0], long, long * [-1, 1]], axis=1), counts

    def swing(at: Array) -> Array:
        X, counts = rows(at)
        w = fit(X, np.broadcast_to(targets, (*X.shape[:2], K)), lam, counts / n, LOCAL_TOLERANCE)
        return np.linalg.norm(w.reshape(len(X), K, 2)[:, :, 0], axis=1)

    least = -math.log(2 + 2 * longest_minimiser(algorithm.loss, lam, problem.classes))
    (worst,), (counts,) = rows(highest(swing, [least, 1e-6, 1], [0.0, math.pi / 2, n // 2 + 1 - 1e-6])[None])
    return np.repeat(worst, counts.astype(int), axis=0)


def worse_pair(algorithm: Any, pair: Pair, budget: Budget, rng: Generator, tries: int | None = None) -> Pair:
    """Search at random, starting from `pair`, for two data sets that an attacker distinguishes better."""
    best, farthest = pair, distance(algorithm, pair, budget)
    if math.isnan(farthest):
        return pair
    if tries is None:
        shown = exposures(algorithm, pair, budget)
        rounds = any(isinstance(exposure, Transcript) and math.isnan(exposure.mu) for exposure in shown)
        tries = FEWER if rounds else TRIES
    for _ in range(tries):
        candidate = moved(best, rng)
        try:
            far = distance(algorithm, candidate, budget)
        except UserError:  # outside the domain, or the solver does not converge
            continue
        if far > farthest:
            best, farthest = candidate, far
    return best


def distance(algorithm: Any, pair: Pair, budget: Budget) -> float:
    """Return how well the best observer distinguishes two data sets, as a mu or a privacy loss; NaN if unknown."""
    known = [exposure.distance() for exposure in exposures(algorithm, pair, budget)]
    return max((far for far in known if not math.isnan(far)), default=math.nan)


def moved(pair: Pair, rng: Generator) -> Pair:
    """Return two random data sets near a given pair; rows that are equal in the pair stay equal."""
    first, second = pair
    differ = np.any(first.X != second.X, axis=1) | (first.y != second.y)
    step, common, d = rng.choice(_STEPS), rng.random() < 0.5, first.X.shape[1]
    together = step * common * rng.standard_normal(d)
    shift, own = (np.where(differ[:, None], step * rng.standard_normal(d), together) for _ in range(2))
    turn = np.where(differ, rng.random(len(differ)) < 0.1, rng.random() < 0.1)
    task = first.data.task
    y_first = relabelled(first.y, turn & (common | differ), task, rng)
    y_second = np.where(differ, relabelled(second.y, turn & differ, task, rng), y_first)
    auxiliary = _into_ball(first.X_auxiliary + step * rng.standard_normal(first.X_auxiliary.shape) * common)
    return (
        replace(with_rows(first, _into_ball(first.X + shift), y_first), X_auxiliary=auxiliary),
        replace(with_rows(second, _into_ball(second.X + own), y_second), X_auxiliary=auxiliary),
    )


def relabelled(y: Array, which: Array, task: Task, rng: Generator) -> Array:
    """Replace the labels y (n,) by other valid labels for the task where the mask `which` is true."""
    if task == "binary":
        other = -y
    elif task == "multiclass":
        other = rng.permutation(y)
    else:
        other = np.clip(y + 0.3 * rng.standard_normal(len(y)), -1, 1)
    return np.where(which, other, y)


def _into_ball(X: Array) -> Array:
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.maximum(norms * (1 + 1e-15), 1.0)
