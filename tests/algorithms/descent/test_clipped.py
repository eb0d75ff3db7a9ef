"""Clipped noisy gradient descent: its sensitivity by search, its noise as drawn, its runs against plain loops."""

import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from examples import LOGISTIC, SQUARED, ball, binary_parties, clipped_slope, release_of, some_parties

from dpml.algorithms.defaults import CLIP_QUANTILE
from dpml.algorithms.descent.clipped import ClippedDescent
from dpml.data.partition import Equal, Fractions, PerParty
from dpml.optim.gradients import PartyGradients
from dpml.privacy import Budget, Problem

BUDGET = Budget(1.0, 1e-5)


@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED], ids=lambda loss: loss.name)
@pytest.mark.parametrize("rule", [Equal(), Fractions(fractions=(0.5, 0.02, 0.3, 0.1, 0.05, 0.03)), PerParty(n=1)])
def test_party_gradients_are_those_of_every_party_alone(loss, rule) -> None:
    parties = some_parties(loss, M=6, d=4, rule=rule)
    w = 3 * np.random.default_rng(2).standard_normal((5, 4))
    clip = np.array([0.01, 0.1, 0.2, 0.5, 3.0])
    engine = PartyGradients.of(loss, parties.X, parties.y, parties.offsets, np.float64)
    each, within = engine.clipped(w, clip)
    total, below = engine.clipped_sums(w, clip)
    for k in range(6):
        rows = list(zip(parties.X[parties.of(k)], parties.y[parties.of(k)], strict=True))
        for b, model in enumerate(w):
            mean = sum(clipped_slope(loss, x @ model, y, math.inf) * x for x, y in rows) / len(rows)
            length = np.linalg.norm(mean)
            np.testing.assert_allclose(each[k, b], mean / max(clip[b], length), rtol=1e-12, atol=1e-14)
            assert within[k, b] == (length <= clip[b])
            assert np.linalg.norm(each[k, b]) <= 1 + 1e-15
    np.testing.assert_allclose(total, each.sum(axis=0), rtol=1e-9, atol=1e-12)
    assert np.array_equal(below, within.sum(axis=0))


def test_many_parties_of_many_sizes() -> None:
    """Buckets cover every party once, whatever the sizes are."""
    rng = np.random.default_rng(0)
    sizes = np.ceil(rng.pareto(1.0, 3000) * 2 + 1).astype(int)
    X, y = ball(rng, sizes.sum(), 3), rng.choice([-1.0, 1.0], sizes.sum())
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    engine = PartyGradients.of(LOGISTIC, X, y, offsets, np.float64)
    total, _ = engine.clipped_sums(np.zeros((1, 3)), np.array([1e9]))
    means = np.add.reduceat(-y[:, None] * X / 2, offsets[:-1]) / sizes[:, None]
    np.testing.assert_allclose(1e9 * total[0], means.sum(axis=0), rtol=1e-9)


@pytest.mark.parametrize("unit", ["sample", "party"])
def test_the_rounds_against_another_accountant(unit) -> None:
    """Each sum is a Gaussian release of sensitivity 2 in noise z, each count one of sensitivity 1 in noise b."""
    problem = Problem(1, 500, 3) if unit == "sample" else Problem(50, 500, 3, colluders=0)
    schedule = ClippedDescent(LOGISTIC, unit=unit).schedule(BUDGET, problem)
    accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=1e-4)
    accountant.compose(SelfComposedDpEvent(GaussianDpEvent(schedule.noise / 2), schedule.rounds))
    assert schedule.adaptive == (unit == "party")
    if schedule.adaptive:
        accountant.compose(SelfComposedDpEvent(GaussianDpEvent(schedule.count_noise), schedule.rounds))
    assert accountant.get_epsilon(1e-5) == pytest.approx(1.0, abs=2e-3)


def plainly(algorithm, parties, schedule, noises):
    """One run at record level as the definition has it, and the average of the last half."""
    w, models = np.zeros(parties.X.shape[1]), []
    N = len(parties.y)
    for z in noises:
        rows = zip(parties.X, parties.y, strict=True)
        total = sum(clipped_slope(algorithm.loss, x @ w, y, schedule.clip) * x for x, y in rows)
        noisy = total / schedule.clip + schedule.noise * z
        w = w - schedule.step * (noisy / N + algorithm.lam * w / schedule.clip)
        models.append(w)
    return np.mean(models[len(models) // 2 :], axis=0)


@pytest.mark.parametrize("lam", [0.0, 0.05])
@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED], ids=lambda loss: loss.name)
def test_a_release_is_the_plain_loop(loss, lam) -> None:
    parties = some_parties(loss, M=1, d=4)
    algorithm = ClippedDescent(loss, rounds=8, lam=lam)
    budgets = [Budget(eps, 1e-5) for eps in (0.5, 3.0)]
    release = release_of(algorithm, parties, budgets, 4, seed=3)
    rng = np.random.default_rng(3)
    noises = np.array([rng.standard_normal((1, 4, 4), dtype=np.float32)[0] for _ in range(8)])
    for b, budget in enumerate(budgets):
        schedule = algorithm.schedule(budget, parties.problem)
        for draw in range(4):
            alone = plainly(algorithm, parties, schedule, noises[:, draw])
            np.testing.assert_allclose(release.weights[b, draw], alone, rtol=2e-3, atol=2e-4)


def test_an_adaptive_clip_follows_its_quantile() -> None:
    """With little noise, a quarter of the parties' gradients are shorter than the last clip."""
    rng = np.random.default_rng(0)
    parties = binary_parties(N=4000, d=4, M=400)
    algorithm = ClippedDescent(LOGISTIC, unit="party", rounds=150)
    prepared = algorithm.prepare(parties, rng)
    release = prepared.release([Budget(50.0, 1e-5)], rng, 3)
    clip = release.metrics["clip"][0]
    (message,) = algorithm.messages(Budget(50.0, 1e-5), parties.problem)
    sums = prepared.terms(message.of).total(release.weights[0].astype(np.float32), clip.astype(np.float32))
    assert np.all(np.abs(sums[:, -1] / 400 - CLIP_QUANTILE) < 0.08)


@pytest.mark.parametrize("lam", [0.1, 1.0, 10.0])
def test_a_ridge_and_a_short_clip_do_not_turn_the_model_round(lam) -> None:
    """Where the adaptive clip has shrunk, a step as long as the first clip allows would make the ridge overshoot."""
    algorithm = ClippedDescent(LOGISTIC, unit="party", lam=lam)
    release = release_of(algorithm, some_parties(N=400, M=100, d=4), [Budget(8.0, 1e-5)], 3, seed=0)
    assert release.metrics["clip"].max() < 0.3
    # no gradient of the mean loss is longer than 1, so that no minimiser is longer than 1/lam
    assert np.linalg.norm(release.weights, axis=-1).max() < 2 / lam + 1
