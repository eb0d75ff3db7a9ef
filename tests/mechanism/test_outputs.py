"""Models on a grid: how far rounding moves them apart, the law of their noise, and what is proven of it."""

import math
from fractions import Fraction

import numpy as np
import pytest
from examples import LOGISTIC, SQUARED, ball, release_of, some_parties
from mpmath import exp, mp, mpf
from numpy.random import PCG64, Generator
from quick import quick_first
from scipy import stats

from dpml.algorithms.ensemble.averages import Average, LocalAggregation
from dpml.algorithms.perturbation.approximate_minima import ApproximateMinima
from dpml.algorithms.perturbation.gaussian_output import GaussianOutput
from dpml.algorithms.quadratic.laplace_functional_mechanism import LaplaceFunctionalMechanism
from dpml.algorithms.solved import added, gradient_error, gradient_lengths
from dpml.data import Dataset
from dpml.data.partition import Equal, partition
from dpml.errors import UserError
from dpml.mechanism.objectives import GridNoise
from dpml.mechanism.outputs import GridOutput, gaussian_on_grid, laplace_on_grid, moved_in_l1, moved_in_l2, noisy
from dpml.optim import NotConvergedError
from dpml.optim.convex import minimise_convex
from dpml.optim.losses import ShiftedLogistic
from dpml.privacy import Budget, Problem, gdp
from dpml.privacy.discrete import DiscreteGaussian, DiscreteLaplace, to_grid
from dpml.privacy.discrete.accounting import smoothing

