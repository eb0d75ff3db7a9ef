"""Secure aggregation: exact sums under drop-outs, every fault refused or fatal, masks uniform, nothing secret said."""

import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpml.protocols import (
    ProtocolError,
    RefusedError,
    Session,
    Stage,
    Topology,
    complete,
    in_process,
    messages,
    secure_sum,
)
from dpml.protocols.messages import Kind
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

    session: Session
    inputs: np.ndarray
    refused: list[str] = field(default_factory=list)
    wire: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server = Server(self.session)
        self.parties = [Party(self.session, k, x) for k, x in enumerate(self.inputs)]

    def go(self, to_server: Meddler | None = None, to_party: Meddler | None = None) -> "Run":
        server, mail = self.server, dict.fromkeys(range(self.session.parties))
        while server.stage is not Stage.DONE:
            for k, text in mail.items():
                for coming in [text] if to_party is None or text is None else to_party(k, text):
                    self.attempt(lambda k=k, text=coming: self.answer(k, text, to_server))
            mail = server.advance()
            self.wire += mail.values()
        return self

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


def a_run(threshold: int = 3) -> Run:
    return Run(Session.of(M, D, complete(M, threshold)), numbers(M, D))


def or_none(act: Callable[[], object]):
    """What comes of it, or None when the run ends without a sum, and says so."""
    try:
        return act()
    except ProtocolError as error:
        if "no sum" not in str(error).lower():
            raise
        return None


# ---- sums


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_sum_is_exact_down_to_the_threshold_and_refused_below(data: st.DataObject) -> None:
    parties = data.draw(st.integers(2, 7))
    threshold = data.draw(st.integers(2, parties))
    silent = data.draw(st.dictionaries(st.integers(0, parties - 1), st.sampled_from(list(Stage)), max_size=parties))
    inputs = numbers(parties, 3, data.draw(st.integers(0, 99)))
    session = Session.of(parties, 3, complete(parties, threshold))
    to_the_end = [k for k in range(parties) if silent.get(k, Stage.DONE) is Stage.DONE]
    if len(to_the_end) < threshold:
        with pytest.raises(ProtocolError, match=f"fewer than the {threshold}"):
            in_process(session, inputs, None, silent)
        return
    outcome = in_process(session, inputs, None, silent)
    sent = [k for k in range(parties) if silent.get(k, Stage.DONE) > Stage.MASKED]
    assert outcome.survivors.tolist() == sent
    assert np.array_equal(outcome.total, inputs[sent].sum(axis=0))
    assert outcome.refused == ()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_on_a_ring_a_sum_is_exact_or_there_is_none(data: st.DataObject) -> None:
    """Few neighbours, and more drop-outs than any ring would be set up for."""
    parties = data.draw(st.integers(6, 9))
    session = Session.of(parties, 3, Topology(4, data.draw(st.integers(2, 4)), 4, 1))
    silent = data.draw(st.dictionaries(st.integers(0, parties - 1), st.sampled_from(list(Stage)), max_size=4))
    inputs = numbers(parties, 3)
    outcome = or_none(lambda: in_process(session, inputs, None, silent))
    if outcome is None:
        return
    assert np.array_equal(outcome.total, inputs[outcome.survivors].sum(axis=0))


def test_a_ring_as_chosen_for_many_parties() -> None:
    inputs = numbers(60, 4)
    session = Session.of(60, 4, Topology(20, 6, 42, 10))
    silent = {int(k): Stage(i % 4) for i, k in enumerate(np.random.default_rng(2).permutation(60)[:12])}
    outcome = in_process(session, inputs, None, silent)
    assert np.array_equal(outcome.total, inputs[outcome.survivors].sum(axis=0))
    assert len(outcome.survivors) == 60 - sum(stage <= Stage.MASKED for stage in silent.values())


def test_a_secure_sum_of_real_vectors() -> None:
    values = np.random.default_rng(0).normal(size=(M, 40)).clip(-3, 3)
    found = secure_sum(values, 3.0, np.random.default_rng(1), dropouts={4: Stage.MASKED, 0: Stage.UNMASK})
    assert found.survivors.tolist() == [0, 1, 2, 3, 5]
    assert np.abs(found.total - values[found.survivors].sum(axis=0)).max() < found.error + 1e-14
    assert found.error < 1e-15
    with pytest.raises(ProtocolError, match=r"out of the range of the codec, \[-2, 2\]"):
        secure_sum(values, 2.0, np.random.default_rng(1))


