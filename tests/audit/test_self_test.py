"""Power: an audit knows what it could not have seen."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from examples import LOGISTIC, SQUARED
from noise_samplers import SAMPLERS
from scipy import stats

from dpml.algorithms.descent.noisy_descent import NoisyDescent
from dpml.algorithms.ensemble import Average
from dpml.algorithms.quadratic.functional_mechanism import FunctionalMechanism
from dpml.audit import POWER, Finding, audit
from dpml.audit.attacks import mu_by_rates, mu_from_rates, rate_interval, trade_off
from dpml.audit.exposure import RATIO, HalfNoise
from dpml.audit.views import exposures
from dpml.audit.worst_cases import worst_case
from dpml.mechanism import discrete
from dpml.privacy import Budget, Problem, gdp, noise
from dpml.reporting.trade_off import allowed

PROBLEM = Problem(5, 25, 2, auxiliary=10, classes=2)


@pytest.mark.parametrize("name", SAMPLERS)
def test_half_of_the_noise_is_half_of_it(name) -> None:
    """Of the same bits: whatever sampler is added to `noise` must be listed here, or the self-test means nothing."""
    whole = SAMPLERS[name](np.random.default_rng(3))
    half = SAMPLERS[name](HalfNoise(np.random.default_rng(3).bit_generator))
    assert half.dtype == whole.dtype
    assert half == pytest.approx(whole / 2, rel=1e-6)


@pytest.mark.parametrize("draw", [discrete.parts, discrete.total])
def test_half_of_the_noise_on_integers_is_half_of_it(draw) -> None:
    """Variances of 20,000 numbers, within six standard errors (false alarm 2e-9 each)."""
    grids, bits = [discrete.Grid(0, (1.0,), (1.0,), (Fraction(40_000),))], np.random.default_rng(3).bit_generator
    whole, half = (draw(grids, 0, 2, 20_000, 1, kind(bits)).astype(float) for kind in (np.random.Generator, HalfNoise))
    assert half.var() / whole.var() == pytest.approx(1 / 4, rel=6 * math.sqrt(4 / 20_000))


def test_every_sampler_is_listed() -> None:
    made_of_others = {"cape_parties", "gaussian_messages", "coins"}  # or are no noise
    samplers = {name for name in vars(noise) if callable(getattr(noise, name)) and not name.startswith("_")}
    defined = {name for name in samplers if getattr(noise, name).__module__ == noise.__name__}
    assert defined - made_of_others == set(SAMPLERS)


def find(algorithm, budget: Budget, draws: int) -> Finding:
    return {found.view: found for found in audit(algorithm, budget, PROBLEM, draws)}["release"]


def test_what_could_not_have_been_seen_is_not_called_consistent() -> None:
    """The worst neighbours, and far too little noise to be seen at eps = 0.001 with a thousand draws."""
    algorithm = FunctionalMechanism(SQUARED, calibration="tight")
    blind = find(algorithm, Budget(0.001, 1e-5), 1_000)
    assert blind.power > 0.99
    assert blind.verdict == "no violation seen"
    assert find(algorithm, Budget(1.0, 1e-5), 50_000).verdict == "consistent"


def test_a_weak_pair_says_so() -> None:
    found = audit(
        NoisyDescent(LOGISTIC, sites="mpc", calibration="tight", rounds=1, clip=1.0), Budget(1.0, 1e-5), PROBLEM, 20_000
    )
    weak = next(finding for finding in found if finding.view == "aggregate")
    assert 0 < weak.power < POWER
    assert weak.verdict == "no violation seen"


def test_a_pure_guarantee_has_power_in_eps() -> None:
    found = find(Average(LOGISTIC, calibration="tight", lam=0.01), Budget(1.0), 20_000)
    assert found.power == pytest.approx(found.exact / found.proven)
    assert found.power > 0.99
    assert found.mu is None


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_no_rates_show_more_mu_than_there_is(mu) -> None:
    rng = np.random.default_rng(5)
    repetitions = 400
    noises = rng.standard_normal((repetitions, 2, 2_000))
    above = sum(mu_by_rates(first, second + mu, 0.05) > mu for first, second in noises)
    assert above <= stats.binom.ppf(0.999, repetitions, 0.05)
    first, second = rng.standard_normal((2, 200_000))
    assert mu_by_rates(first, second + mu, 0.05) > mu - 0.05
    fpr = np.array([0.01, 0.5])
    assert mu_from_rates(fpr, stats.norm.cdf(stats.norm.ppf(fpr) + mu)) == pytest.approx(mu)


def test_the_stopped_score_is_normal_whatever_the_models_do() -> None:
    """Shifts that depend on what was seen before: the ratio of a run is not normal, the stopped score is."""
    algorithm = NoisyDescent(LOGISTIC, sites="mpc", calibration="tight", rounds=5)
    budget = Budget(20.0, 1e-3)
    pair = worst_case(algorithm, budget, PROBLEM)
    exposure = next(e for e in exposures(algorithm, pair, budget) if e.view == "aggregate")
    seen = [exposure.sample(which, np.random.default_rng(which), 40_000) for which in (0, 1)]
    attacks, mu = exposure.attacks(seen[0][:2_000], seen[1][:2_000], np.random.default_rng(9))
    ratio, stopped = attacks
    assert ratio.name == stopped.name == RATIO
    assert stopped.normal
    lengths = np.sum(exposure.along(seen[0])[1] ** 2, axis=1)
    assert lengths.max() > 1.1 * lengths.min()  # or nothing is tested
    for which in (0, 1):
        scores = stopped.score(seen[which][2_000:])
        assert stats.kstest((scores - which * mu**2) / mu, "norm").pvalue > 1e-6
        assert stats.kstest((ratio.score(seen[which]) - (which - 0.5) * mu**2) / mu, "norm").pvalue < 1e-6
    proven = next(g for g in algorithm.guarantees(budget, PROBLEM) if g.view == "aggregate" and g.basis == "proven")
    assert mu <= proven.mu


def test_the_trade_off_that_is_drawn() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.standard_normal((2, 50_000))
    rates = trade_off(first, second + 1, 0.05)
    exact = stats.norm.cdf(stats.norm.ppf(rates.fpr) + 1)
    inside = (rates.tpr_bounds[0] <= exact + 0.01) & (exact - 0.01 <= rates.tpr_bounds[1])
    assert inside.all()
    hits = np.rint(50_000 * rates.fpr[[0, -1]]).astype(int)  # the intervals are exact: test_bounds.py
    assert rates.fpr_bounds[:, [0, -1]] == pytest.approx(np.stack(rate_interval(hits, 50_000, 0.025)))
    # what (eps, delta) allows: randomised response with odds e^eps is on it, and it holds for both errors
    p = math.e / (1 + math.e)
    assert allowed(np.array([1 - p]), 1.0, 0.0)[0] == pytest.approx(p)
    assert allowed(np.array([0.0, 1.0]), 1.0, 1e-3) == pytest.approx([1e-3, 1.0])
    grid = np.linspace(0, 1, 101)
    curve = stats.norm.cdf(stats.norm.ppf(grid) + gdp.mu_of(1.0, 1e-3))
    assert np.all(curve <= allowed(grid, 1.0, 1e-3) + 1e-9)


@pytest.mark.usefixtures("unsearched", "sketched")
def test_the_command_draws_and_writes_json(run_command, tmp_path) -> None:
    words = "dpml", "audit", "algo=wang", "delta=1e-5", "draws=2000", "N=25", "algo.rounds=3"
    found = run_command(*words, "--figure", str(tmp_path / "picture"))
    assert found.code == 0, found.err
    assert {path.name for path in tmp_path.iterdir()} == {"picture.png", "picture.svg"}
    values = json.loads(run_command(*words, "--json").out)["views"]
    assert {entry["view"] for entry in values} == {"release", "aggregate"}
    assert len(values[0]["rates"]["fpr"]) == len(values[0]["rates"]["tpr"]) > 5
