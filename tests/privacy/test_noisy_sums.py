"""The rounds of psgd: every proof against the noise itself, by integration, by sampling, and by other accountants."""

import math
from functools import cache

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from quick import quick_first
from scipy import integrate, special, stats

from dpml.privacy import gdp, noise
from dpml.privacy.proofs import laplace_sums, noisy_sums
from dpml.privacy.proofs.noisy_sums import ETA, EXACT, PURE, SCALES, proven


@pytest.mark.slow
def test_no_sequence_of_shifts_exceeds_what_eta_leaves() -> None:
    """v' C^-1 v over random and greedy corners of the parallelogram, against 4 S and S + 1/common^2."""
    rng, reached = np.random.default_rng(3), 0.0
    for _ in range(300):
        T = int(rng.integers(1, 12))
        W = rng.gamma(3.0, size=T) * 10 ** rng.uniform(-1, 2)
        common = 10 ** rng.uniform(-1, 1.5)
        inverse = np.linalg.inv(np.diag(W) + common**2)
        u = rng.standard_normal((2, 2))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        if rng.random() < 0.5:
            u[1] = -u[0]
        corners = np.array([[0, 0], -u[0], u[1], u[1] - u[0]])
        pick = rng.integers(4, size=T)
        for _ in range(3):  # the form is convex in every v_t: best at a corner
            for t in range(T):
                values = [
                    np.einsum("ti,ts,si->", v, inverse, v) for v in (corners[_with(pick, t, k)] for k in range(4))
                ]
                pick[t] = int(np.argmax(values))
        S = np.sum(1 / W)
        bound = min(4 * S, S + 1 / common**2)
        assert max(values) <= bound * (1 + 1e-9)
        reached = max(reached, max(values) / bound)
    assert reached > 0.95


def _with(pick: np.ndarray, t: int, k: int) -> np.ndarray:
    changed = pick.copy()
    changed[t] = k
    return changed


def log_density(r: np.ndarray, parties: int, d: int) -> np.ndarray:
    """Of a sum of vectors with beta = 1 at the distance r, but for a constant: r^v K_v(r)."""
    v = (parties * (d + 1) - d) / 2
    return v * np.log(r) + np.log(special.kve(v, r)) - r


def exact_deltas(eps: float, parties: int, d: int, at: list[float]) -> list[float]:
    """delta of one sum with the noise of `eps` that moves by 2, integrated over distance from P's centre and angle."""
    r = np.concatenate([np.geomspace(1e-9, 1e-2, 200), np.linspace(1e-2, 60, 3000)[1:]])
    angle = np.linspace(0, np.pi, 301)
    cosines = np.cos(angle) if d > 1 else np.array([1.0, -1.0])
    profile = log_density(r, parties, d)
    to_q = np.sqrt(np.maximum(r[:, None] ** 2 - 2 * r[:, None] * eps * cosines + eps**2, 1e-18))
    fine = np.concatenate([np.geomspace(1e-9, 1e-2, 2000), np.linspace(1e-2, 70, 40_000)[1:]])
    loss = profile[:, None] - np.interp(to_q, fine, log_density(fine, parties, d))
    radial = np.exp(profile + (d - 1) * np.log(r))
    weight = np.sin(angle) ** (d - 2) if d > 1 else None
    found = []
    for spent in at:
        gain = np.maximum(-np.expm1(spent - loss), 0.0)
        if weight is None:
            mean = gain.mean(axis=1)
        else:
            mean = integrate.simpson(gain * weight, x=angle) / integrate.simpson(weight, x=angle)
        found.append(float(integrate.trapezoid(radial * mean, r) / integrate.trapezoid(radial, r)))
    return found


