"""Statistics first, then preconditioned rounds: both stages' noise and privacy, and the rounds against plain loops."""

import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation
from dp_accounting.pld import PLDAccountant
from examples import Observed, noisy_coefficients, recipe_parties
from scipy import stats
from test_clipped import slope_of, some_parties

from dpml.algorithms.defaults import SPECTRAL_FLOOR
from dpml.algorithms.descent.preconditioned import PreconditionedDescent
from dpml.errors import UserError
from dpml.optim.convex import optimum
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget, Problem, gdp
from dpml.sums import single_imprecision

LOGISTIC, SQUARED = LOSSES["logistic"], LOSSES["squared"]
BUDGET, FREE = Budget(1.0, 1e-5), Budget(math.inf, 1e-5)


def released(algorithm, parties, budgets, draws=1, seed=0):
    return algorithm.prepare(parties, np.random.default_rng(0)).release(budgets, np.random.default_rng(seed), draws)


@pytest.mark.parametrize("unit", ["sample", "party"])
@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED], ids=lambda loss: loss.name)
@pytest.mark.parametrize(("M", "colluders"), [(1, 0), (9, 0), (9, 8)])
@pytest.mark.parametrize("share", [0.01, 0.3, 0.99])
def test_both_stages_together_have_exactly_the_budget(loss, unit, M, colluders, share) -> None:
    problem = Problem(M, 900, 3, colluders=colluders)
    views = PreconditionedDescent(loss, unit=unit, budget_share=share).guarantees(BUDGET, problem)
    assert {(g.unit, g.basis) for g in views} == {(unit, "proven")}
    assert max(g.eps for g in views) == pytest.approx(1.0, rel=1e-9)


def test_the_stages_against_another_accountant() -> None:
    """A pair's own distances in either stage: X'y and X'X by the statistics' scales, 2 clips in every sum."""
    problem = Problem(1, 500, 3)
    algorithm = PreconditionedDescent(LOGISTIC)
    statistics, rounds = algorithm.messages(BUDGET, problem)
    on_linear, on_square, _ = statistics.units
    rng, most = np.random.default_rng(0), 0.0
    for _ in range(20_000):  # rows of norm 1, labels apart or not
        x, other = (v / np.linalg.norm(v) for v in rng.standard_normal((2, 2)))
        y, z = rng.choice([-1.0, 1.0], 2)
        linear = np.linalg.norm((y * x - z * other) / 2) / on_linear
        square = np.linalg.norm((np.outer(x, x) - np.outer(other, other)) / 8) / on_square
        most = max(most, math.hypot(linear, square))
    accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=1e-4)
    accountant.compose(GaussianDpEvent(1 / most))
    accountant.compose(GaussianDpEvent(rounds.noise / 2), rounds.times)
    assert 0.97 <= accountant.get_epsilon(1e-5) <= 1.002


@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED], ids=lambda loss: loss.name)
def test_a_release_is_the_plain_loop(loss) -> None:
    """The statistics' noise is read off the release with the same seed; the rounds are written out."""
    parties, lam = some_parties(loss, M=1), 0.1
    algorithm = PreconditionedDescent(loss, rounds=4, lam=lam)
    prepared = algorithm.prepare(parties, np.random.default_rng(0))
    weights = prepared.release([BUDGET], np.random.default_rng(7), 3).weights
    rng = np.random.default_rng(7)
    _, b, A = noisy_coefficients(prepared, [BUDGET], rng, 3)
    N = len(parties.y)
    b, A = b / N, A / N + lam / 2 * np.eye(4)
    floor = SPECTRAL_FLOOR * math.sqrt(2 * 4) * algorithm.messages(BUDGET, parties.problem)[0].units[1] / N
    schedule = algorithm.schedule(BUDGET, parties.problem)
    noises = [rng.standard_normal((3, 4)) for _ in range(4)]
    for draw in range(3):
        values, vectors = np.linalg.eigh(A[0, draw])
        hessian = 2 * (vectors * np.maximum(values, floor)) @ vectors.T
        w, models = np.linalg.solve(hessian, -b[0, draw]), []
        for z in noises:
            rows = zip(parties.X, parties.y, strict=True)
            total = sum(slope_of(loss, x @ w, y, schedule.clip) * x for x, y in rows)
            mean = (total + schedule.clip * schedule.noise * z[draw]) / N
            w = w - np.linalg.solve(hessian, mean + lam * w)
            models.append(w)
        np.testing.assert_allclose(weights[0, draw], np.mean(models[2:], axis=0), rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("unit", ["sample", "party"])
@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED], ids=lambda loss: loss.name)
def test_without_noise_the_real_protocol_gives_the_same_model(loss, unit) -> None:
    models = [
        released(PreconditionedDescent(loss, unit=unit, rounds=3, protocol=protocol), some_parties(loss), [FREE])
        for protocol in ("simulate", "secagg")
    ]
    np.testing.assert_allclose(models[0].weights, models[1].weights, rtol=1e-3, atol=1e-4)