# ---- faults: what is refused, in which words, and what becomes of the sum


def repacked(message: bytes, of: Session, /, **changes: object) -> bytes:
    """The message with another kind, party, body, or session, and a checksum that fits."""
    kind, party, body = messages.unpack(message, of.name)
    change = changes.get("body")
    return messages.pack(
        changes.get("kind", kind),
        changes.get("session", of.name),
        changes.get("party", party),
        change(body) if callable(change) else body,
    )


def flipped(text: bytes, at: int = -20) -> bytes:
    at %= len(text)
    return text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :]


def out_of_field(body: bytes) -> bytes:
    return body[:-4] + PRIME.to_bytes(4, "little")


def first_twice(width: int, head: int) -> Callable[[bytes], bytes]:
    """Entries of some width behind a head, with the second one replaced by the first."""
    return lambda body: body[: head + width] + body[head : head + width] + body[head + 2 * width :]


SHARE, SEALED, KEY = 4 + messages.SHARE_BYTES, 4 + messages.SEALED_BYTES, 4 + 64

# name: (stage, what party 2's message becomes, the reason given, whether the run still ends with a sum)
TO_SERVER = {
    "truncated": (Stage.MASKED, lambda m, s: [m[:-3]], "damaged: its checksum does not match", True),
    "cut to nothing": (Stage.MASKED, lambda m, s: [m[:10]], "a message of 10 bytes is too short", True),
    "a bit flipped": (Stage.MASKED, lambda m, s: [flipped(m)], "damaged: its checksum does not match", True),
    "keys of a wrong length": (
        Stage.KEYS,
        lambda m, s: [repacked(m, s, body=lambda b: b[:-1])],
        "KEYS has a wrong length: 63 bytes where 64",
        True,
    ),
    "shares of a wrong length": (
        Stage.SHARES,
        lambda m, s: [repacked(m, s, body=lambda b: b[:-1])],
        "SHARES has a wrong length",
        True,
    ),
    "shares without a commitment": (
        Stage.SHARES,
        lambda m, s: [repacked(m, s, body=lambda b: b[:9])],
        "9 bytes hold no commitment",
        True,
    ),
    "vector of a wrong length": (
        Stage.MASKED,
        lambda m, s: [repacked(m, s, body=lambda b: b[8:])],
        "MASKED has a wrong length: 32 bytes where 40",
        True,
    ),
    "answer of a wrong length": (
        Stage.UNMASK,
        lambda m, s: [repacked(m, s, body=lambda b: b[:-1])],
        "UNMASK has a wrong length",
        True,
    ),
    "answer that announces too much": (
        Stage.UNMASK,
        lambda m, s: [repacked(m, s, body=lambda b: b"\xff" + b[1:])],
        "announces 255 shares",
        True,
    ),
    "replayed": (Stage.MASKED, lambda m, s: [m, m], "party 2, which has sent this message already", True),
    "of another session": (
        Stage.MASKED,
        lambda m, s: [repacked(m, s, session=bytes(16))],
        "of session 0{32} came to session",
        True,
    ),
    "of an unknown party": (
        Stage.MASKED,
        lambda m, s: [repacked(m, s, party=99)],
        "unknown party 99: there are 6",
        True,
    ),
    "in another's name": (
        Stage.MASKED,
        lambda m, s: [repacked(m, s, party=3)],
        "in the name of party 3 came from party 2",
        True,
    ),
    "of an unknown kind": (
        Stage.MASKED,
        lambda m, s: [repacked(m, s, kind=77)],
        "of unknown kind 77 came from party 2",
        True,
    ),
    "before its time": (
        Stage.SHARES,
        lambda m, s: [repacked(m, s, kind=Kind.MASKED)],
        "MASKED came from party 2 when SHARES was due: replayed, late or out of order",
        True,
    ),
    "a key nobody can agree with": (
        Stage.KEYS,
        lambda m, s: [repacked(m, s, body=lambda b: bytes(32) + b[32:])],
        "public key of party 2 is not valid",
        True,
    ),
    "one key for both uses": (
        Stage.KEYS,
        lambda m, s: [repacked(m, s, body=lambda b: b[:32] * 2)],
        "key of party 2 has been announced before",
        True,
    ),
    "a neighbour without a share": (
        Stage.SHARES,
        lambda m, s: [repacked(m, s, body=lambda b: b[:-SEALED])],
        "one share to each of its 5 neighbours",
        True,
    ),
    "two shares for one neighbour": (
        Stage.SHARES,
        lambda m, s: [repacked(m, s, body=first_twice(SEALED, 32))],
        "one share to each of its 5",
        True,
    ),
    "tampered share": (
        Stage.SHARES,
        lambda m, s: [repacked(m, s, body=lambda b: flipped(b, -1))],
        "share from party 2 for party 5 does not decrypt",
        True,
    ),
    "another's sealed shares": (
        Stage.SHARES,
        lambda m, s: [repacked(m, s, body=lambda b: b[:36] + b[40 + 84 : 36 + SEALED + 84] + b[36 + 88 :])],
        "does not decrypt",
        True,
    ),
    "share not in the field": (
        Stage.UNMASK,
        lambda m, s: [repacked(m, s, body=out_of_field)],
        "party 2 is out of range: not an element",
        True,
    ),
    "a share kept back": (
        Stage.UNMASK,
        lambda m, s: [repacked(m, s, body=lambda b: (5).to_bytes(4, "little") + b[4:-SHARE])],
        "party 2 must send a share of the seed of each survivor",
        True,
    ),
    "a mask key instead of a seed": (
        Stage.UNMASK,
        lambda m, s: [repacked(m, s, body=lambda b: (5).to_bytes(4, "little") + b[4:])],
        "of the mask key of each party that dropped out, no others",
        True,
    ),
    "a wrong share": (
        Stage.UNMASK,
        lambda m, s: [repacked(m, s, body=lambda b: flipped(b, 9))],
        "no sum|No sum",
        False,
    ),
}