@pytest.mark.parametrize(("eps", "parties", "d"), [(1.0, 1, 1), (0.5, 10, 1), (1.0, 2, 2), (2.0, 3, 3), (8.0, 1, 6)])
def test_the_loss_of_one_sum_by_integration(eps: float, parties: int, d: int) -> None:
    losses = laplace_sums.losses(eps, parties, d)
    assert losses.at.max() <= eps
    assert 1 <= losses.mass.sum() <= 1 + 1e-6
    shares = 0.0, 0.1, 0.3, 0.6
    for share, exact in zip(shares, exact_deltas(eps, parties, d, [share * eps for share in shares]), strict=True):
        found = losses.delta(share * eps)
        # the integral is good to 1e-4; the cells cost up to 2 % of a delta far out
        assert exact * (1 - 2e-4) - 1e-9 <= found <= exact * (1.005 if share < 0.2 else 1.025) + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("eps", "parties", "d", "rounds"),
    [(2.0, 3, 3, 20), pytest.param(0.5, 1, 10, 20, marks=pytest.mark.slow), (1.0, 1, 2, 30)],
)
def test_rounds_without_eta_by_sampling(eps: float, parties: int, d: int, rounds: int) -> None:
    """The constant shift by 2, all rounds' losses summed; false alarms: 5 standard errors."""
    rng, n, total = np.random.default_rng(4), 40_000, 0.0
    for _ in range(rounds):
        x = noise.l2_laplace_total(rng, n, parties, d)
        moved = x + eps * np.eye(d)[0]
        norms = [np.linalg.norm(z, axis=1) for z in (x, moved)]
        total = total + log_density(norms[0], parties, d) - log_density(norms[1], parties, d)
    for delta in (0.05, 1e-3):
        found, proof = proven(rounds, eps, parties, d, 0.0, delta)
        assert proof == EXACT
        gain = np.maximum(-np.expm1(found - total), 0)
        assert gain.mean() <= delta + 5 * gain.std() / math.sqrt(n)
        smaller = np.maximum(-np.expm1(0.97 * found - total), 0)
        assert smaller.mean() + 5 * smaller.std() / math.sqrt(n) > delta


@pytest.mark.slow
def test_one_party_with_one_feature_is_the_laplace_mechanism() -> None:
    for eps, rounds, delta in ((0.7, 77, 1e-6), (0.1, 300, 0.05)):
        accountant = PLDAccountant(value_discretization_interval=1e-4)
        accountant.compose(dp_event.LaplaceDpEvent(1 / eps), rounds)
        found, proof = proven(rounds, eps, 1, 1, 0.0, delta)
        assert proof == EXACT
        assert found == pytest.approx(accountant.get_epsilon(delta), rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parties", "d", "eps", "rounds"),
    [(1, 20, 3.0, 10), (2, 20, 3.0, 10), pytest.param(1, 7, 0.5, 30, marks=pytest.mark.slow)],
)
def test_eta_by_sampling_the_scales(parties: int, d: int, eps: float, rounds: int) -> None:
    """delta averaged over Gaussian mechanisms of mu^2 = S + 1/common^2, S as drawn; false alarms: 5 standard errors."""
    n, common = 60_000, 10 / eps
    g = np.random.default_rng(5).gamma(parties * (d + 1) / 2, size=(n, rounds))
    mu = np.sqrt(eps**2 / 8 * (1 / g).sum(axis=1) + 1 / common**2)
    for delta in (0.05, 1e-3):
        found, proof = proven(rounds, eps, parties, d, common, delta)
        assert proof == ETA
        for tried, at_least in ((found, False), (0.995 * found, True)):
            one = stats.norm.cdf(mu / 2 - tried / mu) - np.exp(tried) * stats.norm.cdf(-mu / 2 - tried / mu)
            error = 5 * one.std() / math.sqrt(n)
            assert (one.mean() + error > delta) if at_least else (one.mean() <= delta + error)


@pytest.mark.parametrize("rounds", quick_first([1, 9, 400], 2))
@pytest.mark.parametrize("balance", [0.05, 1.0, 30.0])
def test_what_eta_leaves_is_reached_by_a_constant_shift(rounds: int, balance: float) -> None:
    """Of many parties and features the scales are nearly fixed: the view is the Gaussian of an average."""
    parties, d, eps, delta = 2000, 100, 400.0, 1e-5
    W = 8 / eps**2 * parties * (d + 1) / 2
    common = math.sqrt(balance * W / rounds)
    # all T sums move by 2 and share eta: the mean of them says it all
    exact = gdp.eps_of(2 / math.sqrt(W / rounds + common**2), delta)
    found = proven(rounds, eps, parties, d, common, delta)[0]
    assert found >= exact * (1 - 1e-3)
    if balance == 1.0:
        assert found <= exact * (1 + 1e-3)
    # without eta: composition
    alone, proof = proven(rounds, eps, parties, d, 0.0, delta)
    assert proof == SCALES
    assert alone == pytest.approx(gdp.eps_of(2 * math.sqrt(rounds / W), delta), rel=1e-3)
    assert found <= alone * (1 + 1e-9)


