"""Whole runs: exact sums under drop-outs and damage, and the bytes that they take."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meddling import D, M, a_run, flipped, numbers, or_none

from dpml.protocols import (
    ProtocolError,
    Session,
    Stage,
    Topology,
    complete,
    in_process,
    messages,
    secure_sum,
)


@pytest.mark.slow
@settings(max_examples=70, deadline=None)
@given(st.data())
def test_sum_is_exact_down_to_the_threshold_and_refused_below(data: st.DataObject) -> None:
    parties = data.draw(st.integers(2, 7))
    threshold = data.draw(st.integers(parties // 2 + 1, parties))
    silent = data.draw(st.dictionaries(st.integers(0, parties - 1), st.sampled_from(list(Stage)), max_size=parties))
    inputs = numbers(parties, 3, data.draw(st.integers(0, 99)))
    session = Session.of(parties, 3, complete(parties, threshold))
    to_the_end = [k for k in range(parties) if silent.get(k, Stage.DONE) is Stage.DONE]
    if len(to_the_end) < threshold:
        with pytest.raises(ProtocolError, match=f"fewer than the quorum of {threshold}"):
            in_process(session, inputs, None, silent)
        return
    outcome = in_process(session, inputs, None, silent)
    sent = [k for k in range(parties) if silent.get(k, Stage.DONE) > Stage.MASKED]
    assert outcome.survivors.tolist() == sent
    assert np.array_equal(outcome.total, inputs[sent].sum(axis=0))
    assert outcome.refused == ()


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_on_a_ring_a_sum_is_exact_or_there_is_none(data: st.DataObject) -> None:
    """Few neighbours, and more drop-outs than any ring would be set up for."""
    parties = data.draw(st.integers(6, 9))
    session = Session.of(parties, 3, Topology(4, data.draw(st.integers(2, 4)), parties // 2 + 1, 0))
    silent = data.draw(st.dictionaries(st.integers(0, parties - 1), st.sampled_from(list(Stage)), max_size=4))
    inputs = numbers(parties, 3)
    outcome = or_none(lambda: in_process(session, inputs, None, silent))
    if outcome is None:
        return
    assert np.array_equal(outcome.total, inputs[outcome.survivors].sum(axis=0))


def test_a_ring_as_chosen_for_many_parties() -> None:
    inputs = numbers(60, 4)
    session = Session.of(60, 4, Topology(20, 6, 42, 10))
    silent = {int(k): Stage(i % 5) for i, k in enumerate(np.random.default_rng(2).permutation(60)[:12])}
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


def test_numbers_beside_must_be_finite() -> None:
    session = Session.of(3, D, complete(3, 2), beside=1)
    beside = np.array([[1.0], [np.nan], [2.0]])
    inputs = numbers(3, D)
    outcome = in_process(session, inputs, beside)
    assert outcome.refused == ("a number from party 1 is out of range: not finite.",)
    assert outcome.survivors.tolist() == [0, 2]
    assert np.array_equal(outcome.total, inputs[[0, 2]].sum(axis=0))
    assert outcome.beside.tolist() == [[1.0], [2.0]]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_damage_on_the_wire_is_refused_or_ends_the_run(data: st.DataObject) -> None:
    """Flipped, cut, lost, doubled or exchanged messages, in any number and anywhere: never a wrong sum."""
    run, seen = a_run(threshold=data.draw(st.integers(4, 5))), [b"x" * 40]

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
    with pytest.raises(ProtocolError, match=r"only 0 of 6 .* Refused, the first of 6 .* sees 1 parties with itself"):
        in_process(Session.of(M, D), numbers(M, D))


def test_traffic_counts_the_real_messages() -> None:
    """Against the messages themselves, and against their sizes by hand: 30 bytes around each body, and signatures."""
    parties, d, beside = 7, 11, 3
    session = Session.of(parties, d, complete(parties, 4), beside)
    traffic = in_process(session, numbers(parties, d), np.ones((parties, beside)), {}).traffic
    peers = parties - 1
    sent = 5 * (30 + 64) + 64 + 32 + peers * (4 + 88) + 8 * (d + beside) + 1 + 4 + parties * (4 + 36)
    received = 4 * 30 + 3 * 32 + peers * (68 + 64) + peers * (4 + 88) + 1 + 4 * (4 + 64)
    assert traffic.sent.tolist() == [sent] * parties
    assert traffic.received.tolist() == [received] * parties
    assert traffic.server == parties * (sent + received)
    run = a_run()
    run.go()
    whole = in_process(run.session, run.inputs).traffic
    assert whole.server == sum(map(len, run.wire))


def test_traffic_with_drop_outs_is_less() -> None:
    session = Session.of(M, D, complete(M, 4))
    traffic = in_process(session, numbers(M, D), None, {0: Stage.KEYS, 1: Stage.MASKED}).traffic
    assert traffic.sent[0] == traffic.received[0] == 0
    assert traffic.sent[1] < traffic.sent[2]
