"""Step sizes: by a rule that reads no row, by validation, by an oracle, and of releases in step."""

import math

import numpy as np
import pytest
from examples import LOGISTIC, SIGMOID, jayaraman, release_of, wang, wddp
from test_kang2019 import dealt

from dpml.algorithms.descent.in_step import in_step
from dpml.algorithms.descent.noisy_descent import LocalRounds
from dpml.data import Files
from dpml.data.partition import Equal, Fractions, partition
from dpml.data.sets.synthetic import Synthetic
from dpml.mechanism.carriers import Carrier
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget, Problem

BUDGET = Budget(0.25, 1e-3)
SMALL = Problem(5, 25, 2)


@pytest.mark.parametrize("kind", [wang, jayaraman, wddp])
@pytest.mark.parametrize("calibration", ["published", "tight"])
def test_the_rule_lets_noise_add_up_to_a_length_of_eight(kind, calibration):
    """Gradients made zero; where slopes are clipped at .3, it is farther by as much as their bend is from 0."""
    parties = dealt(d=40)
    parties.X[:] = 0.0
    mechanism = kind(LOGISTIC, calibration=calibration, rounds=60).prepare(parties, np.random.default_rng(0))
    weights = mechanism.release([BUDGET], np.random.default_rng(1), 500).weights[0]
    lengths = np.sum((weights - mechanism.start) ** 2, axis=1)
    expected = 64 if calibration == "published" else (8 * (1 + math.log(7 / 3))) ** 2
    assert lengths.mean() == pytest.approx(expected, rel=4 * math.sqrt(2 / 40 / 500))  # a false alarm in 16,000


def test_the_rule_reads_no_row():
    budgets = [Budget(eps, 1e-3) for eps in (0.01, 0.25, 5.0, math.inf)]
    parties, other = dealt(), dealt()
    other.X[:] = -np.flip(other.X)
    algorithm = wddp(LOGISTIC, rounds=5, lam=0.1)
    first, second = (release_of(algorithm, p, budgets, 4).metrics["step"] for p in (parties, other))
    np.testing.assert_array_equal(first, second)
    assert first.shape == (4, 4)
    assert np.all(np.diff(first[:, 0]) >= 0)
    assert first[-1, 0] == 1 / 0.35


def test_steps_on_clipped_slopes():
    """Up to 4/L, L = clip (1 - clip), unless a regulariser forgets within the rounds; else step T alone counts."""
    tight, free = {"calibration": "tight", "clip": 0.3}, Budget(math.inf, 1e-3)
    squared = LOSSES["squared"]
    for options, most in (
        ({}, 4 / 0.21),
        ({"lam": 1e-4}, 10.0),
        ({"lam": 1e-4, "rounds": 10}, 4 / 0.21),
        ({"lam": 0.01}, 1 / 0.22),
        ({"clip": 0.5}, 4.0),
        ({"loss": squared}, 0.5),
        ({"loss": squared, "lam": 0.5}, 0.4),
    ):
        algorithm = wang(**({"loss": LOGISTIC} | tight | options))
        assert list(algorithm.tried(free, SMALL)) == pytest.approx([most])


