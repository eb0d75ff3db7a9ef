"""Whole runs: exact sums of numbers and integers under drop-outs and damage, and the bytes that they take."""

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
    secure_sum,
    secure_sum_integers,
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
        with pytest.raises(ProtocolError):
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


def test_a_secure_sum_of_real_vectors() -> None:
    values = np.random.default_rng(0).normal(size=(M, 40)).clip(-3, 3)
    found = secure_sum(values, 3.0, np.random.default_rng(1), dropouts={4: Stage.MASKED, 0: Stage.UNMASK})
    assert found.survivors.tolist() == [0, 1, 2, 3, 5]
    assert np.abs(found.total - values[found.survivors].sum(axis=0)).max() < found.error + 1e-14
    assert found.error < 1e-15
    with pytest.raises(ProtocolError, match="the range"):
        secure_sum(values, 2.0, np.random.default_rng(1))


def test_numbers_beside_must_be_finite() -> None:
    session = Session.of(3, D, complete(3, 2), beside=1)
    beside = np.array([[1.0], [np.nan], [2.0]])
    inputs = numbers(3, D)
    outcome = in_process(session, inputs, beside)
    assert len(outcome.refused) == 1
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


def test_traffic_counts_the_real_messages() -> None:
    """Of which tests/protocols/test_costs.py has the formula."""
    run = a_run().go()
    traffic = in_process(run.session, run.inputs).traffic
    assert traffic.server == sum(map(len, run.wire))
    assert len(set(traffic.sent.tolist())) == len(set(traffic.received.tolist())) == 1


def modular(rows) -> list[int]:
    """The sum of the rows in Python's integers, modulo 2^64."""
    return [(sum(column) + 2**63) % 2**64 - 2**63 for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("M", [2, 5])
def test_sums_of_integers_are_those_of_python_modulo_2_64(M) -> None:
    values = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, (M, 40), endpoint=True)
    values[:, :5] = [-(2**63), 2**63 - 1, -1, 0, 1]
    summed = secure_sum_integers(values)
    assert summed.total.dtype == np.int64
    assert summed.total.tolist() == modular(values.tolist())
    silent = {} if M == 2 else {1: Stage.MASKED}
    assert secure_sum_integers(values.T.copy().T, dropouts=silent).total.tolist() == modular(
        values[[k for k in range(M) if k not in silent]].tolist()
    )


@pytest.mark.parametrize("vectors", [np.ones((3, 2)), np.ones((3, 2), np.int32), np.ones(3, np.int64)])
def test_what_is_no_integer_of_64_bits_is_refused(vectors) -> None:
    """The bits of floating-point numbers would have a sum, too."""
    with pytest.raises(ProtocolError, match="64-bit integers"):
        secure_sum_integers(vectors)
