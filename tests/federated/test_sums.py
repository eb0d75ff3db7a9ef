"""What parties alone on their machines send, what they refuse, and the model of the sum."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from examples_federated import COMMON, clinics, entries, run

from dpml.algorithms.quadratic.sufficient_statistics import SufficientStatistics
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.federated.agreed import agreed_of
from dpml.federated.party import Member, signing_key
from dpml.federated.sums import MESSAGE, OPEN, REFUSED, Opening, sums_of
from dpml.optim.gradients import LEAST_CLIP
from dpml.optim.losses import LOSSES, for_task
from dpml.privacy import Adversary, Budget, Problem
from dpml.protocols import FixedPoint, ProtocolError, Stage, messages
from dpml.protocols.messages import RefusedError
from dpml.protocols.server import Server
from dpml.protocols.transports import Outcome
from dpml.release.ledger import Cap, Ledger

DESCENT = ("algo=ssp_descent", "algo.rounds=2")  # three secure sums
FREE = Budget(np.inf, 1e-5)
D = 6


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


@pytest.mark.parametrize("stage", list(Stage)[: Stage.DONE])
@pytest.mark.parametrize(("words", "first"), [(("algo=ssp",), 0), (("algo=capefm",), 0), (DESCENT, 1)])
def test_a_party_that_falls_silent_is_done_without_and_charged_for_a_vector_that_left(
    tmp_path, stage, words, first
) -> None:
    parties = clinics(tmp_path, *words)
    made = run(parties.members(), parties.plan, {2: stage}, first)
    left = stage > Stage.MASKED or first > 0
    assert made.survivors.tolist() == ([0, 1, 2, 3] if left else [0, 1, 3])
    assert np.isfinite(made.model.weights).all()
    assert entries(parties) == [1, 1, int(left), 1]


@pytest.mark.parametrize("first", [0, 1])
def test_too_few_parties_end_a_release_and_are_charged_for_what_is_out(tmp_path, first) -> None:
    parties = clinics(tmp_path, *DESCENT)
    with pytest.raises(ProtocolError):
        run(parties.members(), parties.plan, {2: Stage.KEYS, 3: Stage.KEYS}, first)
    assert entries(parties) == [first] * 4


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


def opened(plan, number: int = 0, told: bytes = b"", name: bytes = bytes(16)) -> Opening:
    return Opening(name, plan.digest, number, told)


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
    parties = clinics(tmp_path, *DESCENT)
    seen = []

    def source() -> np.random.Generator:
        seen.append(sum(entries(parties)))
        return np.random.default_rng()

    run(parties.members(source=source), parties.plan)
    assert seen == [1, 2, 3, 4]
    assert entries(parties) == [1, 1, 1, 1]
    assert Ledger(parties.files[0].with_suffix(".ledger")).entries()[0].guarantees == parties.plan.facts.held


def test_a_party_gives_one_vector_to_every_sum_and_none_beyond(tmp_path) -> None:
    """A party may come in later, and then answers no more to an earlier sum, which it missed."""
    parties, said = clinics(tmp_path, *DESCENT), np.zeros(D, "<f4").tobytes()
    members, late = parties.members(), parties.members()[0]
    late._contribution(opened(parties.plan, 1, said))
    assert b"already" in late.answer(OPEN + opened(parties.plan).content)
    assert late.answer(OPEN + opened(parties.plan, 2, said).content)[:1] == MESSAGE
    run(members, parties.plan)
    for number in range(3):
        answer = members[0].answer(OPEN + opened(parties.plan, number, b"").content)
        assert answer[:1] == REFUSED
        assert b"already" in answer
    assert b"only 3 secure sums" in members[0].answer(OPEN + opened(parties.plan, 3, b"").content)


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
def test_a_model_that_cannot_be_has_no_answer_and_costs_nothing(tmp_path, words, number, said) -> None:
    parties = clinics(tmp_path, *words)
    answer = parties.members()[0].answer(OPEN + opened(parties.plan, number, said).content)
    assert (answer[:1], b"the aggregator" in answer) == (REFUSED, True)
    assert entries(parties) == [0] * 4


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


def test_a_ledger_recognises_the_parties_of_a_federation_by_their_keys(tmp_path) -> None:
    plan = clinics(tmp_path, "algo=ssp", "algo.unit=party").plan
    ledger = Ledger(tmp_path / "ledger")
    ledger.enter("", plan.facts.held, parties=plan.keys)
    ledger.enter("", plan.facts.held, parties=replace(plan, seats=plan.seats[::-1]).keys)
    assert ledger.spent("party", "worst") is not None
    other = replace(plan.seats[0], key=signing_key(tmp_path / "key").public_key().public_bytes_raw())
    ledger.enter("", plan.facts.held, parties=replace(plan, seats=(other, *plan.seats[1:])).keys)
    assert ledger.spent("party", "worst") is None


def test_a_party_takes_part_in_its_own_plan_only(tmp_path) -> None:
    parties = clinics(tmp_path)
    (tmp_path / "other").mkdir()
    weaker = clinics(tmp_path / "other", "algo=ssp", "algo.lam=0.5")
    assert parties.members()[0].answer(OPEN + opened(weaker.plan).content)[:1] == REFUSED


def test_what_is_wrong_with_the_rows_stays_with_the_party(tmp_path, capsys) -> None:
    parties = clinics(tmp_path)
    members = parties.members()
    parties.files[2].write_text("age,bmi,job,health\n" + "Eve is 41,20,mine,ill\n" * 100)
    heard: list[bytes] = []
    answer = members[2].answer
    members[2].answer = lambda said: heard.append(answer(said)) or heard[-1]  # type: ignore[method-assign]
    made = run(members, parties.plan)
    assert made.survivors.tolist() == [0, 1, 3]
    assert heard[-1][:1] == REFUSED
    assert not any(b"Eve" in told for told in heard)
    assert "Eve" in capsys.readouterr().err


def test_what_a_party_cannot_do_is_found_before_others_wait(tmp_path) -> None:
    parties = clinics(tmp_path)
    own, other = parties.files[:2]
    for file, ledger, cap in (
        (other, tmp_path / "ledger", None), (own, tmp_path, None), (own, tmp_path / "nowhere" / "ledger", None),
        (own, tmp_path / "ledger", Cap(0.5, 1e-5)),
    ):  # fmt: skip
        with pytest.raises(UserError):
            Member(parties.plan, parties.keys[0], file, ledger, cap=cap)
    assert not (tmp_path / "ledger").exists()


def test_a_signing_key_is_for_its_owner_alone(tmp_path) -> None:
    path = tmp_path / "own.key"
    made = signing_key(path)
    assert path.stat().st_mode & 0o077 == 0
    assert signing_key(path).private_bytes_raw() == made.private_bytes_raw()
    path.chmod(0o644)
    with pytest.raises(UserError, match="can be read by others"):
        signing_key(path)


def test_an_opening_that_is_used_again_begins_a_session_with_other_keys(tmp_path) -> None:
    """Keys and signatures after the first message are bound to the new keys, and an old run is of no use."""
    parties = clinics(tmp_path)
    first, again = (OPEN + opened(parties.plan, name=bytes(15) + name).content for name in (b"1", b"2"))
    member = parties.members()[0]
    answers = [each.answer(said) for each, said in ((member, first), (member, again), (member, first))]
    answers.append(parties.members()[0].answer(first))  # of a party that is started again
    assert [answer[:1] for answer in answers] == [MESSAGE] * 4
    assert len({messages.unpack_keys(answer[23:-72]) for answer in answers}) == 4
