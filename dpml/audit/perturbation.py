"""The audit of output and objective perturbation: `outpert`, `objpert`, `gop` and `amp`."""

import math
from dataclasses import replace

import numpy as np

from dpml.algorithms.approximate_minima import ApproximateMinima
from dpml.algorithms.gaussian_output import GaussianOutput
from dpml.algorithms.objective_perturbation import GaussianObjectivePerturbation, ObjectivePerturbation
from dpml.algorithms.perturbed_objectives import SMOOTHNESS
from dpml.arrays import Array
from dpml.audit.exposure import Exposure, Pair, laplace_score, model_exposure, prepared
from dpml.audit.neighbours import one_replaced, one_replaced_for_loss, turned_label
from dpml.audit.output_density import (
    Folded,
    gaussian_log_density,
    gaussian_mu,
    held_pair,
    laplace_log_density,
    largest_loss,
    minimiser_score,
)
from dpml.audit.pairs import worst_case
from dpml.audit.views import exposures
from dpml.optim.interior_point import stopped_model
from dpml.privacy import Budget, Problem

# The relative excess of the scores' distance over that of the pair up to which they count as normal.
NEARLY = 0.01


@worst_case.register
def worst_outputs(algorithm: GaussianOutput, budget: Budget, problem: Problem) -> Pair:
    """Many equal rows make w long and leave moves across it free; the row that differs pulls to either side."""
    strength = algorithm.calibrate(budget, problem).strength
    if problem.d == 1:
        return one_replaced_for_loss(algorithm.loss, problem, [1.0], [1.0], other_label=-1.0)
    if not algorithm.logistic:
        return held_in_ball(problem, strength, algorithm.longest(strength))

    def apart(pair: Folded) -> float:
        first, second = (algorithm.minimise(rows, np.array([strength]))[0] for rows in pair)
        return float(np.linalg.norm(second - first))

    return held_pair(algorithm.loss, problem, problem.N * strength, apart)


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
    labelled = [replace(parties, data=replace(parties.data, y=y), y=y) for parties in (first, second)]
    return labelled[0], labelled[1]


@exposures.register
def shown_outputs(algorithm: GaussianOutput, pair: Pair, budget: Budget) -> list[Exposure]:
    """The model: one of two Gaussians."""
    strength, sigma = algorithm.calibrate(budget, pair[0].problem)
    first, second = (algorithm.minimise(parties.folded, np.array([strength]))[0] for parties in pair)

    def score(seen: Array) -> Array:
        likelihood: Array = (seen - (first + second) / 2) @ (second - first) / sigma**2
        return likelihood

    mu = float(np.linalg.norm(second - first)) / sigma
    return [replace(model_exposure(prepared(algorithm, pair), budget), score=score, normal=True, mu=mu)]


@worst_case.register
def worst_laplace_objectives(algorithm: ObjectivePerturbation, budget: Budget, problem: Problem) -> Pair:
    """Many rows hold w where a row and its successor have long gradients; else a row changes its label."""
    loss = algorithm.loss
    if algorithm.variant == "authors" or loss.lipschitz is None or problem.d == 1:
        return one_replaced_for_loss(loss, problem, [1.0], [1.0], other_label=-1.0)
    scale, extra = algorithm.calibrate(budget, problem)
    ridge = problem.N * (algorithm.lam + extra)
    return held_pair(loss, problem, ridge, lambda pair: largest_loss(loss, pair, ridge, scale))


@exposures.register
def shown_laplace_objectives(algorithm: ObjectivePerturbation, pair: Pair, budget: Budget) -> list[Exposure]:
    """The model. Its density is that of the noise which makes it the minimiser, times a Jacobian."""
    loss, exposure = algorithm.loss, model_exposure(prepared(algorithm, pair), budget)
    scale, extra = algorithm.calibrate(budget, pair[0].problem)
    if algorithm.variant == "authors":
        first, second = (stopped_model(loss, p.X, p.y, algorithm.lam) for p in pair)
        distance = float(np.linalg.norm(second - first)) / scale
        return [replace(exposure, score=laplace_score(scale, first, second), loss=distance)]
    if loss.lipschitz is None:  # minimisers on the ball's surface have no density
        return [exposure]
    rows, ridge = [parties.folded for parties in pair], pair[0].problem.N * (algorithm.lam + extra)
    score = minimiser_score(loss, rows, ridge, laplace_log_density(scale))
    return [replace(exposure, score=score, loss=largest_loss(loss, rows, ridge, scale))]


@worst_case.register
def worst_gaussian_objectives(algorithm: GaussianObjectivePerturbation, budget: Budget, problem: Problem) -> Pair:
    """Many rows hold w where a row and its successor have long gradients; on a line, a row changes its label."""
    if problem.d == 1:
        return turned_label(problem)
    delta = budget.require_delta(f"algo={algorithm.name}")
    sigma, ridge = algorithm.noise(budget, problem)
    loss = algorithm.trained
    return held_pair(loss, problem, ridge, lambda pair: gaussian_mu(loss, pair, ridge, sigma, delta)[0])


@exposures.register
def shown_gaussian_objectives(algorithm: GaussianObjectivePerturbation, pair: Pair, budget: Budget) -> list[Exposure]:
    """The model. Its density is that of the noise which makes it the minimiser, times a Jacobian."""
    delta = budget.require_delta(f"algo={algorithm.name}")
    sigma, ridge = algorithm.noise(budget, pair[0].problem)
    rows = [parties.folded for parties in pair]
    score = minimiser_score(algorithm.trained, rows, ridge, gaussian_log_density(sigma))
    mu, apart = gaussian_mu(algorithm.trained, rows, ridge, sigma, delta)
    normal = apart <= mu * (1 + NEARLY)  # the scores' Gaussian curve says no more than there is to be seen
    return [replace(model_exposure(prepared(algorithm, pair), budget), score=score, normal=normal, mu=mu)]


@exposures.register
def shown_approximate_minima(algorithm: ApproximateMinima, pair: Pair, budget: Budget) -> list[Exposure]:
    """The model, scored as if it were an exact minimiser: the density of the sum of both noises is not known.

    The scores are as normal as those of `gop` where the output's noise is negligible beside the other one.
    """
    (exposure,) = shown_gaussian_objectives(algorithm, pair, budget)
    problem = pair[0].problem
    sigma, ridge = algorithm.noise(budget, problem)
    steepest = ridge + problem.N * SMOOTHNESS
    lost = steepest * algorithm.perturbation(budget, problem).output <= NEARLY * sigma
    return [replace(exposure, normal=exposure.normal and lost, mu=math.nan)]