def test_the_real_protocol_draws_as_much_noise() -> None:
    """The mean square distance from the model without noise, simulated and real, agree: a t-test at 1e-3."""
    parties = some_parties(M=4)
    distances = []
    for protocol in ("simulate", "secagg"):
        algorithm = PreconditionedDescent(LOGISTIC, rounds=3, lam=0.5, protocol=protocol)
        exact = released(algorithm, parties, [FREE]).weights[0, 0]
        drawn = released(algorithm, parties, [Budget(5.0, 1e-5)], 300, seed=2).weights[0]
        distances.append(np.log(np.sum((drawn - exact) ** 2, axis=1)))
    assert stats.ttest_ind(*distances).pvalue > 1e-3


def test_without_noise_and_clip_least_squares_is_found_at_once() -> None:
    parties = recipe_parties("linear")
    weights = released(PreconditionedDescent(SQUARED, clip=1e6, lam=0.01), parties, [FREE]).weights[0, 0]
    np.testing.assert_allclose(weights, optimum(SQUARED, parties.X, parties.y, 0.01), rtol=1e-3, atol=1e-4)


def test_without_noise_rounds_approach_the_logistic_minimiser() -> None:
    """The curvature at 0 is the largest, so that steps are too short, but never too long."""
    parties = recipe_parties("logistic")
    weights = released(PreconditionedDescent(LOGISTIC, clip=1.0, lam=0.05, rounds=60), parties, [FREE]).weights[0, 0]
    np.testing.assert_allclose(weights, optimum(LOGISTIC, parties.X, parties.y, 0.05), atol=0.02)


def test_budgets_and_blocks_of_draws_share_noise() -> None:
    prepared = PreconditionedDescent(LOGISTIC, rounds=3).prepare(some_parties(), np.random.default_rng(0))
    budgets = [Budget(eps, 1e-5) for eps in (0.1, 1.0, 4.0)]
    together = prepared.release(budgets, np.random.default_rng(5), 3).weights
    alone = prepared.release(budgets[1:2], np.random.default_rng(5), 3).weights
    np.testing.assert_allclose(together[1], alone[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("eps", [1e-30, 1e3, 1e30])
@pytest.mark.parametrize("unit", ["sample", "party"])
@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED], ids=lambda loss: loss.name)
def test_every_budget_has_finite_models(loss, unit, eps) -> None:
    release = released(PreconditionedDescent(loss, unit=unit, rounds=3), some_parties(loss), [Budget(eps, 1e-5)], 2)
    assert np.isfinite(release.weights).all()


def test_noise_in_the_rounds_is_what_is_counted() -> None:
    """Messages, less what would be sent without noise, in units of its noise: chi-square at 1e-4."""
    prepared = PreconditionedDescent(LOGISTIC, rounds=3).prepare(some_parties(M=4), np.random.default_rng(0))
    observer = Observed(prepared)
    prepared.release([BUDGET], np.random.default_rng(0), 500, observer)
    residuals = observer.residuals
    assert [of.shape for of in residuals] == [(500, 14)] + 3 * [(500, 4)]
    for some in (residuals[:1], residuals[1:]):
        low, high = stats.chi2.ppf([5e-5, 1 - 5e-5], np.size(some))
        assert low <= np.sum(np.square(some)) <= high


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"calibration": "published"}, "calibration must be tight, got 'published'"),
        ({"budget_share": 1.0}, "algo.budget_share of ssp_descent must lie strictly between 0 and 1, got 1.0."),
        ({"rounds": 0}, "algo.rounds of ssp_descent must be at least 1 and at most 1000000, got 0."),
        ({"rounds": 10**8}, "algo.rounds of ssp_descent must be at least 1 and at most 1000000, got 100000000."),
        ({"clip": -1.0}, "algo.clip of ssp_descent must be a positive number, got -1.0."),
        ({"unit": "rows"}, "algo.unit must be one of sample, party"),
    ],
)
def test_mistakes(options, sentence) -> None:
    with pytest.raises(UserError) as error:
        PreconditionedDescent(LOGISTIC, **options)
    assert sentence in str(error.value)


def test_mu_is_split() -> None:
    problem, algorithm = Problem(1, 900, 3), PreconditionedDescent(LOGISTIC, budget_share=0.2)
    mu = gdp.mu_of(1.0, 1e-5)
    statistics, rounds = algorithm.messages(BUDGET, problem)
    assert statistics.mu == pytest.approx(math.sqrt(0.2) * mu)
    assert rounds.mu * (1 + single_imprecision(900, 3)) == pytest.approx(math.sqrt(0.8) * mu)
