"""`algo.noise=discrete`: the integers that are summed, how far they can move, their noise, and what is proven."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from examples import ball
from scipy import stats
from scipy.special import expit

from dpml.algorithms import discrete_noise
from dpml.algorithms.clipped_descent import ClippedDescent
from dpml.algorithms.discrete_noise import BITS, variance_of
from dpml.algorithms.discrete_sums import DiscreteSums, slope_steps, steps_of
from dpml.algorithms.preconditioned_descent import PreconditionedDescent
from dpml.algorithms.sufficient_statistics import SufficientStatistics
from dpml.audit import audit
from dpml.data import Dataset
from dpml.data.partition import Equal, Fractions, Parties, partition
from dpml.errors import UserError
from dpml.optim.losses import LOSSES
from dpml.privacy import Adversary, Budget, Problem, gdp, worst
from dpml.privacy.discrete.accounting import mu_of

LOGISTIC, SQUARED = LOSSES["logistic"], LOSSES["squared"]
BUDGET, NONE = Budget(1.0, 1e-5), Budget(math.inf, 1e-5)
ALGORITHMS = (SufficientStatistics, ClippedDescent, PreconditionedDescent)
each_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: algorithm.name)
each_unit = pytest.mark.parametrize("unit", ["sample", "party"])
each_loss = pytest.mark.parametrize("loss", [LOGISTIC, SQUARED], ids=lambda loss: loss.name)


def some_parties(loss=LOGISTIC, M=4, N=200, d=3, seed=0) -> Parties:
    rng = np.random.default_rng(seed)
    X = ball(rng, N, d)
    y = np.tanh(3 * X @ np.arange(1.0, d + 1) + 0.3 * rng.standard_normal(N))
    y = np.where(y > 0, 1.0, -1.0) if loss is LOGISTIC else y
    data = Dataset("made", "binary" if loss is LOGISTIC else "regression", X, y, X[:0], y[:0])
    shares = np.arange(1.0, M + 1)
    rule = Fractions(fractions=tuple((shares / shares.sum()).tolist())) if M > 1 else Equal()
    return partition(data, rule, M, rng, Adversary(1 if M > 3 else 0))


def only(parties: Parties, rows: slice) -> Parties:
    """One party that has some of the rows."""
    offsets = np.array([0, rows.stop - rows.start])
    return replace(parties, offsets=offsets, X=parties.X[rows], y=parties.y[rows])


def prepared(algorithm, parties):
    return algorithm.prepare(parties, np.random.default_rng(0))


# ---- without noise, or next to it, it is the same release


@each_loss
@each_unit
@each_algorithm
def test_without_noise_the_model_is_the_continuous_one_up_to_the_grid(algorithm, unit, loss) -> None:
    parties = some_parties(loss)
    one, other = (
        prepared(algorithm(loss, unit=unit, noise=noise), parties).release([NONE], np.random.default_rng(1), 1).weights
        for noise in ("continuous", "discrete")
    )
    assert np.abs(one).max() > 0.1
    np.testing.assert_allclose(other, one, atol=2e-3 * np.abs(one).max())


@each_unit
@each_algorithm
def test_with_noise_models_have_the_same_law(algorithm, unit) -> None:
    """Kolmogorov and Smirnov's test on a projection of 400 models of either noise; false alarm 1e-4 each."""
    parties = some_parties(N=2000)
    direction = np.array([0.2, 0.5, 0.8])
    one, other = (
        prepared(algorithm(LOGISTIC, unit=unit, noise=noise), parties)
        .release([Budget(8.0, 1e-5)], np.random.default_rng(seed), 400)
        .weights[0]
        @ direction
        for seed, noise in enumerate(("continuous", "discrete"))
    )
    assert stats.ks_2samp(one, other).pvalue > 1e-4


@each_unit
@each_algorithm
@pytest.mark.parametrize("M", [1, 4])
def test_what_is_proven_is_what_was_asked_for_and_hardly_less(algorithm, unit, M) -> None:
    problem = some_parties(M=M).problem
    discrete = algorithm(LOGISTIC, unit=unit, noise="discrete").guarantees(BUDGET, problem)
    continuous = algorithm(LOGISTIC, unit=unit).guarantees(BUDGET, problem)
    assert [guarantee.view for guarantee in discrete] == [guarantee.view for guarantee in continuous]
    assert 1 - 2e-6 < worst(discrete).eps <= 1.0
    for one, other in zip(discrete, continuous, strict=True):
        assert one.mu == pytest.approx(other.mu, rel=2e-6)


