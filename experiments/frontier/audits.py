"""Audit the algorithms in this folder: their worst known neighbours, and the scores that an attacker computes."""

import math
from dataclasses import replace

import numpy as np

from dpml.algorithms.perturbation import SMOOTHNESS
from dpml.algorithms.quadratic.coefficients import quadratic_of, worst_neighbours
from dpml.arrays import Array
from dpml.audit import output_density
from dpml.audit.exposure import Exposure, Pair, model_exposure, prepared
from dpml.audit.neighbours import one_replaced, turned_label, with_rows
from dpml.audit.output_density import NEARLY
from dpml.audit.views import exposures, of_objectives, recorded
from dpml.audit.worst_cases import worst_case
from dpml.privacy import Budget, Problem

from .adassp import AdaptiveStatistics
from .amp import ApproximateMinima
from .newton import NoisyNewton
from .outpert import Fit, GaussianOutput


@exposures.register
def shown_approximate_minima(algorithm: ApproximateMinima, pair: Pair, budget: Budget) -> list[Exposure]:
    """Return the released model and the attacker's score, which treats the model as an exact minimiser.

    The scores are nearly normal if the noise in the output is negligible compared with that in the objective.
    """
    (exposure,) = of_objectives(algorithm, pair, budget)
    sent = algorithm.messages(budget, pair[0].problem)[0]
    steepest = sent.ridge + sent.N * SMOOTHNESS
    lost = steepest * sent.output <= NEARLY * sent.scale
    return [replace(exposure, normal=exposure.normal and lost, mu=math.nan)]


@worst_case.register
def worst_outputs(algorithm: GaussianOutput, budget: Budget, problem: Problem) -> Pair:
    """Return neighbours with many equal rows, which make w long; the row that differs pulls w to either side."""
    strength = algorithm.ridge(budget, problem)
    if problem.d == 1:
        return turned_label(problem, algorithm.loss.task)
    if not algorithm.logistic:
        return held_in_ball(problem, strength, algorithm.longest(strength))

    def apart(pair: output_density.Folded) -> float:
        fit = Fit(algorithm.loss, algorithm.radius)
        first, second = (fit.minimise(rows, np.array([strength]))[0] for rows in pair)
        return float(np.linalg.norm(second - first))

    return output_density.held_pair(algorithm.loss, problem, problem.N * strength, apart)


def held_in_ball(problem: Problem, strength: float, length: float) -> Pair:
    """Return neighbours with distant least-squares gradients: many rows (0, c) of label 1 hold w = (0, `length`).

    c solves ``strength length = 2 c (1 - c length)``, or is 1. The row that differs has label -1.
    """
    c = min(1.0, (1 + math.sqrt(max(0.0, 1 - 2 * strength * length**2))) / (2 * length))
    b = 2 * length / (1 + math.sqrt(1 + 8 * length**2))
    a = math.sqrt(1 - b * b)
    first, second = one_replaced("regression", problem, [a, b], [-a, b], (-1.0, -1.0), rest=[0.0, c])
    y = np.append(np.ones(problem.N - 1), -1.0)
    return with_rows(first, first.X, y), with_rows(second, second.X, y)


@exposures.register
def shown_outputs(algorithm: GaussianOutput, pair: Pair, budget: Budget) -> list[Exposure]:
    """Return the released model and the attacker's score; the model has one of two Gaussian distributions."""
    problem = pair[0].problem
    strength, (sent,) = algorithm.ridge(budget, problem), algorithm.messages(budget, problem)
    both = prepared(algorithm, pair)
    first, second = (each.terms(sent.of).total(np.array([[strength]]))[0] for each in both)

    def score(seen: Array) -> Array:
        likelihood: Array = (seen - (first + second) / 2) @ (second - first) / sent.noise**2
        return likelihood

    mu = float(np.linalg.norm(second - first)) / sent.noise
    return [replace(model_exposure(both, budget), score=score, normal=True, mu=mu)]


@exposures.register
def shown_rounds(algorithm: NoisyNewton, pair: Pair, budget: Budget) -> list[Exposure]:
    """Return the last model, and all rounds, with the attacker's scores."""
    both = prepared(algorithm, pair)
    return [model_exposure(both, budget), *recorded(["aggregate"], both, budget)]


@worst_case.register
def turned_row(algorithm: NoisyNewton, budget: Budget, problem: Problem) -> Pair:
    """Return neighbours with one row rotated by an angle; all other rows are zero, so that w stays near 0.

    At w = 0, gradients differ by sin(angle/2) times their sensitivity, directions by at least sin(angle) times theirs
    if G is in the rows' plane. With one feature, a row changes its label or vanishes.
    """
    gradients, directions = algorithm.budget_share, 1 - algorithm.budget_share
    if problem.d == 1:
        gone = gradients / 4 + directions > gradients
        return one_replaced("binary", problem, [1.0], [0.0 if gone else 1.0], (1.0, 1.0 if gone else -1.0))
    cosine = max(-1.0, -gradients / (4 * directions))
    return one_replaced("binary", problem, [1.0], [cosine, math.sqrt(1 - cosine**2)], (1.0, 1.0))


@worst_case.register
def worst_statistics(algorithm: AdaptiveStatistics, budget: Budget, problem: Problem) -> Pair:
    """Return neighbours whose rows are farthest apart, rotated so that only X'X's diagonal and lambda_min change."""
    d = problem.d
    worst = worst_neighbours(quadratic_of(algorithm.loss), algorithm.joint(d), d)
    labels = 1.0, -worst.label
    if d == 1:
        return one_replaced("regression", problem, [1.0], worst.other, labels)
    half = math.asin(worst.other[0]) / 2
    row = np.array([math.cos(half), math.sin(half)])
    rest = np.eye(d)[1 + np.arange(problem.N - 1) % (d - 1)]
    return one_replaced("regression", problem, row, row[::-1], labels, rest)
