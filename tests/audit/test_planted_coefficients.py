"""Bugs planted in releases of coefficients: an audit finds each in what it records of the release itself.

All at the budget, parties and rows that `dpml audit` has unless told otherwise; draws are its 100,000, or fewer where
the bug is plain. A view other than `release` must show it: the last model alone says little about who sent what.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from dpml.algorithms.cape import CapeFM
from dpml.algorithms.coefficients import Scales, tight_scales
from dpml.algorithms.functional_mechanism import Conventional, FunctionalMechanism, Local
from dpml.algorithms.noisy_coefficients import PreparedQuadratic
from dpml.algorithms.pure_functional_mechanism import PureFunctionalMechanism
from dpml.algorithms.transcript import Transcript
from planted import ALL, BESIDE, BUDGET, PROBLEM, attacked, bugs, verdicts

import dpml.protocols.cape
from dpml.algorithms import noisy_coefficients
from dpml.arrays import blocks
from dpml.audit import DRAWS
from dpml.audit.attacks import informed
from dpml.audit.search import moved
from dpml.optim.losses import LOSSES
from dpml.privacy import noise

SQUARED, LOGISTIC = LOSSES["squared"], LOSSES["logistic"]
PLAIN = 8_000  # half of the noise is missed in 1 of 2000 audits of the sum of `conv`, which has most, else in none
FEW = 2_000  # enough where nothing is hidden any more, or the pair itself shows more than is proven

CAPE = CapeFM(SQUARED, calibration="tight")
SECAGG = replace(CAPE, protocol="secagg")
CONV = Conventional(SQUARED, calibration="tight")
LOCAL = Local(SQUARED, calibration="tight")
TOLD = {"transcript", "colluders"}
slow = pytest.mark.slow  # the same bug in code that is mostly the same
REAL = pytest.param(SECAGG, marks=slow)
each_cape = pytest.mark.parametrize("algorithm", [CAPE, REAL], ids=["simulate", "secagg"])
each_distributed = pytest.mark.parametrize("algorithm", [CAPE, REAL, CONV], ids=["simulate", "secagg", "conv"])


def plant_in_parties(monkeypatch, cape, conventional) -> None:
    """Change the ehat and g of CAPE's parties, and the noise of conventional ones: (draws, M, size), in place."""
    cape_parties, gaussian_messages = noise.cape_parties, noise.gaussian_messages

    def parties(rng, draws, M, size):
        ehat, g = cape_parties(rng, draws, M, size)
        cape(ehat, g)
        return ehat, g

    def messages(rng, draws, M, size):
        drawn = gaussian_messages(rng, draws, M, size)
        conventional(drawn)
        return drawn

    monkeypatch.setattr(noise, "cape_parties", parties)
    monkeypatch.setattr(noise, "gaussian_messages", messages)


@each_distributed
def test_half_of_the_noise(monkeypatch, algorithm) -> None:
    def half(*parts):
        for part in parts:
            part /= 2

    plant_in_parties(monkeypatch, half, half)
    views = {"aggregate", "transcript", "colluders"}
    assert bugs(algorithm, PLAIN, views) == views


def test_half_of_the_published_noise_in_a_message(monkeypatch) -> None:
    """With the zero-sum noise as wide as the noise that stays, a single message shows it too."""

    def half(*parts):
        for part in parts:
            part /= 2

    plant_in_parties(monkeypatch, half, half)
    assert bugs(CapeFM(LOGISTIC), PLAIN) == BESIDE
    assert bugs(Conventional(LOGISTIC), PLAIN) == BESIDE


@pytest.mark.parametrize("algorithm", [CAPE, SECAGG], ids=["simulate", "secagg"])
def test_the_same_numbers_for_both_kinds_of_noise(monkeypatch, algorithm) -> None:
    """The sum looks as it should: only who sees the messages and the sum of the ehat finds out."""

    def one(rng, draws, M, size):
        ehat = rng.standard_normal((draws, M, size))
        return ehat, ehat.copy()

    monkeypatch.setattr(noise, "cape_parties", one)
    assert bugs(algorithm, FEW) == {"transcript", "colluders"}


@each_cape
@pytest.mark.parametrize("planted", [False, True])
def test_many_numbers_are_drawn_in_blocks(monkeypatch, algorithm, planted: bool) -> None:
    """The other branch of `cape_parties`, as it is and with the same numbers for both."""
    monkeypatch.setattr(noise, "_BLOCK", 1 << 12)

    def one(rng, draws, M, size):
        ehat = np.empty((draws, M, size))
        for columns in blocks(size, draws * M, 1 << 12):
            for part in (ehat[..., columns], ehat[..., columns]):
                part[...] = rng.standard_normal(part.shape)
        return ehat, ehat.copy()

    if planted:
        monkeypatch.setattr(noise, "cape_parties", one)
    assert bugs(algorithm, FEW) == ({"transcript", "colluders"} if planted else set())