@each_algorithm
def test_the_real_protocol_does_not_take_integers(algorithm) -> None:
    with pytest.raises(UserError, match=r"algo\.noise=discrete needs algo\.protocol=simulate"):
        algorithm(LOGISTIC, noise="discrete", protocol="secagg")
    with pytest.raises(UserError, match=r"algo\.noise must be one of continuous, discrete"):
        algorithm(LOGISTIC, noise="discreet")


# ---- how much noise, and how far integers move


@pytest.mark.parametrize(("M", "colluders"), [(1, 0), (4, 1), (32, 10), (1000, 333)])
@pytest.mark.parametrize("width", [80.0, 12345.6, 2.0**45])
def test_the_noise_is_the_least_that_guarantees_what_continuous_noise_does(M, colluders, width) -> None:
    """Against `mu_of`, whose proof and tests are apart: for every number of honest parties from the fewest on."""
    problem = Problem(M, 10 * M, 3, colluders=colluders)
    variance = variance_of(width * math.sqrt(M), problem, 7)
    shift = 10**6
    for honest in {problem.honest, M}:
        continuous = shift / (width * math.sqrt(honest))
        assert mu_of(shift**2, variance, honest, 7) <= continuous * (1 + 1e-12) + 1e-24
    less = variance - 1
    assert mu_of(shift**2, less, problem.honest, 7) > shift / (width * math.sqrt(problem.honest))


def test_so_little_noise_that_the_grid_is_too_coarse_is_refused() -> None:
    with pytest.raises(UserError, match="more fractional bits"):
        variance_of(2.0, Problem(4, 40, 3, colluders=1), 7)


@each_loss
def test_integers_of_rows_are_clipped_gradients_and_none_is_longer_than_the_clip(loss) -> None:
    """Row by row: the sums over single rows are what the definition has, and whole numbers in a ball."""
    clip, w = 0.3, 4 * np.random.default_rng(3).standard_normal((5, 3))
    parties = some_parties(loss, M=1)
    for i in range(20):
        one = Parties(
            parties.data, parties.order[:1], np.array([0, 1]), parties.X[i : i + 1], parties.y[i : i + 1], parties.X[:0]
        )
        sums = DiscreteSums(loss, one, "sample").integers(w, np.full(5, clip))[0]
        assert sums.dtype == np.int64
        steps = steps_of("sample", 1)[0]
        assert all(sum(int(number) ** 2 for number in row) <= steps**2 for row in sums)
        x, y = parties.X[i], parties.y[i]
        slope = -y * expit(-y * (w @ x)) if loss is LOGISTIC else 2 * (w @ x - y)
        np.testing.assert_allclose(sums / steps * clip, np.clip(slope, -clip, clip)[:, None] * x, atol=1e-5)


def test_integers_of_a_party_are_no_longer_than_the_clip() -> None:
    parties, w = some_parties(), 4 * np.random.default_rng(3).standard_normal((5, 3))
    for clip in (0.01, 0.5):
        alone = [only(parties, parties.of(k)) for k in range(4)]
        each = [DiscreteSums(LOGISTIC, one, "party").integers(w, np.full(5, clip)) for one in alone]
        assert all(sum(int(n) ** 2 for n in row) <= 4**BITS for sums, _ in each for row in sums)
        together = DiscreteSums(LOGISTIC, parties, "party").integers(w, np.full(5, clip))
        np.testing.assert_array_equal(together[0], sum(sums for sums, _ in each))
        np.testing.assert_array_equal(together[1], sum(counts for _, counts in each))
        assert set(np.unique([counts for _, counts in each])) <= {0, 1 << BITS}


@pytest.mark.parametrize("N", [1, 1000, 30_162, 1 << 21, 1 << 33])
def test_sums_of_so_many_rows_are_exact_in_floating_point(N) -> None:
    assert N * slope_steps(N) << BITS <= 1 << 53


def test_the_order_of_rows_and_their_blocks_do_not_change_a_bit(monkeypatch) -> None:
    parties, w = some_parties(M=1, N=3000), np.random.default_rng(3).standard_normal((2, 3))
    turned = Parties(parties.data, parties.order, parties.offsets, parties.X[::-1], parties.y[::-1], parties.X[:0])
    first = DiscreteSums(LOGISTIC, parties, "sample").integers(w, np.full(2, 0.1))[0]
    monkeypatch.setattr("dpml.algorithms.discrete_sums._ROWS", 7)
    np.testing.assert_array_equal(DiscreteSums(LOGISTIC, turned, "sample").integers(w, np.full(2, 0.1))[0], first)


# ---- the statistics