@pytest.mark.parametrize(("shape", "rounds", "delta"), [(100.0, 1, 1e-2), (2e3, 50, 1e-3)])
def test_scales_too_small_to_be_counted_are_an_infinite_loss(shape: float, rounds: int, delta: float) -> None:
    """Of probability 1e-4 delta/T at most (Chernoff): they count with all of it."""
    losses = noisy_sums._scales(0.2, shape, rounds, delta, math.inf)
    assert losses.infinite >= 1e-4 * delta / rounds * (1 - 1e-9)
    assert losses.mass.sum() + losses.infinite >= 1


def test_limits() -> None:
    assert proven(1, 0.1, 1, 1, 0.0, 1e-9)[0] == pytest.approx(0.1, rel=1e-6)
    assert proven(500, math.inf, 1, 10, 1.0, 1e-3) == (math.inf, PURE)
    assert proven(10**6, 1e30, 5, 10, 1.0, 1e-3) == (pytest.approx(1e36), PURE)
    assert proven(10**6, 1e-30, 5, 10, 1.0, 1e-3)[0] == 0.0


AXES = {  # each in the order in which eps rises
    "rounds": (1, 30, 10**6),
    "eps": (1e-30, 1e-6, 0.1, 5.0, 1e6),
    "parties": (10**6, 5, 1),
    "d": (10_000, 561, 30, 3, 1),
    "common": (1e3, 1.0, 0.0),
    "delta": (0.5, 1e-5, 1e-12),
}


@cache
def eps_of(**setting: float) -> float:
    """Most axes go through the point itself."""
    return proven(**setting)[0]  # type: ignore[arg-type]


@pytest.mark.slow_cases("many parties-rounds")
@pytest.mark.parametrize("axis", list(AXES))
@pytest.mark.parametrize(
    "point",
    [
        pytest.param(
            {"rounds": 1000, "eps": 0.1, "parties": 5, "d": 30, "common": 100.0, "delta": 1e-5}, marks=pytest.mark.slow
        ),
        {"rounds": 30, "eps": 1.0, "parties": 10**6, "d": 561, "common": 0.0, "delta": 1e-12},
        pytest.param(
            {"rounds": 2, "eps": 5.0, "parties": 1, "d": 2, "common": 1.0, "delta": 0.01}, marks=pytest.mark.slow
        ),
    ],
    ids=["many rounds", "many parties", "few of all"],
)
def test_the_whole_range_without_an_exception_and_monotone(point: dict[str, float], axis: str) -> None:
    """Along every axis from some points of the range."""
    found = [eps_of(**point | {axis: value}) for value in AXES[axis]]
    assert np.all(np.isfinite(found))
    assert np.all(np.diff(found) >= -1e-3 * np.array(found)[1:]), found


@pytest.mark.slow
def test_many_parties_and_features_where_a_quantile_used_to_miss_the_noise() -> None:
    """eps=1 delta=1e-5 with M=1000000 d=561 and with M=100000 d=1000: about sqrt(T), and never below 4 E[S]."""
    for parties, d, rounds in ((10**6, 561, (926, 927, 928, 1000)), (10**5, 1000, (121_000, 122_310, 123_500))):
        found = [proven(T, 1.0, parties, d, 0.0, 1e-5)[0] for T in rounds]
        expected = [gdp.eps_of(math.sqrt(T / (parties * (d + 1))), 1e-5) for T in rounds]
        assert np.all(np.diff(found) > 0)
        assert found == pytest.approx(expected, rel=1e-3)
        assert np.all(np.array(found) >= np.array(expected) * (1 - 1e-9))
