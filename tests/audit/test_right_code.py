"""Nobody is accused of what is right: algorithms of noisy sums without a bug, and how much of the proven they show."""

from dataclasses import replace

import numpy as np
import pytest
from planted import ALL, BUDGET, PROBLEM, attacked, bugs, verdicts
from scipy import stats
from settings_audit import (
    ADASSP,
    ADASSP_PUBLISHED,
    BIG,
    CAPE,
    CAPE_GRID,
    CAPE_PUBLISHED,
    CAPE_REAL,
    CONV,
    DPGD,
    DPGD_GRID,
    DPGD_GRID_PARTY,
    DPGD_PARTY,
    FEW_ROWS,
    FM_GRID,
    FOUR,
    FOUR_BIG,
    JAYARAMAN,
    LOCAL,
    LOGISTIC,
    MANY,
    NEWTON,
    NN_CAPE,
    NN_CONV,
    ONCE,
    OUTPUTS,
    PSGD,
    PSGD_PUBLISHED,
    SECURE,
    SQUARED,
    SSP,
    SSP_CLASSES,
    SSP_GRID,
    SSP_GRID_REAL,
    SSP_PARTY,
    SSP_REAL,
    STAGES,
    STAGES_GRID,
    SYNCHRONOUS,
    WANG,
    WDDP,
    WDGD,
    WDGD_CLASSES,
    WDGD_GRID,
)  # fmt: skip

from dpml.algorithms.quadratic.functional_mechanism import FunctionalMechanism
from dpml.algorithms.quadratic.laplace_functional_mechanism import LaplaceFunctionalMechanism
from dpml.algorithms.quadratic.sufficient_statistics import PreconditionedDescent
from dpml.audit.search import moved
from dpml.audit.transcript import Transcript
from dpml.audit.views import exposures
from dpml.audit.worst_cases import worst_case
from dpml.optim.losses import LOSSES
from dpml.privacy import Problem, gdp, noise

slow = pytest.mark.slow  # the same in code that is mostly the same
FM = FunctionalMechanism(SQUARED)
COEFFICIENTS = [
    FM, LOCAL, CONV, CAPE, CAPE_PUBLISHED, LaplaceFunctionalMechanism(SQUARED),
    LaplaceFunctionalMechanism(LOGISTIC, variant="authors"),
]  # fmt: skip
STATISTICS = [SSP, SSP_PARTY, SSP_REAL, SSP_CLASSES, ADASSP_PUBLISHED, ADASSP]
DESCENTS = [WANG, SECURE, WDDP, JAYARAMAN, SYNCHRONOUS, ONCE]  # on fewer rows and rounds in `test_audit.py`
ROUNDS = [
    (DPGD, FEW_ROWS, 3_000),
    (replace(DPGD, loss=SQUARED), FEW_ROWS, 3_000),
    (DPGD_PARTY, MANY, 1_500),
    pytest.param(STAGES, BIG, 3_000, marks=slow),
    (WDGD, FEW_ROWS, 3_000),
    pytest.param(replace(WDGD, loss=SQUARED), FEW_ROWS, 3_000, marks=slow),
    pytest.param(WDGD_CLASSES, FEW_ROWS, 3_000, marks=slow),
    pytest.param(replace(WDGD, unit="party"), Problem(5, 40, 2), 1_000, marks=slow),
    pytest.param(
        PreconditionedDescent(LOGISTIC, unit="party", rounds=5), Problem(600, 600, 2, colluders=2), 3_000, marks=slow
    ),
]
GRID = [
    (SSP_GRID, FOUR, 1_000), (SSP_GRID_REAL, FOUR, 1_000), (DPGD_GRID, FOUR, 1_000), (DPGD_GRID_PARTY, FOUR, 1_000),
    (STAGES_GRID, FOUR_BIG, 1_000), pytest.param(WDGD_GRID, FEW_ROWS, 1_000, marks=slow),
]  # fmt: skip


def name(value) -> str | None:
    return "-".join((value.name, value.calibration, value.variant)) if hasattr(value, "calibration") else None


@pytest.mark.slow_cases("dpfm-published-authors")
@pytest.mark.parametrize("algorithm", COEFFICIENTS, ids=name)
def test_coefficients_are_no_bug(algorithm) -> None:
    assert bugs(algorithm, 2_000 if algorithm.variant == "authors" else 8_000, ALL) == set()