@each_distributed
def test_a_party_that_forgets_its_own_noise(monkeypatch, algorithm) -> None:
    """A fifth of the sum's variance is missing in CAPE, and in `conv` all that protects the party."""

    def forget(*parts):
        parts[-1][:, -1] = 0

    plant_in_parties(monkeypatch, forget, forget)
    assert bugs(algorithm, FEW if algorithm is CONV else DRAWS, {"colluders"})


@each_distributed
@pytest.mark.parametrize("sharing", [2, pytest.param(5, marks=slow)])
def test_parties_with_one_seed(monkeypatch, algorithm, sharing: int) -> None:
    """The last two parties, or all: the difference of two messages has no noise."""

    def shared(*parts):
        for part in parts:
            part[:, -sharing:] = part[:, -1:]

    plant_in_parties(monkeypatch, shared, shared)
    assert bugs(algorithm, FEW, TOLD) == TOLD


@pytest.mark.parametrize("algorithm", [CAPE, pytest.param(CapeFM(SQUARED), marks=slow)], ids=["tight", "published"])
def test_noise_that_does_not_sum_to_zero_costs_accuracy_and_no_privacy(monkeypatch, algorithm) -> None:
    """With ``ehat_k`` in place of ``e_k`` a transcript tells what it told before, for it tells the mean of the ehat;
    the sum is hidden too well. No attack can see this: tests of the law of the sum do.
    """

    def messages(rng, draws, M, size, shared, own):
        ehat, g = noise.cape_parties(rng, draws, M, size)
        return shared * ehat + own * g, ehat

    monkeypatch.setattr(noise, "cape_messages", messages)
    found = {view: finding.verdict for view, finding in attacked(algorithm, PLAIN, self_test=True).items()}
    assert "BUG" not in found.values()
    assert found["aggregate"] == "no violation seen"  # not "consistent": half of this noise is no bug either


@pytest.mark.parametrize("algorithm", [CAPE, REAL, CONV, LOCAL], ids=["simulate", "secagg", "conv", "local"])
def test_the_sensitivity_of_adding_a_row(monkeypatch, algorithm) -> None:
    """What one row contributes, not how far two are apart: in the noise and in the proof."""

    def one_row(quadratic, scales, d):
        squares = (quadratic.linear_bound / scales.linear) ** 2 + (quadratic.square / scales.square) ** 2
        return math.sqrt(squares + (quadratic.constant_range / scales.constant) ** 2)

    def scales(quadratic, d, radius, mu):
        right = tight_scales(quadratic, d, radius, mu)
        factor = one_row(quadratic, right, d) / mu
        return Scales(math.inf, right.linear * factor, right.square * factor)

    monkeypatch.setattr(noisy_coefficients, "joint_sensitivity", one_row)
    monkeypatch.setattr(noisy_coefficients, "tight_scales", scales)
    assert bugs(algorithm, FEW) == set(algorithm.views(PROBLEM)) - {"release"}


@pytest.mark.parametrize("factor", [0.5, pytest.param(0.0, marks=slow)])
@pytest.mark.parametrize("algorithm", [CAPE, REAL, CONV, LOCAL], ids=["simulate", "secagg", "conv", "local"])
def test_a_wrong_scale_on_l2(monkeypatch, algorithm, factor: float) -> None:
    right = PreparedQuadratic.scales
    monkeypatch.setattr(PreparedQuadratic, "scales", lambda self, budgets: right(self, budgets) * [1, 1, factor])
    hidden = set() if algorithm is CONV or algorithm is LOCAL else {"client"}  # by zero-sum noise
    draws = 40_000 if algorithm is CONV else PLAIN  # its sum has five times the noise that is needed
    views = set(algorithm.views(PROBLEM)) - {"release"} - hidden
    assert bugs(algorithm, draws, views) == views