@pytest.mark.parametrize("fault", TO_SERVER)
def test_a_fault_on_the_way_to_the_server(fault: str) -> None:
    stage, change, reason, ends = TO_SERVER[fault]
    run = a_run()

    def meddle(k: int, message: bytes) -> list[bytes]:
        return change(message, run.session) if k == 2 and run.server.stage is stage else [message]

    if not ends:
        with pytest.raises(ProtocolError, match=reason):
            run.go(to_server=meddle)
        with pytest.raises(ProtocolError, match="there is no sum yet"):
            _ = run.server.total
        return
    run.go(to_server=meddle)
    run.assert_exact()
    assert len(run.refused) == 1
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(run.refused[0])
    lost = stage <= Stage.MASKED and fault not in ("replayed", "tampered share", "another's sealed shares")
    assert (2 in run.server.survivors) is not lost


def test_a_message_of_an_earlier_stage_is_refused() -> None:
    run, old = a_run(), {}

    def meddle(k: int, message: bytes) -> list[bytes]:
        old.setdefault(k, message)
        return [message, old[k]] if run.server.stage is Stage.MASKED and k == 1 else [message]

    run.go(to_server=meddle).assert_exact()
    assert run.refused == ["a message KEYS came from party 1 when MASKED was due: replayed, late or out of order."]


def test_a_second_party_of_the_same_number_is_refused() -> None:
    session = Session.of(3, D, complete(3, 2))
    server = Server(session)
    server.receive(Party(session, 0, numbers(3, D)[0]).start())
    with pytest.raises(RefusedError, match="KEYS came from party 0, which has sent this message already"):
        server.receive(Party(session, 0, numbers(3, D)[1]).start())
    with pytest.raises(ProtocolError, match="party 3 is not one of the 3 parties, 0 to 2"):
        Party(session, 3, numbers(3, D)[0])


def test_who_dropped_out_does_not_come_back() -> None:
    run = a_run()
    kept: list[bytes] = []

    def meddle(k: int, message: bytes) -> list[bytes]:
        if k == 4 and run.server.stage is Stage.MASKED:
            kept.append(repacked(message, run.session, kind=Kind.UNMASK))
            return []
        return [message]

    late: list[str] = []

    def also(k: int, message: bytes) -> list[bytes]:
        if run.server.stage is Stage.UNMASK and k == 0:
            try:
                run.server.receive(kept[0])
            except RefusedError as error:
                late.append(str(error))
        return meddle(k, message)

    run.go(to_server=also).assert_exact()
    assert late == ["a message UNMASK came from party 4, which has dropped out before."]