@each_loss
def test_sums_of_integers_are_those_of_python(loss) -> None:
    parties = some_parties(loss, N=50)
    ready = prepared(SufficientStatistics(loss, noise="discrete"), parties)
    z = np.rint(np.ldexp(parties.X, BITS)).astype(int).tolist()  # no row is on the sphere: none is shortened
    y = [round(label * 2**BITS) for label in parties.y]
    assert ready.sums.tolist() == [sum(a * row[j] for a, row in zip(y, z, strict=True)) for j in range(3)]
    pairs = [(i, j) for i in range(3) for j in range(i, 3)]
    assert ready.squares.tolist() == [sum(row[i] * row[j] for row in z) for i, j in pairs]


def test_a_party_is_divided_by_its_rows_and_rounded_once() -> None:
    parties = some_parties(N=50)
    ready = prepared(SufficientStatistics(LOGISTIC, unit="party", noise="discrete"), parties)
    z = np.rint(np.ldexp(parties.X, BITS)).astype(int)
    exact = [Fraction(0)] * 3
    for k in range(4):
        rows = parties.of(k)
        own = (parties.y[rows, None].astype(int) << BITS) * z[rows]
        exact = [total + Fraction(int(own[:, j].sum()), len(own)) for j, total in enumerate(exact)]
    assert all(abs(found - truth) <= 2 for found, truth in zip(ready.sums.tolist(), exact, strict=True))  # 4 halves


@each_unit
@each_loss
def test_the_noise_as_drawn_is_at_least_what_is_counted(loss, unit) -> None:
    """Variances of 4,000 draws, in the units of `scales`; each within six standard errors (false alarm 2e-9)."""
    algorithm, parties = SufficientStatistics(loss, unit=unit, noise="discrete"), some_parties(loss)
    ready, draws = prepared(algorithm, parties), 4000
    scales = ready.scales([BUDGET])
    _, b, A = ready.noisy(scales, np.random.default_rng(5), draws)
    error = 6 * math.sqrt(2 / draws)
    assert (b[0] - ready.linear).var(axis=0) / scales[0, 1] ** 2 == pytest.approx(1, abs=error)
    spread = (A[0] - ready.square).var(axis=0) / scales[0, 2] ** 2
    np.testing.assert_allclose(spread, (1 + np.eye(3)) / 2, atol=error)
    np.testing.assert_array_equal(A, A.transpose(0, 1, 3, 2))


def test_noise_depends_on_the_source_alone_and_no_budget_shares_it() -> None:
    ready = prepared(SufficientStatistics(LOGISTIC, noise="discrete"), some_parties())
    scales = ready.scales([BUDGET, BUDGET])
    first, again = (ready.noisy(scales, np.random.default_rng(7), 3)[1] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert not np.isclose(first[0], first[1]).any()


def test_no_floating_point_noise_is_drawn(monkeypatch) -> None:
    """All that a discrete release asks of its generator is bytes."""

    class Bytes:
        def __init__(self) -> None:
            self.bytes = np.random.default_rng(0).bytes

    for algorithm in ALGORITHMS:
        for unit in ("sample", "party"):
            ready = prepared(algorithm(LOGISTIC, unit=unit, noise="discrete"), some_parties())
            assert np.isfinite(ready.release([BUDGET], Bytes(), 2).weights).all()


def test_the_noise_of_parties_sums_to_the_total() -> None:
    variances = [Fraction(100), Fraction(0), Fraction(5000)]
    total = discrete_noise.total(variances, 5, 2000, 2, np.random.default_rng(0))
    spread = total.reshape(3, -1).var(axis=1) / 5
    assert spread == pytest.approx([100, 0, 5000], rel=6 * math.sqrt(2 / 4000))


@each_unit
@each_algorithm
def test_the_attack_on_what_is_recorded_finds_what_is_proven_and_no_bug(algorithm, unit) -> None:
    """False alarm: 1e-3 for a verdict of BUG, by its definition."""
    few = {} if algorithm is SufficientStatistics else {"rounds": 20}
    made = algorithm(LOGISTIC, unit=unit, noise="discrete", **few)
    for finding in audit(made, BUDGET, Problem(4, 8000, 2, colluders=1), 3000):
        assert finding.verdict in ("consistent", "no violation seen")
        assert finding.attacked > 0.6 * finding.proven


def test_gdp_margin() -> None:
    assert gdp.mu_of(1.0, 1e-5) * (1 - 1.1e-6) < discrete_noise.asked(gdp.mu_of(1.0, 1e-5)) < gdp.mu_of(1.0, 1e-5)