@pytest.mark.slow_cases("ssp-tight-paper2")
@pytest.mark.parametrize("algorithm", STATISTICS, ids=name)
def test_pairs_of_statistics_show_all_that_is_proven(algorithm) -> None:
    found = attacked(algorithm, 2_000 if algorithm is SSP_REAL else 8_000, self_test=True)
    assert {finding.verdict for finding in found.values()} == {"consistent"}


@pytest.mark.parametrize("algorithm", [SSP, SSP_PARTY, SSP_CLASSES, replace(SSP_CLASSES, unit="party")], ids=name)
@pytest.mark.parametrize("d", [1, 2, 5])
def test_pairs_of_statistics_are_as_far_apart_as_is_proven(algorithm, d: int) -> None:
    problem = Problem(4, 80, d, classes=3 if algorithm.loss.name == "softmax" else 1)
    pair = worst_case(algorithm, BUDGET, problem)
    differ = np.any(pair[0].X != pair[1].X, axis=1) | (pair[0].y != pair[1].y)
    assert np.flatnonzero(differ).tolist() == (list(range(60, 80)) if algorithm.unit == "party" else [79])
    proven = {g.view: g.mu for g in algorithm.guarantees(BUDGET, problem) if g.basis == "proven"}
    for exposure in exposures(algorithm, pair, BUDGET):
        if isinstance(exposure, Transcript):
            assert exposure.distance() == pytest.approx(proven[exposure.view], rel=1e-6)


@pytest.mark.slow_cases(
    "dpgd-tight-paper-problem0-3000",
    "dpgd-tight-paper-problem1-3000",
    "dpgd-tight-paper-problem2-1500",
    "ssp-tight-paper-problem10-1000",
    "wdgd-tight-paper-problem4-3000",
)
@pytest.mark.parametrize(("algorithm", "problem", "draws"), [*ROUNDS, *GRID], ids=name)
def test_rounds_are_no_bug_and_their_pairs_are_nearly_the_worst(algorithm, problem, draws) -> None:
    """False alarm: 1e-3 for a verdict of BUG, by its definition. A label that turns leaves X'X of `wdgd` as it is."""
    least = 0.7 if algorithm.noise == "discrete" or algorithm.name == "wdgd" else 0.8
    for found in attacked(algorithm, draws, problem=problem).values():
        assert found.verdict != "BUG"
        assert found.power >= least, found


@pytest.mark.slow_cases("dpgd-tight-paper-problem3")
@pytest.mark.parametrize(
    ("algorithm", "problem"),
    [
        (SSP_GRID, FOUR),
        (FM_GRID, FOUR),
        (CAPE_GRID, FOUR),
        (DPGD_GRID, FOUR),
        pytest.param(DPGD_GRID_PARTY, FOUR, marks=slow),
        pytest.param(STAGES_GRID, FOUR_BIG, marks=slow),
    ],
    ids=name,
)
def test_with_enough_draws_what_is_proven_on_a_grid_is_called_consistent(algorithm, problem) -> None:
    """Which it is only where the same audit calls half of the noise a bug: all but 1 of 10^6 audits do."""
    found = attacked(algorithm, 4_000, problem=problem, self_test=True)
    assert {finding.verdict for finding in found.values()} == {"consistent"}


@slow
@pytest.mark.parametrize("algorithm", DESCENTS, ids=name)
def test_descents_are_no_bug(algorithm) -> None:
    assert bugs(algorithm, 5_000, ALL) == set()


@slow
@pytest.mark.parametrize("algorithm", [WANG, JAYARAMAN, SECURE], ids=name)
def test_how_much_of_what_is_proven_descents_show(algorithm) -> None:
    """Not all: twenty rounds drive no model so far that both slopes are 1."""
    assert attacked(algorithm, 2_000, {"aggregate"}, PROBLEM)["aggregate"].power >= 0.8


@slow
@pytest.mark.parametrize("algorithm", [JAYARAMAN, SECURE], ids=name)
def test_the_sigmoid_loss_shows_all_that_is_proven(algorithm) -> None:
    """It is steepest at 0: of a row across the path of the model, and of its mirror image, always."""
    found = attacked(
        replace(algorithm, loss=LOSSES["sigmoid"], clip=None), 4_000, {"aggregate", "colluders"}, PROBLEM, True
    )
    assert len(found) == 2
    for finding in found.values():
        assert 0.97 < finding.power <= 1.1  # a bound from draws may be too large
        assert 0.99 < gdp.mu_of(finding.exact, 1e-5) / finding.mu <= 1
        assert finding.verdict == "consistent"


