"""Secure aggregation over loopback TCP: parties in processes of their own, some of which die, hang or talk nonsense."""

import asyncio
import struct
import time

import numpy as np
import pytest

from dpml.protocols import ProtocolError, Session, Stage, complete, in_process, messages, tcp
from dpml.protocols.identities import enrol
from dpml.protocols.messages import Kind
from dpml.protocols.party import Party
from dpml.protocols.tcp import Aggregator, over_tcp, take_part

M, D = 4, 50
INPUTS = np.random.default_rng(0).integers(0, 2**64, (M, D), dtype=np.uint64)


ENROLLED, SIGNERS = enrol(Session.of(M, D, complete(M, 3)))


def a_session(threshold: int = 3) -> Session:
    return Session.of(M, D, complete(M, threshold))


def assert_exact(outcome, survivors: list[int]) -> None:
    assert outcome.survivors.tolist() == survivors
    assert np.array_equal(outcome.total, INPUTS[survivors].sum(axis=0))


def test_processes_of_their_own_with_drop_outs_and_the_same_bytes() -> None:
    beside = np.random.default_rng(1).normal(size=(M, 3))
    session = Session.of(M, D, complete(M, 3), 3)
    dropouts = {1: Stage.MASKED}
    outcome = over_tcp(session, INPUTS, beside, dropouts)
    assert_exact(outcome, [0, 2, 3])
    assert np.array_equal(outcome.beside, beside[[0, 2, 3]])
    here = in_process(session, INPUTS, beside, dropouts).traffic
    assert np.array_equal(outcome.traffic.sent, here.sent)
    assert np.array_equal(outcome.traffic.received, here.received)


def spying_on_processes(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.subprocess.Process]:
    started: list[asyncio.subprocess.Process] = []
    create = asyncio.create_subprocess_exec

    async def spy(*words, **options):
        started.append(await create(*words, **options))
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", spy)
    return started


def test_a_process_that_is_killed_after_its_shares(monkeypatch) -> None:
    """kill -9 between SHARES and MASKED: its key is put together from the others' shares."""
    processes, take = spying_on_processes(monkeypatch), Aggregator._take

    def kill_one(self, writer, message):
        take(self, writer, message)
        if self._server.stage is Stage.SHARES and not self._server.waiting:
            processes[0].kill()  # before it can read its INBOX

    monkeypatch.setattr(Aggregator, "_take", kill_one)
    outcome = over_tcp(a_session(), INPUTS)
    assert len(outcome.survivors) == M - 1
    assert_exact(outcome, outcome.survivors.tolist())


def test_too_few_processes_left_is_an_error_and_leaves_no_process_behind(monkeypatch) -> None:
    processes = spying_on_processes(monkeypatch)
    with pytest.raises(ProtocolError, match="only 2 of 4 parties are left after MASKED, fewer than the 3"):
        over_tcp(a_session(3), INPUTS, None, {0: Stage.MASKED, 1: Stage.MASKED})
    assert len(processes) == M
    assert all(process.returncode is not None for process in processes)


# ---- what no well-behaved process does: connections of our own, in this process


def together(session: Session, *behaviours, timeout: float = 20.0):
    """A run with a coroutine per party, each given the port."""

    async def run():
        aggregator = Aggregator(session, timeout)
        listener = await asyncio.start_server(aggregator.connected, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        others = [asyncio.create_task(behaviour(port)) for behaviour in behaviours]
        try:
            return await aggregator.run()
        finally:
            listener.close()
            aggregator.close()
            await asyncio.gather(*others, return_exceptions=True)

    return asyncio.run(run())


def honest(session: Session, k: int, silent_from: Stage = Stage.DONE):
    return lambda port: take_part(Party(session, k, SIGNERS[k], INPUTS[k]), port, silent_from, 20.0)


def test_a_party_that_hangs_is_waited_for_no_longer_than_the_timeout() -> None:
    session = ENROLLED

    async def hangs(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        party = Party(session, 2, SIGNERS[2], INPUTS[2])
        await tcp._write(writer, party.start())
        await tcp._write(writer, party.receive(await tcp._read(reader)))
        await reader.read()  # to the end: it says nothing, and does not go
        writer.close()

    start = time.perf_counter()
    outcome = together(session, honest(session, 0), honest(session, 1), hangs, honest(session, 3), timeout=0.7)
    assert_exact(outcome, [0, 1, 3])
    assert 0.7 < time.perf_counter() - start < 10


def raw(*frames: bytes):
    """Whoever writes these bytes and waits for the end."""

    async def speak(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for frame in frames:
            writer.write(frame)
        await reader.read()
        writer.close()

    return speak


def framed(message: bytes) -> bytes:
    return struct.pack("<I", len(message)) + message


def test_junk_is_refused_and_costs_the_connection_only() -> None:
    session = ENROLLED
    parties = [honest(session, k) for k in range(M)]
    known = Party(session, 0, SIGNERS[0], INPUTS[0]).start()
    outcome = together(
        session,
        raw(framed(b"GET / HTTP/1.1 and some more text to be long enough")),
        raw(struct.pack("<I", 1 << 31)),
        raw(struct.pack("<I", tcp._FIRST + 1)),  # longer than KEYS, though a masked vector may be as long
        raw(framed(messages.pack(Kind.KEYS, session.name, 77, bytes(64), bytes(64)))),
        raw(framed(known)[:-30]),  # hangs in the middle of a message
        *parties,
        timeout=5.0,
    )
    assert_exact(outcome, [0, 1, 2, 3])
    assert len(outcome.refused) == 4
    for reason in ("its checksum does not match", "2147483648 bytes where", f"{tcp._FIRST} are the most", "party 77"):
        assert any(reason in said for said in outcome.refused)


def test_a_connection_speaks_for_one_party_only() -> None:
    """A party that has gone silent is not to be replaced by another connection, nor spoken for by another party."""
    session = ENROLLED

    async def impostor(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.sleep(0.5)  # party 2 is silent now, and waited for
        await tcp._write(writer, messages.pack(Kind.MASKED, session.name, 2, b"", bytes(64)))
        await reader.read()
        writer.close()

    async def silent(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        party = Party(session, 2, SIGNERS[2], INPUTS[2])
        await tcp._write(writer, party.start())
        await tcp._write(writer, party.receive(await tcp._read(reader)))
        await reader.read()
        writer.close()

    outcome = together(session, *(honest(session, k) for k in (0, 1, 3)), silent, impostor, timeout=1.5)
    assert_exact(outcome, [0, 1, 3])
    assert outcome.refused == ("a connection that brought no keys spoke up at MASKED.",)


def test_a_party_does_not_wait_for_ever_for_a_server() -> None:
    async def run() -> None:
        aggregator = Aggregator(ENROLLED, 20.0)  # listens, and never answers
        listener = await asyncio.start_server(aggregator.connected, "127.0.0.1", 0)
        try:
            await take_part(
                Party(ENROLLED, 0, SIGNERS[0], INPUTS[0]), listener.sockets[0].getsockname()[1], Stage.DONE, 0.05
            )
        finally:
            listener.close()
            aggregator.close()
            await asyncio.sleep(0.05)

    with pytest.raises(TimeoutError):
        asyncio.run(run())
