"""`Packed` is a mapping like a dict with the same entries, and the memory of many parties in one process."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meddling import a_run, numbers

from dpml.protocols import Session, Stage, Topology, in_process, messages
from dpml.protocols.messages import Kind
from dpml.protocols.packed import Packed
from dpml.protocols.server import Answers


@given(st.dictionaries(st.integers(0, 2**32 - 1), st.binary(min_size=3, max_size=3)), st.integers(0, 2**32 - 1))
def test_packed_is_the_dict_with_its_entries(entries: dict[int, bytes], other: int) -> None:
    packed = Packed(entries)
    assert dict(packed) == entries
    assert list(packed) == sorted(entries)
    assert len(packed) == len(entries)
    assert (other in packed) == (other in entries)
    assert packed.get(other) == entries.get(other)


def test_contents_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="the same length"):
        Packed({1: b"ab", 2: b"abc"})


def test_an_answer_is_made_when_it_is_read_and_for_nobody_else() -> None:
    made: list[int] = []

    def make(party: int) -> bytes:
        made.append(party)
        return bytes([party])

    answers = Answers([1, 3], make)
    assert (len(answers), list(answers), made) == (2, [1, 3], [])
    assert (answers[3], made) == (b"\x03", [3])
    assert 2 not in answers
    assert answers.get(2) is None
    assert 2 not in made


def test_the_server_keeps_no_message_and_makes_none_before_it_is_read() -> None:
    """60 parties send 320 kB each, 19 MB in all: the peak is a few messages, not all of them.

    One process also holds what the four neighbours of those who have sent their vectors will add to theirs.
    """
    parties, length = 60, 40_000
    session, inputs = Session.of(parties, length, Topology(4, 3, 42, 10)), numbers(parties, length)
    tracemalloc.start()
    try:
        outcome = in_process(session, inputs)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert np.array_equal(outcome.total, inputs.sum(axis=0))
    assert peak < 15 * 8 * length  # 4.8 MB


def test_answers_of_one_stage_can_be_read_again_during_the_next() -> None:
    """A transport that sends a message a second time sends the same one."""
    run = a_run()
    mail = run.to(Stage.SHARES)
    first = dict(mail)
    for k, party in enumerate(run.parties):
        run.server.receive(party.receive(mail[k]), k)
        assert dict(mail) == first
    inbox = run.server.advance()
    for k in inbox:
        content = messages.unpack(inbox[k], run.session.name)
        assert content.kind is Kind.INBOX
        senders = [who for who, _ in messages.unpack_inbox(content.body)]
        assert senders == sorted({*range(len(run.parties))} - {k})
