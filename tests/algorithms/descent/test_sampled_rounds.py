"""`algo.sampling`: sums of units that take part by chance, what is proven of them, and bugs that an audit must find."""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from examples import LOGISTIC
from numpy.random import PCG64
from quick import quick_first
from scipy.stats import binom, chi2, norm

from dpml.algorithms.descent.clipped import ClippedDescent
from dpml.algorithms.descent.clipped_gradients import ClippedGradients
from dpml.algorithms.descent.rounds import Schedule, take_rounds
from dpml.algorithms.descent.whitened import WhitenedDescent
from dpml.audit import audit
from dpml.audit.neighbours import synthetic_parties
from dpml.audit.transcript import _likelihood
from dpml.errors import UserError
from dpml.federated.sums import Setting, sums_of
from dpml.mechanism import program
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.message import sampled_in
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget, Problem, noise
from dpml.privacy.entropy import SystemGenerator
from dpml.privacy.sampled import SampledGaussian, least_noise
from dpml.recipes import judge, recipe_of
from dpml.release import verify
from dpml.release.certificate import certificate

BUDGET = Budget(1.0, 1e-5)
DPGD = ClippedDescent(LOGISTIC, rounds=10, sampling=0.3)
WDGD = WhitenedDescent(LOGISTIC, rounds=5, sampling=0.3)
SMALL = Problem(5, 100, 2)


def parties_of(task="binary", sizes=(30, 40, 59), d=3, classes=2, seed=0):
    rng, n = np.random.default_rng(seed), sum(sizes)
    X = rng.standard_normal((n, d))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None] * 1.01
    y = rng.choice([-1.0, 1.0], n) if task != "multiclass" else rng.integers(classes, size=n).astype(float)
    return synthetic_parties(task, X, y, np.array(sizes), classes=classes)


STATISTICS = {
    f"{loss} {unit}{' adaptive' * (clip is None)}{' mapped' * mapped}": ClippedGradients(
        LOSSES[loss], unit, clip, 3 if loss == "softmax" else 1, mapped
    )
    for loss, unit, clip in [
        ("logistic", "sample", 0.1), ("squared", "sample", 0.2), ("softmax", "sample", 0.3),
        ("logistic", "party", 0.1), ("squared", "party", None), ("softmax", "party", None),
    ]
    for mapped in (False, True)
}  # fmt: skip


def asked(of, seed=1, B=4, d=3):
    """Parties, and what a sum of B runs is about."""
    task = {"logistic": "binary", "softmax": "multiclass", "squared": "regression"}[of.loss.name]
    parties, rng = parties_of(task, classes=of.classes if of.classes > 1 else 2), np.random.default_rng(seed)
    w = rng.standard_normal((B, of.classes * d)).astype(np.float32)
    clips = [] if of.clip is not None else [np.full(B, 0.2, np.float32)]
    maps = [rng.standard_normal((B, d * d)).astype(np.float32)] if of.mapped else []
    return parties, (w, *clips, *maps), rng


@pytest.mark.parametrize("of", STATISTICS.values(), ids=STATISTICS)
def test_the_sum_is_of_those_that_take_part_each_as_it_is_alone(of) -> None:
    """And no part is longer than half of the sensitivity, which two of them have between them."""
    parties, at, rng = asked(of)
    terms, units = of.on(parties), len(parties.y) if of.unit == "sample" else 3
    alone = np.array([terms.sampled(np.repeat((np.arange(units) == u)[:, None], 4, axis=1), *at) for u in range(units)])
    counted = np.array(
        [1.0] * (alone.shape[-1] - 1) + [5.0 if of.counted else 1.0]
    )  # noise of a count, in that of a sum
    message = Schedule(1, 0.2, 0.0, 1.0, 5.0 if of.counted else math.inf).message(of)
    lengths = np.linalg.norm(alone / counted, axis=2)
    assert lengths.max() <= message.sensitivity / 2 * (1 + 1e-6)
    if of.unit == "sample":
        assert lengths.max() > 0.99
    taken = rng.random((units, 4)) < 0.4
    expected = np.einsum("ub,ubk->bk", taken, alone)
    assert terms.sampled(taken, *at) == pytest.approx(expected, abs=1e-4)
    everybody = terms.sampled(np.ones((units, 4), bool), *at)
    if of.counted:
        everybody[:, -1] += units / 2
    assert everybody == pytest.approx(terms.total(*at), abs=1e-12)


