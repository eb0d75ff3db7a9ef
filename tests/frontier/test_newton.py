"""Double noise Newton: how far a direction moves, by search; the composition; the noise as drawn in every round."""

import math

import numpy as np
import pytest
from examples import LOGISTIC, SQUARED, Observed, ball, binary_parties, release_of
from scipy import stats
from scipy.optimize import minimize
from scipy.special import expit

from dpml.audit.neighbours import one_replaced
from dpml.optim.convex import optimum
from dpml.packs.frontier.amp import ApproximateMinima
from dpml.packs.frontier.newton import CURVATURES, NoisyNewton, solving
from dpml.packs.frontier.outpert import GaussianOutput, logistic_radius
from dpml.privacy import Budget, Problem

BUDGET = Budget(1.0, 1e-5)


@pytest.mark.parametrize("R", [0.01, 0.3, 3.0, 100.0])
@pytest.mark.parametrize("d", [1, 2, 4])
def test_no_replaced_row_moves_a_direction_farther(d, R) -> None:
    """||(K + k uu' + R)^-1 G - (K + k' vv' + R)^-1 G|| over ||G||: random and optimised K, u, v, k, k', G."""
    rng = np.random.default_rng(d)
    bound = 0.25 / (R * (R + 0.25))

    def apart(v: np.ndarray) -> float:
        rows = v[: 2 * d].reshape(2, d)
        rows = rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
        k = 0.25 * expit(v[2 * d : 2 * d + 2])
        G = v[2 * d + 2 : 3 * d + 2] / np.linalg.norm(v[2 * d + 2 : 3 * d + 2])
        root = v[3 * d + 2 :].reshape(d, d)
        K = root @ root.T + R * np.eye(d)
        first, second = (np.linalg.solve(K + c * np.outer(u, u), G) for c, u in zip(k, rows, strict=True))
        return float(np.linalg.norm(first - second))

    size = 3 * d + 2 + d * d
    starts = rng.standard_normal((300, size))
    starts[:, 3 * d + 2 :] *= math.sqrt(R) * rng.choice([0.0, 0.1, 1.0, 10.0], (300, 1))
    found = [apart(v) for v in starts]
    assert max(found) <= bound * (1 + 1e-9)
    best = starts[np.argmax(found)]
    best = minimize(lambda v: -apart(v), best, method="Nelder-Mead", options={"maxfev": 500 * d, "adaptive": True})
    assert -best.fun <= bound * (1 + 1e-9)
    # and a row along G that vanishes reaches it
    v = np.zeros(size)
    v[[0, 2 * d + 2]] = 1.0
    v[2 * d] = 40.0
    assert apart(v) == pytest.approx(bound, rel=1e-9)


@pytest.mark.parametrize("curvature", list(CURVATURES))
def test_the_units_of_both_messages_are_what_a_row_can_move(curvature) -> None:
    rng = np.random.default_rng(0)
    algorithm = NoisyNewton(LOGISTIC, rounds=3, curvature=curvature)
    farthest = np.zeros(2)
    for _ in range(40):
        X = ball(rng, 12, 2)
        problem = Problem(1, 12, 2)
        pair = one_replaced("binary", problem, ball(rng, 2), ball(rng, 2), (1.0, rng.choice([-1.0, 1.0])), rest=X[:-1])
        both = [algorithm.prepare(parties, rng) for parties in pair]
        observer = Observed(*both)
        budget = Budget(rng.choice([0.5, 5.0, 50.0]), 1e-3)
        both[0].release([budget], rng, 40, observer)
        noises = [message.noise for message in algorithm.messages(budget, problem)] * 3  # messages are in units of it
        apart = [np.linalg.norm(second - first, axis=1).max() for first, second in observer.exact]
        apart = np.array(apart) * noises
        assert apart.max() <= 1 + 1e-9
        farthest = np.maximum(farthest, [apart[::2].max(), apart[1::2].max()])
    assert farthest.min() > 0.6


