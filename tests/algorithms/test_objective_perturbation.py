"""Objective perturbation: the privacy loss of `objpert` maximised numerically, and the noise of `gop` as drawn."""

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from examples import LOGISTIC, SQUARED, binary_parties, eta_of, proven, recipe_parties, release_of, sent
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import expit

from dpml.algorithms.baselines import NonPrivate
from dpml.algorithms.perturbation import (
    RESIDUAL,
    GaussianObjectivePerturbation,
    ObjectivePerturbation,
    compute_slack,
    optimality_bound,
    sigma_star,
    solver_tolerance,
)
from dpml.audit.neighbours import synthetic_parties
from dpml.mechanism.objectives import PerturbedObjective
from dpml.optim.convex import optimum
from dpml.optim.losses import Loss, longest_minimiser
from dpml.privacy import Budget, Problem, gdp, noise
from dpml.privacy.proofs import objective_perturbation as objective

BUDGET = Budget(0.5, 1e-2)


def log_density(w: np.ndarray, rows: np.ndarray, labels: np.ndarray, scale: float, strength: float) -> float:
    """log density at w (2,) of the minimiser, by the change of variables b <-> w; b ~ exp(-||b||/scale); N rows."""
    p = expit(-labels * (rows @ w))
    b = (labels * p) @ rows - len(rows) * strength * w
    (a, c), (_, e) = ((rows.T * (p * (1 - p))) @ rows).tolist()
    ridge = len(rows) * strength
    return -math.hypot(*b) / scale + math.log((a + ridge) * (e + ridge) - c * c)


@pytest.mark.parametrize("calibration", ["published", "tight"])
@pytest.mark.parametrize(("eps", "lam", "N"), [(0.5, 0.0, 1), (1.0, 0.3, 2), (2.0, 0.02, 2), (0.3, 2.0, 1)])
def test_privacy_loss_never_exceeds_the_proven_eps(calibration: str, eps: float, lam: float, N: int) -> None:
    algorithm = ObjectivePerturbation(LOGISTIC, calibration=calibration, lam=lam)
    problem, d = Problem(1, N, 2), 2
    scale, extra = algorithm.calibrate(Budget(eps), problem)
    proven = next(g.eps for g in algorithm.guarantees(Budget(eps), problem) if g.basis == "proven")
    assert proven <= eps * (1 + 1e-12)

    def loss(v: np.ndarray, labels: np.ndarray) -> float:
        w = v[:d] * 10
        rows = v[d:].reshape(N + 1, d)
        rows = rows / np.maximum(1, np.sqrt((rows * rows).sum(axis=1)))[:, None]
        given, other = rows[:N], rows[1:]
        first = log_density(w, given, labels[:N], scale, lam + extra)
        return first - log_density(w, other, labels[1:], scale, lam + extra)

    rng, found = np.random.default_rng(0), 0.0
    for _ in range(4):
        labels = rng.choice([-1.0, 1.0], N + 1)
        start = rng.standard_normal(d + (N + 1) * d) * 2
        best = minimize(lambda v, y=labels: -loss(v, y), start, method="Nelder-Mead", options={"maxiter": 3000})
        found = max(found, -float(best.fun))
    assert found <= proven * (1 + 1e-9)
    assert found >= 0.5 * proven  # the proof is not idle


@pytest.mark.parametrize("radius", [0.5, 2.0])
def test_squared_loss_on_an_interval_inside_and_at_its_ends(radius: float) -> None:
    """d = 1: the density inside the interval and the mass on its ends, for neighbours on a grid."""
    eps = 0.8
    algorithm = ObjectivePerturbation(SQUARED, radius=radius, calibration="tight")
    scale, extra = algorithm.calibrate(Budget(eps), Problem(1, 1, 1))
    xs, ys, ws = np.linspace(-1, 1, 9), np.linspace(-1, 1, 5), np.linspace(-radius, radius, 21)
    x, y, w = np.meshgrid(xs, ys, ws, indexing="ij")
    # stationarity with N = 1: 2 x (x w - y) + extra w + b = 0
    b = -(2 * x * (x * w - y) + extra * w)
    log_inside = (-np.abs(b) / scale + np.log(2 * x**2 + extra)).reshape(-1, len(ws))
    assert np.ptp(log_inside, axis=0).max() <= eps

    # the minimiser sits at +radius when b <= b(radius)
    def log_mass(at: float) -> float:
        return math.log(quad(lambda t: math.exp(-abs(t) / scale) / (2 * scale), -math.inf, at)[0])

    ends = [log_mass(value) for value in np.unique(b[..., -1])]
    assert max(ends) - min(ends) <= eps


