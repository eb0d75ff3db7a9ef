"""How noise is shared among sites, and releases simulated, by secure aggregation or on a grid: their noise as drawn."""

import math
from dataclasses import replace

import numpy as np
import pytest
from examples import LOGISTIC, SOFTMAX, SQUARED, capefm, conv, fm, labelled_parties, local, some_parties
from scipy import stats

from dpml.algorithms.descent.clipped import ClippedDescent
from dpml.algorithms.descent.layouts import ClientNoise
from dpml.algorithms.descent.private_sgd import PrivateSGD
from dpml.algorithms.descent.whitened import WhitenedDescent
from dpml.algorithms.quadratic.sufficient_statistics import PreconditionedDescent, SufficientStatistics
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.sharing import MASK, CapeNoise, IndependentNoise, SecureSumNoise, Sharing, TrustedCurator
from dpml.packs.frontier.adassp import AdaptiveStatistics
from dpml.privacy import Budget, Problem, gdp
from dpml.protocols import Stage, in_process

BUDGET, NONE = Budget(1.0, 1e-5), Budget(math.inf, 1e-5)
PROGRAMS = {
    "ssp": SufficientStatistics(LOGISTIC),
    "ssp of parties": SufficientStatistics(LOGISTIC, unit="party"),
    "ssp of targets": SufficientStatistics(SQUARED, lam=0.3),
    "ssp of classes": SufficientStatistics(SOFTMAX),
    "ssp of parties' classes": SufficientStatistics(SOFTMAX, unit="party"),
    "dpgd": ClippedDescent(LOGISTIC, rounds=4),
    "dpgd of parties": ClippedDescent(LOGISTIC, unit="party", clip=0.2, rounds=4),
    "dpgd of parties, adaptive": ClippedDescent(LOGISTIC, unit="party", rounds=4),
    "ssp_descent": PreconditionedDescent(LOGISTIC, rounds=3),
    "ssp_descent of parties": PreconditionedDescent(LOGISTIC, unit="party", rounds=3),
    "wdgd": WhitenedDescent(LOGISTIC, rounds=3),
    "wdgd of targets": WhitenedDescent(SQUARED, rounds=3),
    "wdgd of parties": WhitenedDescent(LOGISTIC, unit="party", rounds=3),
    "psgd": PrivateSGD(LOGISTIC, "tight", rounds=5),
    "fm": fm(LOGISTIC, "tight"),
    "capefm": capefm(LOGISTIC, "tight"),
    "capefm published": capefm(SQUARED),
    "fm published": fm(LOGISTIC),
    "conv": conv(SQUARED),
    "local": local(LOGISTIC, "tight"),
    "adassp": AdaptiveStatistics(SQUARED, "tight"),
    "adassp published": AdaptiveStatistics(SQUARED),
}
CARRIERS = {
    "simulated": {},
    "secagg": {"protocol": "secagg"},
    "discrete": {"noise": "discrete"},
    "discrete secagg": {"noise": "discrete", "protocol": "secagg"},
}
POSSIBLE = {
    **dict.fromkeys(("fm published", "conv", "local", "adassp", "adassp published"), ("simulated",)),
    **dict.fromkeys(("psgd", "capefm published"), ("simulated", "secagg")),
    "fm": ("simulated", "discrete"),
}
PAIRS = [(name, carrier) for name in PROGRAMS for carrier in POSSIBLE.get(name, CARRIERS)]
each = pytest.mark.parametrize(("name", "carrier"), PAIRS, ids=[f"{name}-{carrier}" for name, carrier in PAIRS])


def carried(name: str, carrier: str):
    parties = labelled_parties(4, 4) if "classes" in name else some_parties()
    return replace(PROGRAMS[name], **CARRIERS[carrier]).prepare(parties, np.random.default_rng(0))


@each
def test_without_noise_every_carrier_releases_the_same_model(name: str, carrier: str) -> None:
    """Up to single precision, or to the grid, whose slopes have 18 bits."""
    single = "dpgd" in name or "descent" in name or "wdgd" in name
    off = 2e-3 if "discrete" in carrier else 1e-4 if single else 1e-12
    one, other = (
        carried(name, of).release([NONE], np.random.default_rng(1), 2).weights for of in ("simulated", carrier)
    )
    assert np.abs(one).max() > 0.05
    np.testing.assert_allclose(other, one, atol=off * np.abs(one).max())