@pytest.mark.parametrize("kind", [wang, jayaraman, wddp])
def test_validation_takes_the_step_that_does_best_on_a_fifth_held_out(kind):
    """Every step alone, on the first four fifths of every client; then all rows with the best, noise drawn on."""
    sizes, budgets = [400, 203], [Budget(0.02, 1e-3), Budget(50.0, 1e-3)]
    parties, steps = dealt(sizes), (0.01, 0.3, 4.0)
    parts = np.split(np.arange(603), [400])
    kept = np.concatenate([part[: len(part) - len(part) // 5] for part in parts])
    aside = np.setdiff1d(np.arange(603), kept)
    assert len(aside) == 80 + 40
    less = dealt([320, 163])
    less.X[:], less.y[:] = parties.X[kept], parties.y[kept]
    losses, states = [], []
    for step in steps:
        rng = np.random.default_rng(1)
        start = kind(LOGISTIC, rounds=40, lam=0.1, step=step).prepare(less, np.random.default_rng(0))
        w = start.release(budgets, rng, 1).weights[:, 0]
        scores = parties.X[aside] @ w.T
        losses.append(np.logaddexp(0, -parties.y[aside, None] * scores).mean(axis=0) + 0.05 * np.sum(w**2, axis=1))
        states.append(rng)
    best = np.argmin(losses, axis=0)
    assert best[0] < best[1]  # more noise, smaller steps
    validated = kind(LOGISTIC, rounds=40, lam=0.1, step_selection="validated", steps=steps)
    found = release_of(validated, parties, budgets, 3)
    np.testing.assert_array_equal(found.metrics["step"], np.array(steps)[best][:, None] * np.ones(3))
    for e, budget in enumerate(budgets):
        mechanism = kind(LOGISTIC, rounds=40, lam=0.1, step=steps[best[e]]).prepare(parties, np.random.default_rng(0))
        rng = np.random.default_rng(1)
        rng.bit_generator.state = states[0].bit_generator.state
        alone = mechanism.release([budget], rng, 3).weights[0]
        np.testing.assert_allclose(found.weights[e], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("step_selection", ["oracle", "validated"])
@pytest.mark.parametrize("calibration", ["published", "tight"])
def test_of_a_choice_by_private_rows_nothing_is_proven(calibration, step_selection):
    """Beside it stands what would hold for the worst of its steps, fixed beforehand."""
    algorithm = wang(
        LOGISTIC, calibration=calibration, step_selection=step_selection, calibrate_for="aggregate", lam=0.01
    )
    given = algorithm.guarantees(BUDGET, SMALL)
    fixed = [
        wang(LOGISTIC, calibration=calibration, step=s, calibrate_for="aggregate", lam=0.01) for s in algorithm.steps
    ]
    for view in ("release", "aggregate"):
        by_basis = {g.basis: g for g in given if g.view == view}
        assert ("published" in by_basis) == (calibration == "published")
        assert by_basis["proven"].eps == math.inf
        assert "not counted" in by_basis["proven"].source
        alone = max(g.eps for a in fixed for g in a.guarantees(BUDGET, SMALL) if (g.view, g.basis) == (view, "proven"))
        assert by_basis["conditional"].eps == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize(
    ("M", "rule"), [(1, Equal()), (5, Fractions(fractions=(0.1, 0.2, 0.3, 0.2, 0.2))), (60, Equal())]
)
@pytest.mark.parametrize("loss", [LOGISTIC, SIGMOID], ids=lambda loss: loss.name)
def test_releases_in_step_are_those_of_each_alone(M, rule, loss) -> None:
    budgets = [Budget(eps, 1e-3) for eps in (0.05, 0.5, 5.0)]
    data = Synthetic("logistic", d=6, rows=2000, scale=3.0).load(Files(), None, np.random.default_rng(1))
    parties = partition(data, rule, M, np.random.default_rng(2))
    alone, carriers = [], []
    for selection in ("rule", "oracle", "validated", "fixed"):
        options = {"rounds": 20, "step_selection": selection, "lam": 0.01}
        algorithms = [make(loss, **options) for make in (wang, jayaraman, wddp)]
        algorithms += [wddp(loss, variant="once", **options), LocalRounds(loss, sites="clients", **options)]
        for number, algorithm in enumerate(algorithms):
            assert algorithm.in_step
            prepared, draws = algorithm.prepare(parties, np.random.default_rng(0)), 1 + number % 2
            alone.append(prepared.release(budgets, np.random.default_rng(len(alone)), draws))
            carriers.append(Carrier(prepared, budgets, np.random.default_rng(len(carriers)), draws, None))
    for one, other in zip(alone, in_step(carriers), strict=True):
        assert one.metrics.keys() == other.metrics.keys()
        for key, values in one.metrics.items():
            np.testing.assert_array_equal(values, other.metrics[key])
        np.testing.assert_allclose(one.weights, other.weights, rtol=1e-5, atol=1e-6 * np.abs(one.weights).max())
