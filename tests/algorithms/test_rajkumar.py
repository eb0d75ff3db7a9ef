"""Rajkumar & Agarwal 2012: noise as drawn and as counted, the limit of psgd, local aggregation, Theorem 5.1."""

import math

import numpy as np
import pytest
from scipy import stats

from dpml.algorithms import noisy_gradient_sums
from dpml.algorithms.noisy_gradient_sums import PrivateSGD
from dpml.algorithms.objective_perturbation import (
    GaussianObjectivePerturbation,
    Perturbation,
    compute_slack,
    optimality_bound,
    sigma_star,
)
from dpml.algorithms.output_perturbation import LocalAggregation
from dpml.data import Dataset
from dpml.data.partition import Equal, Fractions, Parties, Partition, partition
from dpml.errors import UserError
from dpml.optim.convex import optimum
from dpml.optim.losses import LOSSES, mean_gradient
from dpml.privacy import Budget, Problem, gdp
from dpml.privacy.proofs import objective_perturbation as objective

LOGISTIC = LOSSES["logistic"]
BUDGET = Budget(0.5, 1e-2)


def dealt(rule: Partition | None = None, N: int = 300, d: int = 4, M: int = 5, seed: int = 0) -> Parties:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, d))
    X *= rng.random((N, 1)) / np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(X @ np.arange(1, d + 1) + 0.3 * rng.standard_normal(N) > 0, 1.0, -1.0)
    return partition(Dataset("toy", "binary", X, y, X[:0], y[:0]), rule or Equal(), M, np.random.default_rng(1))


def eta_of(weights: np.ndarray, parties: Parties, ridge: float) -> np.ndarray:
    """The noise that a minimiser was made with: (draws, d)."""
    return -len(parties.y) * (mean_gradient(LOGISTIC, parties.X, parties.y, weights) + ridge * weights)


def proven(algorithm, budget: Budget, problem: Problem) -> dict[str, float]:
    return {g.view: g.eps for g in algorithm.guarantees(budget, problem) if g.basis == "proven"}


# ---- calibration


@pytest.mark.parametrize("d", [1, 2, 10, 30])
@pytest.mark.parametrize(("eps", "delta"), [(0.05, 0.05), (1.0, 1e-3), (4.0, 1e-6)])
def test_sigma_star_solves_its_equation(d: int, eps: float, delta: float) -> None:
    sigma = sigma_star(d, eps, delta)
    assert sigma**2 * eps > 2
    assert stats.chi2(d).sf(((sigma**2 * eps - 2) / (2 * sigma)) ** 2) == pytest.approx(delta, rel=1e-9)


@pytest.mark.parametrize("eps", [0.05, 0.1, 1.0, 5.0])
@pytest.mark.parametrize("lam", [1e-5, 1e-3, 1e-2, 1.0])
def test_the_slack_pays_for_the_squared_jacobian(eps: float, lam: float) -> None:
    extra, left = compute_slack(eps, lam, N=1000)
    assert extra >= 0
    assert 0 < left <= eps
    assert 2 * math.log1p(0.25 / (1000 * (lam + extra))) <= (eps - left) * (1 + 1e-12)


@pytest.mark.parametrize("d", [10, 30])
@pytest.mark.parametrize(
    ("eps", "delta", "lam"), [(0.1, 0.05, 1.0), (0.1, 1e-5, 1e-3), (1.0, 1e-5, 1e-2), (3.0, 1e-3, 1e-4)]
)
def test_tight_spends_exactly_eps_and_published_less(d: int, eps: float, delta: float, lam: float) -> None:
    problem, budget = Problem(5, 1000, d), Budget(eps, delta)
    tight = GaussianObjectivePerturbation(LOGISTIC, calibration="tight", lam=lam)
    assert proven(tight, budget, problem)["release"] == pytest.approx(eps, rel=1e-9)
    published = GaussianObjectivePerturbation(LOGISTIC, lam=lam)
    assert proven(published, budget, problem)["release"] < eps
    _, left = compute_slack(eps, lam, 1000)
    two_dimensional = sigma_star(2, left, delta)
    sigma = tight.perturbation(budget, problem).sigma
    assert sigma < two_dimensional < published.perturbation(budget, problem).sigma
    # and a hair less ridge, or noise, would not be proven
    made = tight.perturbation(budget, problem)
    assert objective.eps_of(made.sigma * 0.999, 1000 * (lam + made.extra), delta) > eps
    if made.extra:
        assert objective.delta_of(eps, made.sigma, 990 * (lam + made.extra)) > delta


