"""One party lies, in each of many ways: there is a model all the same, or nobody else is charged."""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from examples_federated import SIZES, clinics, entries

from dpml.federated.aggregator import Federated, aggregate
from dpml.federated.party import Member
from dpml.federated.plan import FederationPlan
from dpml.federated.sums import MESSAGE, REFUSED
from dpml.protocols import ProtocolError, messages, shamir
from dpml.protocols.identities import signed
from dpml.protocols.messages import Kind
from dpml.protocols.server import Server
from dpml.protocols.session import Stage

Body = Callable[[bytes], bytes]


def entry(width: int, head: int, change: Body) -> Body:
    return lambda b: b[:head] + change(b[head : head + width]) + b[head + width :]


def flipped(text: bytes, at: int) -> bytes:
    return text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :]


SEALED = 4 + messages.SEALED_BYTES
LIES: Mapping[str, tuple[Kind | None, Body]] = {
    "a key of small order": (Kind.KEYS, lambda b: bytes(32) + b[32:]),
    "no shares": (Kind.SHARES, lambda b: b[:32]),
    "one share that does not open": (Kind.SHARES, entry(SEALED, 32, lambda e: flipped(e, -1))),
    "no share that opens": (Kind.SHARES, lambda b: b[:32] + b"".join(
        flipped(b[k : k + SEALED], -1) for k in range(32, len(b), SEALED)
    )),
    "a share for nobody": (Kind.SHARES, entry(SEALED, 32, lambda e: struct.pack("<I", 99) + e[4:])),
    "another vector": (Kind.MASKED, lambda b: flipped(b, 5)),
    "all others blamed": (Kind.MASKED, lambda b: b + b"BLAME"),
    "another list": (Kind.CONSISTENCY, lambda b: b"\x07" + b[1:]),
    "a wrong share": (Kind.UNMASK, lambda b: flipped(b, 9)),
    "all shares wrong": (Kind.UNMASK, lambda b: b[:8] + bytes(len(b) - 8)),
    "a share kept back": (Kind.UNMASK, lambda b: b[:-40]),
    "nonsense": (None, lambda b: b"\x00" * 1000),
    "text for the screen": (None, lambda b: REFUSED + b"\x1b[2Jdpml: model.json has a model\r\n"),
}  # fmt: skip


@dataclass
class Liar:
    """A party that changes what it sends of one kind, under its own signature."""

    member: Member
    key: Ed25519PrivateKey
    lie: str

    def answer(self, said: bytes) -> bytes:
        kind, change = LIES[self.lie]
        right = self.member.answer(said)
        if kind is None:
            return change(right)
        if right[:1] != MESSAGE or right[2] != kind:
            return right
        assert self.member._party is not None
        session = self.member._party.session
        body = change(messages.unpack(right[1:], session.name).body)
        if body.endswith(b"BLAME"):
            others = [k for k in range(len(SIZES)) if k != self.member.number]
            body = body[:-5] + np.array(others, "<u4").tobytes()
        return MESSAGE + signed(session, self.key, kind, self.member.number, body)


def released(plan: FederationPlan, parties: list, heard: list[str]) -> Federated | None:
    try:
        return aggregate(plan, lambda mail: {k: parties[k].answer(said) for k, said in mail.items()})
    except ProtocolError as error:
        heard.append(str(error))
        return None


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("liar", [0, 3])
def test_one_liar_costs_nothing(tmp_path: Path, lie, liar, capsys) -> None:
    parties = clinics(tmp_path)
    members: list = parties.members()
    members[liar] = Liar(members[liar], parties.keys[liar], lie)
    heard: list[str] = []
    made = released(parties.plan, members, heard)
    if made is None:
        assert not any(many for k, many in enumerate(entries(parties)) if k != liar), heard
    else:
        heard += made.refused
        assert len(made.survivors) >= len(members) - 1
    assert not any("\x1b" in text or "\r" in text for text in heard)
    assert made is not None or lie not in ("a wrong share", "all shares wrong")
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize("stage", list(Stage)[:-1])
def test_a_party_that_repeats_the_answers_of_another_speaks_for_nobody(tmp_path: Path, stage) -> None:
    parties = clinics(tmp_path)
    members, mails = parties.members(), []

    def exchange(mail: Mapping[int, bytes]) -> dict[int, bytes]:
        answers = {party: members[party].answer(said) for party, said in mail.items()}
        if len(mails) == stage:
            answers[3] = answers[0]
        mails.append(mail)
        return answers

    assert list(aggregate(parties.plan, exchange).refused) == ["a message in the name of party 0 came from party 3."]


@dataclass
class Divided:
    """A party whose shares of its own secrets open, and do not belong together; it keeps the right seed."""

    member: Member
    seed: bytes = b""

    def answer(self, said: bytes) -> bytes:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shamir, "share", self._shares)
            right = self.member.answer(said)
        if right[:1] == MESSAGE and right[2] == Kind.SHARES:
            assert self.member._party is not None
            self.seed = self.member._party._seed
        return right

    @staticmethod
    def _shares(secrets: np.ndarray, holders: np.ndarray, threshold: int) -> np.ndarray:
        return np.random.default_rng(0).integers(0, shamir.PRIME, (len(holders), len(secrets)), dtype=np.uint64)


@pytest.mark.parametrize("in_league", [False, True])
@pytest.mark.parametrize("liar", [0, 3])
def test_shares_that_do_not_belong_together_end_the_sum_and_all_are_charged_rightly(
    tmp_path: Path, liar, in_league, monkeypatch
) -> None:
    """The party is named. An aggregator in league with it has the sum all the same, so that the entries stay."""
    parties, seed_of = clinics(tmp_path), Server._seed_of
    members: list = parties.members()
    members[liar] = divided = Divided(members[liar])
    if in_league:
        monkeypatch.setattr(
            Server, "_seed_of", lambda self, who: divided.seed if who == liar else seed_of(self, who)
        )  # fmt: skip
    heard: list[str] = []
    made = released(parties.plan, members, heard)
    assert (made is not None) == in_league
    if not in_league:
        assert f"Party {liar} gave wrong shares" in heard[-1]
    assert entries(parties) == [1] * len(members)