BUDGET = Budget(1.0, 1e-5)
KINDS = {
    "outpert": (GaussianOutput, {}),
    "outpert squared": (GaussianOutput, {"loss": SQUARED}),
    "amp": (ApproximateMinima, {}),
    "amp shifted": (ApproximateMinima, {"shift": 2.0}),
    "la": (LocalAggregation, {"lam": 0.01}),
    "avg": (Average, {"lam": 0.01}),
    "dpfm": (LaplaceFunctionalMechanism, {}),
    "dpfm squared": (LaplaceFunctionalMechanism, {"loss": SQUARED}),
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def made(kind: str, noise: str = "discrete"):
    algorithm, options = KINDS[kind]
    return algorithm(**{"loss": LOGISTIC, "calibration": "tight", "noise": noise, **options})


def released(algorithm, parties, budget, draws: int, seed: int = 0):
    return release_of(algorithm, parties, [budget], draws, seed=seed).weights[0]


# ---- rounding


@pytest.mark.parametrize("D", [1, 2, 7, 50])
@pytest.mark.parametrize("sensitivity", [0.3, 1.0, 5.5])
def test_rounded_models_are_no_farther_apart_than_is_counted(D: int, sensitivity: float) -> None:
    """At random, and at the worst: halves that are rounded away from each other."""
    rng = np.random.default_rng(0)
    shifts = rng.standard_normal((2000, D))
    shifts *= sensitivity / np.linalg.norm(shifts, axis=1, keepdims=True)
    first = rng.uniform(-3, 3, (2000, D))
    low = np.full((1, D), 0.5 + 1e-9)
    first, second = np.vstack([first, low]), np.vstack([first + shifts, low + sensitivity / math.sqrt(D)])
    apart = to_grid(second, 1.0) - to_grid(first, 1.0)
    assert np.linalg.norm(apart, axis=1).max() <= moved_in_l2(sensitivity, 1.0, D)
    assert np.abs(apart).sum(axis=1).max() <= moved_in_l1(sensitivity, 1.0, D)
    assert moved_in_l2(sensitivity, 0.25, D) == pytest.approx(4 * sensitivity + math.sqrt(D), rel=1e-9)
    assert moved_in_l1(sensitivity, 0.25, D) == math.floor(4 * sensitivity * math.sqrt(D) + D + 1e-9)


def test_what_is_no_number_is_refused_and_what_is_too_long_is_cut() -> None:
    for bad in (math.nan, math.inf):
        with pytest.raises(UserError, match="not a finite number"):
            to_grid(np.array([0.0, bad]), 1.0)
    assert to_grid(np.array([1e300, -1e300, 2.0**40]), 2.0**-10).tolist() == [2**61, -(2**61), 2**50]


# ---- by the definition, on a grid so coarse that sums over all outcomes are short


def test_pure_eps_by_the_definition() -> None:
    """All integer moves that are counted, in two dimensions: no outcome is likelier by more than e^eps; one is."""
    mp.dps = 40
    sent = GridOutput(DiscreteLaplace(Fraction(7, 3)), 1.0, 1.5, "x", 2)
    eps, most = sent.proven(0.0).eps, moved_in_l1(1.5, 1.0, 2)
    assert most == 4
    q = exp(-mpf(3) / 7)
    worst = max(abs(x) + abs(y) - abs(x - a) - abs(y - b) for x in range(-9, 10) for y in range(-9, 10)
                for a in range(-most, most + 1) for b in range(-most, most + 1) if abs(a) + abs(b) <= most)  # fmt: skip
    assert float(q ** -mpf(worst)) == pytest.approx(math.exp(eps), rel=1e-12)
    assert eps >= Fraction(worst) * Fraction(3, 7)


def test_gaussian_delta_by_the_definition() -> None:
    """Sums over all outcomes, along an axis and along the diagonal."""
    sent = GridOutput(DiscreteGaussian(Fraction(90)), 1.0, 6.0, "x", 2)
    k = np.arange(-120, 121)
    law = np.exp(-(k**2) / 180)
    law /= law.sum()
    plane = np.outer(law, law)
    for delta in (1e-2, 1e-5):
        eps, most = sent.proven(delta).eps, moved_in_l2(6.0, 1.0, 2)
        for a, b in ((7, 0), (5, 5)):
            assert a * a + b * b <= most**2
            moved = np.roll(plane, (a, b), (0, 1))
            assert np.maximum(plane - math.exp(eps) * moved, 0)[10:-10, 10:-10].sum() <= delta


# ---- calibration


@each_kind
def test_what_is_proven_is_what_was_asked_for_and_hardly_less(kind: str) -> None:
    algorithm = made(kind)
    for problem in (Problem(1, 1, 1), Problem(4, 400, 10), Problem(3, 10**7, 1000)):
        for eps in (1e-6, 0.1, 1.0, 30.0, 1e6):
            if (eps < 1e-4 and kind.startswith(("amp", "dpfm"))) or (eps > 1e3 and kind.startswith("amp")):
                continue  # as far as amp's proof goes, and dpfm's sums fit into 64 bits
            for delta in (1e-3, 1e-12):
                (proven,) = [g for g in algorithm.guarantees(Budget(eps, delta), problem) if g.basis == "proven"]
                assert proven.eps <= eps
                if proven.mu is None:
                    assert proven.eps >= eps * (1 - 2e-5)
                else:
                    assert proven.mu >= gdp.mu_of(eps, delta) * (1 - 2e-6)


@each_kind
def test_noise_beyond_64_bits_is_refused_before_a_guarantee_is_given(kind: str) -> None:
    with pytest.raises(UserError, match="cannot fit so much noise into 64 bits"):
        made(kind).guarantees(Budget(1e-28, 1e-29), Problem(2, 400, 10))


# ---- what is released


@each_kind
def test_without_noise_it_is_the_continuous_release(kind: str) -> None:
    none = Budget(math.inf, 1e-5)
    parties = some_parties(made(kind).loss)
    one, other = (released(made(kind, noise), parties, none, 1) for noise in ("discrete", "continuous"))
    np.testing.assert_allclose(one, other, atol=2e-4 if kind.startswith("dpfm") else 1e-12)


@pytest.mark.parametrize("kind", ["outpert", "outpert squared", "la", "avg", "amp"])
def test_released_models_are_on_the_grid_and_have_the_noise_that_is_counted(kind: str) -> None:
    """Chi-square over 16 cells of equal probability of the continuous law. False alarms: 1e-6 each."""
    algorithm, d = made(kind), 3
    parties = some_parties(algorithm.loss, d=d)
    (sent,) = algorithm.messages(BUDGET, parties.problem)
    models = released(algorithm, parties, BUDGET, 4000)
    step = sent.hidden.step if kind == "amp" else sent.step
    assert not (models / step % 1).any()
    if kind == "amp":
        return
    exact = released(algorithm, parties, Budget(math.inf, 1e-5), 1)[0]
    if kind.startswith("outpert"):
        exact = algorithm.minimise(parties.folded, np.array([algorithm.ridge(BUDGET, parties.problem)]))[0]
    law = stats.laplace if sent.law == "laplace" else stats.norm
    cells = (16 * law.cdf((models - exact) / sent.scale)).astype(int).ravel()
    assert stats.chisquare(np.bincount(cells, minlength=16)).pvalue > 1e-6
    correlation = np.corrcoef(((models - exact) / sent.scale).T)
    assert np.abs(correlation - np.eye(d)).max() < 5.2 / math.sqrt(len(models))


def test_budgets_share_no_noise_and_one_may_have_none() -> None:
    rng = np.random.default_rng(0)
    sent = [gaussian_on_grid(1.0, 1.0, 3, 1.0, "x"), laplace_on_grid(1.0, 1.0, 3, 1.0, "x")]
    (none,) = made("outpert").messages(Budget(math.inf), Problem(1, 10, 3))
    models = noisy([*sent, sent[0], none], np.zeros(3), rng, 5)
    assert models.shape == (4, 5, 3)
    assert not (models[0] == models[2]).any()
    assert not models[3].any()


class OnlyBytes(Generator):
    """A generator of which no floating-point number is drawn."""

    def __init__(self) -> None:
        super().__init__(PCG64(0))

    def __getattribute__(self, name: str):
        if name in ("standard_normal", "laplace", "gamma", "standard_gamma", "exponential", "random", "normal"):
            raise AssertionError(name)
        return super().__getattribute__(name)


@each_kind
def test_no_floating_point_noise_is_drawn(kind: str) -> None:
    algorithm = made(kind)
    mechanism = algorithm.prepare(some_parties(algorithm.loss), np.random.default_rng(0))
    assert np.isfinite(mechanism.release([BUDGET], OnlyBytes(), 2).weights).all()


# ---- what a solver leaves


@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED, ShiftedLogistic(2.0)], ids=lambda loss: loss.name)
def test_a_measured_gradient_is_as_wrong_as_is_counted_at_most(loss) -> None:
    """Against 60 digits, at long and at short models; the error that is found is a tenth of what is counted."""
    mp.dps = 60
    rng, d, N, strength = np.random.default_rng(3), 4, 60, 0.01
    X = ball(rng, N, d)
    y = np.where(rng.random(N) < 0.5, 1.0, -1.0)
    for length in (0.1, 1.0, 50.0):
        w = rng.standard_normal(d)
        w *= length / np.linalg.norm(w)
        exact = [strength * mpf(w[j]) for j in range(d)]
        for x, label in zip(X, y, strict=True):
            t = sum(mpf(a) * mpf(b) for a, b in zip(x, w, strict=True))
            margin = mpf(float(label)) * t
            shift = mpf(getattr(loss, "shift", 0.0))
            slope = 2 * (t - label) if loss is SQUARED else -mpf(float(label)) / (1 + exp(margin - shift))
            exact = [e + slope * mpf(a) / N for e, a in zip(exact, x, strict=True)]
        true = mp.sqrt(sum(e * e for e in exact))
        found = gradient_lengths(loss, (X, y, None), w[None], strength)[0]
        steepest = 2 * (1 + length) if loss is SQUARED else 1.0
        assert abs(mpf(found) - true) <= gradient_error(added(N), d, steepest, length, strength)