# ---- gop


@pytest.mark.parametrize("calibration", ["published", "tight"])
def test_gop_draws_the_noise_that_is_counted(calibration: str) -> None:
    parties, draws = dealt(), 3000
    algorithm = GaussianObjectivePerturbation(LOGISTIC, calibration=calibration, lam=0.02)
    weights = (
        algorithm.prepare(parties, np.random.default_rng(0)).release([BUDGET], np.random.default_rng(1), draws).weights
    )
    made = algorithm.perturbation(BUDGET, parties.problem)
    eta = eta_of(weights[0], parties, algorithm.lam + made.extra) / made.sigma
    assert stats.kstest(eta.ravel(), "norm").pvalue > 1e-4  # false-alarm rate 1e-4, seeded
    assert np.abs(np.corrcoef(eta.T) - np.eye(4)).max() < 5 / math.sqrt(draws)


def test_without_noise_all_reach_the_same_minimum() -> None:
    parties, budget = dealt(), Budget(math.inf, 0.1)
    ours = GaussianObjectivePerturbation(LOGISTIC, lam=0.05).prepare(parties, np.random.default_rng(0))
    weights = ours.release([budget], np.random.default_rng(0), 1).weights
    assert np.abs(eta_of(weights[0], parties, 0.05)).max() < 1e-6
    descent = PrivateSGD(LOGISTIC, lam=0.05, rounds=3000).prepare(parties, np.random.default_rng(0))
    release = descent.release([budget], np.random.default_rng(0), 1)
    assert np.allclose(release.weights, weights, atol=1e-3)
    assert release.metrics["distance"].max() < 1e-3
    for algorithm in (ours.algorithm, descent.algorithm):
        assert set(proven(algorithm, budget, parties.problem).values()) == {math.inf}


def test_theorem_5_1_holds_as_often_as_it_says() -> None:
    for lam in (0.5, 0.02, 0.003):  # without and with Delta
        parties, draws = dealt(), 2000
        algorithm = GaussianObjectivePerturbation(LOGISTIC, lam=lam)
        release = algorithm.prepare(parties, np.random.default_rng(0)).release(
            [BUDGET], np.random.default_rng(1), draws
        )
        w = np.vstack([optimum(LOGISTIC, parties.X, parties.y, lam), release.weights[0]])
        value = np.logaddexp(0, -parties.y[:, None] * (parties.X @ w.T)).mean(axis=0) + lam / 2 * np.sum(w * w, axis=1)
        gap = value[1:] - value[0]
        bound = release.metrics["gap_bound"][0]
        assert np.mean(gap > bound) <= 0.05 + 5 * math.sqrt(0.05 * 0.95 / draws)
    sigma, extra = algorithm.perturbation(Budget(1.0, 1e-2), Problem(1, 1000, 7)).sigma, 0.0
    quantile = stats.chi2(7).ppf(0.9) * sigma**2
    assert optimality_bound(Perturbation(sigma, extra), Problem(1, 1000, 7), 0.1, 0.1) == pytest.approx(
        (0.25 + 0.1) / (2 * 1000**2 * 0.1**2) * quantile
    )


def test_proposition_5_2_t_grows_as_d_squared_over_eps_squared() -> None:
    """T / (d^2 log(1/delta) log(1/delta') / eps^2) stays within one constant, and T/d^2 and T eps^2 settle."""
    ratios = [
        sigma_star(d, eps, delta) ** 2
        * stats.chi2(d).isf(delta_p)
        / (d**2 * math.log(1 / delta) * math.log(1 / delta_p) / eps**2)
        for d in (1, 3, 10, 100, 1000)
        for eps in (1e-3, 0.1, 1.0)
        for delta in (1e-8, 1e-2, 1 / math.e)
        for delta_p in (1e-6, 0.05, 1 / math.e)
    ]
    assert max(ratios) < 25

    def T(d: int, eps: float) -> float:
        return sigma_star(d, eps, 0.05) ** 2 * float(stats.chi2(d).isf(0.05))

    assert T(40_000, 0.1) / T(10_000, 0.1) == pytest.approx(16, rel=0.03)
    assert T(10, 1e-4) / T(10, 1e-3) == pytest.approx(100, rel=0.01)