@each
def test_every_sum_has_noise_of_the_declared_standard_deviation(name: str, carrier: str) -> None:
    """Of all messages, at models of any length: chi-squared in every block. False alarms: 1e-6 of blocks; seeded."""
    mechanism, budgets = carried(name, carrier), [BUDGET, Budget(0.1, 1e-5)]
    draws = 20_000 if carrier == "simulated" else 500
    draws = 200 if name.startswith("wdgd") else draws  # which maps all rows for each
    exact = replace(mechanism, algorithm=PROGRAMS[name])
    runs = Carrier(mechanism, budgets, np.random.default_rng(2), draws, None)
    d, rng = mechanism.problem.d, np.random.default_rng(3)
    w = np.repeat(2 * rng.standard_normal((2, d)), draws, axis=0).astype(np.float32)
    maps = np.repeat(rng.standard_normal((2, d * d)), draws, axis=0).astype(np.float32)
    for number, message in enumerate(runs.messages[0]):
        _, state = message.of.state(d)
        at = [w, np.full(len(w), 0.2, np.float32), maps][: len(state)]
        added = runs.by_budget(runs.ask(number, *at) - exact.terms(message.of).total(*at))
        places = np.cumsum((0, *message.of.lengths(d)))
        for own, messages in zip(added, runs.messages, strict=True):
            blocks = zip(messages[number].block_widths(), message.of.deviations(d), strict=True)
            for j, (width, deviation) in enumerate(blocks):
                block = own[:, places[j] : places[j + 1]]
                if width * deviation == 0:  # L0 of the logistic loss
                    assert np.abs(block).max() < 1e-9
                    continue
                below = stats.chi2.cdf(np.sum((block / (width * deviation)) ** 2), block.size)
                assert 5e-7 < below < 1 - 5e-7
            noisy = own[:, own.std(axis=0) > 1e-9]
            assert np.abs(np.corrcoef(noisy.T) - np.eye(noisy.shape[1])).max() < 5.5 / math.sqrt(draws)


@pytest.mark.parametrize("carrier", ["secagg", "discrete secagg"])
def test_a_sum_of_all_parties_is_as_wide_as_declared_after_one_with_fewer(carrier: str) -> None:
    missing = iter([{0: Stage.MASKED}, {}])

    def transport(session, inputs, beside=None, dropouts=None):
        return in_process(session, inputs, beside, next(missing))

    asked = Carrier(replace(carried("ssp", carrier), transport=transport), [BUDGET], np.random.default_rng(0), 1, None)
    asked.ask(0)
    assert asked.widening != 1
    asked.ask(0)
    assert asked.widening == 1


SHARINGS = [
    *(CapeNoise(spread) for spread in (1.0, 3.0, MASK)), IndependentNoise(), SecureSumNoise(),
    TrustedCurator(("release", "client")),
]  # fmt: skip
SITES = [1, 2, 3, 4, 7, 10]
each_sharing = pytest.mark.parametrize("sharing", SHARINGS, ids=str)


def problem_of(M: int) -> Problem:
    return Problem(M, 10 * M, 2)


@each_sharing
@pytest.mark.parametrize("M", SITES)
def test_the_mu_of_a_view_is_that_of_what_it_sees(sharing: Sharing, M: int) -> None:
    """One unit of shift of the first number in Gaussian noise of the stated covariance; the sum has variance 1."""
    for view, mu in sharing.views(problem_of(M)).items():
        channel = sharing.channel(view, problem_of(M))
        assert mu == pytest.approx(gdp.correlated(channel.covariance, np.eye(len(channel.covariance))[0]), rel=1e-6)
        assert mu == pytest.approx(1 / channel.spread, rel=1e-9)