def test_folded_rows_and_blocks_have_the_same_gradient(monkeypatch) -> None:
    rng = np.random.default_rng(4)
    X, y = ball(rng, 300, 3), np.where(rng.random(300) < 0.5, 1.0, -1.0)
    counts = rng.integers(1, 5, 300).astype(float)
    w, many = rng.standard_normal((2, 3)), np.repeat(np.arange(300), counts.astype(int))
    lengths = gradient_lengths(LOGISTIC, (X, y, counts), w, 0.1, 0.01)
    np.testing.assert_allclose(lengths, gradient_lengths(LOGISTIC, (X[many], y[many], None), w, 0.1, 0.01), rtol=1e-12)
    monkeypatch.setattr("dpml.algorithms.solved._HEIGHT", 7)
    np.testing.assert_allclose(lengths, gradient_lengths(LOGISTIC, (X, y, counts), w, 0.1, 0.01), rtol=1e-12)
    assert added(300) == 7 + 43


@pytest.mark.parametrize(
    ("kind", "module"), [("outpert", "perturbation.gaussian_output"), ("la", "ensemble.local_models")]
)
def test_a_model_that_is_not_solved_so_well_is_not_released(kind: str, module: str, monkeypatch) -> None:
    def worse(*arguments, **options):
        return gradient_lengths(*arguments, **options) + 1e-7

    monkeypatch.setattr(f"dpml.algorithms.{module}.gradient_lengths", worse)
    with pytest.raises(NotConvergedError):
        released(made(kind), some_parties(N=204), BUDGET, 1)


