"""`algo.noise=discrete`: the integers that are summed, how far they can move, their noise, and what is proven."""

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from examples import LOGISTIC, SQUARED, capefm, dealt, dpfm, fm, release_of, some_parties
from scipy.special import expit

from dpml.algorithms.descent.clipped import ClippedDescent
from dpml.algorithms.descent.clipped_gradients import ClippedGradients
from dpml.algorithms.quadratic.coefficients import Coefficients, whole_products
from dpml.algorithms.quadratic.sufficient_statistics import PreconditionedDescent, SufficientStatistics
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.mechanism import discrete as discrete_noise
from dpml.mechanism.discrete import BITS, variance_of
from dpml.mechanism.message import discrete_rest
from dpml.privacy import Adversary, Budget, Problem, worst
from dpml.privacy.discrete.rounding import REST, smoothing

BUDGET, NONE = Budget(1.0, 1e-5), Budget(math.inf, 1e-5)
ALGORITHMS = (SufficientStatistics, ClippedDescent, PreconditionedDescent)
each_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: algorithm.name)
each_unit = pytest.mark.parametrize("unit", ["sample", "party"])
each_loss = pytest.mark.parametrize("loss", [LOGISTIC, SQUARED], ids=lambda loss: loss.name)


def slope_steps(unit: str, N: int, width: float = 0.0) -> int:
    return ClippedGradients(LOGISTIC, unit, 0.1).resolution([width], Problem(1, N, 3))


def only(parties: Parties, rows: slice) -> Parties:
    offsets = np.array([0, rows.stop - rows.start])
    return replace(parties, adversary=Adversary(0), offsets=offsets, X=parties.X[rows], y=parties.y[rows])


def clipped_integers(loss, parties, unit: str, clip: float, Q: int, w, secure: bool = False):
    return ClippedGradients(loss, unit, clip).on(parties).integers(np.full(len(w), Q), secure, w)


def statistics_integers(loss, parties, bits: int = BITS, unit: str = "sample"):
    return Coefficients(loss, unit=unit).on(parties).integers(np.array([bits]), False)[0, 0]


@pytest.mark.slow_cases("ssp_descent-party-2-logistic", "ssp_descent-sample-5-logistic")
@each_loss
@pytest.mark.parametrize(("unit", "M"), [("sample", 5), ("party", 2)])
@each_algorithm
def test_the_real_protocol_has_the_same_models_bit_for_bit(algorithm, unit, loss, M, monkeypatch) -> None:
    """Blocks of rows do not end where parties do, and parties draw in several blocks."""
    monkeypatch.setattr("dpml.optim.gradients._SCORES", 1)
    monkeypatch.setattr("dpml.mechanism.discrete._NUMBERS", 40)
    parties = some_parties(loss, M, N=120)
    budgets = [Budget(8.0, 1e-5), Budget(1e-6, 1e-5), NONE]
    rounds = {} if algorithm is SufficientStatistics else {"rounds": 2}
    made = algorithm(loss, unit=unit, noise="discrete", **rounds)
    simulated, real = (
        release_of(replace(made, protocol=protocol), parties, budgets, 2, seed=3).weights
        for protocol in ("simulate", "secagg")
    )
    assert np.isfinite(real).all()
    assert len(np.unique(real[0])) == real[0].size
    np.testing.assert_array_equal(real, simulated)