# ---- psgd


def test_psgd_sees_the_parties_through_their_number_only() -> None:
    shares = (Equal(), Fractions(fractions=(0.01, 0.29, 0.2, 0.25, 0.25)))
    algorithm = PrivateSGD(LOGISTIC, lam=0.1, rounds=20)
    found = [
        algorithm.prepare(dealt(rule), np.random.default_rng(0)).release([BUDGET], np.random.default_rng(2), 3).weights
        for rule in shares
    ]
    assert np.allclose(*found, rtol=1e-9)
    other = (
        algorithm.prepare(dealt(M=7), np.random.default_rng(0)).release([BUDGET], np.random.default_rng(2), 3).weights
    )
    assert not np.allclose(found[0], other)


@pytest.mark.parametrize("calibration", ["published", "tight"])
def test_budgets_share_directions_and_do_not_touch_each_other(calibration: str) -> None:
    algorithm, parties = PrivateSGD(LOGISTIC, calibration=calibration, lam=0.1, rounds=30), dealt()
    prepared = algorithm.prepare(parties, np.random.default_rng(0))
    budgets = [Budget(0.5, 1e-2), Budget(3.0, 1e-2)]
    together = prepared.release(budgets, np.random.default_rng(3), 4).weights
    for i, budget in enumerate(budgets):
        assert np.allclose(prepared.release([budget], np.random.default_rng(3), 4).weights[0], together[i], atol=1e-12)


def test_answers_are_the_sum_of_the_parties_gradients(monkeypatch) -> None:
    parties, w = dealt(), np.random.default_rng(0).standard_normal((6, 4)) * 500  # some slopes vanish
    prepared = PrivateSGD(LOGISTIC).prepare(parties, np.random.default_rng(0))
    own = [slice(*parties.offsets[k : k + 2]) for k in range(5)]
    brute = sum(mean_gradient(LOGISTIC, parties.X[rows], parties.y[rows], w) * len(parties.y[rows]) for rows in own)
    assert np.allclose(prepared.answers(w, slice(None)), brute, atol=1e-9)
    monkeypatch.setattr(noisy_gradient_sums, "_BLOCK", 1)
    assert np.allclose(prepared.answers(w, slice(None)), brute, atol=1e-9)


def test_one_round_of_psgd_is_procedure_3() -> None:
    """w_1 = - z_0/N (sum of gradients at 0 + rho + eta): the noise, measured, is what the views count."""
    parties, draws, M = dealt(M=4), 4000, 4
    for calibration in ("published", "tight"):
        algorithm = PrivateSGD(LOGISTIC, calibration=calibration, lam=0.1, rounds=1)
        made = algorithm.perturbation(BUDGET, parties.problem)
        prepared = algorithm.prepare(parties, np.random.default_rng(0))
        weights = prepared.release([BUDGET], np.random.default_rng(4), draws).weights[0]
        noise = -weights * (algorithm.lam + made.extra + 0.25) * 300 - prepared.answers(np.zeros((1, 4)), slice(None))
        fresh = algorithm.fresh(BUDGET, parties.problem)
        if calibration == "published":
            assert fresh == 2 / 0.5
            assert (
                made.sigma
                == GaussianObjectivePerturbation(LOGISTIC, lam=0.1).perturbation(BUDGET, parties.problem).sigma
            )
            variance = M * (4 + 1) * fresh**2 + made.sigma**2  # of an L2-Laplace coordinate: d + 1
        else:
            variance = fresh**2
            mu = gdp.mu_of(0.5, 1e-2)
            # the three honest parties' share alone is the Gaussian mechanism of sensitivity 2
            assert variance * parties.problem.honest / M == pytest.approx((2 / mu) ** 2)
        # 16,000 numbers of kurtosis below 6: five standard errors
        assert noise.var() == pytest.approx(variance, rel=0.1)


