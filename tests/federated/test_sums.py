"""What parties alone on their machines send, and the model of the sum."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from examples_federated import COMMON, clinics, entries, run

from dpml.algorithms.quadratic.sufficient_statistics import SufficientStatistics
from dpml.data.partition import Parties
from dpml.federated.agreed import agreed_of
from dpml.federated.party import Member
from dpml.federated.sums import MESSAGE, OPEN, REFUSED, Opening, sums_of
from dpml.optim.gradients import LEAST_CLIP
from dpml.optim.losses import LOSSES, for_task
from dpml.privacy import Adversary, Budget, Problem
from dpml.protocols import FixedPoint, ProtocolError, Stage
from dpml.protocols.messages import RefusedError
from dpml.protocols.server import Server
from dpml.protocols.transports import Outcome
from dpml.release.ledger import Ledger


@pytest.mark.parametrize(
    "words",
    [
        ("algo=ssp", "algo.unit=party"),
        ("algo=ssp", "algo.noise=discrete"),
        ("algo=capefm",),
        ("algo=capefm", "algo.noise=discrete"),
        ("algo=ssp_descent", "algo.unit=party", "algo.rounds=3", "algo.lam=0.01"),
        ("algo=ssp_descent", "algo.noise=discrete", "algo.rounds=3"),
        ("algo=wdgd", "algo.rounds=3", "loss=squared"),
        ("algo=wdgd", "algo.noise=discrete", "algo.unit=party", "algo.rounds=3"),
        ("algo=dpgd", "algo.rounds=3"),
        ("algo=dpgd", "algo.rounds=3", "algo.unit=party"),  # with a clip that follows the parties
        ("algo=dpgd", "algo.rounds=3", "algo.noise=discrete", "algo.unit=party", "algo.clip=0.2"),
        ("algo=psgd", "algo.rounds=3"),
    ],
    ids=" ".join,
)
def test_the_model_is_that_of_one_process_bit_for_bit(tmp_path, words) -> None:
    parties = clinics(tmp_path, *words)
    made = run(parties.members(seed=5), parties.plan)
    alone = parties.in_one_process(replace(parties.plan.algorithm, protocol="secagg"), seed=5)
    assert made.model.weights[0].tobytes() == alone.tobytes()
    other = parties.in_one_process(replace(parties.plan.algorithm, protocol="secagg"), seed=6)
    assert not np.allclose(made.model.weights[0], other)


@pytest.mark.parametrize("unit", ["sample", "party"])
def test_nobody_needs_memory_for_the_rows_of_others(tmp_path, unit) -> None:
    """A party of so many rows, or one that only said so, ended the processes of all."""
    many, d = 10**10, 6
    plan = clinics(tmp_path, "algo=ssp", "algo.noise=discrete", f"algo.unit={unit}").plan
    sizes = np.array([20, many, many])
    sums = sums_of(plan.algorithm, Budget(1.0, 1e-12), Problem(3, int(sizes.sum()), d, colluders=1).of_sizes(sizes))
    message, _ = sums.ready(np.full((20, d), 0.1), np.ones(20), 0)(np.random.default_rng(0))(0, b"")
    model = sums.release(lambda told: Outcome(message, np.arange(3), np.empty((3, 0)))).weights[0, 0]
    assert np.isfinite(model).all()


@pytest.mark.parametrize("stage", [Stage.KEYS, Stage.SHARES, Stage.MASKED, Stage.CONSISTENCY, Stage.UNMASK])
@pytest.mark.parametrize("name", ["ssp", "capefm"])
def test_a_party_that_falls_silent_is_done_without(tmp_path, stage, name) -> None:
    parties = clinics(tmp_path, f"algo={name}")
    made = run(parties.members(), parties.plan, {2: stage})
    in_it = [0, 1, 2, 3] if stage > Stage.MASKED else [0, 1, 3]
    assert made.survivors.tolist() == in_it
    assert np.isfinite(made.model.weights).all()


def test_the_noise_of_those_who_may_be_left_is_that_of_one_curator(monkeypatch) -> None:
    """480 numbers: a sample variance is off by more than 30 % with probability below 1e-5 (chi-squared)."""
    M, C, D, n, d = 7, 1, 2, 50, 4
    algorithm, budget = SufficientStatistics(LOSSES["logistic"]), Budget(1.0, 1e-5)
    whole = sums_of(algorithm, budget, Problem(M, M * n, d, colluders=C + D))
    (curator,) = algorithm.messages(budget, Problem(1, M * n, d))
    X, y = np.zeros((n, d)), np.ones(n)
    codecs, right = [], FixedPoint.encode
    monkeypatch.setattr(FixedPoint, "encode", lambda codec, *args: codecs.append(codec) or right(codec, *args))
    rings = [whole.ready(X, y, 3)(np.random.default_rng(s))(0, b"")[0] for s in range(120)]
    one = codecs[0].decode(np.array(rings))[:, :d]
    variance = np.mean(np.square(one)) * (M - C - D)
    assert variance == pytest.approx(curator.block_widths()[0] ** 2, rel=0.3)


DESCENT = ("algo=ssp_descent", "algo.rounds=2")  # three secure sums
FREE = Budget(np.inf, 1e-5)
D = 6


def opened(plan, number: int, told: bytes, name: bytes = bytes(16)) -> Opening:
    return Opening(name, plan.digest, number, told)


@pytest.mark.parametrize("stage", [Stage.MASKED, Stage.UNMASK])
def test_a_party_that_falls_silent_between_two_sums_is_done_without(tmp_path, stage) -> None:
    parties = clinics(tmp_path, *DESCENT)
    made = run(parties.members(), parties.plan, {2: stage}, first=1)
    assert made.survivors.tolist() == [0, 1, 2, 3]  # its rows are in the first sum
    assert np.isfinite(made.model.weights).all()
    assert entries(parties) == [1, 1, 1, 1]


def test_too_few_in_a_later_sum_end_the_release(tmp_path) -> None:
    parties = clinics(tmp_path, *DESCENT)
    with pytest.raises(ProtocolError):
        run(parties.members(), parties.plan, {2: Stage.KEYS, 3: Stage.KEYS}, first=1)
    assert entries(parties) == [1, 1, 1, 1]  # their statistics are out


@pytest.mark.parametrize(
    "words",
    [
        ("algo=capefm",),
        (*DESCENT, "algo.noise=discrete"),
        ("algo=dpgd", "algo.rounds=3", "algo.unit=party"),
        ("algo=psgd", "algo.rounds=3"),
    ],
    ids=" ".join,
)
def test_without_noise_sums_without_one_party_give_the_model_of_the_others(tmp_path, words) -> None:
    """Of three parties' rows in one place."""
    parties = clinics(tmp_path, *words, "algo.lam=0.1")
    pooled, plan, here = parties.pooled(), parties.plan, np.array([0, 1, 3])
    sums = sums_of(plan.algorithm, FREE, plan.problem)
    answers = [sums.ready(pooled.X[pooled.of(k)], pooled.y[pooled.of(k)], k)(np.random.default_rng(k)) for k in here]
    number = iter(range(9))

    def ask(told: bytes) -> Outcome:
        t = next(number)
        rings, floats = zip(*(answer(t, told) for answer in answers), strict=True)
        return Outcome(np.sum(rings, axis=0), here, np.array(floats))

    found = sums.release(ask).weights[0, 0]
    rows = np.concatenate([np.arange(pooled.offsets[k], pooled.offsets[k + 1]) for k in here])
    X, y = pooled.X[rows], pooled.y[rows]
    offsets = np.concatenate([[0], np.cumsum(pooled.sizes[here])])
    others = Parties(replace(pooled.data, X=X, y=y), np.arange(len(y)), offsets, X, y, X[:0], Adversary(0))
    rng = np.random.default_rng(0)
    alone = plan.algorithm.prepare(others, rng).release([FREE], rng, 1).weights[0, 0]
    np.testing.assert_allclose(found, alone, rtol=1e-4, atol=1e-5)  # in single precision
    assert np.abs(alone).max() > 0.05


