"""The noise that a release really draws, measured: it must be what the guarantees count."""

import numpy as np
import pytest
from scipy import stats

from dpml.algorithms import coefficients, distributed_noise, functional_mechanism
from dpml.algorithms.cape import CapeFM
from dpml.algorithms.functional_mechanism import Conventional, FunctionalMechanism, Local
from dpml.algorithms.pure_functional_mechanism import PureFunctionalMechanism
from dpml.data import Dataset
from dpml.data.partition import Equal, Fractions, Parties, partition
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget, Problem, gdp, noise

SQUARED, LOGISTIC = LOSSES["squared"], LOSSES["logistic"]
D, DRAWS = 3, 20_000


def parties(loss_name: str, M: int = 4, fractions: tuple[float, ...] = (), d: int = D) -> Parties:
    rng = np.random.default_rng(5)
    X = rng.uniform(-0.5, 0.5, (60, d)) * np.sqrt(D / d)
    y = np.tanh(X @ np.ones(d)) if loss_name == "squared" else np.sign(X @ np.ones(d))
    task = "regression" if loss_name == "squared" else "binary"
    data = Dataset("toy", task, X, y, X[:0], y[:0])
    return partition(data, Fractions(fractions=fractions) if fractions else Equal(), M, rng)


def released_coefficients(
    monkeypatch: pytest.MonkeyPatch, algorithm: FunctionalMechanism, given: Parties, budget: Budget
) -> tuple[np.ndarray, np.ndarray]:
    """(L1, L2) of every draw, as the minimiser receives them, times the rows used, less ridge and exact value."""
    seen = []

    def spy(A: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        seen.append((A, b))
        return np.zeros_like(b), np.zeros(b.shape[:-1], dtype=bool)

    monkeypatch.setattr(functional_mechanism, "minimise_quadratic", spy)
    prepared = algorithm.prepare(given, np.random.default_rng(0))
    prepared.release([budget], np.random.default_rng(11), DRAWS)
    A = np.concatenate([a[0] for a, _ in seen]) - prepared.square
    b = np.concatenate([b[0] for _, b in seen]) - prepared.linear
    A -= A.mean(axis=0)  # takes the ridge away; the noise has mean zero, tested elsewhere
    return b * prepared.rows, A * prepared.rows


@pytest.mark.parametrize("calibration", ["published", "tight"])
@pytest.mark.parametrize("algorithm", [FunctionalMechanism, CapeFM, Conventional, Local])
@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC])
def test_measured_noise_gives_the_proven_eps(monkeypatch, algorithm, loss, calibration) -> None:
    budget, given = Budget(0.5, 1e-4), parties(loss.name, fractions=(0.1, 0.2, 0.3, 0.4))
    mechanism = algorithm(loss, calibration=calibration)
    b, A = released_coefficients(monkeypatch, mechanism, given, budget)
    linear = b.std()
    # off the diagonal two entries of the drawn matrix are averaged
    square = np.sqrt(
        (np.sum(A.diagonal(axis1=1, axis2=2) ** 2) + 2 * np.sum(2 * A[:, *np.triu_indices(D, 1)] ** 2)) / A.size
    )
    scales = mechanism.scales(budget, given.problem)
    # 60,000 and 120,000 Gaussians: relative standard errors below 0.3 %; five of them
    assert linear == pytest.approx(scales.linear, rel=0.015)
    assert square == pytest.approx(scales.square, rel=0.015)
    measured = coefficients.Scales(scales.constant, linear, square)
    mu = coefficients.joint_sensitivity(mechanism.quadratic, measured)
    proven = {g.view: g.eps for g in mechanism.guarantees(budget, given.problem) if g.basis == "proven"}
    assert gdp.eps_of(mu, 1e-4) == pytest.approx(proven["release"], rel=0.03)


def test_published_noise_is_the_papers(monkeypatch) -> None:
    budget, given = Budget(0.2, 1e-3), parties("squared", M=4)
    tau = np.sqrt(2 * np.log(1.25 / 1e-3)) / 0.2
    # in units of N L1, N L2: Delta = 4, sqrt 2 for the pooled mechanism and capefm, sqrt(M) times that for conv
    for algorithm, factor in ((FunctionalMechanism, 1), (CapeFM, 1), (Conventional, 2), (Local, 1)):
        scales = algorithm(SQUARED).scales(budget, given.problem)
        assert scales.constant == pytest.approx(factor * tau)
        assert scales.linear == pytest.approx(4 * factor * tau)
        assert scales.square == pytest.approx(np.sqrt(2) * factor * tau)


