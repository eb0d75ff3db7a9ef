"""Secure aggregation: exact sums under any drop-outs, refusals with their reasons, secrets that stay secret."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from dpml.protocols.secagg import Party, Server


def inputs(parties: int, length: int = 5, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, (parties, length), dtype=np.uint64)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_whoever_drops_out_when_the_sum_is_exactly_that_of_the_survivors_or_there_is_none(data) -> None:
    parties = data.draw(st.integers(2, 9), "parties")
    threshold = data.draw(st.integers(2, parties), "threshold")
    stages = st.sampled_from([Stage.KEYS, Stage.SHARES, Stage.MASKED, Stage.UNMASK])
    gone = data.draw(st.dictionaries(st.integers(0, parties - 1), stages, max_size=parties), "gone")
    x = inputs(parties, seed=data.draw(st.integers(0, 100)))
    session = Session.of(parties, 5, complete(parties, threshold))
    if parties - len(gone) < threshold:
        with pytest.raises(ProtocolError, match=r"only \d+ of \d+ parties are left after [A-Z]+, fewer than the"):
            in_process(session, x, None, gone)
        return
    outcome = in_process(session, x, None, gone)
    survivors = [k for k in range(parties) if gone.get(k, Stage.DONE) > Stage.MASKED]
    assert outcome.survivors.tolist() == survivors
    assert np.array_equal(outcome.total, x[survivors].sum(axis=0))
    assert not outcome.refused


@given(st.dictionaries(st.integers(0, 39), st.sampled_from(list(Stage)[:4]), max_size=10))
@settings(max_examples=10, deadline=None)
def test_the_same_on_a_ring(gone) -> None:
    x, session = inputs(40), Session.of(40, 5, Topology(16, 4, 30, 3))
    # the seats are random: where too few hold the shares of a secret, or see each other, the run says so
    reasons = r"only \d+ of the parties that hold shares|fewer than the"
    with suppress_matching(ProtocolError, reasons):
        outcome = in_process(session, x, None, gone)
        survivors = [k for k in range(40) if gone.get(k, Stage.DONE) > Stage.MASKED]
        left = [k for k in survivors if not any(f"party {k} sees" in reason for reason in outcome.refused)]
        assert set(outcome.survivors) <= set(left)
        assert np.array_equal(outcome.total, x[outcome.survivors].sum(axis=0))


@contextmanager
def suppress_matching(kind: type[Exception], pattern: str) -> Iterator[None]:
    try:
        yield
    except kind as error:
        if not re.search(pattern, str(error)):
            raise


def test_secure_sum_of_real_vectors() -> None:
    values = np.random.default_rng(0).uniform(-3, 3, (6, 50))
    found = secure_sum(values, 3.0, np.random.default_rng(1), dropouts={4: Stage.MASKED, 0: Stage.UNMASK})
    assert found.survivors.tolist() == [0, 1, 2, 3, 5]
    rest = values[found.survivors].sum(axis=0)
    assert np.abs(found.total - rest).max() <= found.error + 1e-14
    assert found.error < 1e-15
    assert found.traffic.server == found.traffic.sent.sum() + found.traffic.received.sum()


# ---- what the server sees


class Run:
    """A run by hand, to be tampered with: every message of every stage, as it went over the wire."""

    def __init__(self, parties: int = 5, threshold: int = 3, length: int = 4) -> None:
        self.session = Session.of(parties, length, complete(parties, threshold), beside=1)
        self.x = inputs(parties, length)
        self.server = Server(self.session)
        self.parties = [Party(self.session, k, self.x[k], np.array([float(k)])) for k in range(parties)]
        self.mail: dict[int, bytes] = {}
        self.sent: dict[tuple[int, Stage], bytes] = {}
        self.received: dict[tuple[int, Stage], bytes] = {}

    def replies(self, silent: set[int] = frozenset()) -> dict[int, bytes]:
        """The parties' messages of this stage, not yet delivered."""
        stage, found = self.server.stage, {}
        for k in sorted(self.server.waiting - silent):
            if stage is not Stage.KEYS:
                self.received[k, stage] = self.mail[k]
            found[k] = self.parties[k].start() if stage is Stage.KEYS else self.parties[k].receive(self.mail[k])
            self.sent[k, stage] = found[k]
        return found

    def to(self, stage: Stage, silent: dict[Stage, set[int]] | None = None) -> "Run":
        """Run on until the server waits for `stage`."""
        while self.server.stage < stage:
            for message in self.replies((silent or {}).get(self.server.stage, set())).values():
                self.server.receive(message)
            self.mail = self.server.advance()
        return self