# ---- approximate minima


@pytest.mark.parametrize("shift", [0.0, 2.0])
@pytest.mark.parametrize(("N", "d", "eps"), [(30, 2, 0.5), (500, 10, 3.0)])
def test_what_is_solved_for_integers_is_near_the_minimiser_for_any_beta_that_is_counted(N, d, eps, shift) -> None:
    """beta as far from b as is counted, in any direction: the model is no farther from its minimiser than is hidden."""
    algorithm = ApproximateMinima(LOGISTIC, "tight", shift=shift, noise="discrete")
    rng, budget = np.random.default_rng(5), Budget(eps, 1e-6)
    parties = some_parties(M=1, N=N, d=d)
    (sent,) = algorithm.messages(budget, parties.problem)
    X, y, counts = parties.folded
    for _ in range(5):
        b = sent.inside.drawn(1, rng)
        far = rng.standard_normal((1, d))
        beta = b + far * sent.inside.moved / np.linalg.norm(far)
        model = minimise_convex(algorithm.trained, X, y, sent.strength, b / N, counts, sent.gamma / 2)
        exact = minimise_convex(algorithm.trained, X, y, sent.strength, beta / N, counts, 1e-15)
        assert np.linalg.norm(model - exact) <= sent.hidden.sensitivity / 2


def test_integers_in_the_objective_are_a_rounded_gaussian_of_the_variance_that_is_counted() -> None:
    """v - r^2 in squared steps, no less than was asked for; and what is beyond the bounds is improbable enough."""
    for sigma, d in ((7.4, 1), (0.01, 50), (1e4, 10_000)):
        b = GridNoise.of(sigma, 1.0, 1e-5, d)
        assert (b.law.variance - smoothing(1, d)) * Fraction(b.step) ** 2 >= Fraction(sigma) ** 2
        assert float(b.law.variance) * b.step**2 == pytest.approx(sigma**2, rel=1e-12)
        assert 8.6 * d * (1 + math.e) * math.exp(-b.exponent) < 1e-6 / 2 * 1e-5
        # sub-Gaussian coordinates: 2.1 e^(-c^2/2) beyond c deviations, and a vector is sqrt d longer
        c = math.sqrt(2 * b.exponent)
        assert b.moved == pytest.approx(c * math.sqrt(smoothing(1, d) * d) * b.step)
        assert b.longest == pytest.approx(c * math.sqrt(d) * sigma)


def test_where_what_is_improbable_would_count_nothing_is_proven() -> None:
    (sent,) = made("amp").messages(BUDGET, Problem(1, 400, 10))
    assert sent.proven(1e-5).eps <= 1
    assert sent.proven(1e-40).eps == math.inf


# ---- the Laplace mechanism


@pytest.mark.parametrize("kind", ["dpfm", "dpfm squared"])
@pytest.mark.parametrize("d", quick_first([1, 2, 6], 2))
def test_no_neighbours_integers_move_farther_than_is_proven(kind: str, d: int) -> None:
    """The eps of pairs of rows, from their integers and the scales of the noise; the worst come near."""
    algorithm, rng, budget = made(kind), np.random.default_rng(6), Budget(2.0)
    problem = Problem(1, 2, d)
    (sent,) = algorithm.messages(budget, problem)
    bits = sent.of.resolution(sent.block_widths(), problem)
    steps = np.abs(sent.of.steps(bits, problem))
    scales = np.repeat(np.array(sent.block_widths()) / steps, sent.of.lengths(d))
    (proven,) = [g for g in algorithm.guarantees(budget, problem) if g.basis == "proven"]
    most = 0.0
    for number in range(400):
        rows = rng.standard_normal((3, d)) if number % 2 else np.sign(rng.standard_normal((3, d)))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True) * (1 + 1e-15)
        y = rng.choice([-1.0, 1.0], 3)
        sums = []
        for own in ([0, 1], [0, 2]):
            data = Dataset(
                "made", "regression" if algorithm.loss is SQUARED else "binary", rows[own], y[own], rows[:0], y[:0]
            )
            parties = partition(data, Equal(), 1, rng)
            sums.append(sent.of.on(parties).integers(np.array([bits]), False)[0, 0])
        most = max(most, float(np.sum(np.abs(sums[0] - sums[1]) / scales)))
    assert most <= proven.eps
    assert most > 0.6 * proven.eps