def test_the_mean_and_the_covariance_of_what_is_sent_are_those_of_the_definition() -> None:
    """False alarms: once in 10,000 for the mean, and once in 10,000 for the variances."""
    parties, draws = parties_of(), 4_000
    algorithm = replace(DPGD, clip=0.4, lam=0.0)
    carrier = Carrier(
        algorithm.prepare(parties, np.random.default_rng(0)), [BUDGET], np.random.default_rng(7), draws, None
    )
    w = np.tile(np.array([0.5, -1.0, 0.2], np.float32), (draws, 1))
    sent = carrier.ask(0, w)
    slopes = np.minimum(1 / (1 + np.exp(parties.y * (parties.X @ w[0]))), 0.4) / 0.4  # of the logistic loss, cut
    parts = -(slopes * parties.y)[:, None] * parties.X
    q, (message,) = 0.3, algorithm.messages(BUDGET, parties.problem)
    covariance = q * (1 - q) * parts.T @ parts + message.noise**2 * np.eye(3)
    apart = sent.mean(axis=0) - q * parts.sum(axis=0)
    assert draws * apart @ np.linalg.solve(covariance, apart) < chi2.isf(1e-4, 3)
    white = np.linalg.solve(np.linalg.cholesky(covariance), (sent - q * parts.sum(axis=0)).T)
    reach = norm.isf(1e-4 / 12)  # of 6 entries, which are nearly normal
    off = (white @ white.T / draws - np.eye(3)) * math.sqrt(draws)
    assert np.abs(off[np.triu_indices(3, 1)]).max() < reach
    assert np.abs(np.diag(off)).max() < reach * math.sqrt(2)


class Zeros(np.random.Generator):
    def bytes(self, length):
        return bytes(length)


@pytest.mark.parametrize("generator", [np.random.default_rng(3), SystemGenerator()], ids=["numpy", "system"])
def test_coins_fall_as_often_as_they_should_and_independently(generator) -> None:
    """False alarms: once in 10,000 for each of the two numbers and generators."""
    fell = noise.coins(generator, 0.3, (500, 400))
    assert binom.cdf(fell.sum(), fell.size, 0.3) == pytest.approx(0.5, abs=0.5 - 5e-5)
    both = int(np.sum(fell[1:] & fell[:-1]) + np.sum(fell[:, 1:] & fell[:, :-1]))
    pairs = 499 * 400 + 500 * 399
    deviation = math.sqrt(pairs * 0.09 * 0.91 + 4 * pairs * (0.027 - 0.0081))  # neighbours of neighbours share a coin
    assert abs(both - 0.09 * pairs) < norm.isf(5e-5) * deviation
    assert not noise.coins(Zeros(PCG64(0)), 2.0**-33, (5, 4)).any()  # the least number is not below a rate rounded down


@pytest.mark.parametrize("algorithm", [DPGD, replace(DPGD, unit="party")], ids=lambda each: each.unit)
@pytest.mark.parametrize("M", [1, 5])
def test_dpml_check_says_the_same_of_the_same_training(algorithm, M) -> None:
    """To the last bit, with what rounding adds to a part; the words of a recipe are another path to the same pair."""
    if M == 1 and algorithm.unit == "party":
        M = 20
    problem = Problem(M, 500, 4)
    (message,) = algorithm.messages(BUDGET, problem)
    found = {guarantee.view: guarantee for guarantee in algorithm.guarantees(BUDGET, problem)}
    part = message.sensitivity / 2 * (1 + 2 * message.of.imprecision(problem))
    recipe = {"rounds": 10, "delta": 1e-5}
    if algorithm.unit == "sample":
        recipe |= {"row_sampling": "poisson", "row_rate": 0.3}
        if M > 1:
            recipe |= {"clients": M, "noise_by": "shared", "secure_sum": True, "colluders": problem.colluders}
    else:  # sampled clients, whom nobody sees where the server adds the noise
        recipe |= {"unit": "client", "clients": M, "client_sampling": "poisson", "client_rate": 0.3}
    judged = {each.view: each for each in judge(recipe_of(None, **recipe, noise_multiplier=message.noise / part))}
    assert judged["release"].proven == found["release"].eps
    if M == 5:
        last = judged["colluders"].proven if algorithm.unit == "sample" else None
        assert last is None or last == pytest.approx(found["colluders"].eps, rel=1e-12)
    assert max(each.eps for each in found.values()) == pytest.approx(1.0, rel=2e-4)
    assert max(each.eps for each in found.values()) <= 1.0