def repack(message: bytes, session: Session, change: Callable[[bytes], bytes], **fields: int) -> bytes:
    kind, party, body = messages.unpack(message, session.name)
    return messages.pack(fields.get("kind", kind), session.name, fields.get("party", party), change(body))


def test_masked_vectors_look_random_and_differ_between_runs() -> None:
    session = Session.of(3, 4000)
    outcome = []
    for _ in range(2):
        run = Run.__new__(Run)
        run.__init__(3, 2, 4000)
        run.x[:] = 0
        run.to(Stage.MASKED)
        masked = [messages.unpack_masked(repack_body(m, run.session), 4000, 1)[0] for m in run.replies().values()]
        outcome.append(np.stack(masked))
    assert session.name != Session.of(3, 4000).name
    first, second = outcome
    assert not np.any(first == second)
    # the mean of uniform ring elements, over the ring's size: 12,000 of them, five standard errors
    assert (first / 2.0**64).mean() == pytest.approx(0.5, abs=5 * np.sqrt(1 / 12 / 12_000))


def repack_body(message: bytes, session: Session) -> bytes:
    return messages.unpack(message, session.name)[2]


def test_no_party_reveals_both_shares_of_anyone() -> None:
    run = Run().to(Stage.UNMASK, {Stage.MASKED: {1}, Stage.SHARES: {4}})
    for k, message in run.replies().items():
        seeds, keys = messages.unpack_unmask(repack_body(message, run.session))
        assert {who for who, _ in seeds} == {0, 2, 3}
        assert {who for who, _ in keys} == {1}  # 4 never shared a secret
        # and asked again, with 1 among the survivors, it gives nothing
        again = messages.pack(Kind.SURVIVORS, run.session.name, k, messages.pack_survivors([0, 1, 2, 3]))
        with pytest.raises(RefusedError, match="when none was due: replayed or out of order"):
            run.parties[k].receive(again)


def test_a_party_answers_one_list_of_survivors_only_and_only_a_possible_one() -> None:
    run = Run().to(Stage.UNMASK, {Stage.MASKED: {1}})

    def survivors(*ids: int) -> bytes:
        return messages.pack(Kind.SURVIVORS, run.session.name, 0, messages.pack_survivors(ids))

    for ids, reason in (
        ((2, 3, 4), "party 0 sent its vector, but is not among the survivors"),
        ((0, 2), "sees 2 parties with itself, fewer than the threshold 3"),
        ((0, 2, 3, 9), "names party 9, unknown here"),
        ((0, 2, 3, 3), "names a party twice"),
        ((0, 0, 2, 3), "names a party twice"),
    ):
        with pytest.raises(RefusedError, match=reason):
            run.parties[0].receive(survivors(*ids))
    assert run.parties[0].receive(run.mail[0])  # it is as it was


def test_nothing_secret_in_repr_or_in_sentences() -> None:
    run = Run().to(Stage.UNMASK)
    for party in run.parties:
        assert re.fullmatch(r"Party\(\d of 5, SURVIVORS is due\)", repr(party))
    assert repr(run.server) == "Server(5 parties, waits for UNMASK of 5)"


# ---- refusals: the sentence, and that the run goes on as if the message had not come


def finish(run: Run) -> None:
    run.to(Stage.DONE)
    assert np.array_equal(run.server.total, run.x[run.server.survivors].sum(axis=0))