def test_psgd_ends_within_a_thousandth_of_its_limit_point() -> None:
    """Where its own noise lets it: the distance of T noisy gradients is their noise over T^1/2 and the curvature."""
    parties = dealt(N=2000)
    budget = Budget(20.0, 1e-2)
    for rounds, within in ((100, 2e-2), (3000, 1e-3)):
        algorithm = PrivateSGD(LOGISTIC, lam=1.0, rounds=rounds)
        release = algorithm.prepare(parties, np.random.default_rng(0)).release([budget], np.random.default_rng(5), 20)
        assert release.metrics["distance"].max() < within
        made = algorithm.perturbation(budget, parties.problem)
        eta = eta_of(release.weights[0], parties, 1.0 + made.extra)
        assert eta.std() == pytest.approx(made.sigma, rel=0.4)  # it approaches its own eta, not w*


def test_the_distance_falls_as_one_over_the_root_of_the_rounds() -> None:
    parties, found = dealt(), []
    for rounds in (250, 4000):
        prepared = PrivateSGD(LOGISTIC, lam=0.3, rounds=rounds).prepare(parties, np.random.default_rng(0))
        found.append(prepared.release([BUDGET], np.random.default_rng(6), 60).metrics["distance"].mean())
    assert found[0] / found[1] == pytest.approx(4, rel=0.25)


def test_tolerance_stops_a_run_before_its_rounds() -> None:
    parties = dealt()
    prepared = PrivateSGD(LOGISTIC, lam=0.3, rounds=2000, tolerance=1e-3).prepare(parties, np.random.default_rng(0))
    release = prepared.release([BUDGET, Budget(50.0, 1e-2)], np.random.default_rng(7), 5)
    used = release.metrics["rounds"]
    assert used.max() < 2000
    assert used[1].mean() < used[0].mean()
    assert len(set(used.ravel())) > 2  # each stops on its own
    # the guarantee counts them all
    eager, patient = (PrivateSGD(LOGISTIC, rounds=2000, tolerance=t) for t in (0.0, 1e-3))
    assert proven(eager, BUDGET, parties.problem) == proven(patient, BUDGET, parties.problem)


def test_views_of_psgd() -> None:
    budget = Budget(0.1, 0.05)
    for M in (1, 2, 5, 15):
        problem = Problem(M, 1000, 10)
        seen = proven(PrivateSGD(LOGISTIC, lam=1.0), budget, problem)
        assert seen["release"] == seen["transcript"] <= seen["colluders"] <= seen["client"]
        tight = proven(PrivateSGD(LOGISTIC, calibration="tight"), budget, problem)
        assert set(tight) == {"release", "transcript", "colluders"}
        assert max(tight.values()) == tight["colluders"] == pytest.approx(0.1, rel=1e-9)
    assert proven(PrivateSGD(LOGISTIC, rounds=4000), budget, problem)["transcript"] > seen["transcript"]
    claimed = [g.view for g in PrivateSGD(LOGISTIC).guarantees(budget, problem) if g.basis == "published"]
    assert claimed == ["release", "transcript"]


# ---- la


@pytest.mark.parametrize("lam", [1e-3, 0.1, 2.0])
def test_la_never_moves_further_than_its_sensitivity(lam: float) -> None:
    rng = np.random.default_rng(8)
    rule = Fractions(fractions=(0.1, 0.2, 0.3, 0.4))
    for _ in range(30):
        X = rng.standard_normal((30, 3)) + 3 * rng.standard_normal(3)
        X /= np.linalg.norm(X, axis=1, keepdims=True) * (1 + 1e-12)
        y = np.ones(30)
        other = X.copy()
        given = partition(Dataset("toy", "binary", X, y, X[:0], y[:0]), rule, 4, np.random.default_rng(1))
        victim = given.order[rng.integers(3)]  # of the smallest party
        other[victim] = -X[victim]
        moved = partition(Dataset("toy", "binary", other, y, X[:0], y[:0]), rule, 4, np.random.default_rng(1))
        for calibration in ("published", "tight"):
            algorithm = LocalAggregation(LOGISTIC, calibration=calibration, lam=lam)
            one, two = (algorithm.prepare(parties, rng) for parties in (given, moved))
            assert np.linalg.norm(one.weights - two.weights) <= algorithm.sensitivity(one.problem)
    assert LocalAggregation(LOGISTIC, lam=lam).sensitivity(given.problem) == pytest.approx(2 / (4 * 3 * lam))