def test_numbers_beside_must_be_finite() -> None:
    session = Session.of(3, D, complete(3, 2), beside=1)
    beside = np.array([[1.0], [np.nan], [2.0]])
    inputs = numbers(3, D)
    outcome = in_process(session, inputs, beside)
    assert outcome.refused == ("a number from party 1 is out of range: not finite.",)
    assert outcome.survivors.tolist() == [0, 2]
    assert np.array_equal(outcome.total, inputs[[0, 2]].sum(axis=0))
    assert outcome.beside.tolist() == [[1.0], [2.0]]


# name: (stage of the server after it sent, what party 2 gets, the reason it gives)
TO_PARTY = {
    "for another": (Stage.SHARES, lambda m, s: [repacked(m, s, party=1)], "for party 1 came to party 2"),
    "of another session": (Stage.SHARES, lambda m, s: [repacked(m, s, session=bytes(16))], "of session"),
    "replayed": (Stage.SHARES, lambda m, s: [m, m], "NEIGHBOURS when INBOX was due: replayed or out of order"),
    "survivors too soon": (
        Stage.MASKED,
        lambda m, s: [repacked(m, s, kind=Kind.SURVIVORS)],
        "SURVIVORS when INBOX was due",
    ),
    "too few neighbours": (
        Stage.SHARES,
        lambda m, s: [repacked(m, s, body=lambda b: b[:KEY])],
        "sees 2 parties with itself, fewer than",
    ),
    "a neighbour twice": (
        Stage.SHARES,
        lambda m, s: [repacked(m, s, body=first_twice(KEY, 0))],
        "NEIGHBOURS for party 2 names a party twice",
    ),
    "itself as neighbour": (
        Stage.SHARES,
        lambda m, s: [repacked(m, s, body=lambda b: (2).to_bytes(4, "little") + b[4:])],
        "names party 2, unknown here",
    ),
    "the same key for two": (
        Stage.SHARES,
        lambda m, s: [repacked(m, s, body=lambda b: b[:4] + b[4 + KEY : 2 * KEY] + b[KEY:])],
        "got a public key twice",
    ),
    "a stranger's shares": (
        Stage.MASKED,
        lambda m, s: [repacked(m, s, body=lambda b: (77).to_bytes(4, "little") + b[4:])],
        "INBOX for party 2 names party 77, unknown here",
    ),
    "shares in another's name": (
        Stage.MASKED,
        lambda m, s: [repacked(m, s, body=lambda b: b[:4] + b[4 + SEALED : 2 * SEALED] + b[SEALED:])],
        "share from party 0 for party 2 does not decrypt",
    ),
    "survivors without it": (
        Stage.UNMASK,
        lambda m, s: [repacked(m, s, body=lambda b: b[:8] + b[12:])],
        "is not among the survivors",
    ),
    "a survivor twice": (
        Stage.UNMASK,
        lambda m, s: [repacked(m, s, body=lambda b: b + b[:4])],
        "SURVIVORS for party 2 names a party twice",
    ),
    "an unknown survivor": (
        Stage.UNMASK,
        lambda m, s: [repacked(m, s, body=lambda b: b + b"\x63\0\0\0")],
        "names party 99, unknown here",
    ),
    "too few survivors": (
        Stage.UNMASK,
        lambda m, s: [repacked(m, s, body=lambda b: b[4:12])],
        "fewer than the threshold 3",
    ),
}


