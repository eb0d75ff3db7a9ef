"""What a party lets out of its machine."""

import os

import pytest
from examples_federated import clinics, run

from dpml.federated.party import Member, signing_key
from dpml.federated.relay import MESSAGE, OPEN, REFUSED, Opening
from dpml.protocols import ProtocolError, Stage
from dpml.protocols.messages import SESSION_BYTES
from dpml.release.ledger import Ledger


def opening(plan, number: int = 0, told: bytes = b"") -> bytes:
    return OPEN + Opening(os.urandom(SESSION_BYTES), plan.digest, number, told).content


def test_a_release_is_in_the_ledger_of_every_party_whose_vector_left(tmp_path) -> None:
    parties = clinics(tmp_path)
    run(parties.members(), parties.plan, {2: Stage.MASKED})
    entered = [Ledger(file.with_suffix(".ledger")).entries() for file in parties.files]
    assert [len(entries) for entries in entered] == [1, 1, 0, 1]
    assert entered[0][0].guarantees == tuple(parties.plan.guarantees)


def test_nothing_is_entered_when_too_few_come(tmp_path) -> None:
    parties = clinics(tmp_path)
    with pytest.raises(ProtocolError, match="only 2 of 4 parties"):
        run(parties.members(), parties.plan, {2: Stage.KEYS, 3: Stage.KEYS})
    assert [Ledger(file.with_suffix(".ledger")).entries() for file in parties.files] == [[]] * 4


def test_a_party_gives_its_vector_once(tmp_path) -> None:
    parties = clinics(tmp_path)
    members = parties.members()
    for _ in range(2):  # as often as it likes before
        assert members[0].answer(opening(parties.plan))[:1] == MESSAGE
    run(members, parties.plan)
    answer = members[0].answer(opening(parties.plan))
    assert answer[:1] == REFUSED
    assert b"already" in answer


def test_a_party_takes_part_in_its_own_plan_only(tmp_path) -> None:
    parties = clinics(tmp_path)
    (tmp_path / "other").mkdir()
    weaker = clinics(tmp_path / "other", "algo=ssp", "algo.lam=0.5")
    answer = parties.members()[0].answer(opening(weaker.plan))
    assert answer == REFUSED + b"party 0: the aggregator has another plan."


def test_what_is_wrong_with_the_rows_stays_with_the_party(tmp_path, capsys) -> None:
    parties = clinics(tmp_path)
    members = parties.members()
    parties.files[2].write_text("age,bmi,job,health\n" + "Eve is 41,20,mine,ill\n" * 100)
    heard: list[bytes] = []
    answer = members[2].answer
    members[2].answer = lambda said: heard.append(answer(said)) or heard[-1]  # type: ignore[method-assign]
    made = run(members, parties.plan)
    assert made.survivors.tolist() == [0, 1, 3]
    assert heard[-1] == REFUSED + b"party 2: it cannot take part; its own log says why."
    assert not any(b"Eve" in told for told in heard)
    assert "Eve" in capsys.readouterr().err


def test_rows_that_are_not_those_of_the_plan_are_refused(tmp_path) -> None:
    parties = clinics(tmp_path)
    with pytest.raises(Exception, match="the plan says 60 of 'clinic0'"):
        Member(parties.plan, parties.keys[0], parties.files[1], tmp_path / "ledger")


def test_a_signing_key_is_for_its_owner_alone(tmp_path) -> None:
    made = signing_key(tmp_path / "own.key")
    assert (tmp_path / "own.key").stat().st_mode & 0o077 == 0
    assert signing_key(tmp_path / "own.key").private_bytes_raw() == made.private_bytes_raw()