@pytest.mark.parametrize("stage", [Stage.KEYS, Stage.SHARES, Stage.MASKED, Stage.UNMASK])
def test_what_the_server_refuses_at_every_stage(stage) -> None:
    run = Run().to(stage)
    session, replies = run.session, run.replies()
    message = replies[2]
    other = messages.pack(Kind.KEYS, bytes(16), 2, bytes(64))
    damaged = message[:40] + bytes([message[40] ^ 1]) + message[41:]
    cases = [
        (message[:-1], "a message is damaged: its checksum does not match"),
        (damaged, "a message is damaged"),
        (b"", "a message of 0 bytes is too short to be one"),
        (other, "a message of session 0{32} came to session " + session.name.hex()),
        (repack(message, session, bytes, party=7), "a message came from unknown party 7: there are 5"),
        (repack(message, session, lambda body: body + b"x"), "has a wrong length"),
        (repack(message, session, lambda body: body[:-4]), "has a wrong length"),
        (repack(message, session, bytes, kind=Kind.INBOX), "a message INBOX came from party 2 when .* was due"),
        (repack(message, session, bytes, kind=99), "a message of unknown kind 99 came from party 2"),
    ]
    if stage > Stage.KEYS:
        cases.append((run.sent[2, Stage(stage - 1)], "replayed, late or out of order"))
    for bad, reason in cases:
        with pytest.raises(RefusedError, match=reason):
            run.server.receive(bad)
    with pytest.raises(RefusedError, match="a message in the name of party 2 came from party 3"):
        run.server.receive(message, expected=3)
    run.server.receive(message, expected=2)
    with pytest.raises(RefusedError, match="came from party 2, which has sent this message already"):
        run.server.receive(message)
    for k in replies:
        if k != 2:
            run.server.receive(replies[k])
    run.mail = run.server.advance()
    finish(run)


