"""What a party lets out of its machine."""

import os
from dataclasses import replace

import numpy as np
import pytest
from examples_federated import clinics, entries, run

from dpml.errors import UserError
from dpml.federated.party import Member, signing_key
from dpml.federated.sums import MESSAGE, OPEN, REFUSED, Opening
from dpml.protocols import ProtocolError, Stage, messages
from dpml.protocols.messages import SESSION_BYTES
from dpml.release.ledger import Cap, Ledger


def opening(plan, number: int = 0, told: bytes = b"") -> bytes:
    return OPEN + Opening(os.urandom(SESSION_BYTES), plan.digest, number, told).content


def test_a_release_is_in_the_ledger_of_every_party_whose_vector_left(tmp_path) -> None:
    parties = clinics(tmp_path)
    run(parties.members(), parties.plan, {2: Stage.MASKED})
    assert entries(parties) == [1, 1, 0, 1]
    (entry,) = Ledger(parties.files[0].with_suffix(".ledger")).entries()
    assert entry.guarantees == parties.plan.facts.held


def test_a_ledger_recognises_the_parties_of_a_federation_by_their_keys(tmp_path) -> None:
    plan = clinics(tmp_path, "algo=ssp", "algo.unit=party").plan
    ledger = Ledger(tmp_path / "ledger")
    ledger.enter("", plan.facts.held, parties=plan.keys)
    ledger.enter("", plan.facts.held, parties=replace(plan, seats=plan.seats[::-1]).keys)
    assert ledger.spent("party", "worst") is not None
    other = replace(plan.seats[0], key=signing_key(tmp_path / "key").public_key().public_bytes_raw())
    ledger.enter("", plan.facts.held, parties=replace(plan, seats=(other, *plan.seats[1:])).keys)
    assert ledger.spent("party", "worst") is None


def test_nothing_is_entered_when_too_few_come(tmp_path) -> None:
    parties = clinics(tmp_path)
    with pytest.raises(ProtocolError):
        run(parties.members(), parties.plan, {2: Stage.KEYS, 3: Stage.KEYS})
    assert entries(parties) == [0] * 4


def test_a_party_takes_part_in_its_own_plan_only(tmp_path) -> None:
    parties = clinics(tmp_path)
    (tmp_path / "other").mkdir()
    weaker = clinics(tmp_path / "other", "algo=ssp", "algo.lam=0.5")
    assert parties.members()[0].answer(opening(weaker.plan))[:1] == REFUSED


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
    """Rows that are not those of the plan, a ledger that cannot be written, and a cap without room."""
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
    first, again = opening(parties.plan), opening(parties.plan)
    member = parties.members()[0]
    answers = [each.answer(said) for each, said in ((member, first), (member, again), (member, first))]
    answers.append(parties.members()[0].answer(first))  # of a party that is started again
    assert [answer[:1] for answer in answers] == [MESSAGE] * 4
    assert len({messages.unpack_keys(answer[23:-72]) for answer in answers}) == 4


def test_a_model_that_cannot_be_costs_nothing(tmp_path) -> None:
    parties = clinics(tmp_path, "algo=dpgd", "algo.rounds=2")
    members = parties.members()
    length = 4 * parties.plan.problem.d
    for told in (b"", b"\xff" * length, b"\x00" * (length - 1), np.full(length // 4, np.inf, "<f4").tobytes()):
        for member in members:
            assert member.answer(opening(parties.plan, told=told))[:1] == REFUSED
    assert entries(parties) == [0] * 4


def test_a_cap_of_a_party_ends_its_part_before_anything_is_sent(tmp_path) -> None:
    parties = clinics(tmp_path)
    members = parties.members()
    members[1]._cap = Cap(0.5, 1e-5)
    made = run(members, parties.plan)
    assert made.survivors.tolist() == [0, 2, 3]
    assert Ledger(parties.files[1].with_suffix(".ledger")).entries() == []