def test_the_ledger_has_a_release_before_any_noise_of_it_is_drawn(tmp_path) -> None:
    """And has it once, however many sums it takes."""
    parties = clinics(tmp_path, *DESCENT)
    seen = []

    def source() -> np.random.Generator:
        seen.append(sum(entries(parties)))
        return np.random.default_rng()

    members = [
        Member(parties.plan, key, file, file.with_suffix(".ledger"), source)
        for key, file in zip(parties.keys, parties.files, strict=True)
    ]
    run(members, parties.plan)
    assert seen == [1, 2, 3, 4]
    assert entries(parties) == [1, 1, 1, 1]
    assert Ledger(parties.files[0].with_suffix(".ledger")).entries()[0].guarantees == parties.plan.facts.held


def test_a_party_gives_one_vector_to_every_sum_and_none_beyond(tmp_path) -> None:
    parties = clinics(tmp_path, *DESCENT)
    members = parties.members()
    run(members, parties.plan)
    for number in range(3):
        answer = members[0].answer(OPEN + opened(parties.plan, number, b"").content)
        assert answer[:1] == REFUSED
        assert b"already" in answer
    assert members[0].answer(OPEN + opened(parties.plan, 3, b"").content)[:1] == REFUSED


def test_what_a_party_missed_is_over_for_it(tmp_path) -> None:
    """It may come in later; an earlier sum it then answers no more."""
    parties = clinics(tmp_path, *DESCENT)
    member = parties.members()[0]
    member._contribution(opened(parties.plan, 1, np.zeros(D, "<f4").tobytes()))
    assert b"already" in member.answer(OPEN + opened(parties.plan, 0, b"").content)
    said = np.zeros(D, "<f4").tobytes()
    assert member.answer(OPEN + opened(parties.plan, 2, said).content)[:1] == MESSAGE


