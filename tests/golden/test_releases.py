"""Every algorithm, protocol, noise and unit: a release is what it was, and what holds of all releases."""

import json

import numpy as np
import pytest

from dpml.config.compose import options
from dpml.privacy import Budget
from tests.golden.settings import BUDGETS, FILE, made, numbers, release_of, released, settings

SETTINGS = settings()
STORED = json.loads(FILE.read_text())
CARRIED = {"noise": "continuous", "protocol": "simulate"}
SIMULATED = [name for name, (_, options) in SETTINGS.items() if CARRIED | options == options | CARRIED]
"""Whose continuous noise is simulated: all budgets have the same draws."""
GRID = [name for name in SETTINGS if "noise=discrete" in name and "secagg" not in name]
POOLED = {"nonpriv", "batch", "ceiling", "fm", "dpfm", "adassp", "outpert", "newton", "wang", "gop", "objpert", "amp"}
"""Who has all rows at one place."""


def test_every_algorithm_has_a_stored_release():
    assert {algo for algo, _ in SETTINGS.values()} == set(options("algo")) - {"regression", "jayaraman_local"}


LONG = [name for name in SETTINGS if name.startswith("psgd") and "published" in name]  # its proof takes seconds


@pytest.mark.slow_cases(
    "gop calibration=tight",
    "ssp_descent loss=logistic unit=party protocol=secagg noise=continuous",
    "ssp_descent loss=logistic unit=party protocol=secagg noise=discrete",
    "ssp_descent loss=logistic unit=sample protocol=secagg noise=discrete",
    "ssp_descent loss=squared unit=party protocol=secagg noise=continuous",
    "ssp_descent loss=squared unit=party protocol=secagg noise=discrete",
    "ssp_descent loss=squared unit=sample protocol=simulate noise=discrete",
    "wdgd loss=logistic rounds=6 unit=sample protocol=secagg noise=discrete",
)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in SETTINGS]
)
def test_a_release_is_what_it_was(name):
    was, now = STORED[name], json.loads(json.dumps(released(*SETTINGS[name])))
    assert now["guarantees"] == [
        [view, unit, pytest.approx(eps, rel=1e-9), delta, basis, mu if mu is None else pytest.approx(mu, rel=1e-9)]
        for view, unit, eps, delta, basis, mu in was["guarantees"]
    ]
    for part in ("weights", "metrics"):
        # another machine's BLAS rounds otherwise, and noise on a grid may then fall on the next step
        first, second = np.array(numbers(was[part])), np.array(numbers(now[part]))
        np.testing.assert_allclose(second, first, rtol=1e-3, atol=1e-3 * np.nanmax(np.abs(first), initial=1e-6))


def values_of(release) -> dict[str, np.ndarray]:
    weights = {} if release.weights is None else {"weights": release.weights}
    return {key: np.asarray(values, dtype=float) for key, values in (release.metrics | weights).items()}


@pytest.mark.parametrize("name", SIMULATED)
def test_budgets_together_are_each_budget_alone(name):
    """Noise has the same directions, and no step, clip or round of one depends on another."""
    algo, options = SETTINGS[name]
    algorithm, parties = made(algo, options)
    together = values_of(release_of(algo, algorithm, parties))
    # a solver that stops where it may, and a grid of steps whose products in single precision go another way
    off = 1e-5 if algo == "amp" or options.get("step_selection") == "oracle" else 1e-9
    for number, budget in enumerate(BUDGETS):
        alone = values_of(release_of(algo, algorithm, parties, [budget]))
        assert alone.keys() == together.keys()
        for key, values in alone.items():
            np.testing.assert_allclose(values[0], together[key][number], rtol=off, atol=off / 100, err_msg=key)


@pytest.mark.parametrize("name", SIMULATED)
def test_the_least_and_the_largest_budgets_have_finite_models(name):
    algo, options = SETTINGS[name]
    if (algo, options.get("variant")) == ("dpfm", "authors"):
        return  # its formula of Gaussian noise has no number there
    algorithm, parties = made(algo, options)
    budgets = [Budget(eps, 1e-5) for eps in (1e-30, 1e-6, 1e3, 1e30)]
    for key, values in values_of(release_of(algo, algorithm, parties, budgets)).items():
        assert np.isfinite(values).all(), key


class Bytes:
    """A generator of bytes, and of nothing else."""

    def __init__(self) -> None:
        self.bytes = np.random.default_rng(0).bytes


@pytest.mark.parametrize("name", GRID)
def test_on_a_grid_no_floating_point_noise_is_drawn(name):
    algorithm, parties = made(*SETTINGS[name])
    release = algorithm.prepare(parties, np.random.default_rng(0)).release([BUDGETS[0]], Bytes(), 2)
    assert np.isfinite(release.weights).all()


@pytest.mark.parametrize("name", [name for name in SIMULATED if SETTINGS[name][0] in POOLED])
def test_who_holds_the_rows_changes_nothing(name):
    algo, options = SETTINGS[name]
    one, many = (values_of(release_of(algo, *made(algo, options, M))) for M in (1, 5))
    for key, values in one.items():
        np.testing.assert_allclose(values, many[key], rtol=1e-6, atol=1e-6, err_msg=key)