@pytest.mark.slow
def test_clipped_squared_slopes_are_no_bug() -> None:
    assert bugs(replace(JAYARAMAN, loss=SQUARED), 1_000, ALL) == set()


@pytest.mark.slow
@pytest.mark.parametrize("curvature", ["bound", "hessian"])
def test_newton_steps_are_no_bug(curvature) -> None:
    found = attacked(replace(NEWTON, curvature=curvature), 4_000)
    assert "BUG" not in {view.verdict for view in found.values()}
    assert 0.6 <= found["aggregate"].power <= 1


@pytest.mark.slow_cases("logistic")
@pytest.mark.parametrize("algorithm", OUTPUTS, ids=["logistic", "squared"])
def test_how_much_of_what_is_proven_minimisers_show(algorithm) -> None:
    found = attacked(algorithm, 20_000, self_test=True)["release"]
    assert found.power >= 0.99
    assert found.verdict == "consistent"


@pytest.mark.slow
@pytest.mark.parametrize("calibration", [pytest.param("published", marks=slow), "tight"])
@pytest.mark.parametrize("algorithm", [NN_CAPE, pytest.param(NN_CONV, marks=slow), PSGD], ids=lambda a: a.name)
def test_networks_and_gradient_sums_are_no_bug(algorithm, calibration) -> None:
    """The published noise of a network is that of one round, by the same code."""
    found = attacked(replace(algorithm, calibration=calibration), 3_000 if algorithm.name == "psgd" else 1_000)
    for finding in found.values():
        assert finding.verdict != "BUG"
        if algorithm.name != "psgd" and finding.view != "release":
            assert finding.exact == pytest.approx(finding.proven, rel=1e-6)  # as bad as can be
        if algorithm is PSGD and calibration == "tight" and finding.view != "release":
            assert finding.power >= 0.6


def test_neighbours_of_psgd_in_a_crowd() -> None:
    """In mu; a turned label shows .054 at N = 25, an orthogonal row .103."""
    for algorithm in (PSGD_PUBLISHED, PSGD):
        found = {e.view: e.distance() for e in exposures(algorithm, worst_case(algorithm, BUDGET, PROBLEM), BUDGET)}
        assert found["aggregate"] > 0.14


@slow
@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize(
    "algorithm",
    [*COEFFICIENTS, CAPE_REAL, *STATISTICS, WANG, JAYARAMAN, SYNCHRONOUS, ONCE, SECURE, WDDP, NEWTON, *OUTPUTS],
    ids=name,
)
def test_what_is_right_is_no_bug_in_a_whole_audit(algorithm, seed: int) -> None:
    """With a search for worse neighbours."""
    assert "BUG" not in verdicts(algorithm, 12_000, seed).values()


# What observers and the search see is what is released.


class Counting:
    """An observer that counts."""

    messages = 0

    def drawn(self, parts) -> None: ...

    def sent(self, message, exact) -> None:
        self.messages += 1


OBSERVED = [
    (CAPE_REAL, 1), (SSP_REAL, 1), (ADASSP, 1), (LOCAL, 1), (COEFFICIENTS[-1], 1),
    (NEWTON, 10), (WANG, 20),
    pytest.param(replace(PSGD, protocol="secagg"), 20, marks=slow),
    (replace(PSGD_PUBLISHED, protocol="secagg"), 20),
]  # fmt: skip


@pytest.mark.slow_cases("jayaraman-tight-paper-105", "psgd-published-paper-20")
@pytest.mark.parametrize(("algorithm", "messages"), OBSERVED, ids=name)
def test_who_observes_changes_no_bit(algorithm, messages) -> None:
    """Where the noise is a curator's, or every party draws its own; the sum of parties' noise is drawn at once."""
    prepared = algorithm.prepare(worst_case(algorithm, BUDGET, PROBLEM)[0], np.random.default_rng(0))
    observer, draws = Counting(), 3
    alone, observed = (
        prepared.release([BUDGET], np.random.default_rng(1), draws, *watching) for watching in ((), (observer,))
    )
    assert observer.messages == messages
    assert np.array_equal(alone.weights, observed.weights) or alone.weights is None
    assert all(np.array_equal(values, observed.metrics[key]) for key, values in alone.metrics.items())