@pytest.mark.parametrize("M", [2, 5, 40])
@pytest.mark.parametrize("spread", [1.0, MASK])
def test_what_is_seen_of_cape_is_what_the_docs_say(M: int, spread: float) -> None:
    """The closed form against every number that colluders see, as it is sent; orthonormalised, with no covariance."""
    for colluders in {0, 1, M - 1}:
        problem = Problem(M, 10 * M, 2, colluders=colluders)
        ehat, g = np.split(np.eye(2 * M), 2)
        sent = ehat - ehat.mean(axis=0) + g
        known = np.vstack([sent[:-1], ehat.sum(axis=0), ehat[:colluders], g[:colluders]])
        deviations = np.repeat([spread, 1 / math.sqrt(M)], M)
        left, *_ = np.linalg.lstsq((known * deviations).T, sent[-1] * deviations, rcond=1e-13)
        noise_left = sent[-1] * deviations - (known * deviations).T @ left
        mu = CapeNoise(spread).views(problem)["colluders"]
        assert mu == pytest.approx(1 / np.linalg.norm(noise_left), rel=1e-8)
        assert mu == pytest.approx(1 / CapeNoise(spread).channel("colluders", problem).spread, rel=1e-12)


@each_sharing
@pytest.mark.parametrize("M", SITES)
def test_sources_have_the_covariance_that_views_are_counted_with(sharing: Sharing, M: int) -> None:
    """Entries of a sample covariance of n Gaussians vary by at most 2 s_i^2 s_j^2 / n; five of them: 6e-7 each."""
    n, size = 3000, 3
    parts = sharing.parts(np.random.default_rng(M), n, M, size)
    for view in sharing.views(problem_of(M)):
        channel = sharing.channel(view, problem_of(M))
        drawn = np.tensordot(channel.noise, parts, axes=1)
        assert drawn.shape == (len(channel.covariance), n, size)
        flat = drawn.reshape(len(drawn), n * size)
        found = flat @ flat.T / (n * size)
        deviation = np.sqrt(np.diagonal(channel.covariance))
        error = np.abs(found - channel.covariance) / np.outer(deviation, deviation)
        assert error.max() < 5 * math.sqrt(2 / (n * size))
        # coordinates are independent
        across = drawn[:, :, 0] @ drawn[:, :, 1].T / n / np.outer(deviation, deviation)
        assert np.abs(across).max() < 5 / math.sqrt(n)


@each_sharing
@pytest.mark.parametrize("M", SITES)
def test_the_sum_that_is_drawn_at_once_has_the_law_of_the_sources_sum(sharing: Sharing, M: int) -> None:
    """Two-sample Kolmogorov-Smirnov of n numbers each, and their covariances; false alarm 1e-6 each, seeded."""
    n, size = 3000, 3
    at_once = sharing.total(np.random.default_rng(M), n, M, size)
    parts = sharing.parts(np.random.default_rng(100 + M), n, M, size)
    total = parts[:M].sum(axis=0)
    for view in sharing.views(problem_of(M)):
        channel = sharing.channel(view, problem_of(M))
        assert parts.shape == (len(channel.total), n, size)
        assert np.allclose(np.tensordot(channel.total, parts, axes=1), total, atol=1e-11 * MASK)
    assert stats.kstest(at_once.ravel(), "norm").pvalue > 1e-6
    assert stats.ks_2samp(at_once.ravel(), total.ravel()).pvalue > 1e-6
    for drawn in (at_once, total):
        assert np.abs(drawn.mean(axis=0)).max() < 5.2 / math.sqrt(n)
        assert np.abs(drawn.T @ drawn / n - np.eye(size)).max() < 5.2 * math.sqrt(2 / n)


@pytest.mark.parametrize("weights", [(1.0,), (0.6, 0.8), (0.1, 0.3, math.sqrt(0.9))], ids=len)
@pytest.mark.parametrize("law", ["gaussian", "single_gaussian"])
def test_the_sum_of_unequal_clients_noise_has_the_law_of_noise_drawn_at_once(weights, law) -> None:
    """Two-sample Kolmogorov-Smirnov, false alarm 1e-6, seeded."""
    sharing, M = ClientNoise(weights, True), len(weights)
    at_once = sharing.total(np.random.default_rng(1), 3000, M, 3, law)
    parts = sharing.parts(np.random.default_rng(2), 3000, M, 3, law)
    total = parts.sum(axis=0)
    assert at_once.dtype == total.dtype == parts.dtype
    assert stats.ks_2samp(at_once.ravel(), total.ravel()).pvalue > 1e-6
    assert stats.kstest(at_once.ravel().astype(float), "norm").pvalue > 1e-6