@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC])
@pytest.mark.parametrize("calibration", ["published", "tight"])
@pytest.mark.parametrize("algorithm", [FunctionalMechanism, CapeFM, Conventional, Local, PureFunctionalMechanism])
def test_the_ridge_is_in_units_of_the_largest_eigenvalue_of_the_noise(monkeypatch, algorithm, calibration, loss):
    """Measured on what is minimised, at d = 120: L2 as released less its mean is the noise, the mean holds the ridge.

    The largest eigenvalue is about 5 % below the edge of the semicircle at this d, and hardly varies.
    """
    d, given, seen = 120, parties(loss.name, d=120), []

    def spy(A: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        seen.append(A)
        return np.zeros_like(b), np.zeros(b.shape[:-1], dtype=bool)

    monkeypatch.setattr(functional_mechanism, "minimise_quadratic", spy)
    mechanism = algorithm(loss, calibration=calibration, ridge=3.0)
    prepared = mechanism.prepare(given, np.random.default_rng(0))
    for budget in (Budget(0.1, 1e-3), Budget(2.0, 1e-3)):
        seen.clear()
        prepared.release([budget], np.random.default_rng(1), 30)
        A = np.concatenate([a[0] for a in seen]) - prepared.square
        ridge = np.trace(A.mean(axis=0)) / d
        largest = np.linalg.eigvalsh(A - ridge * np.eye(d))[:, -1].mean()
        assert 0.9 < largest / (ridge / 3.0) < 1.02


@pytest.mark.parametrize(
    ("d", "squared", "logistic"), [(1, 8, 3.25), (3, 32, 11.25), (10, 242, 55), (100, 20402, 2800)]
)
def test_published_scale_of_the_pure_mechanism(d: int, squared: float, logistic: float) -> None:
    """Zhang et al. 2012, as in Imtiaz et al. 2019, Secs. 4.1 and H: 2 (d + 1)^2 and d^2/4 + 3 d, counted by hand."""
    for loss, delta, constant in ((SQUARED, squared, 1), (LOGISTIC, logistic, 0)):
        scales = PureFunctionalMechanism(loss).scales(Budget(0.5), Problem(4, 1000, d))
        assert (scales.constant, scales.linear, scales.square) == (2 * delta * constant, 2 * delta, 2 * delta)
        # the authors put it into the formula of Gaussian noise
        authors = PureFunctionalMechanism(loss, variant="authors").scales(Budget(0.5, 1e-3), Problem(4, 1000, d))
        assert authors.square == authors.linear == pytest.approx(2 * delta * 3.7764795, rel=1e-7)


@pytest.mark.parametrize("calibration", ["published", "tight"])
def test_pure_mechanism_draws_laplace_of_the_counted_scale(monkeypatch, calibration) -> None:
    budget, given = Budget(0.5), parties("squared")
    mechanism = PureFunctionalMechanism(SQUARED, calibration=calibration)
    b, A = released_coefficients(monkeypatch, mechanism, given, budget)
    scales = mechanism.scales(budget, given.problem)
    # Kolmogorov-Smirnov at a false-alarm rate of 1e-4 each, seeded
    assert stats.kstest(b.ravel() / scales.linear, "laplace").pvalue > 1e-4
    diagonal = A.diagonal(axis1=1, axis2=2).ravel()
    diagonal = diagonal / scales.square
    assert stats.kstest(diagonal, "laplace").pvalue > 1e-4
    if calibration == "tight":
        assert stats.kstest(A[:, 0, 1] / scales.square, "laplace").pvalue > 1e-4
    if calibration == "published":
        assert scales.linear == scales.constant == 2 * (D + 1) ** 2 / 0.5


def test_matrix_noise_is_symmetric_and_independent_across_entries() -> None:
    rng = np.random.default_rng(3)
    given = parties("squared")
    for mechanism in (
        CapeFM(SQUARED),
        CapeFM(SQUARED, calibration="tight"),
        PureFunctionalMechanism(SQUARED),
        PureFunctionalMechanism(SQUARED, calibration="tight"),
    ):
        z0, z1, z2 = mechanism.unit_noise(rng, DRAWS, given.problem)
        assert np.array_equal(z2, z2.transpose(0, 2, 1))
        together = np.column_stack([z0, z1, z2[:, *np.triu_indices(D)]])
        correlation = np.corrcoef(together.T) - np.eye(together.shape[1])
        assert np.abs(correlation).max() < 5 / np.sqrt(DRAWS)  # 45 pairs at five standard errors
        assert np.abs(together.mean(axis=0) / together.std(axis=0)).max() < 5 / np.sqrt(DRAWS)


def test_zero_sum_noise_has_cape_covariance() -> None:
    M, n = 5, 40_000
    e = noise.cape_messages(np.random.default_rng(0), n, M, 1, shared=1.0, own=0.0)[0][:, :, 0]
    assert np.abs(e.sum(axis=1)).max() < 1e-12
    expected = np.eye(M) - 1 / M  # Lemma 1: variance 1 - 1/M each
    assert np.abs(e.T @ e / n - expected).max() < 5 * np.sqrt(2 / n)


@pytest.mark.parametrize("shared", [1.0, distributed_noise.MASK])
def test_cape_total_is_distributed_as_the_pooled_noise(shared: float) -> None:
    M = 7
    total = noise.cape_total(np.random.default_rng(1), 4000, M, 5, shared=shared, own=1 / np.sqrt(M))
    assert total.shape == (4000, 5)
    assert stats.kstest(total.ravel(), "norm").pvalue > 1e-4  # false-alarm rate 1e-4, seeded


def test_summed_noise_in_blocks_is_still_the_sum(monkeypatch) -> None:
    monkeypatch.setattr(noise, "_BLOCK", 64)
    for total in (
        noise.cape_total(np.random.default_rng(2), 2000, 6, 4, shared=1.0, own=1 / np.sqrt(6)),
        noise.gaussian_total(np.random.default_rng(3), 2000, 6, 4) / np.sqrt(6),
    ):
        assert stats.kstest(total.ravel(), "norm").pvalue > 1e-4
        assert np.abs(np.corrcoef(total.T) - np.eye(4)).max() < 5 / np.sqrt(2000)


def test_l2_laplace_length_and_direction() -> None:
    d, n = 6, 20_000
    x = noise.l2_laplace(np.random.default_rng(4), n, d)
    length = np.linalg.norm(x, axis=1)
    assert stats.kstest(length, stats.gamma(d).cdf).pvalue > 1e-4
    # the square of one coordinate of a uniform direction is Beta(1/2, (d-1)/2)
    assert stats.kstest((x[:, 0] / length) ** 2, stats.beta(0.5, (d - 1) / 2).cdf).pvalue > 1e-4
    assert np.abs((x / length[:, None]).mean(axis=0)).max() < 5 / np.sqrt(n * d)