@pytest.mark.parametrize("algorithm", [SSP, PSGD_PUBLISHED, CAPE], ids=name)
def test_noise_that_is_observed_party_by_party_has_the_law_of_the_noise_of_the_sum(algorithm) -> None:
    """A simulated secure sum draws it at once where nobody observes; false alarm 1e-6."""
    sharing = algorithm.sharing(PROBLEM)
    alone = sharing.total(np.random.default_rng(0), 10_000, 5, 2)
    total, parts = sharing.observed(np.random.default_rng(1), 10_000, 5, 2)
    assert np.allclose(parts[:5].sum(axis=0), total)
    assert stats.ks_2samp(alone[:, 0], total[:, 0]).pvalue > 1e-6


@pytest.mark.slow_cases("capefm-tight-paper1")
@pytest.mark.parametrize("algorithm", [*COEFFICIENTS, CAPE_REAL], ids=name)
def test_a_pairs_distance_is_that_of_what_is_recorded(algorithm) -> None:
    """In closed form, as the search for worse pairs has it, and as the messages show it; for pairs of any kind."""
    pair, rng = worst_case(algorithm, BUDGET, PROBLEM), np.random.default_rng(5)
    for _ in range(4):
        pair = moved(pair, rng)
        for exposure in exposures(algorithm, pair, BUDGET):
            if isinstance(exposure, Transcript):
                seen = [exposure.sample(which, rng, 20) for which in (0, 1)]
                assert exposure.distance() == pytest.approx(exposure.attacks(*seen, rng)[1], rel=1e-9)


@pytest.mark.slow_cases("capefm-published-paper", "capefm-tight-paper")
@pytest.mark.parametrize("algorithm", [CAPE, replace(CAPE, calibration="published"), SSP, SSP_PARTY], ids=name)
def test_the_real_protocol_shows_what_the_simulated_one_shows(algorithm) -> None:
    """With one seed, in every view, up to the codec's grid: and so with one guarantee."""
    simulated, real = (replace(algorithm, protocol=protocol) for protocol in ("simulate", "secagg"))
    pair = worst_case(simulated, BUDGET, PROBLEM)
    for one, other in zip(*(exposures(algorithm, pair, BUDGET) for algorithm in (simulated, real)), strict=True):
        assert one.view == other.view
        if one.view == "release":
            continue  # where nobody looks, the noise of the sum is drawn at once
        for which in (0, 1):
            seen = [exposure.sample(which, np.random.default_rng(6), 30) for exposure in (one, other)]
            assert np.allclose(*seen, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "algorithm", [SSP_GRID, SSP_GRID_REAL, DPGD_GRID, DPGD_GRID_PARTY, DPGD, STAGES_GRID], ids=name
)
def test_blocks_of_draws_have_noise_of_their_own(algorithm) -> None:
    """The same number of draws twice of one generator, as an audit of many draws asks for them."""
    for exposure in exposures(algorithm, worst_case(algorithm, BUDGET, FOUR), BUDGET):
        rng = np.random.default_rng(0)
        first, second = (exposure.sample(0, rng, 10) for _ in range(2))
        assert not np.isclose(first[:, 0], second[:, 0]).any()


# Two bugs that no view shows, or not all.


@pytest.mark.slow
def test_noise_that_does_not_sum_to_zero_costs_accuracy_and_no_privacy(monkeypatch) -> None:
    """With ``ehat_k`` in place of ``e_k`` a transcript tells what it told before, for it tells the mean of the ehat;
    the sum is hidden too well. No attack can see this: tests of the law of the sum do.
    """

    def messages(rng, draws, M, size, shared, own):
        ehat, g = noise.cape_parties(rng, draws, M, size)
        return shared * ehat + own * g, ehat

    monkeypatch.setattr(noise, "cape_messages", messages)
    found = {view: finding.verdict for view, finding in attacked(CAPE, 8_000, self_test=True).items()}
    assert "BUG" not in found.values()
    assert found["aggregate"] == "no violation seen"  # not "consistent": half of this noise is no bug either


@pytest.mark.parametrize("algorithm", [CAPE, pytest.param(CAPE_REAL, marks=slow)], ids=name)
@pytest.mark.parametrize("planted", [True, False])
def test_the_same_numbers_for_both_kinds_of_noise(monkeypatch, algorithm, planted) -> None:
    """The sum looks as it should: only who sees messages and the sum of the ehat finds out."""
    if planted:
        right = noise.cape_parties
        twice = lambda *arguments: [right(*arguments)[0]] * 2  # noqa: E731
        monkeypatch.setattr(noise, "cape_parties", lambda *a: tuple(part.copy() for part in twice(*a)))
    assert bugs(algorithm, 2_000) == ({"transcript", "colluders"} if planted else set())