@pytest.mark.parametrize(
    "algorithm",
    [
        DPGD,
        pytest.param(WDGD, marks=pytest.mark.slow),
        replace(WDGD, unit="party"),
        pytest.param(replace(DPGD, sampling=0.02), marks=pytest.mark.slow),
    ],
)
def test_an_independent_accountant_agrees_with_the_whole_release(algorithm) -> None:
    problem = Problem(6, 600, 4, colluders=2)
    messages, proven = algorithm.messages(BUDGET, problem), algorithm.proven(BUDGET, problem)
    for view, factor in (("release", 1.0), ("colluders", math.sqrt(6 / 4))):
        whole = None
        for each in messages:
            one = from_gaussian_mechanism(
                each.noise / each.sensitivity * (2 if each.rate < 1 else 1) / factor,
                sampling_prob=each.rate,
                neighboring_relation=NeighboringRelation.REPLACE_ONE
                if each.rate < 1
                else NeighboringRelation.ADD_OR_REMOVE_ONE,
            ).self_compose(each.times)
            whole = one if whole is None else whole.compose(one)
        assert proven[view].eps == pytest.approx(whole.get_epsilon_for_delta(1e-5), rel=0.01)


@pytest.mark.parametrize("beside", quick_first([0.0, 0.15]))
@pytest.mark.parametrize(("rate", "rounds"), [(0.01, 500), (0.97, 3)])
def test_the_noise_is_the_least_to_one_part_in_ten_thousand(beside, rate, rounds) -> None:
    seen = SampledGaussian(1.0, rounds, "replace", "poisson", rate, beside=beside)
    found = least_noise(seen, 0.8, 1e-5)
    assert replace(seen, noise=found).eps(1e-5) <= 0.8 < replace(seen, noise=found * (1 - 3e-4)).eps(1e-5)


def test_a_lower_rate_is_no_less_private() -> None:
    """Coins fall a little less often than asked, as bytes have few digits."""
    eps = [SampledGaussian(2.0, 10, "replace", "poisson", rate).eps(1e-5) for rate in (0.05, 0.2, 0.2001, 0.9)]
    assert eps == sorted(eps)


def test_releases_beside_sampled_rounds_may_not_take_the_whole_budget() -> None:
    with pytest.raises(UserError, match="leave nothing of the budget"):
        least_noise(SampledGaussian(1.0, 3, "replace", "poisson", 0.1, beside=5.0), 1.0, 1e-5)


def test_clips_follow_the_share_of_parties_whatever_the_rate() -> None:
    """Without noise and with many parties: the first counts agree to what 1000 coins in 20,000 draws leave."""
    problem = parties_of(sizes=(5,) * 200)
    carriers = {}
    for sampling in (None, 0.5):
        algorithm = ClippedDescent(LOGISTIC, unit="party", rounds=1, sampling=sampling)
        carrier = Carrier(
            algorithm.prepare(problem, np.random.default_rng(0)),
            [Budget(math.inf)],
            np.random.default_rng(0),
            100,
            None,
        )
        first = algorithm.schedule(Budget(1e3, 1e-5), problem.problem)
        start = np.zeros((100, 3), np.float32)
        carriers[sampling] = take_rounds(carrier, 0, first, start, lambda t, w, g, c: 0 * w)[1].mean()
    assert carriers[0.5] == pytest.approx(carriers[None], rel=0.01)
    assert abs(math.log(carriers[None] / 0.3)) > 0.05


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"sampling": 0.1, "protocol": "secagg"}, "algo.protocol=simulate"),
        ({"sampling": 0.1, "noise": "discrete"}, "algo.noise=continuous"),
    ],
)
@pytest.mark.parametrize("kind", [ClippedDescent, WhitenedDescent])
def test_what_is_not_proven_is_refused(kind, options, sentence) -> None:
    with pytest.raises(UserError, match=sentence):
        kind(LOGISTIC, **options)


def test_draws_in_blocks_are_draws_and_budgets_share_their_coins() -> None:
    parties = parties_of()
    mechanism = DPGD.prepare(parties, np.random.default_rng(0))
    both = mechanism.release([BUDGET, Budget(1e3, 1e-5)], np.random.default_rng(1), 3).weights
    assert both.shape == (2, 3, 3)
    assert np.ptp(both[1], axis=0).min() > 0  # also with hardly any noise: the coins differ
    one = mechanism.release([Budget(1e3, 1e-5)], np.random.default_rng(1), 3).weights
    assert one[0] == pytest.approx(both[1], abs=1e-5)


def audited(algorithm, draws=400, problem=SMALL):
    return {found.view: found for found in audit(algorithm, BUDGET, problem, draws)}


