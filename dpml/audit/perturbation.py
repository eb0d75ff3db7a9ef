"""The audit of output and objective perturbation: `outpert`, `objpert`, `gop` and `amp`."""

import math
from dataclasses import replace

import numpy as np

from dpml.algorithms.perturbation.approximate_minima import ApproximateMinima
from dpml.algorithms.perturbation.calibration import SMOOTHNESS
from dpml.algorithms.perturbation.gaussian_output import GaussianOutput
from dpml.algorithms.perturbation.objective import (
    GaussianObjectivePerturbation,
    ObjectivePerturbation,
)
from dpml.arrays import Array
from dpml.audit import output_density as density
from dpml.audit.exposure import Exposure, Pair, laplace_exposure, model_exposure, prepared
from dpml.audit.neighbours import one_replaced, one_replaced_for_loss, turned_label, with_rows
from dpml.audit.pairs import worst_case
from dpml.audit.views import exposures
from dpml.privacy import Budget, Problem

# The relative excess of the scores' distance over that of the pair up to which they count as normal.
NEARLY = 0.01


@worst_case.register
def worst_outputs(algorithm: GaussianOutput, budget: Budget, problem: Problem) -> Pair:
    """Many equal rows make w long and leave moves across it free; the row that differs pulls to either side."""
    strength = algorithm.ridge(budget, problem)
    if problem.d == 1:
        return one_replaced_for_loss(algorithm.loss, problem, [1.0], [1.0], other_label=-1.0)
    if not algorithm.logistic:
        return held_in_ball(problem, strength, algorithm.longest(strength))

    def apart(pair: density.Folded) -> float:
        first, second = (algorithm.minimise(rows, np.array([strength]))[0] for rows in pair)
        return float(np.linalg.norm(second - first))

    return density.held_pair(algorithm.loss, problem, problem.N * strength, apart)


def held_in_ball(problem: Problem, strength: float, length: float) -> Pair:
    """Neighbours whose least-squares gradients are far apart: a crowd (0, c) of label 1 holds w = (0, `length`).

    c solves ``strength length = 2 c (1 - c length)``, or is 1. A row of label -1 pulls to either side, at the angle
    where two gradients are farthest apart.
    """
    c = min(1.0, (1 + math.sqrt(max(0.0, 1 - 2 * strength * length**2))) / (2 * length))
    b = 2 * length / (1 + math.sqrt(1 + 8 * length**2))
    a = math.sqrt(1 - b * b)
    first, second = one_replaced("regression", problem, [a, b], [-a, b], (-1.0, -1.0), rest=[0.0, c])
    y = np.append(np.ones(problem.N - 1), -1.0)
    return with_rows(first, first.X, y), with_rows(second, second.X, y)


@exposures.register
def shown_outputs(algorithm: GaussianOutput, pair: Pair, budget: Budget) -> list[Exposure]:
    """The model: one of two Gaussians."""
    problem = pair[0].problem
    strength, (sent,) = algorithm.ridge(budget, problem), algorithm.messages(budget, problem)
    first, second = (algorithm.minimise(parties.folded, np.array([strength]))[0] for parties in pair)

    def score(seen: Array) -> Array:
        likelihood: Array = (seen - (first + second) / 2) @ (second - first) / sent.scale**2
        return likelihood

    mu = float(np.linalg.norm(second - first)) / sent.scale
    return [replace(model_exposure(prepared(algorithm, pair), budget), score=score, normal=True, mu=mu)]


@worst_case.register
def worst_laplace_objectives(algorithm: ObjectivePerturbation, budget: Budget, problem: Problem) -> Pair:
    """Many rows hold w where a row and its successor have long gradients; else a row changes its label."""
    loss = algorithm.loss
    if algorithm.variant == "authors" or loss.lipschitz is None or problem.d == 1:
        return one_replaced_for_loss(loss, problem, [1.0], [1.0], other_label=-1.0)
    sent = algorithm.objective(budget, problem)
    return density.held_pair(
        loss, problem, sent.ridge, lambda pair: density.largest_loss(loss, pair, sent.ridge, sent.scale)
    )


@exposures.register
def shown_laplace_objectives(algorithm: ObjectivePerturbation, pair: Pair, budget: Budget) -> list[Exposure]:
    """The model. Its density is that of the noise which makes it the minimiser, times a Jacobian."""
    both, problem = prepared(algorithm, pair), pair[0].problem
    exposure = model_exposure(both, budget)
    if algorithm.variant == "authors":
        (noisy,) = algorithm.messages(budget, problem)
        return [laplace_exposure(both, budget, noisy.scale)]
    if algorithm.loss.lipschitz is None:  # minimisers on the ball's surface have no density
        return [exposure]
    rows, sent = [parties.folded for parties in pair], algorithm.objective(budget, problem)
    score = density.minimiser_score(algorithm.loss, rows, sent.ridge, density.laplace_log_density(sent.scale))
    return [replace(exposure, score=score, loss=density.largest_loss(algorithm.loss, rows, sent.ridge, sent.scale))]


@worst_case.register
def worst_gaussian_objectives(
    algorithm: GaussianObjectivePerturbation | ApproximateMinima, budget: Budget, problem: Problem
) -> Pair:
    """Many rows hold w where a row and its successor have long gradients; on a line, a row changes its label."""
    if problem.d == 1:
        return turned_label(problem)
    delta = budget.require_delta(f"algo={algorithm.name}")
    (sent,) = algorithm.messages(budget, problem)
    loss = algorithm.trained
    return density.held_pair(
        loss, problem, sent.ridge, lambda pair: density.gaussian_mu(loss, pair, sent.ridge, sent.scale, delta)[0]
    )


@exposures.register
def shown_gaussian_objectives(
    algorithm: GaussianObjectivePerturbation | ApproximateMinima, pair: Pair, budget: Budget
) -> list[Exposure]:
    """The model. Its density is that of the noise which makes it the minimiser, times a Jacobian."""
    delta = budget.require_delta(f"algo={algorithm.name}")
    (sent,) = algorithm.messages(budget, pair[0].problem)
    rows = [parties.folded for parties in pair]
    score = density.minimiser_score(algorithm.trained, rows, sent.ridge, density.gaussian_log_density(sent.scale))
    mu, apart = density.gaussian_mu(algorithm.trained, rows, sent.ridge, sent.scale, delta)
    normal = apart <= mu * (1 + NEARLY)  # the scores' Gaussian curve says no more than there is to be seen
    return [replace(model_exposure(prepared(algorithm, pair), budget), score=score, normal=normal, mu=mu)]


@exposures.register
def shown_approximate_minima(algorithm: ApproximateMinima, pair: Pair, budget: Budget) -> list[Exposure]:
    """The model, scored as if it were an exact minimiser: the density of the sum of both noises is not known.

    The scores are as normal as those of `gop` where the output's noise is negligible beside the other one.
    """
    (exposure,) = shown_gaussian_objectives(algorithm, pair, budget)
    (sent,) = algorithm.messages(budget, pair[0].problem)
    steepest = sent.ridge + sent.N * SMOOTHNESS
    lost = steepest * sent.output <= NEARLY * sent.scale
    return [replace(exposure, normal=exposure.normal and lost, mu=math.nan)]