@pytest.mark.parametrize("fault", TO_PARTY)
def test_a_fault_on_the_way_to_a_party(fault: str) -> None:
    stage, change, reason = TO_PARTY[fault]
    run = a_run()
    run.go(to_party=lambda k, m: change(m, run.session) if k == 2 and run.server.stage is stage else [m])
    run.assert_exact()
    assert len(run.refused) == 1
    assert reason in run.refused[0]


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_damage_on_the_wire_is_refused_or_ends_the_run(data: st.DataObject) -> None:
    """Flipped, cut, lost, doubled or exchanged messages, in any number and anywhere: never a wrong sum."""
    run, seen = a_run(threshold=data.draw(st.integers(2, 5))), [b"x" * 40]

    def damage(k: int, message: bytes) -> list[bytes]:
        seen.append(message)
        what = data.draw(st.sampled_from(["keep"] * 12 + ["flip", "cut", "lose", "double", "another"]))
        at = data.draw(st.integers(0, len(message) - 1)) if what in ("flip", "cut") else 0
        return {
            "keep": [message],
            "flip": [flipped(message, at)],
            "cut": [message[:at]],
            "lose": [],
            "double": [message, message],
            "another": [seen[len(seen) // 2], message],
        }[what]

    if or_none(lambda: run.go(to_server=damage, to_party=damage)) is not None:
        run.assert_exact()


def test_an_error_says_what_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A seal that opens for nobody: all neighbours refuse it and drop out, and the end of the run says why."""
    pack_shares = messages.pack_shares
    monkeypatch.setattr(
        messages, "pack_shares", lambda c, sealed: pack_shares(c, [(who, flipped(text)) for who, text in sealed])
    )
    with pytest.raises(ProtocolError, match=r"only 0 of 6 .* Refused, the first of 6 .* does not decrypt"):
        in_process(Session.of(M, D), numbers(M, D))


# ---- secrets


def test_a_party_gives_one_secret_of_each_peer_away_and_never_both() -> None:
    run = a_run()
    run.go(to_server=lambda k, m: [] if (k, run.server.stage) in ((1, Stage.MASKED), (4, Stage.SHARES)) else [m])
    for message in run.wire:
        kind, _, body = messages.unpack(message, run.session.name)
        if kind is Kind.UNMASK:
            seeds, keys = ([who for who, _ in part] for part in messages.unpack_unmask(body))
            assert (seeds, keys) == ([0, 2, 3, 5], [1])
    # a server that then claims that others survived gets nothing more, from anybody
    for k, survivors in itertools.product((0, 2, 3, 5), ([0, 1, 2, 3, 5], [0, 2, 3], [0, 2, 3, 5])):
        lie = messages.pack(Kind.SURVIVORS, run.session.name, k, messages.pack_survivors(survivors))
        with pytest.raises(RefusedError, match="SURVIVORS when none was due"):
            run.parties[k].receive(lie)
        assert not run.parties[k]._held
    run.assert_exact()


def test_a_party_keeps_its_state_when_it_refuses() -> None:
    run = a_run()

    def twice(k: int, message: bytes) -> list[bytes]:
        return [flipped(message), repacked(message, run.session, party=k ^ 1), message]

    run.go(to_party=twice).assert_exact()
    assert len(run.refused) == 2 * 3 * M
    assert len(run.server.survivors) == M


def test_masked_vectors_are_uniform_and_unrelated_to_the_input() -> None:
    """Chi-squared on the bytes of zero vectors; the system's randomness: false-alarm rate 1e-9 each, 12 tests."""
    session = Session.of(3, 20_000, complete(3, 2))
    zeros = np.zeros((3, 20_000), dtype=np.uint64)
    run = Run(session, zeros).go()
    run.assert_exact()
    vectors = [messages.unpack(m, session.name) for m in run.wire]
    vectors = [np.frombuffer(body, np.uint8) for kind, _, body in vectors if kind is Kind.MASKED]
    assert len(vectors) == 3
    words = [v.view("<u8") for v in vectors]
    between = [(words[i] - words[j]).view(np.uint8) for i, j in ((0, 1), (0, 2), (1, 2))]
    partial = [(words[i] + words[j]).view(np.uint8) for i, j in ((0, 1), (0, 2), (1, 2))]
    for found in (*vectors, *between, *partial, sum(words).view(np.uint8)):  # even the sum keeps its self masks
        assert stats.chisquare(np.bincount(found, minlength=256)).pvalue > 1e-9
    for a, b in itertools.combinations(vectors, 2):
        assert abs(np.corrcoef(a, b)[0, 1]) < 6.2 / np.sqrt(len(a))


def test_runs_share_no_randomness() -> None:
    """The same inputs in the same session, twice: no key, share or masked vector comes again."""
    session = Session.of(3, D, complete(3, 2))
    one, two = ({m[21:] for m in Run(session, numbers(3, D)).go().wire if m[0] != Kind.SURVIVORS} for _ in range(2))
    assert not one & two


def test_nothing_secret_is_printed_or_logged(caplog: pytest.LogCaptureFixture, capsys) -> None:
    caplog.set_level(logging.DEBUG)
    said: list[str] = []
    secrets: list[bytes] = []

    def meddle(run: Run, stage: Stage, change, k: int, message: bytes) -> list[bytes]:
        party = run.parties[k]
        said.extend((repr(party), str(party), repr(run.server), repr(run.session)))
        secrets.extend(key.private_bytes_raw() for key in (party._sealing, party._masking))
        secrets.extend((run.inputs[k].tobytes(), *party._held.values()))
        secrets.extend([party._seed] if hasattr(party, "_seed") else [])
        return change(message, run.session) if k == 2 and run.server.stage is stage else [message]

    for way, faults in (("to_server", TO_SERVER), ("to_party", TO_PARTY)):
        for stage, change, *_ in faults.values():
            run = a_run()
            try:
                run.go(**{way: partial(meddle, run, stage, change)})
            except ProtocolError as error:
                said.append(str(error))
            said += run.refused
    captured = capsys.readouterr()
    text = " ".join({*said, captured.out, captured.err, caplog.text})
    assert len(set(secrets)) > 500
    for secret in set(secrets):
        for part in (secret[:8], secret[-8:]):
            number = int.from_bytes(part, "little")
            assert not any(form in text for form in (part.hex(), str(number), f"{number:x}", repr(part)[2:-1]))


# ---- bytes, and sessions that cannot be


def test_traffic_counts_the_real_messages() -> None:
    """Against the messages themselves, and against their sizes by hand: 29 bytes around each body."""
    parties, d, beside = 7, 11, 3
    session = Session.of(parties, d, complete(parties, 4), beside)
    traffic = in_process(session, numbers(parties, d), np.ones((parties, beside)), {}).traffic
    peers = parties - 1
    sent = 4 * 29 + 64 + 32 + peers * (4 + 88) + 8 * (d + beside) + 4 + parties * (4 + 36)
    received = 3 * 29 + peers * 68 + peers * (4 + 88) + parties * 4
    assert traffic.sent.tolist() == [sent] * parties
    assert traffic.received.tolist() == [received] * parties
    assert traffic.server == parties * (sent + received)
    run = a_run()
    run.go()
    whole = in_process(run.session, run.inputs).traffic
    assert whole.server == sum(map(len, run.wire))


def test_traffic_with_drop_outs_is_less() -> None:
    session = Session.of(M, D, complete(M, 3))
    traffic = in_process(session, numbers(M, D), None, {0: Stage.KEYS, 1: Stage.MASKED}).traffic
    assert traffic.sent[0] == traffic.received[0] == 0
    assert traffic.sent[1] < traffic.sent[2]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Session.of(6, 0), "1 to 268435456 entries"),
        (lambda: Session.of(6, 1 << 29), "1 to 268435456 entries"),
        (lambda: Session.of(1, 5), "at least 2 parties"),
        (lambda: Session(6, 5, Topology(3, 2, 4, 1)), "does not suit 6 parties"),
        (lambda: Session(6, 5, Topology(4, 6, 6, 1)), "does not suit 6 parties"),
        (lambda: Session(6, 5, complete(6), name=b"short"), "name of a session has 16 bytes, got 5"),
        (lambda: Party(Session.of(6, 5), 0, np.zeros(4, np.uint64)), "must bring 5 elements of the ring"),
        (lambda: Party(Session.of(6, 5), 0, np.zeros(5)), r"got shapes \(5,\) \(float64\)"),
        (lambda: in_process(Session.of(6, 5), numbers(5, 5)), "of 6 parties got the vectors of 5"),
    ],
)
def test_what_cannot_be_set_up_is_refused(make: Callable[[], object], said: str) -> None:
    with pytest.raises(ProtocolError, match=said):
        make()


def test_a_party_starts_once() -> None:
    party = Party(Session.of(3, D), 0, numbers(3, D)[0])
    party.start()
    with pytest.raises(ProtocolError, match="has started already: its keys are for one run"):
        party.start()
