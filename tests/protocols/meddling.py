"""Runs of secure aggregation in which somebody meddles with messages, and the ways to do so."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from dpml.protocols import ProtocolError, RefusedError, Session, Stage, complete, messages
from dpml.protocols.identities import enrol, signed
from dpml.protocols.messages import FROM_PARTIES, Kind
from dpml.protocols.party import Party
from dpml.protocols.server import Server
from dpml.protocols.shamir import PRIME

M, D = 6, 5
Meddler = Callable[[int, bytes], list[bytes]]


def numbers(parties: int, length: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, (parties, length), dtype=np.uint64)


@dataclass
class Run:
    """A run in which somebody meddles: what comes to the server, or to the parties, is what `meddle` makes of it."""

    begun: Session
    inputs: np.ndarray
    refused: list[str] = field(default_factory=list)
    wire: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.begun, self.signers = enrol(self.begun)
        self.again()

    def again(self) -> None:
        """The same session, from the start."""
        self.server = Server(self.begun)
        self.parties = [
            Party(self.begun, k, self.signers[k], lambda x=x: (x, np.empty(0))) for k, x in enumerate(self.inputs)
        ]

    @property
    def session(self) -> Session:
        """With the roster, as soon as there is one."""
        return self.server.session

    def go(self, to_server: Meddler | None = None, to_party: Meddler | None = None) -> "Run":
        server, mail = self.server, dict.fromkeys(range(self.begun.parties))
        while server.stage is not Stage.DONE:
            for k, text in mail.items():
                for coming in [text] if to_party is None or text is None else to_party(k, text):
                    self.attempt(lambda k=k, text=coming: self.answer(k, text, to_server))
            mail = server.advance()
            self.wire += mail.values()
        self.refused += server.liars.values()
        return self

    def to(self, stage: Stage) -> Mapping[int, bytes]:
        """All honest, to the messages with which the server starts this stage."""
        mail: Mapping[int, bytes] = {}
        while self.server.stage is not stage:
            for k, party in enumerate(self.parties):
                message = party.start() if self.server.stage is Stage.KEYS else party.receive(mail[k])
                self.wire.append(message)
                self.server.receive(message, k)
            mail = self.server.advance()
        return mail

    def sent(self, kind: Kind) -> dict[int, messages.Message]:
        """What each party sent of one kind."""
        read = [messages.unpack(text, self.session.name) for text in self.wire]
        return {message.party: message for message in read if message.kind is kind}

    def answer(self, k: int, text: bytes | None, to_server: Meddler | None) -> None:
        message = self.parties[k].start() if text is None else self.parties[k].receive(text)
        self.wire.append(message)
        for arriving in to_server(k, message) if to_server else [message]:
            self.attempt(lambda arriving=arriving: self.server.receive(arriving, k))

    def attempt(self, act: Callable[[], object]) -> None:
        try:
            act()
        except RefusedError as error:
            self.refused.append(str(error))

    def assert_exact(self) -> None:
        assert np.array_equal(self.server.total, self.inputs[self.server.survivors].sum(axis=0))


def a_run(threshold: int = 4) -> Run:
    return Run(Session.of(M, D, complete(M, threshold)), numbers(M, D))


def or_none(act: Callable[[], object]):
    """What comes of it, or None when the run ends without a sum, and says so."""
    try:
        return act()
    except ProtocolError as error:
        if "no sum" not in str(error).lower():
            raise
        return None


def repacked(message: bytes, run: Run, /, **changes: object) -> bytes:
    """The message with another kind, party, body, or session, and a checksum and a signature that fit."""
    kind, party, body, signature = messages.unpack(message, run.session.name)
    change = changes.get("body")
    body = change(body) if callable(change) else body
    now = changes.get("kind", kind), changes.get("party", party)
    if kind in FROM_PARTIES and now[0] in set(Kind):
        again = signed(run.session, run.signers[party], now[0], now[1], body)
        signature = messages.unpack(again, run.session.name).signature
    return messages.pack(now[0], changes.get("session", run.session.name), now[1], body, signature)


def flipped(text: bytes, at: int = -20) -> bytes:
    at %= len(text)
    return text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :]


def resealed(content: bytes) -> bytes:
    """The content of a message with a checksum that fits."""
    return content + messages._checksum(content)


def forged(message: bytes, run: Run, by: int) -> bytes:
    """The same message, signed by another party in the name of its sender."""
    kind, party, body, _ = messages.unpack(message, run.session.name)
    return signed(run.session, run.signers[by], kind, party, body)


def out_of_field(body: bytes) -> bytes:
    return body[:-4] + PRIME.to_bytes(4, "little")


def first_twice(width: int, head: int) -> Callable[[bytes], bytes]:
    """Entries of some width behind a head, with the second one replaced by the first."""
    return lambda body: body[: head + width] + body[head : head + width] + body[head + 2 * width :]


SHARE, SEALED, KEY, PATH = 4 + messages.SHARE_BYTES, 4 + messages.SEALED_BYTES, 4 + 64 + 64, 3 * 32
SECOND, SIGNATURE = PATH + KEY, 4 + 64


Change = Callable[[bytes, Run], list[bytes]]


def now(**changes: object) -> Change:
    return lambda message, run: [repacked(message, run, **changes)]


def body(change: Callable[[bytes], bytes]) -> Change:
    return now(body=change)


# name: (stage, what party 2's message becomes, what the reason names)
TO_SERVER: dict[str, tuple[Stage, Change, str]] = {
    "truncated": (Stage.MASKED, lambda m, s: [m[:-3]], "checksum"),
    "cut to nothing": (Stage.MASKED, lambda m, s: [m[:10]], "too short"),
    "a bit flipped": (Stage.MASKED, lambda m, s: [flipped(m)], "checksum"),
    "keys of a wrong length": (Stage.KEYS, body(lambda b: b[:-1]), "length"),
    "shares of a wrong length": (Stage.SHARES, body(lambda b: b[:-1]), "length"),
    "shares without a commitment": (Stage.SHARES, body(lambda b: b[:9]), "length"),
    "vector of a wrong length": (Stage.MASKED, body(lambda b: b[8:]), "length"),
    "answer of a wrong length": (Stage.UNMASK, body(lambda b: b[:-1]), "length"),
    "answer that announces too much": (Stage.UNMASK, body(lambda b: b"\xff" + b[1:]), "255"),
    "replayed": (Stage.MASKED, lambda m, s: [m, m], "already"),
    "of another session": (Stage.MASKED, now(session=bytes(16)), "session"),
    "of an unknown party": (Stage.MASKED, now(party=99), "unknown party 99"),
    "in another's name": (Stage.MASKED, now(party=3), "in the name of party 3"),
    "of an unknown kind": (Stage.MASKED, now(kind=77), "kind 77"),
    "of another version": (Stage.MASKED, lambda m, s: [resealed(bytes([1]) + m[1:-8])], "version 1"),
    "without a signature": (Stage.CONSISTENCY, lambda m, s: [resealed(m[:30])], "no signature"),
    "signed by another": (Stage.MASKED, lambda m, s: [forged(m, s, by=3)], "signature under"),
    "another body under the signature": (Stage.MASKED, lambda m, s: [resealed(flipped(m[:-8], 30))], "signature under"),
    "another list of survivors": (Stage.CONSISTENCY, body(lambda b: bytes([0b001111])), "another list"),
    "before its time": (Stage.SHARES, now(kind=Kind.MASKED), "out of order"),
    "after its time": (Stage.MASKED, now(kind=Kind.SHARES), "out of order"),
    "a key nobody can agree with": (Stage.KEYS, body(lambda b: bytes(32) + b[32:]), "not valid"),
    "one key for both uses": (Stage.KEYS, body(lambda b: b[:32] * 2), "announced before"),
    "the key of another": (
        Stage.KEYS, lambda m, s: [repacked(m, s, body=lambda b: s.parties[0]._mask_end.key + b[32:])],
        "announced before",
    ),
    "a neighbour without a share": (Stage.SHARES, body(lambda b: b[:-SEALED]), "one share to each"),
    "two shares for one neighbour": (Stage.SHARES, body(first_twice(SEALED, 32)), "one share to each"),
    "tampered share": (Stage.SHARES, body(lambda b: flipped(b, -1)), "party 5 is left out"),
    "another's sealed shares": (
        Stage.SHARES, body(lambda b: b[:36] + b[40 + 84 : 36 + SEALED + 84] + b[36 + 88 :]), "cannot be read"
    ),
    "share not in the field": (Stage.UNMASK, body(out_of_field), "field"),
    "a share kept back": (Stage.UNMASK, body(lambda b: (5).to_bytes(4, "little") + b[4:-SHARE]), "exactly its shares"),
    "a mask key instead of a seed": (
        Stage.UNMASK, body(lambda b: (5).to_bytes(4, "little") + b[4:]), "exactly its shares"
    ),
    "a wrong share": (Stage.UNMASK, body(lambda b: flipped(b, 9)), "wrong share of party 0's secret"),
}  # fmt: skip


# name: (stage of the server after it sent, what party 2 gets, what the reason names)
TO_PARTY: dict[str, tuple[Stage, Change, str]] = {
    "for another": (Stage.SHARES, now(party=1), "for party 1"),
    "of another session": (Stage.SHARES, now(session=bytes(16)), "session"),
    "replayed": (Stage.SHARES, lambda m, s: [m, m], "out of order"),
    "survivors too soon": (Stage.MASKED, now(kind=Kind.SURVIVORS), "out of order"),
    "no path to the roster": (Stage.SHARES, body(lambda b: b[: PATH - 1]), "length"),
    "too few neighbours": (Stage.SHARES, body(lambda b: b[: PATH + KEY]), "threshold"),
    "a neighbour twice": (Stage.SHARES, body(first_twice(KEY, PATH)), "names a party twice"),
    "itself as neighbour": (
        Stage.SHARES, body(lambda b: b[:PATH] + (2).to_bytes(4, "little") + b[PATH + 4 :]), "unknown party 2"
    ),
    "the same key for two": (
        Stage.SHARES, body(lambda b: b[: PATH + 4] + b[PATH + 4 + KEY : PATH + 2 * KEY] + b[PATH + KEY :]), "key twice"
    ),
    "too few shares": (Stage.MASKED, body(lambda b: b[:SEALED]), "threshold"),
    "a stranger's shares": (Stage.MASKED, body(lambda b: (77).to_bytes(4, "little") + b[4:]), "unknown party 77"),
    "shares in another's name": (
        Stage.MASKED, body(lambda b: b[:4] + b[4 + SEALED : 2 * SEALED] + b[SEALED:]), "party 2 is left out"
    ),
    "a neighbour's keys signed by another": (
        Stage.SHARES, body(lambda b: b[: PATH + 68] + b[PATH + KEY + 68 : PATH + 2 * KEY] + b[PATH + KEY :]),
        "signature under the message KEYS of party 0",
    ),
    "survivors without it": (Stage.CONSISTENCY, body(lambda b: bytes([0b111011])), "not among the survivors"),
    "survivors of a wrong length": (Stage.CONSISTENCY, body(lambda b: b + b"\0"), "length"),
    "an unknown survivor": (Stage.CONSISTENCY, body(lambda b: bytes([0b1111111])), "unknown party"),
    "too few survivors": (Stage.CONSISTENCY, body(lambda b: bytes([0b000111])), "quorum"),
    "a list that fewer have signed": (Stage.UNMASK, body(lambda b: b[:-SIGNATURE]), "3 signatures"),
    "one signature twice": (Stage.UNMASK, body(first_twice(SIGNATURE, 0)), "names a party twice"),
    "a signature that is none": (
        Stage.UNMASK, body(lambda b: flipped(b, -1)), "signature under the message CONSISTENCY of party 3"
    ),
    "a signature of a stranger": (
        Stage.UNMASK, body(lambda b: (77).to_bytes(4, "little") + b[4:]), "not among the survivors"
    ),
}  # fmt: skip