@pytest.mark.parametrize(("M", "colluders"), [(1, 0), (4, 1), (32, 10), (1000, 333)])
@pytest.mark.parametrize("width", [80.0, 12345.6, 2.0**45])
def test_the_noise_is_the_least_that_guarantees_what_continuous_noise_does(M, colluders, width) -> None:
    """By the theorem, whose proof and tests are apart: for every number of honest parties from the fewest on."""
    problem = Problem(M, 10 * M, 3, colluders=colluders)
    variance = variance_of(width * math.sqrt(M), problem, 7)
    shift = 10**6
    for honest in range(problem.honest, M + 1, max(1, colluders // 20)):
        continuous = shift / (width * math.sqrt(honest))
        proven = shift / math.sqrt(honest * variance - smoothing(honest, 7)) + REST
        assert proven <= continuous * (1 + 1e-12) + 1e-24
    assert variance - Fraction(width * math.sqrt(M)) ** 2 / M <= 1 + smoothing(M, 7) / problem.honest


def test_a_view_of_more_honest_parties_has_no_less_noise_where_the_rest_grows() -> None:
    """With the rest of the fewest honest parties, 511, all 512 would have too little."""
    problem, fewest = Problem(512, 512, 1, colluders=1), smoothing(511, 1) / 511
    width = math.sqrt(512 * (8100 - fewest)) * (1 - 1e-15)  # 8100 would be enough for 511
    assert 512 * fewest < smoothing(512, 1)
    variance = variance_of(width, problem, 1)
    assert all(n * variance - smoothing(n, 1) >= Fraction(width) ** 2 * n / 512 for n in (511, 512))
    for tiny in (1e-300, 1e-9, 2.0):  # never so little noise that the grid is too coarse
        assert 2 * smoothing(3, 7) <= variance_of(tiny, Problem(4, 40, 3, colluders=1), 7) <= 13


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@each_unit
def test_models_that_are_not_finite_are_refused(unit, bad) -> None:
    with pytest.raises(UserError):
        clipped_integers(LOGISTIC, some_parties(), unit, 1.0, 1, np.array([[1.0, bad, 0.0]]))


@each_loss
def test_a_row_that_is_replaced_moves_the_integers_by_its_own_and_no_other(loss, monkeypatch) -> None:
    """To the last bit, wherever it is; and it does not matter how many blocks of rows are taken together."""
    parties, w = some_parties(loss, M=1, N=3000), np.random.default_rng(3).standard_normal((2, 3))
    Q = ClippedGradients(loss, "sample", 0.1).resolution([0.0], parties.problem)
    sums = [clipped_integers(loss, parties, "sample", 0.1, Q, w)]
    for place in (0, 1500, 2999):
        X, y = parties.X.copy(), parties.y.copy()
        X[place], y[place] = -X[place], y[place - 1]
        other = Parties(parties.data, parties.order, parties.offsets, X, y, parties.X[:0])
        moved = clipped_integers(loss, other, "sample", 0.1, Q, w) - sums[0]
        squares = np.sum(moved.astype(object) ** 2, axis=-1)
        assert all(square <= (2 * Q << BITS) ** 2 for square in squares.ravel())
    monkeypatch.setattr("dpml.optim.gradients._SCORES", 1000)
    np.testing.assert_array_equal(clipped_integers(loss, parties, "sample", 0.1, Q, w), sums[0])


PROBLEMS = [
    Problem(1, 2, 1), Problem(2, 2, 1), Problem(1, 30_162, 104), Problem(32, 30_162, 104), Problem(1000, 1000, 3),
    Problem(5, 4_898_431, 122), Problem(100_000, 1 << 24, 500, colluders=33_333), Problem(1, 10**4, 1000),
]  # fmt: skip


@each_loss
@each_unit
@each_algorithm
def test_all_budgets_have_a_guarantee_that_is_no_larger_and_room_in_the_ring(algorithm, unit, loss) -> None:
    """eps = 1e-6 to 1e30: what is proven is at most what is asked for, and no sum is likely to wrap round."""
    made = algorithm(loss, unit=unit, noise="discrete")
    for problem in PROBLEMS:
        for eps in (1e-6, 1e-3, 1.0, 1e3, 1e6, 1e30):
            budget = Budget(eps, 1e-5)
            proven = worst(made.guarantees(budget, problem)).eps
            assert proven <= eps
            assert proven > (1 - 3e-6) * eps or eps < 1e-4  # where delta is nearly all
            for message in made.messages(budget, problem):
                widths = message.block_widths()
                steps = message.of.steps(message.of.resolution(widths, problem), problem)
                assert message.of.largest(problem) / max(map(abs, steps)) <= 1 << 61  # of the block that has it
                for width, step in zip(widths, steps, strict=True):
                    variance = variance_of(width / abs(step), Problem(1, 1, 1), 1)
                    room = (1 << 63) - (1 << 61)  # Chernoff: below 1e-300 in 10^6 coordinates
                    assert 2e6 * math.exp(-float(room**2 / (2 * variance))) < 1e-300
                    assert variance < 1 << 112


def test_noise_that_has_no_room_in_64_bits_is_refused_before_any_guarantee_is_given() -> None:
    for algorithm in (*(kind(LOGISTIC, noise="discrete") for kind in ALGORITHMS), dpfm(LOGISTIC, noise="discrete")):
        with pytest.raises(UserError, match="64 bits"):
            algorithm.guarantees(Budget(1e-28, 1e-15), Problem(4, 40, 3))


@each_loss
def test_sums_of_integers_are_those_of_python(loss) -> None:
    parties = some_parties(loss, N=50)
    z = np.rint(np.ldexp(parties.X, BITS)).astype(int).tolist()  # no row is on the sphere: none is shortened
    y = [round(label * 2**BITS) for label in parties.y]
    sums = statistics_integers(loss, parties).tolist()
    assert sums[:3] == [sum(a * row[j] for a, row in zip(y, z, strict=True)) for j in range(3)]
    pairs = [(0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)]
    assert sums[3:] == [sum(row[i] * row[j] for row in z) for i, j in pairs]


def test_a_party_is_divided_by_its_rows_and_rounded_once() -> None:
    parties = some_parties(N=50)
    z = np.rint(np.ldexp(parties.X, BITS)).astype(int)
    exact = [Fraction(0)] * 3
    for k in range(4):
        rows = parties.of(k)
        own = (parties.y[rows, None].astype(int) << BITS) * z[rows]
        exact = [total + Fraction(int(own[:, j].sum()), len(own)) for j, total in enumerate(exact)]
    sums = statistics_integers(LOGISTIC, parties, unit="party")[:3].tolist()
    assert all(abs(found - truth) <= 2 for found, truth in zip(sums, exact, strict=True))  # 4 halves


@each_loss
def test_means_that_are_rounded_count_one_step_in_every_coordinate(loss) -> None:
    """Of d linear and d squared coordinates, and of d (d - 1)/2 products, whose noise is narrower by sqrt 2."""
    problem = Problem(5, 50, 4)
    made = SufficientStatistics(loss, unit="party", noise="discrete")
    (message,) = made.messages(BUDGET, problem)
    linear, square, _ = widths = message.block_widths()
    first, second = ({"logistic": 0.5, "squared": 2.0}, {"logistic": 0.125, "squared": 1.0})
    noise = [linear / first[loss.name]] * 4 + [square / second[loss.name]] * 4
    noise += [square / second[loss.name] / math.sqrt(2)] * 6
    expected = math.sqrt(sum((2.0**-40 / width) ** 2 for width in noise))
    assert message.of.rounding(widths, BITS, problem) == pytest.approx(expected, rel=1e-9)
    assert Coefficients(loss).rounding(widths, BITS, problem) < 1e-20


def test_every_lot_of_discrete_noise_adds_what_is_left_of_the_grid_to_the_mu() -> None:
    """Of sums and counts alike, in every round: too little to be seen in a mu, so that it is compared alone."""
    problem = Problem(50, 500, 3)
    for made, lots in (
        (ClippedDescent(LOGISTIC, rounds=7), 7),
        (ClippedDescent(LOGISTIC, unit="party", rounds=7), 14),
        (SufficientStatistics(LOGISTIC), 3),  # L1, the diagonal of L2, and the entries beside it
    ):
        (message,) = made.messages(BUDGET, problem)
        assert discrete_rest(message, problem) == pytest.approx(lots * REST, rel=1e-12, abs=0)


def test_the_noise_of_parties_sums_to_the_total(monkeypatch) -> None:
    variances = [Fraction(100), Fraction(0), Fraction(5000)]
    grids = [discrete_noise.Grid(0, (1.0,), (1.0,), (each,)) for each in variances]
    monkeypatch.setattr(discrete_noise, "_NUMBERS", 25_000)  # two parties at once
    total, parts = (
        f(grids, 0, 5, 2000, 2, np.random.default_rng(0)) for f in (discrete_noise.total, discrete_noise.parts)
    )
    np.testing.assert_array_equal(parts.sum(axis=0), total)
    spread = total.reshape(3, -1).var(axis=1) / 5
    assert spread == pytest.approx([100, 0, 5000], rel=6 * math.sqrt(2 / 4000))


@each_loss
@pytest.mark.parametrize(("kind", "protocol"), [(fm, "simulate"), (capefm, "simulate"), (capefm, "secagg")])
def test_a_curator_and_sites_release_what_ssp_does_bit_for_bit(kind, loss, protocol) -> None:
    """With the same guarantees, view by view: given their sum, messages with uniform zero-sum noise show nothing."""
    parties = some_parties(loss, 5, N=90, colluders=2)
    alone = replace(parties, offsets=np.array([0, 90]), adversary=Adversary(0))
    options = {"noise": "discrete", "protocol": protocol}
    found = [
        (release_of(algorithm, own, [Budget(8.0, 1e-5), BUDGET, NONE], 4, seed=3).weights,
         [(g.view, g.eps, g.mu) for g in algorithm.guarantees(BUDGET, own.problem)])
        for algorithm, own in (
            (kind(loss, calibration="tight", **options), parties),
            (SufficientStatistics(loss, **options), alone if kind is fm else parties),
        )
    ]  # fmt: skip
    (weights, guarantees), (others, same) = found
    np.testing.assert_array_equal(weights, others)
    assert guarantees == same
    assert len(np.unique(weights[:2])) == weights[:2].size


def test_given_their_sum_messages_with_uniform_zero_sum_noise_are_uniform() -> None:
    """Counted in a ring of 4 for 3 sites. Site k sends ``f_k + u_k - u_(k+1)``, u uniform: what hides CAPE's noise."""
    ring, u = 4, np.stack(np.meshgrid(*[np.arange(4)] * 3), axis=-1).reshape(-1, 3)

    def law(f) -> dict[tuple[int, ...], int]:
        sent, counts = np.unique((np.array(f) + u - np.roll(u, -1, axis=1)) % ring, axis=0, return_counts=True)
        return dict(zip(map(tuple, sent.tolist()), counts.tolist(), strict=True))

    assert law([0, 0, 3]) == law([1, 3, 3]) == law([2, 0, 1])
    assert set(law([0, 0, 3]).values()) == {ring}  # 16 of them, all that have the sum
    assert law([0, 0, 3]) != law([0, 0, 2])


@pytest.mark.parametrize("bits", [20, 12])
def test_products_of_integers_are_those_of_pythons(bits: int) -> None:
    """More rows than are multiplied at once, and the largest entries, all of one sign: sums beyond 2^53."""
    rng, n = np.random.default_rng(bits), 20_000
    rows, labels = rng.integers(-(1 << bits), 1 << bits, (n, 3), endpoint=True), np.full(n, 1 << bits)
    rows[:, 0] = 1 << bits
    rows[-1, 0] -= 1  # the last digit counts
    both = np.column_stack([rows, labels]).astype(object)
    assert np.array_equal(whole_products(rows, labels, bits), both.T @ both)


@each_loss
def test_of_exact_laplace_noise_what_is_proven_is_what_was_asked_for(loss) -> None:
    for problem in (Problem(1, 1, 1), Problem(4, 400, 10), Problem(3, 10**7, 1000)):
        for eps in (0.1, 1.0, 30.0, 1e6):
            (proven,) = [
                g for g in dpfm(loss, noise="discrete").guarantees(Budget(eps), problem) if g.basis == "proven"
            ]
            assert eps * (1 - 2e-5) <= proven.eps <= eps


@each_loss
def test_exact_laplace_noise_is_none_of_floating_point_and_may_have_width_zero(loss) -> None:
    one, other = (
        release_of(dpfm(loss, noise=noise), some_parties(loss), [Budget(math.inf)]).weights
        for noise in ("discrete", "continuous")
    )
    np.testing.assert_allclose(one, other, atol=2e-4)
    mechanism = dpfm(loss, noise="discrete").prepare(some_parties(loss), np.random.default_rng(0))
    only_bytes = SimpleNamespace(bytes=np.random.default_rng(0).bytes)
    assert np.isfinite(mechanism.release([BUDGET], only_bytes, 2).weights).all()


@each_loss
@pytest.mark.parametrize("d", [1, 2, 6])
def test_no_neighbours_integers_move_farther_than_is_proven(loss, d: int) -> None:
    algorithm, rng, budget = dpfm(loss, noise="discrete"), np.random.default_rng(6), Budget(2.0)
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
            parties = dealt("regression" if loss is SQUARED else "binary", rows[own], y[own])
            sums.append(sent.of.on(parties).integers(np.array([bits]), False)[0, 0])
        most = max(most, float(np.sum(np.abs(sums[0] - sums[1]) / scales)))
    assert most <= proven.eps
    assert most > 0.6 * proven.eps


@each_loss
def test_integers_of_rows_are_clipped_gradients_and_none_is_longer_than_the_clip(loss) -> None:
    """Row by row: the sums over single rows are what the definition has, and whole numbers in a ball."""
    clip, Q, w = 0.3, slope_steps("sample", 1), 4 * np.random.default_rng(3).standard_normal((5, 3))
    parties = some_parties(loss, M=1)
    for i in range(20):
        sums = clipped_integers(loss, only(parties, slice(i, i + 1)), "sample", clip, Q, w)[0]
        assert sums.dtype == np.int64
        steps = Q << BITS
        assert all(sum(int(number) ** 2 for number in row) <= steps**2 for row in sums)
        x, y = parties.X[i], parties.y[i]
        slope = -y * expit(-y * (w @ x)) if loss is LOGISTIC else 2 * (w @ x - y)
        np.testing.assert_allclose(sums / steps * clip, np.clip(slope, -clip, clip)[:, None] * x, atol=1e-5)


def test_integers_of_a_party_are_no_longer_than_the_clip() -> None:
    """And where the clip follows the parties, each counts one or none."""
    parties, w, one = some_parties(), 4 * np.random.default_rng(3).standard_normal((5, 3)), np.ones(5, int)
    for clip in (0.01, 0.5):
        sums = clipped_integers(LOGISTIC, parties, "party", clip, 1, w, secure=True)
        assert sums.shape == (4, 5, 3)
        assert all(sum(int(n) ** 2 for n in row) <= 4**BITS for each in sums for row in each)
        together = clipped_integers(LOGISTIC, parties, "party", clip, 1, w)
        np.testing.assert_array_equal(together[0], sums.sum(axis=0))
        counted = ClippedGradients(LOGISTIC, "party", None).on(parties)
        at = w, np.full(5, clip, np.float32)
        np.testing.assert_array_equal(counted.integers(one, True, *at)[..., :3], sums)
        counts = counted.integers(one, True, *at)[..., 3]
        np.testing.assert_array_equal(counted.integers(one, False, *at)[0, :, 3], counts.sum(axis=0))
        assert set(np.unique(counts)) <= {0, 1 << BITS}
        for k in range(4):
            alone = clipped_integers(LOGISTIC, only(parties, parties.of(k)), "party", clip, 1, w)
            np.testing.assert_allclose(alone[0], sums[k], atol=2)  # single precision, rounded
