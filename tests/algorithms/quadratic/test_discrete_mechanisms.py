"""`algo.noise=discrete` of `fm`, `capefm` and `dpfm`: whose release it is, how much noise there is, what is proven."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from examples import LOGISTIC, SQUARED, capefm, dealt, dpfm, fm, release_of, some_parties

from dpml.algorithms.quadratic.coefficients import whole_products
from dpml.algorithms.quadratic.sufficient_statistics import SufficientStatistics
from dpml.audit.worst_cases import worst_case
from dpml.data.partition import Parties
from dpml.data.preprocess import shrink
from dpml.mechanism import discrete as discrete_noise
from dpml.privacy import Adversary, Budget, Problem

BUDGET = Budget(1.0, 1e-5)
each_loss = pytest.mark.parametrize("loss", [LOGISTIC, SQUARED], ids=lambda loss: loss.name)
each_algorithm = pytest.mark.parametrize("kind", [fm, capefm], ids=["fm", "capefm"])


def discrete(kind, loss=LOGISTIC, **options):
    return kind(loss, calibration="tight", noise="discrete", **options)


def models(algorithm, parties: Parties) -> np.ndarray:
    budgets = [Budget(8.0, 1e-5), BUDGET, Budget(math.inf, 1e-5)]
    return release_of(algorithm, parties, budgets, 4, seed=3).weights


def same_release(one, its_parties: Parties, other, others_parties: Parties) -> None:
    np.testing.assert_array_equal(models(one, its_parties), models(other, others_parties))
    mine, its = (
        [(g.view, g.eps, g.mu) for g in algorithm.guarantees(BUDGET, parties.problem)]
        for algorithm, parties in ((one, its_parties), (other, others_parties))
    )
    assert mine == its


@each_loss
def test_one_curator_releases_what_ssp_of_one_party_does_bit_for_bit(loss) -> None:
    parties = some_parties(loss, 5, N=90, colluders=2)
    alone = replace(parties, offsets=np.array([0, 90]), adversary=Adversary(0))
    same_release(discrete(fm, loss), parties, SufficientStatistics(loss, noise="discrete"), alone)
    found = models(discrete(fm, loss), parties)
    assert len(np.unique(found[:2])) == found[:2].size


@each_loss
@pytest.mark.parametrize("protocol", ["simulate", "secagg"])
def test_sites_release_what_ssp_does_bit_for_bit(loss, protocol) -> None:
    """With the same guarantees, view by view: given their sum, messages with uniform zero-sum noise show nothing."""
    parties = some_parties(loss, 5, N=90, colluders=2)
    ssp = SufficientStatistics(loss, noise="discrete", protocol=protocol)
    same_release(discrete(capefm, loss, protocol=protocol), parties, ssp, parties)


def test_given_their_sum_messages_with_uniform_zero_sum_noise_are_uniform() -> None:
    """Counted in a ring of 4 for 3 sites. Site k sends ``f_k + u_k - u_(k+1)``, u uniform: what hides CAPE's noise."""
    ring, u = 4, np.stack(np.meshgrid(*[np.arange(4)] * 3), axis=-1).reshape(-1, 3)

    def law(f) -> dict[tuple[int, ...], int]:
        sent, counts = np.unique((np.array(f) + u - np.roll(u, -1, axis=1)) % ring, axis=0, return_counts=True)
        return dict(zip(map(tuple, sent.tolist()), counts.tolist(), strict=True))

    assert law([0, 0, 3]) == law([1, 3, 3]) == law([2, 0, 1])
    assert set(law([0, 0, 3]).values()) == {ring}  # 16 of them, all that have the sum
    assert law([0, 0, 3]) != law([0, 0, 2])


@each_loss
@each_algorithm
@pytest.mark.parametrize("M", [5, 1])
def test_what_is_proven_is_what_the_noise_as_drawn_gives_any_neighbours(kind, loss, M, monkeypatch) -> None:
    """From the integers that are summed and the variances of the noise that they get, by the theorem's formula."""
    drawn = []
    total = discrete_noise.total
    monkeypatch.setattr(
        discrete_noise,
        "total",
        lambda *noise: drawn.append(([g.variances[noise[1]] for g in noise[0]], *noise[2:5])) or total(*noise),
    )
    algorithm, problem = discrete(kind, loss), Problem(M, 10, 3, colluders=2 if M > 1 else 0)
    proven = {guarantee.view: guarantee.mu for guarantee in algorithm.guarantees(BUDGET, problem)}
    honest = {"release": M, "aggregate": M, "colluders": problem.honest}
    if kind is fm:
        assert set(proven) == {"release"}
        honest = {"release": 1}

    def apart(pair) -> dict[str, float]:
        drawn.clear()
        sums = []
        for parties in pair:
            prepared = algorithm.prepare(parties, np.random.default_rng(0))
            (message,) = algorithm.messages(BUDGET, problem)
            resolution = message.of.resolution(message.block_widths(), problem)
            sums.append(prepared.terms(message.of).integers(np.array([resolution]), False)[0, 0])
        prepared.release([BUDGET], np.random.default_rng(1), 1)
        assert {sites for _, sites, _, _ in drawn} == {honest["release"]}
        moved = (sums[0] - sums[1]).astype(float)
        variance = np.repeat([float(of) for (of,), *_ in drawn], [size for *_, size in drawn])
        mus = {}
        for view, H in honest.items():
            rough = 13 / 4 + int(H * len(moved)).bit_length() / 28
            mus[view] = math.sqrt(np.sum(moved**2 / (H * variance - rough)))
        return mus

    for view, mu in apart(worst_case(algorithm, BUDGET, problem)).items():
        assert proven[view] * (1 - 1e-5) < mu <= proven[view] * (1 + 1e-12)
    rng = np.random.default_rng(5)
    for _ in range(50):
        parties = some_parties(loss, M, N=10, colluders=problem.colluders)
        X, y = parties.X.copy(), parties.y.copy()
        X[-1], y[-1] = shrink(rng.standard_normal((1, 3)), always=True)[0], -np.sign(y[-1])
        for view, mu in apart((parties, replace(parties, X=X, y=y))).items():
            assert mu <= proven[view]


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
    """The eps of pairs of rows, from their integers and the scales of the noise; the worst come near."""
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