@pytest.mark.parametrize("curvature", list(CURVATURES))
def test_curvatures_are_at_most_a_quarter(curvature) -> None:
    t = np.concatenate([[0.0], np.geomspace(1e-12, 1e3, 400)])
    t = np.concatenate([-t, t])[:, None]
    found = CURVATURES[curvature].curvature(t, np.ones(len(t)))
    assert np.all((found >= 0) & (found <= 0.25 * (1 + 1e-15)))
    assert found[0, 0] == 0.25


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("rounds", [1, 10])
def test_the_budget_is_split(rounds, share) -> None:
    algorithm, problem = NoisyNewton(LOGISTIC, rounds=rounds, budget_share=share), Problem(5, 1000, 4)
    gradient, direction = algorithm.messages(BUDGET, problem)
    farther = 1 + solving(algorithm.floor(BUDGET, problem), problem)
    squares = [(1 / gradient.noise) ** 2, (farther / direction.noise) ** 2]
    assert squares[0] / sum(squares) == pytest.approx(share)


def test_the_noise_of_every_round_is_the_noise_counted() -> None:
    """Kolmogorov-Smirnov on 8,000 coordinates of each of six messages, false alarm 1e-4 each; all are independent."""
    parties, draws = binary_parties(), 2000
    algorithm = NoisyNewton(LOGISTIC, rounds=3)
    prepared = algorithm.prepare(parties, np.random.default_rng(0))
    observer = Observed(prepared)
    weights = prepared.release([BUDGET], np.random.default_rng(1), draws, observer).weights
    residuals = observer.residuals
    assert len(residuals) == 6
    for residual in residuals:
        assert stats.kstest(residual.ravel(), "norm").pvalue > 1e-4
    together = np.concatenate(residuals, axis=1)
    assert np.abs(np.corrcoef(together.T) - np.eye(together.shape[1])).max() < 5.5 / math.sqrt(draws)  # 276 pairs
    assert np.array_equal(weights, prepared.release([BUDGET], np.random.default_rng(1), draws).weights)


def test_the_rounds_are_the_papers() -> None:
    parties = binary_parties()
    algorithm = NoisyNewton(LOGISTIC, rounds=2, lam=0.01)
    released = release_of(algorithm, parties, [BUDGET], 1, seed=3).weights[0, 0]
    gradient, move = (message.noise for message in algorithm.messages(BUDGET, parties.problem))
    rng, R = np.random.default_rng(3), algorithm.floor(BUDGET, parties.problem)
    u, w, N = parties.y[:, None] * parties.X, np.zeros(4), 300
    for _ in range(2):
        noise = rng.standard_normal((2, 1, 4))[:, 0]
        t = u @ w
        sensitivity = 2 * float(logistic_radius(np.linalg.norm(w)))
        G = -expit(-t) @ u + N * 0.01 * w + sensitivity * gradient * noise[0]
        c = np.array([0.25 if x == 0 else (0.5 - expit(-x)) / x for x in t])
        H = (u.T * c) @ u
        direction = np.linalg.solve(H + R * np.eye(4), G)
        w = w - direction - np.linalg.norm(G) / (R * (4 * R + 1)) * move * noise[1]
    assert np.allclose(released, w, rtol=1e-9)


ROUNDS = {"bound": 1000}
CASES = [
    *((ApproximateMinima(LOGISTIC, lam=0.05, calibration=each), 3e-5) for each in ("published", "tight")),
    (ApproximateMinima(LOGISTIC, lam=0.05, calibration="tight", shift=2.0), 3e-5),
    *((GaussianOutput(LOGISTIC, lam=lam), 1e-6) for lam in (0.0, 0.1)),
    (GaussianOutput(SQUARED, radius=100.0), 1e-6),
    *(
        (NoisyNewton(LOGISTIC, rounds=ROUNDS.get(curvature, 60), curvature=curvature, lam=lam), 2e-3)
        for curvature in CURVATURES
        for lam in (0.0, 0.05)
    ),
]


@pytest.mark.parametrize(("algorithm", "off"), CASES, ids=lambda value: getattr(value, "name", ""))
def test_it_is_the_minimiser(algorithm, off) -> None:
    parties, budget = binary_parties(), Budget(math.inf, 1e-3)
    weights = release_of(algorithm, parties, [budget], 2, seed=0).weights
    best = optimum(getattr(algorithm, "trained", algorithm.loss), parties.X, parties.y, algorithm.lam)
    assert np.allclose(weights, best, rtol=0, atol=off)
    assert all(math.isinf(g.eps) for g in algorithm.guarantees(budget, parties.problem))