@pytest.fixture(autouse=True)
def _no_search(monkeypatch, unsearched) -> None:
    monkeypatch.setattr("dpml.audit.POWER", math.inf)


KINDS = DPGD, replace(DPGD, unit="party"), WDGD, replace(DPGD, loss=LOSSES["squared"])


@pytest.mark.parametrize("algorithm", quick_first(KINDS, 2))
def test_right_code_shows_what_is_proven_and_no_more(algorithm) -> None:
    for found in audited(algorithm).values():
        assert found.verdict == "no violation seen"
        assert found.exact < found.proven
    if algorithm is DPGD:
        assert audited(algorithm)["aggregate"].exact > 0.4  # by the shortest part in any run that was looked at


def test_the_score_of_a_round_is_the_likelihood_of_a_mixture() -> None:
    rng = np.random.default_rng(0)
    residual, part = rng.standard_normal((5, 2)), rng.standard_normal((5, 2))
    with_it = [np.prod(norm.pdf(r - p)) for r, p in zip(residual, part, strict=True)]
    without = [np.prod(norm.pdf(r)) for r in residual]
    expected = np.log(0.3 * np.array(with_it) / without + 0.7)
    assert _likelihood(residual, part, 0.3) == pytest.approx(expected)


def as_if_one_came(monkeypatch) -> None:
    """Neighbours are forgotten to be data sets in which a row is replaced."""
    weaker = partial(lambda right, seen, *rest: right(replace(seen, neighbours="zero_out"), *rest), least_noise)
    monkeypatch.setattr(program, "least_noise", weaker)
    monkeypatch.setattr(
        program, "sampled_in", lambda *given: (seen := sampled_in(*given)) and replace(seen, neighbours="zero_out")
    )


def same_in_all_rounds(monkeypatch) -> None:
    right, kept = noise.coins, {}
    monkeypatch.setattr(noise, "coins", lambda rng, rate, shape: kept.setdefault(shape, right(rng, rate, shape)).copy())


def too_often(monkeypatch) -> None:
    right = noise.coins
    monkeypatch.setattr(noise, "coins", lambda rng, rate, shape: right(rng, 4 * rate, shape))


@pytest.mark.parametrize(
    ("bug", "rate", "draws"), [(as_if_one_came, 0.3, 500), (same_in_all_rounds, 0.04, 20_000), (too_often, 0.1, 20_000)]
)
def test_a_planted_bug_is_found(monkeypatch, bug, rate, draws) -> None:
    """Steps are tiny, so that slopes stay at the clip. Missed in fewer than 1 of 1000 audits."""
    algorithm = replace(DPGD, sampling=rate, rounds=40 if bug is same_in_all_rounds else 4, noise_step=1e-4)
    bug(monkeypatch)
    found = audited(algorithm, draws, Problem(1, 20, 2))
    assert found["release"].verdict == "BUG"


def test_no_certificate_is_accepted_and_no_federation_started() -> None:
    problem = Problem(4, 100, 3, colluders=1)
    content = certificate(DPGD, BUDGET, problem, DPGD.guarantees(BUDGET, problem))
    with pytest.raises(verify.RejectedError, match="unknown law 'sampled gaussian'"):
        verify.verify(content)
    with pytest.raises(UserError, match="simulated"):
        sums_of(DPGD, Setting(BUDGET, problem, np.full(4, 25)))


@dataclass(frozen=True)
class Silent(ClippedDescent):
    """Its sums are sampled, and it has no option that says so."""

    def messages(self, budget, problem):
        return tuple(replace(message, rate=0.5) for message in super().messages(budget, problem))


@pytest.mark.parametrize("options", [{"protocol": "secagg"}, {"noise": "discrete"}])
def test_a_program_that_says_nothing_of_sampling_is_refused_as_well(options) -> None:
    prepared = Silent(LOGISTIC, rounds=2, **options).prepare(parties_of(), np.random.default_rng(0))
    with pytest.raises(UserError, match="simulated"):
        prepared.release([BUDGET], np.random.default_rng(0), 1)


@pytest.mark.parametrize(("eps", "delta", "rate"), [(1e-6, 1e-5, 0.1), (1.0, 1e-30, 0.1), (1e-4, 1e-12, 1e-6)])
def test_a_budget_beyond_the_arithmetic_is_refused_and_not_searched_for(eps, delta, rate) -> None:
    with pytest.raises(UserError, match=r"leave out algo\.sampling"):
        least_noise(SampledGaussian(1.0, 300, "replace", "poisson", rate), eps, delta)