def test_parties_who_are_told_different_models_have_no_sum_together(tmp_path) -> None:
    parties = clinics(tmp_path, *DESCENT)
    members = parties.members()
    for member in members:  # the first sum is behind them
        member._contribution(opened(parties.plan, 0, b""))
    openings = [opened(parties.plan, 1, np.full(D, value, "<f4").tobytes()) for value in (1, 1, 1, 2)]
    assert len({parties.plan.session(opening).name for opening in openings}) == 2
    sent = [member.answer(OPEN + opening.content)[1:] for member, opening in zip(members, openings, strict=True)]
    server = Server(parties.plan.session(openings[0]))
    for k in range(3):
        server.receive(sent[k], k)
    with pytest.raises(RefusedError, match="of session"):
        server.receive(sent[3], 3)


def told(w, *clip: float, kind: str = "<f4") -> bytes:
    return np.array([*w, *clip], kind).tobytes()


@pytest.fixture(scope="module")
def answering(tmp_path_factory):
    """What party 0 answers with an algorithm."""

    @cache
    def of(words):
        parties = clinics(tmp_path_factory.mktemp("clinics"), *words)
        pooled = parties.pooled()
        return parties.plan.sums.ready(pooled.X[:60], pooled.y[:60], 0)(np.random.default_rng(0))

    return of


DPGD, PSGD = ("algo=dpgd", "algo.unit=party"), ("algo=psgd", "algo.rounds=3")
ZERO = np.zeros(D)


def with_one(entry: float) -> np.ndarray:
    return np.where(np.arange(D) == 3, entry, ZERO)


@pytest.mark.parametrize(
    ("words", "number", "said"),
    [
        (DESCENT, 0, b"x"),
        (DESCENT, 1, b""),
        (DESCENT, 1, told(ZERO)[:-1]),
        (DESCENT, 1, told(with_one(-np.inf))),
        (DESCENT, 1, told(with_one(-2e15))),
        (DPGD, 0, told(with_one(np.nan), 0.1)),
        (DPGD, 0, told(ZERO, -1)),
        (DPGD, 0, told(ZERO, LEAST_CLIP / 2)),
        (PSGD, 0, told(ZERO)),
        (PSGD, 0, told(with_one(np.nan), kind="<f8")),
        (("algo=capefm",), 0, b"x"),
    ],
    ids=str,
)
def test_a_party_answers_at_models_that_can_be_and_no_others(answering, words, number, said) -> None:
    with pytest.raises(RefusedError, match="the aggregator"):
        answering(words)(number, said)


@pytest.mark.parametrize("words", [DESCENT, (*DESCENT, "algo.noise=discrete"), DPGD, PSGD], ids=" ".join)
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_longest_models_are_answered_whatever_the_rows(answering, words, sign) -> None:
    """Else whether a party falls silent would say something about its rows."""
    longest = sign * np.where(np.arange(D) % 2, -1e15, 1e15) * (1 - 1e-6)
    clip = [0.1] if words is DPGD else []
    said = told(longest, *clip, kind="<f8" if words is PSGD else "<f4")
    ring, _ = answering(words)(1, said)
    assert ring.shape == (D + (words is DPGD),)


@pytest.mark.parametrize("noise", ["discrete", "continuous"])
def test_the_longest_maps_are_answered_whatever_a_partys_rows(noise) -> None:
    """Its mean gradient was no number in single precision, or was one, by its rows: an answer without any noise."""
    sizes, d = np.array([20, 20, 20]), 4
    terms = agreed_of(("algo=wdgd", "algo.unit=party", f"algo.noise={noise}", *COMMON))
    algorithm = terms.algorithm(for_task("regression"), "regression")
    sums = sums_of(algorithm, terms.budget, Problem(3, 60, d, colluders=1).of_sizes(sizes), "regression")
    longest = np.full(d + 1 + d * d, 1e15 * (1 - 1e-6), "<f4")  # a model, a clip, a map
    for X in (np.zeros((20, d)), np.full((20, d), 0.4)):
        ring, _ = sums.ready(X, np.ones(20), 0)(np.random.default_rng(0))(1, longest.tobytes())
        assert ring.shape == (d + 1,)