@pytest.mark.parametrize(("loss", "norm", "d"), [(LOGISTIC, 10.0, 2), (LOGISTIC, 10.0, 10), (SQUARED, 1.0, 10)])
@pytest.mark.parametrize("eps", [0.05, 1.0, 8.0])
def test_tight_pure_noise_has_the_ridge_that_loses_least(loss: Loss, norm: float, d: int, eps: float) -> None:
    """No other R does better with the noise that it needs: R norm^2 + E ||b||^2 / R, d(d + 1) scale^2 for E ||b||^2."""
    algorithm = ObjectivePerturbation(loss, calibration="tight")
    scale, extra = algorithm.calibrate(Budget(eps), Problem(1, 1000, d))
    made = 1000 * extra
    least = made * norm**2 + d * (d + 1) * scale**2 / made
    for ridge in made * np.geomspace(0.3, 3.0, 24):
        # with lam = R/N the noise is what R needs, unless R is so small that ridge is added
        scale, extra = ObjectivePerturbation(loss, calibration="tight", lam=ridge / 1000).calibrate(
            Budget(eps), Problem(1, 1000, d)
        )
        if extra < 1e-12:
            assert least <= (ridge * norm**2 + d * (d + 1) * scale**2 / ridge) * 1.001
    if loss is LOGISTIC:
        assert made <= 2 / eps * (1 + 1e-9)


@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED])
@pytest.mark.parametrize("N", [1, 1000, 10**9])
def test_pure_noise_at_every_size(loss: Loss, N: int) -> None:
    for eps in (1e-30, 1e-6, 0.3, 30.0, 3000.0, 89143.5, 1e30):
        for lam in (0.0, 1e-9, 1.0):
            for d in (1, 10**4):
                problem, budget = Problem(1, N, d), Budget(eps)
                published = ObjectivePerturbation(loss, lam=lam).guarantees(budget, problem)[1].eps
                # without lam, the published ridge is less than any number from eps = 3000 on, and nothing is proven
                assert published <= eps * (1 + 1e-12) or (lam == 0 and eps >= 3000)
                tight = ObjectivePerturbation(loss, lam=lam, calibration="tight")
                assert 0.999 * eps <= tight.guarantees(budget, problem)[0].eps <= eps * (1 + 1e-9)
                assert min(tight.calibrate(budget, problem)) >= 0