@each_distributed
def test_a_site_that_sends_its_coefficients_as_they_are(monkeypatch, algorithm) -> None:
    """Of CAPE's sum zero-sum noise is left then, which hides it there; of four noises of `conv`, most."""
    cape_messages, sites = noise.cape_messages, dpml.protocols.cape._messages

    def silent(*parts):
        for part in parts:
            part[:, -1] = 0

    def plain(*arguments):
        messages, ehat = cape_messages(*arguments)
        messages[:, -1] = 0
        return messages, ehat

    def exact(shares, scales, added):
        sent = sites(shares, scales, added)
        sent[-1] = shares[-1]
        return sent

    plant_in_parties(monkeypatch, lambda ehat, g: None, silent)
    monkeypatch.setattr(noise, "cape_messages", plain)
    monkeypatch.setattr(dpml.protocols.cape, "_messages", exact)
    assert bugs(algorithm, FEW, TOLD) == TOLD


def test_a_coefficient_that_moves_and_has_no_noise(monkeypatch) -> None:
    """The published logistic L0 has none, for it is the same for all labels. One that is not tells them apart."""
    quadratic = LOGISTIC.quadratic
    told = replace(quadratic, constant=lambda y: quadratic.constant(y) + 0.01 * y)
    monkeypatch.setattr(type(LOGISTIC), "quadratic", told)
    assert bugs(CapeFM(LOGISTIC), FEW) == BESIDE


@pytest.mark.parametrize("calibration", ["published", "tight"])
def test_the_real_protocol_shows_what_the_simulated_one_shows(calibration: str) -> None:
    """With one seed, in every view, up to the codec's grid: and so with one guarantee."""
    simulated, real = (replace(algorithm, calibration=calibration) for algorithm in (CAPE, SECAGG))
    pair = simulated.worst_case(BUDGET, PROBLEM)
    for one, other in zip(simulated.exposures(pair, BUDGET), real.exposures(pair, BUDGET), strict=True):
        assert one.view == other.view
        for which in (0, 1):
            seen = [exposure.sample(which, np.random.default_rng(6), 30) for exposure in (one, other)]
            assert np.allclose(*seen, rtol=1e-6, atol=1e-6 if one.view != "release" else 1e-8)


# ---- and nobody else is accused


RIGHT = [
    FunctionalMechanism(SQUARED), LOCAL, CONV, CAPE, CapeFM(LOGISTIC), SECAGG, PureFunctionalMechanism(SQUARED),
    PureFunctionalMechanism(LOGISTIC, variant="authors"), CapeFM(SQUARED, protocol="secagg", lam=0.2),
]  # fmt: skip
name = lambda a: f"{a.name}-{a.calibration}-{a.variant}"  # noqa: E731
each_right = pytest.mark.parametrize("algorithm", RIGHT, ids=name)


# what the real protocol shows is compared with the simulated one, number by number
@pytest.mark.parametrize(
    "algorithm", [pytest.param(a, marks=[slow] if "secagg" in str(a) else []) for a in RIGHT], ids=name
)
def test_what_is_right_is_no_bug(algorithm) -> None:
    assert bugs(algorithm, FEW if algorithm.variant == "authors" else PLAIN, ALL) == set()


@slow
@each_right
@pytest.mark.parametrize("seed", [2, 3])
def test_what_is_right_is_no_bug_in_a_whole_audit(algorithm, seed: int) -> None:
    """With a search for worse neighbours."""
    assert "BUG" not in verdicts(algorithm, 5_000, seed).values()


@each_right
def test_who_watches_changes_no_bit(algorithm) -> None:
    """The same coefficients from the same stream, and the next number of the stream too."""

    class Deaf:
        def drawn(self, parts) -> None: ...
        def sent(self, message, exact) -> None: ...

    prepared = algorithm.prepare(algorithm.worst_case(BUDGET, PROBLEM)[0], np.random.default_rng(0))
    first, second = np.random.default_rng(3), np.random.default_rng(3)
    alone = prepared.noisy(prepared.scales([BUDGET]), first, 50)
    watched = prepared.noisy(prepared.scales([BUDGET]), second, 50, Deaf())
    assert all(np.array_equal(a, b) for a, b in zip(alone, watched, strict=True))
    assert first.random() == second.random()


@each_right
def test_a_pairs_distance_is_that_of_what_is_recorded(algorithm) -> None:
    """In closed form, as the search for worse pairs has it, and as the messages show it; for pairs of any kind."""
    pair = algorithm.worst_case(BUDGET, PROBLEM)
    rng = np.random.default_rng(5)
    for _ in range(4):
        pair = moved(pair, rng)
        for exposure in algorithm.exposures(pair, BUDGET):
            if isinstance(exposure, Transcript):
                seen = [exposure.sample(which, rng, 20) for which in (0, 1)]
                assert exposure.distance() == pytest.approx(informed(exposure, *seen, rng)[1], rel=1e-9)