@pytest.mark.parametrize("stage", [Stage.SHARES, Stage.MASKED, Stage.UNMASK])
def test_what_a_party_refuses_at_every_stage(stage) -> None:
    run = Run().to(stage)
    session, message, party = run.session, run.mail[1], run.parties[1]
    count = 5 if stage is Stage.UNMASK else 4
    for bad, reason in (
        (run.mail[3], "a message for party 3 came to party 1"),
        (message[:-3], "a message is damaged"),
        (repack(message, session, lambda body: body + b"x"), "has a wrong length"),
        (repack(message, session, lambda body: b""), "fewer than the threshold|not among the surv"),
        (repack(message, session, lambda body: body + body[: len(body) // count]), "names a party twice"),
        (repack(message, session, bytes, kind=Kind.KEYS), "a message KEYS when .* was due"),
    ):
        with pytest.raises(RefusedError, match=reason):
            party.receive(bad)
    if stage > Stage.SHARES:
        with pytest.raises(RefusedError, match="replayed or out of order"):
            party.receive(run.received[1, Stage(stage - 1)])
    with pytest.raises(ProtocolError, match="party 1 has started already"):
        party.start()
    finish(run)


def test_a_share_that_does_not_decrypt_is_refused_and_so_are_bad_keys() -> None:
    run = Run().to(Stage.SHARES)
    twice = repack(run.mail[0], run.session, lambda body: body[:36] + body[4:36] + body[68:])
    with pytest.raises(RefusedError, match="party 0 got the same public key twice"):
        run.parties[0].receive(twice)
    low_order = repack(run.mail[0], run.session, lambda body: body[:4] + bytes(32) + body[36:])
    with pytest.raises(RefusedError, match="the public key of party 1 is not valid"):
        run.parties[0].receive(low_order)
    himself = repack(run.mail[0], run.session, lambda body: bytes(4) + body[4:])
    with pytest.raises(RefusedError, match="names party 0, unknown here"):
        run.parties[0].receive(himself)
    run.to(Stage.MASKED)

    def tamper(body: bytes) -> bytes:
        return body[:10] + bytes([body[10] ^ 1]) + body[11:]

    def exchange(body: bytes) -> bytes:  # the sealed shares of 1 and 2, in each other's name
        size = 4 + messages.SEALED_BYTES
        return body[:4] + body[size + 4 : 2 * size] + body[size : size + 4] + body[4:size] + body[2 * size :]

    for change in (tamper, exchange):
        with pytest.raises(RefusedError, match="the share from party 1 for party 0 does not decrypt"):
            run.parties[0].receive(repack(run.mail[0], run.session, change))
    finish(run)


def test_shares_and_answers_for_the_wrong_parties_are_refused() -> None:
    run = Run().to(Stage.SHARES)
    message = run.replies()[0]
    entry = 4 + messages.SEALED_BYTES
    for change in (
        lambda body: body[:-entry],
        lambda body: body + body[-entry:],
        lambda body: body[:-entry] + body[32:][:entry],
    ):
        with pytest.raises(RefusedError, match="party 0 must send one share to each of its 4 neighbours, no others"):
            run.server.receive(repack(message, run.session, change))
    run = Run().to(Stage.UNMASK, {Stage.MASKED: {1}})
    message = run.replies()[0]
    seeds, keys = messages.unpack_unmask(repack_body(message, run.session))
    for wrong in ((seeds + keys, []), (seeds[:-1], keys), (seeds, []), (seeds[:-1] + seeds[:1], keys), (keys, seeds)):
        body = messages.pack_unmask(*wrong)
        with pytest.raises(RefusedError, match="party 0 must send a share of the seed of each survivor"):
            run.server.receive(messages.pack(Kind.UNMASK, run.session.name, 0, body))
    high = messages.pack_unmask([(who, b"\xff" * messages.SHARE_BYTES) for who, _ in seeds], keys)
    with pytest.raises(RefusedError, match="a share from party 0 is out of range"):
        run.server.receive(messages.pack(Kind.UNMASK, run.session.name, 0, high))
    with pytest.raises(RefusedError, match="announces 9 shares and holds"):
        run.server.receive(repack(message, run.session, lambda body: b"\x09\x00\x00\x00" + body[4:]))


@pytest.mark.parametrize(("which", "reason"), [(0, "seed of party 0"), (1, "key of party 1")])
def test_a_wrong_share_ends_the_run_and_never_changes_the_sum(which, reason) -> None:
    run = Run().to(Stage.UNMASK, {Stage.MASKED: {1}})
    for k, message in run.replies().items():
        parts = messages.unpack_unmask(repack_body(message, run.session))
        if k == 0:
            who, share = parts[which][0]
            parts[which][0] = who, share[:8] + bytes([share[8] ^ 1]) + share[9:]  # the key has bits without effect
        run.server.receive(messages.pack(Kind.UNMASK, run.session.name, k, messages.pack_unmask(*parts)))
    with pytest.raises(ProtocolError, match=f"{reason} do not fit|{reason[-7:]} cannot be put together"):
        run.server.advance()
    with pytest.raises(ProtocolError, match="there is no sum yet"):
        _ = run.server.total


def test_a_number_beside_that_is_not_finite_is_refused() -> None:
    run = Run().to(Stage.MASKED)
    message = repack(run.replies()[0], run.session, lambda body: body[:-8] + np.array([np.nan]).tobytes())
    with pytest.raises(RefusedError, match="a number from party 0 is out of range: not finite"):
        run.server.receive(message)


def test_a_party_whose_message_is_refused_counts_as_dropped_out(monkeypatch) -> None:
    x, session, receive = inputs(4), Session.of(4, 5, complete(4, 3)), Server.receive

    def damaged(self: Server, message: bytes, expected: int | None = None) -> int:
        bad = self.stage is Stage.MASKED and expected == 1
        return receive(self, message[:-1] if bad else message, expected)

    monkeypatch.setattr(Server, "receive", damaged)
    outcome = in_process(session, x)
    assert outcome.survivors.tolist() == [0, 2, 3]
    assert np.array_equal(outcome.total, x[[0, 2, 3]].sum(axis=0))
    assert outcome.refused == ("a message is damaged: its checksum does not match.",)


def test_a_party_that_has_dropped_out_cannot_come_back() -> None:
    run = Run().to(Stage.SHARES)
    late = run.replies({3})
    for message in late.values():
        run.server.receive(message)
    run.mail = run.server.advance()
    assert 3 not in run.mail
    masked = messages.pack(Kind.MASKED, run.session.name, 3, bytes(40))
    with pytest.raises(RefusedError, match="a message MASKED came from party 3, which has dropped out before"):
        run.server.receive(masked)
    finish(run)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((5, np.zeros(4, np.uint64)), "party 5 is not one of the 5 parties, 0 to 4"),
        ((0, np.zeros(3, np.uint64)), "party 0 must bring 4 elements of the ring and 0 floats beside"),
        ((0, np.zeros(4)), "must bring 4 elements of the ring"),
    ],
)
def test_a_party_brings_what_the_session_says(arguments, sentence) -> None:
    with pytest.raises(ProtocolError, match=sentence):
        Party(Session.of(5, 4), *arguments)
    with pytest.raises(ProtocolError, match="a session of 5 parties got the vectors of"):
        in_process(Session.of(5, 4), np.zeros((4, 4), np.uint64))
    with pytest.raises(ProtocolError, match="a vector must have 1 to"):
        Session.of(5, 0)
    with pytest.raises(ProtocolError, match="the name of a session has 16 bytes"):
        Session(5, 4, complete(5), name=b"mine")
