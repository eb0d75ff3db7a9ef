"""One party lies, in each of many ways: there is a model all the same, or nobody else is charged."""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from examples_federated import stated

from dpml.federated.aggregator import Federated, aggregate
from dpml.federated.agreed import agreed_of
from dpml.federated.party import Member
from dpml.federated.plan import FederationPlan, Seat, most_dropouts
from dpml.federated.sums import MESSAGE, REFUSED
from dpml.protocols import ProtocolError, messages, shamir
from dpml.protocols.identities import signed
from dpml.protocols.messages import Kind
from dpml.protocols.server import Server
from dpml.release.ledger import Ledger

ROWS, PARTIES = 30, 5


@cache
def plan_of() -> tuple[FederationPlan, tuple[Ed25519PrivateKey, ...]]:
    keys = tuple(Ed25519PrivateKey.generate() for _ in range(PARTIES))
    seats = tuple(Seat(f"p{k}", ROWS, key.public_key().public_bytes_raw()) for k, key in enumerate(keys))
    terms = agreed_of(("algo=ssp", "eps=1", "delta=1e-5", "dataset.label=health"))
    plan = FederationPlan(terms, stated(), seats, 1, most_dropouts(PARTIES, 1))
    for key in keys:
        plan = plan.signed(key)
    return plan, keys


def table() -> str:
    rng = np.random.default_rng(0)
    columns = {"age": rng.integers(0, 100, ROWS), "bmi": rng.integers(10, 60, ROWS), "job": ["farm"] * ROWS}
    return pd.DataFrame({**columns, "health": rng.choice(["ill", "well"], ROWS)}).to_csv(index=False)


Body = Callable[[bytes], bytes]


def entry(width: int, head: int, change: Body) -> Body:
    """Change the first entry after a head."""
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
            others = [k for k in range(PARTIES) if k != self.member.number]
            body = body[:-5] + np.array(others, "<u4").tobytes()
        return MESSAGE + signed(session, self.key, kind, self.member.number, body)


def released(plan: FederationPlan, parties: list, heard: list[str]) -> Federated | None:
    try:
        return aggregate(
            plan, range(len(parties)), lambda mail: {k: parties[k].answer(said) for k, said in mail.items()}
        )
    except ProtocolError as error:
        heard.append(str(error))
        return None


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "rows.csv").write_text(table())
    return tmp_path / "rows.csv"


@pytest.mark.parametrize("lie", LIES)
def test_one_liar_costs_nothing(file: Path, lie, capsys) -> None:
    plan, keys = plan_of()
    for liar in (0, 3):
        ledgers = [file.with_name(f"{liar}-{k}.ledger") for k in range(PARTIES)]
        members: list = [Member(plan, key, file, ledger) for key, ledger in zip(keys, ledgers, strict=True)]
        members[liar] = Liar(members[liar], keys[liar], lie)
        heard: list[str] = []
        made = released(plan, members, heard)
        if made is None:
            charged = [k for k in range(PARTIES) if k != liar and Ledger(ledgers[k]).entries()]
            assert not charged, (liar, heard)
        else:
            heard += made.refused
            assert len(made.survivors) >= PARTIES - 1
        assert not any("\x1b" in text or "\r" in text for text in heard)
        if lie in ("a wrong share", "all shares wrong"):
            assert made is not None
    assert "\x1b" not in capsys.readouterr().err


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
def test_shares_that_do_not_belong_together_end_the_sum_and_all_are_charged_rightly(
    file: Path, in_league, monkeypatch
) -> None:
    """The party is named. An aggregator in league with it has the sum all the same, so that the entries stay."""
    (plan, keys), seed_of = plan_of(), Server._seed_of
    for liar in (0, 4):
        ledgers = [file.with_name(f"{liar}-{k}.ledger") for k in range(PARTIES)]
        members: list = [Member(plan, key, file, ledger) for key, ledger in zip(keys, ledgers, strict=True)]
        members[liar] = divided = Divided(members[liar])
        if in_league:
            monkeypatch.setattr(
                Server,
                "_seed_of",
                lambda self, who, liar=liar, told=divided: told.seed if who == liar else seed_of(self, who),
            )
        heard: list[str] = []
        made = released(plan, members, heard)
        assert (made is not None) == in_league
        if not in_league:
            assert f"Party {liar} gave wrong shares" in heard[-1]
        assert [len(Ledger(ledger).entries()) for ledger in ledgers] == [1] * PARTIES
