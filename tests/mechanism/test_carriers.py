"""Simulated, by secure aggregation or on a grid: a release is the same, and its noise as wide as declared."""

import math
from dataclasses import replace

import numpy as np
import pytest
from examples import LOGISTIC, SOFTMAX, SQUARED, capefm, conv, fm, labelled_parties, local, some_parties
from scipy import stats

from dpml.algorithms.descent.clipped import ClippedDescent
from dpml.algorithms.descent.private_sgd import PrivateSGD
from dpml.algorithms.descent.whitened import WhitenedDescent
from dpml.algorithms.quadratic.sufficient_statistics import PreconditionedDescent, SufficientStatistics
from dpml.mechanism.carriers import Carrier
from dpml.packs.frontier.adassp import AdaptiveStatistics
from dpml.privacy import Budget
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
IMPOSSIBLE = {
    *(("psgd", carrier) for carrier in ("discrete", "discrete secagg")),
    *(("fm", carrier) for carrier in ("secagg", "discrete secagg")),
    *(("capefm published", carrier) for carrier in ("discrete", "discrete secagg")),
    *(
        (name, carrier)
        for name in ("fm published", "conv", "local", "adassp", "adassp published")
        for carrier in CARRIERS
        if carrier != "simulated"
    ),
}
PAIRS = [(name, carrier) for name in PROGRAMS for carrier in CARRIERS if (name, carrier) not in IMPOSSIBLE]
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