def test_the_squared_loss_releases_minimisers_with_the_noise_and_the_ridge_that_are_counted() -> None:
    """Inside the ball the noise that makes w stationary is known: its length is Gamma(d, scale)."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (40, 2)) / math.sqrt(2)
    parties = synthetic_parties("regression", X, 0.1 * X[:, 0], np.array([40]))
    for calibration in ("published", "tight"):
        algorithm = ObjectivePerturbation(SQUARED, calibration=calibration, lam=0.3, radius=4.0)
        budget = Budget(20.0)
        scale, extra = algorithm.calibrate(budget, parties.problem)
        release = release_of(algorithm, parties, [budget], 4000)
        w = release.weights[0]
        assert np.linalg.norm(w, axis=1).max() < 3.9  # none is on the surface
        b = -(2 * (w @ X.T - parties.y) @ X + 40 * (0.3 + extra) * w)
        lengths = np.linalg.norm(b, axis=1) / scale
        assert stats.kstest(lengths, stats.gamma(2).cdf).pvalue > 1e-4  # false-alarm rate 1e-4, seeded


def test_the_authors_objective_perturbation_ignores_the_number_of_rows() -> None:
    budget = Budget(0.5)
    for rows in (50, 5000):
        parties = recipe_parties(rows=rows)
        algorithm = ObjectivePerturbation(SQUARED, variant="authors")
        noisy = release_of(algorithm, parties, [budget], 4000, seed=2)
        exact = NonPrivate(SQUARED, variant="authors").prepare(parties, np.random.default_rng(0)).start[0]
        lengths = np.linalg.norm(noisy.weights[0] - exact, axis=1)
        assert lengths.mean() == pytest.approx(6 * 2 / 0.5, rel=0.05)  # Gamma(d, 2/eps)
        claimed, proven = algorithm.guarantees(budget, parties.problem)
        assert claimed.eps == 0.5
        assert proven.eps == pytest.approx(0.5 * np.sqrt(6))


@pytest.mark.parametrize("d", [1, 2, 10, 30])
@pytest.mark.parametrize(("eps", "delta"), [(0.05, 0.05), (1.0, 1e-3), (4.0, 1e-6)])
def test_sigma_star_solves_its_equation(d: int, eps: float, delta: float) -> None:
    sigma = sigma_star(d, eps, delta)
    assert sigma**2 * eps > 2
    assert stats.chi2(d).sf(((sigma**2 * eps - 2) / (2 * sigma)) ** 2) == pytest.approx(delta, rel=1e-9)


@pytest.mark.parametrize(
    ("eps", "delta", "lam", "d"),
    [(0.1, 0.05, 1.0, 1), (1.0, 1e-5, 1e-2, 30), (0.1, 0.05, 1e-4, 30), (3.0, 1e-3, 1e-4, 1)],
)
def test_tight_spends_exactly_eps_and_published_less(eps: float, delta: float, lam: float, d: int) -> None:
    problem, budget = Problem(5, 1000, d), Budget(eps, delta)
    tight = GaussianObjectivePerturbation(LOGISTIC, calibration="tight", lam=lam)
    assert 0.9999 * eps <= proven(tight, budget, problem)["release"] <= eps * (1 + 1e-9)
    published = GaussianObjectivePerturbation(LOGISTIC, lam=lam)
    assert proven(published, budget, problem)["release"] < eps
    made, theirs = sent(tight, budget, problem), sent(published, budget, problem)
    _, left = compute_slack(eps, lam, 1000)
    assert made.scale < sigma_star(2, left, delta)
    # and a hair less noise would not be proven
    assert objective.eps_of(made.scale * 0.999, 1000 * (lam + made.extra), delta) > eps

    # no other ridge, with the noise that it needs, has a smaller bound on what is lost; and not the published noise
    norm = min(10.0, longest_minimiser(LOGISTIC, lam))

    def lost(sigma: float, extra: float) -> float:
        return extra / 2 * norm**2 + d * sigma**2 / (2 * 1000**2 * (lam + extra))

    least = lost(made.scale, made.extra)
    assert least <= lost(theirs.scale, theirs.extra)
    free = objective.free_ridge(eps, 2 / gdp.mu_of(eps, delta)) / 1000
    for extra in {0.0, *np.minimum(made.extra * np.array([0.3, 0.8, 1.25, 4.0]), max(0.0, free - lam))}:
        assert least <= lost(objective.sigma_of(eps, 1000 * (lam + extra), delta), extra) * 1.001
    assert made.extra <= max(0.0, free - lam) * (1 + 1e-9)  # never more ridge than lessens the noise


@pytest.mark.parametrize("N", [2, 30_162, 10**7])
@pytest.mark.parametrize("calibration", ["tight", "published"])
def test_gaussian_noise_at_every_size(calibration: str, N: int) -> None:
    rng = np.random.default_rng(N)
    for eps in (1e-30, 1e-12, 1e-6, 0.05, 1.0, 3000.0, 1e30, math.inf):
        for lam in (0.0, 10 ** rng.uniform(-9, 2))[calibration == "published" :]:
            delta, problem = 10 ** rng.uniform(-12, -0.31), Problem(1, N, int(rng.choice([1, 9999])))
            algorithm = GaussianObjectivePerturbation(LOGISTIC, calibration=calibration, lam=lam)
            made = sent(algorithm, Budget(eps, delta), problem)
            found = proven(algorithm, Budget(eps, delta), problem)["release"]
            assert made.extra >= 0
            assert made.scale < math.inf
            assert found <= eps * (1 + 1e-6) + 1e-9
            if calibration == "tight" and lam == 0 and math.isfinite(eps):
                # no eps is so small that the noise could do with less for it: it is that of delta alone
                of_delta = made.scale == pytest.approx(2 / gdp.mu_of(0.0, delta), rel=1e-3)
                assert found >= 0.9999 * eps or (eps < 1e-9 and of_delta)


SLACK = [(1e-30, 1e-9), (1e-12, 1.0), (0.1, 1e-9), (1.0, 0.1), (20.0, 1e-9), (30.0, 1e-12)]


@pytest.mark.parametrize(("eps", "lam"), SLACK)
def test_chaudhuris_constants_do_not_overflow_or_cancel(eps: float, lam: float) -> None:
    with mpmath.workdps(80):
        left = mpmath.mpf(eps) - 2 * mpmath.log1p(mpmath.mpf(0.25) / (1000 * mpmath.mpf(lam)))
        ridge = mpmath.mpf(0.25) / (1000 * mpmath.expm1(mpmath.mpf(eps) / 4)) - mpmath.mpf(lam)
    extra, spent = compute_slack(eps, lam, 1000)
    assert (extra, spent) == pytest.approx((0.0, float(left)) if left > 0 else (float(ridge), eps / 2), rel=1e-9)
    published = ObjectivePerturbation(LOGISTIC, lam=lam).calibrate(Budget(eps), Problem(1, 1000, 3))
    assert published == pytest.approx((2 / spent, extra), rel=1e-9)
    # it pays for the squared Jacobian
    assert 2 * math.log1p(0.25 / (1000 * (lam + extra))) <= (eps - spent) * (1 + 1e-12)


@pytest.mark.parametrize("eps", [1e-30, 1e-8, 1.0, 1e6, math.inf])
@pytest.mark.parametrize("calibration", ["published", "tight"])
def test_the_residual_of_the_solver_is_far_below_what_a_row_changes(eps: float, calibration: str) -> None:
    """A gradient of norm g is noise that is N g away: at most 1e-4, or a 1e-13th of the noise itself."""
    parties = binary_parties()
    gaussian = GaussianObjectivePerturbation(LOGISTIC, calibration=calibration, lam=0.02)
    pure = ObjectivePerturbation(LOGISTIC, calibration=calibration, lam=0.02)
    made = sent(gaussian, Budget(eps, 1e-3), parties.problem)
    scale, ridge = pure.calibrate(Budget(eps), parties.problem)
    cases = [(pure, ridge, 0.0, lambda rng: scale * noise.l2_laplace(rng, 5, parties.problem.d))]
    for shift in (0.0, 2.0, 40.0) if calibration == "tight" else (0.0,):
        shifted = replace(gaussian, shift=shift)
        cases.append((shifted, made.extra, shift, lambda rng: made.scale * noise.gaussian(rng, (5, parties.problem.d))))
    for algorithm, extra, shift, draw in cases:
        budget = Budget(eps, 1e-3)
        release = release_of(algorithm, parties, [budget], 5, seed=9)
        b = draw(np.random.default_rng(9))
        residual = b - eta_of(release.weights[0], parties, 0.02 + extra, shift)
        allowed = np.maximum(RESIDUAL, 2e-13 * np.linalg.norm(b, axis=1))
        assert np.all(np.linalg.norm(residual, axis=1) <= allowed)
    assert solver_tolerance(10**8) * 10**8 <= RESIDUAL


def test_theorem_5_1_holds_as_often_as_it_says() -> None:
    for lam in (0.5, 0.02, 0.003):  # without and with Delta
        parties, draws = binary_parties(), 2000
        algorithm = GaussianObjectivePerturbation(LOGISTIC, lam=lam)
        release = release_of(algorithm, parties, [BUDGET], draws)
        w = np.vstack([optimum(LOGISTIC, parties.X, parties.y, lam), release.weights[0]])
        value = np.logaddexp(0, -parties.y[:, None] * (parties.X @ w.T)).mean(axis=0) + lam / 2 * np.sum(w * w, axis=1)
        gap = value[1:] - value[0]
        bound = release.metrics["gap_bound"][0]
        assert np.mean(gap > bound) <= 0.05 + 5 * math.sqrt(0.05 * 0.95 / draws)
    made = replace(sent(algorithm, Budget(1.0, 1e-2), Problem(1, 1000, 7)), extra=0.0, lam=0.1)
    quantile = stats.chi2(7).ppf(0.9) * made.scale**2
    assert optimality_bound(made, Problem(1, 1000, 7), 0.1) == pytest.approx(
        (0.25 + 0.1) / (2 * 1000**2 * 0.1**2) * quantile
    )
    # with Delta, J is (lam + Delta)-strongly convex, and Delta w* is in the gradient at w*
    pulled = (math.sqrt(quantile) / 1000 + 0.3 * longest_minimiser(LOGISTIC, 0.1)) / (0.1 + 0.3)
    assert optimality_bound(replace(made, extra=0.3), Problem(1, 1000, 7), 0.1) == pytest.approx(
        (0.25 + 0.1) / 2 * pulled**2
    )


def test_nothing_is_proven_for_gaussian_noise_and_the_squared_loss() -> None:
    """The proof for Gaussian noise (docs/privacy/rajkumar2012.md, Theorem 2) is for logistic slopes in [0, 1]."""
    perturbed = PerturbedObjective("gaussian", 10.0, 0.1, 0.1, 100)
    assert perturbed.proven(1e-5).eps < 1
    assert replace(perturbed, slope=4.0, curvature=2.0).proven(1e-5).eps == math.inf
