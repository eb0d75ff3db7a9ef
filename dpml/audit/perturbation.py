"""The audit of objective perturbation: `objpert` and `gop`."""

from dataclasses import replace

from dpml.algorithms.perturbation.objective import (
    GaussianObjectivePerturbation,
    ObjectivePerturbation,
)
from dpml.audit import output_density as density
from dpml.audit.exposure import Exposure, Pair, laplace_exposure, model_exposure, prepared
from dpml.audit.neighbours import one_replaced_for_loss, turned_label
from dpml.audit.pairs import worst_case
from dpml.audit.views import exposures
from dpml.privacy import Budget, Problem

# The relative excess of the scores' distance over that of the pair up to which they count as normal.
NEARLY = 0.01


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
        return [laplace_exposure(both, budget, noisy)]
    if algorithm.loss.lipschitz is None:  # minimisers on the ball's surface have no density
        return [exposure]
    rows, sent = [parties.folded for parties in pair], algorithm.objective(budget, problem)
    score = density.minimiser_score(algorithm.loss, rows, sent.ridge, density.laplace_log_density(sent.scale))
    return [replace(exposure, score=score, loss=density.largest_loss(algorithm.loss, rows, sent.ridge, sent.scale))]


@worst_case.register
def worst_gaussian_objectives(algorithm: GaussianObjectivePerturbation, budget: Budget, problem: Problem) -> Pair:
    """Many rows hold w where a row and its successor have long gradients; on a line, a row changes its label."""
    if problem.d == 1:
        return turned_label(problem)
    delta = budget.require_delta(f"algo={algorithm.name}")
    sent = algorithm.messages(budget, problem)[0]
    loss = algorithm.trained
    return density.held_pair(
        loss, problem, sent.ridge, lambda pair: density.gaussian_mu(loss, pair, sent.ridge, sent.scale, delta)[0]
    )


@exposures.register
def shown_gaussian_objectives(algorithm: GaussianObjectivePerturbation, pair: Pair, budget: Budget) -> list[Exposure]:
    """The model. Its density is that of the noise which makes it the minimiser, times a Jacobian."""
    delta = budget.require_delta(f"algo={algorithm.name}")
    sent = algorithm.messages(budget, pair[0].problem)[0]
    rows = [parties.folded for parties in pair]
    score = density.minimiser_score(algorithm.trained, rows, sent.ridge, density.gaussian_log_density(sent.scale))
    mu, apart = density.gaussian_mu(algorithm.trained, rows, sent.ridge, sent.scale, delta)
    normal = apart <= mu * (1 + NEARLY)  # the scores' Gaussian curve says no more than there is to be seen
    return [replace(model_exposure(prepared(algorithm, pair), budget), score=score, normal=normal, mu=mu)]
