"""Parties and the server refuse every fault on the way to them, and parties give nothing secret away."""

import itertools
import logging
from functools import partial

import numpy as np
import pytest
from meddling import TO_PARTY, TO_SERVER, D, M, Run, a_run, flipped, numbers, repacked
from scipy import stats

from dpml.protocols import ProtocolError, RefusedError, Session, Stage, complete, messages
from dpml.protocols.masks import End
from dpml.protocols.messages import Kind
from dpml.protocols.party import Party


@pytest.mark.parametrize("fault", TO_PARTY)
def test_a_fault_on_the_way_to_a_party(fault: str) -> None:
    stage, change, reason = TO_PARTY[fault]
    run = a_run()
    run.go(to_party=lambda k, m: change(m, run) if k == 2 and run.server.stage is stage else [m])
    run.assert_exact()
    assert len(run.refused) == 1
    assert reason in run.refused[0]


def test_a_party_is_not_asked_for_its_vector_where_a_mask_cannot_be_agreed_on() -> None:
    """It may be charged for being asked: a neighbour whose key is of small order does not make it so, in any place."""
    run, asked = Run(Session.of(3, D, complete(3)), numbers(3, D)), []
    parties = [
        Party(run.begun, k, run.signers[k], lambda k=k: asked.append(k) or (run.inputs[k], np.empty(0)))
        for k in range(3)
    ]
    parties[1]._mask_end = End(1, bytes(32))
    said = [messages.unpack(party.start(), run.begun.name) for party in parties]
    tree = messages.Roster(3, {m.party: m.body for m in said})
    sent = {}
    for k, party in enumerate(parties):
        keys = [(m.party, *messages.unpack_keys(m.body), m.signature) for m in said if m.party != k]
        body = messages.pack_entries(Kind.NEIGHBOURS, keys, tree.path(k))
        answer = party.receive(messages.pack(Kind.NEIGHBOURS, run.begun.name, k, body))
        body = messages.unpack(answer, run.begun.name).body
        sent[k] = dict(messages.unpack_entries(Kind.SHARES, body, messages.KEY_BYTES)[1])
    for k in (0, 2):
        inbox = messages.pack_entries(Kind.INBOX, [(j, sent[j][k]) for j in range(3) if j != k])
        with pytest.raises(RefusedError, match="party 1 is not valid: it is of small order"):
            parties[k].receive(messages.pack(Kind.INBOX, run.begun.name, k, inbox))
    assert not asked


def test_a_party_keeps_its_state_when_it_refuses() -> None:
    run = a_run()

    def twice(k: int, message: bytes) -> list[bytes]:
        return [flipped(message), repacked(message, run, party=k ^ 1), message]

    run.go(to_party=twice).assert_exact()
    assert len(run.refused) == 2 * 4 * M
    assert len(run.server.survivors) == M


def test_masked_vectors_are_uniform_and_unrelated_to_the_input() -> None:
    """Chi-squared on the bytes of zero vectors; the system's randomness: false-alarm rate 1e-9 each, 12 tests."""
    session = Session.of(3, 20_000, complete(3, 2))
    zeros = np.zeros((3, 20_000), dtype=np.uint64)
    run = Run(session, zeros).go()
    run.assert_exact()
    vectors = [messages.unpack(m, session.name) for m in run.wire]
    vectors = [np.frombuffer(body, np.uint8) for kind, _, body, _ in vectors if kind is Kind.MASKED]
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
    one, two = ({m[22:] for m in Run(session, numbers(3, D)).go().wire if m[1] != Kind.SURVIVORS} for _ in range(2))
    assert not one & two


def test_nothing_secret_is_printed_or_logged(caplog: pytest.LogCaptureFixture, capsys) -> None:
    caplog.set_level(logging.DEBUG)
    said: list[str] = []
    secrets: list[bytes] = []

    def meddle(run: Run, stage: Stage, change, k: int, message: bytes) -> list[bytes]:
        party = run.parties[k]
        said.extend((repr(party), str(party), repr(run.server), repr(run.session)))
        secrets.extend(key.private_bytes_raw() for key in (party._sealing, party._masking, party._signer))
        secrets.extend((run.inputs[k].tobytes(), *party._held.values()))
        secrets.extend([party._seed] if hasattr(party, "_seed") else [])
        return change(message, run) if k == 2 and run.server.stage is stage else [message]

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


# ---- the server


@pytest.mark.parametrize("fault", TO_SERVER)
def test_a_fault_on_the_way_to_the_server(fault: str) -> None:
    stage, change, reason = TO_SERVER[fault]
    run = a_run()

    def meddle(k: int, message: bytes) -> list[bytes]:
        return change(message, run) if k == 2 and run.server.stage is stage else [message]

    with pytest.raises(ProtocolError, match="there is no sum yet"):
        _ = run.server.total
    run.go(to_server=meddle)
    run.assert_exact()
    assert len(run.refused) == 1
    assert reason in run.refused[0]
    lost = stage <= Stage.MASKED and fault not in ("replayed", "tampered share", "another's sealed shares")
    assert (2 in run.server.survivors) is not lost


def test_who_dropped_out_does_not_come_back() -> None:
    run, kept, late = a_run(), [], []

    def meddle(k: int, message: bytes) -> list[bytes]:
        if k == 4 and run.server.stage is Stage.MASKED:
            kept.append(repacked(message, run, kind=Kind.UNMASK))
            return []
        if k == 0 and run.server.stage is Stage.UNMASK:
            with pytest.raises(RefusedError) as caught:
                run.server.receive(kept[0])
            late.append(str(caught.value))
        return [message]

    run.go(to_server=meddle).assert_exact()
    assert len(late) == 1
    assert "has dropped out before" in late[0]
