"""Bugs in noisy Newton steps and noisy minimisers that somebody could write: the audit calls each of them one."""

from dataclasses import replace

import numpy as np
import pytest
from planted import ALL, BUDGET, attacked, bugs, times, verdicts

from dpml.algorithms import noisy_newton
from dpml.algorithms.noisy_newton import NoisyNewton, PreparedNewton, Widths
from dpml.algorithms.perturbation import gaussian_output
from dpml.algorithms.perturbation.gaussian_output import GaussianOutput
from dpml.optim.losses import LOSSES
from dpml.privacy import gdp, noise

SQUARED, LOGISTIC = LOSSES["squared"], LOSSES["logistic"]
DRAWS = 12_000
FEW = 2_000  # enough where nothing is hidden any more, or the pair itself shows more than is proven
NEWTON = NoisyNewton(LOGISTIC, rounds=5)
OUTPUTS = [GaussianOutput(LOGISTIC), GaussianOutput(SQUARED)]
each_output = pytest.mark.parametrize("algorithm", OUTPUTS, ids=["logistic", "squared"])
slow = pytest.mark.slow  # the same bug in code that is mostly the same


@pytest.mark.parametrize("curvature", ["bound", "hessian"])
def test_nobody_is_accused_of_what_is_right(curvature) -> None:
    found = attacked(replace(NEWTON, curvature=curvature), DRAWS)
    assert "BUG" not in {view.verdict for view in found.values()}
    assert 0.6 <= found["aggregate"].power <= 1


@each_output
def test_how_much_of_what_is_proven_minimisers_show(algorithm) -> None:
    found = attacked(algorithm, 20_000, self_test=True)["release"]
    assert found.power >= 0.99
    assert found.verdict == "consistent"


@slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("algorithm", [NEWTON, replace(NEWTON, curvature="hessian"), *OUTPUTS])
def test_nobody_is_accused_of_what_is_right_in_a_whole_audit(algorithm, seed) -> None:
    """With a search for worse neighbours."""
    assert "BUG" not in verdicts(algorithm, DRAWS, seed).values()


# ---- rounds


@pytest.mark.parametrize("share", [0.5, 0.0])
def test_too_little_noise_and_none(monkeypatch, share) -> None:
    monkeypatch.setattr(noise, "gaussian", times(share)(noise.gaussian))
    assert bugs(NEWTON, DRAWS if share else FEW)


@pytest.mark.parametrize("which", ["gradient", "direction"])
def test_one_of_the_two_noises_is_a_third(monkeypatch, which) -> None:
    """Where what is counted is right: the release reads other numbers than the guarantee."""
    right = NoisyNewton.widths

    def less(self, budget, problem) -> Widths:
        widths = right(self, budget, problem)
        return widths._replace(**{which: getattr(widths, which) / 3})

    release = PreparedNewton.release

    def wrong(self, *arguments, **keywords):
        with monkeypatch.context() as patch:
            patch.setattr(NoisyNewton, "widths", less)
            return release(self, *arguments, **keywords)

    monkeypatch.setattr(PreparedNewton, "release", wrong)
    assert bugs(NEWTON, DRAWS)


def test_directions_that_are_not_counted(monkeypatch) -> None:
    """As if the matrix were public: all of the budget for gradients, and directions nearly as they are."""
    right = NoisyNewton.widths

    def free(self, budget, problem) -> Widths:
        widths = right(self, budget, problem)
        return widths._replace(gradient=widths.gradient * self.share**0.5, direction=1e-3)

    monkeypatch.setattr(NoisyNewton, "widths", free)
    guaranteed, mu = NoisyNewton.guarantees, gdp.mu_of(BUDGET.eps, BUDGET.delta)

    def claimed(self, *arguments):
        return [replace(g, mu=mu, eps=BUDGET.eps) for g in guaranteed(self, *arguments)]

    monkeypatch.setattr(NoisyNewton, "guarantees", claimed)
    assert bugs(NEWTON, FEW)