def test_la_draws_noise_of_its_sensitivity_over_eps() -> None:
    prepared = LocalAggregation(LOGISTIC, lam=0.1).prepare(dealt(), np.random.default_rng(0))
    weights = prepared.release([BUDGET], np.random.default_rng(9), 4000).weights[0]
    length = (
        np.linalg.norm(weights - prepared.weights, axis=1)
        * BUDGET.eps
        / prepared.algorithm.sensitivity(prepared.problem)
    )
    assert stats.kstest(length, stats.gamma(4).cdf).pvalue > 1e-4  # false-alarm rate 1e-4, seeded


# ---- mistakes


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: GaussianObjectivePerturbation(LOSSES["squared"]), "algo=gop needs loss=logistic, not"),
        (lambda: PrivateSGD(LOGISTIC, lam=0.0), "algo.lam of psgd must be a positive number"),
        (lambda: PrivateSGD(LOGISTIC, rounds=0), "algo.rounds of psgd must be at least 1"),
        (lambda: PrivateSGD(LOGISTIC, tolerance=math.nan), "algo.tolerance of psgd must be"),
        (lambda: LocalAggregation(LOGISTIC, variant="authors"), "algo.variant of la must be paper"),
        (lambda: LocalAggregation(LOGISTIC, calibration="best"), "calibration must be one of published, tight"),
        (
            lambda: PrivateSGD(LOGISTIC).guarantees(Budget(1.0), Problem(2, 9, 2)),
            "algo=psgd adds Gaussian noise and needs",
        ),
        (
            lambda: GaussianObjectivePerturbation(LOGISTIC).guarantees(Budget(1.0), Problem(2, 9, 2)),
            "algo=gop adds Gaussian",
        ),
    ],
)
def test_mistakes(make, said: str) -> None:
    with pytest.raises(UserError, match=said):
        make()


@pytest.mark.parametrize("kind", [GaussianObjectivePerturbation, PrivateSGD, LocalAggregation])
def test_rows_outside_the_ball_are_refused(kind) -> None:
    X = np.array([[2.0, 0.0], [0.1, 0.1]])
    parties = partition(
        Dataset("toy", "binary", X, np.array([1.0, -1.0]), X[:0], np.ones(0)), Equal(), 2, np.random.default_rng(0)
    )
    with pytest.raises(UserError, match="the guarantee needs rows in the unit ball"):
        kind(LOGISTIC).prepare(parties, np.random.default_rng(0))


# ---- through the real protocol


def test_without_noise_secure_sums_are_the_sums() -> None:
    parties, free = dealt(Fractions(fractions=(0.1, 0.2, 0.3, 0.4)), M=4), [Budget(math.inf, 1e-3)]
    found = [
        PrivateSGD(LOGISTIC, rounds=20, protocol=protocol).prepare(parties, np.random.default_rng(0))
        .release(free, np.random.default_rng(1), 2).weights
        for protocol in ("simulate", "secagg")
    ]  # fmt: skip
    assert np.allclose(*found, atol=1e-12)


@pytest.mark.parametrize("calibration", ["published", "tight"])
def test_secure_sums_have_the_noise_that_is_counted(calibration) -> None:
    """One round from 0: (heard/N) / (lam + Delta + c) is released, of known mean and covariance. False alarms: 1e-6."""
    parties, draws = dealt(M=3), 4_000
    algorithm = PrivateSGD(LOGISTIC, calibration=calibration, rounds=1, protocol="secagg")
    prepared = algorithm.prepare(parties, np.random.default_rng(0))
    weights = prepared.release([BUDGET], np.random.default_rng(5), draws).weights[0]
    made, fresh = algorithm.perturbation(BUDGET, parties.problem), algorithm.fresh(BUDGET, parties.problem)
    heard = -weights * (algorithm.lam + made.extra + 0.25) * 300
    noise = heard - prepared.answers(np.zeros((1, 4)), slice(None))
    variance = made.sigma**2 + fresh**2 * (3 * 5 if calibration == "published" else 1)  # M (d + 1), or of the sum
    assert stats.ttest_1samp(noise.ravel(), 0.0).pvalue > 1e-6
    assert noise.var() == pytest.approx(variance, rel=5 * math.sqrt(4 / noise.size))


def test_a_protocol_that_does_not_exist() -> None:
    with pytest.raises(UserError, match="must be one of simulate, secagg"):
        PrivateSGD(LOGISTIC, protocol="tls")