def test_the_same_noise_in_every_round(monkeypatch) -> None:
    release = PreparedNewton.release

    def reused(self, budgets, rng, draws, watch=None):
        drawn = noise.gaussian(rng, (2, draws, self.parties.problem.d))
        with monkeypatch.context() as patch:
            patch.setattr(noise, "gaussian", lambda rng, shape: drawn)
            return release(self, budgets, rng, draws, watch)

    monkeypatch.setattr(PreparedNewton, "release", reused)
    assert bugs(NEWTON, DRAWS)


def test_a_single_kind_of_noise_for_both_messages(monkeypatch) -> None:
    """The noise of the direction is that of the gradient, and so known from it once the gradient is."""
    right = noise.gaussian

    def shared(rng, shape):
        drawn = right(rng, shape)
        if len(shape) == 3:
            drawn[1] = drawn[0]
        return drawn

    monkeypatch.setattr(noise, "gaussian", shared)
    assert bugs(NEWTON, FEW)


def test_the_sensitivity_of_adding_a_row_to_a_gradient(monkeypatch) -> None:
    """A row's own gradient has at most length 1, at w = 0 half of that: half as much as a row that is replaced."""
    right = noisy_newton.logistic_radius
    monkeypatch.setattr(noisy_newton, "logistic_radius", lambda length: right(length) / 2)
    assert bugs(replace(NEWTON, share=0.8), FEW)


def test_a_curvature_that_is_forgotten(monkeypatch) -> None:
    monkeypatch.setattr(noisy_newton, "CURVATURE", 0.05)
    assert bugs(replace(NEWTON, curvature="hessian"), FEW)


def test_a_quarter_of_the_rounds(monkeypatch) -> None:
    """Or the sensitivities of adding a row, in all messages: in the noise and in the proof."""
    right, guaranteed = NoisyNewton.widths, NoisyNewton.guarantees

    def fewer(self, budget, problem) -> Widths:
        widths = right(self, budget, problem)
        return widths._replace(gradient=widths.gradient / 2, direction=widths.direction / 2)

    def claimed(self, *arguments):
        return [replace(g, mu=g.mu / 2, eps=gdp.eps_of(g.mu / 2, g.delta)) for g in guaranteed(self, *arguments)]

    monkeypatch.setattr(NoisyNewton, "widths", fewer)
    monkeypatch.setattr(NoisyNewton, "guarantees", claimed)
    assert bugs(NEWTON, FEW)


# ---- minimisers


@each_output
@pytest.mark.parametrize("share", [0.5, pytest.param(0.0, marks=slow)])
def test_minimisers_with_too_little_noise(monkeypatch, algorithm, share) -> None:
    monkeypatch.setattr(noise, "gaussian", times(share)(noise.gaussian))
    assert bugs(algorithm, 20_000, ALL) == {"release"}


@each_output
@pytest.mark.parametrize("factor", [0.5, 0.8])
def test_a_sensitivity_that_is_too_small_in_noise_and_proof(monkeypatch, algorithm, factor) -> None:
    """That of adding a row, and one that forgets that a long model sees steep gradients: known without a draw."""
    for name in ("logistic_radius", "squared_radius"):
        right = getattr(gaussian_output, name)
        monkeypatch.setattr(gaussian_output, name, lambda length, right=right: factor * right(length))
    found = attacked(algorithm, FEW)["release"]
    assert found.verdict == "BUG"
    assert found.exact > found.proven


def test_a_diameter_that_knows_no_long_models(monkeypatch) -> None:
    """1/(N lam), that of gradients at w = 0, is too little for any model that is not 0."""
    monkeypatch.setattr(gaussian_output, "logistic_radius", lambda length: np.float64(0.5))
    assert bugs(OUTPUTS[0], FEW, ALL) == {"release"}
