"""The same protocol between processes: the same sums and bytes, timeouts, and strangers on the line."""

import asyncio
import struct

import numpy as np
import pytest

from dpml.protocols import ProtocolError, Session, Stage, complete, in_process
from dpml.protocols.secagg import Outcome, Party
from dpml.protocols.tcp import Aggregator, over_tcp, take_part


def inputs(parties: int, length: int = 5) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 2**64, (parties, length), dtype=np.uint64)


def test_processes_give_the_sum_and_the_bytes_of_one_process() -> None:
    x, session = inputs(5, 2000), Session.of(5, 2000, complete(5, 3), beside=2)
    beside = np.arange(10.0).reshape(5, 2)
    gone = {1: Stage.MASKED, 3: Stage.UNMASK}
    apart, here = (run(session, x, beside, gone) for run in (over_tcp, in_process))
    assert apart.survivors.tolist() == here.survivors.tolist() == [0, 2, 3, 4]
    assert np.array_equal(apart.total, here.total)
    assert np.array_equal(apart.beside, beside[[0, 2, 3, 4]])
    assert apart.traffic.sent.tolist() == here.traffic.sent.tolist()
    assert apart.traffic.received.tolist() == here.traffic.received.tolist()


def test_too_few_processes_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="only 1 of 3 parties are left after MASKED"):
        over_tcp(Session.of(3, 5), inputs(3), None, {0: Stage.MASKED, 2: Stage.MASKED}, timeout=20)


def serve(session: Session, x: np.ndarray, strangers, lines, timeout: float) -> Outcome:  # type: ignore[no-untyped-def]
    """All parties of the session as tasks of this process but over TCP, and some coroutines that know the port."""

    async def run() -> Outcome:
        aggregator = Aggregator(session, timeout)
        listener = await asyncio.start_server(aggregator.connected, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        await asyncio.gather(*(stranger(port) for stranger in strangers))
        tasks = [
            asyncio.create_task(take_part(Party(session, k, x[k]), port, Stage.DONE, timeout)) for k in range(len(x))
        ]
        try:
            return await aggregator.run()
        finally:
            listener.close()
            await aggregator.close()
            for _, writer in lines:
                writer.close()
                await asyncio.gather(writer.wait_closed(), return_exceptions=True)
            await asyncio.gather(*tasks, return_exceptions=True)

    return asyncio.run(run())


def test_a_party_that_hangs_is_dropped_after_the_timeout() -> None:
    x, session = inputs(4), Session.of(4, 5, complete(4, 3))
    lines = []

    async def hangs(port: int) -> None:
        lines.append(await asyncio.open_connection("127.0.0.1", port))
        message = Party(session, 3, x[3]).start()
        lines[0][1].write(struct.pack("<I", len(message)) + message)

    outcome = serve(session, x[:3], [hangs], lines, timeout=0.5)
    assert outcome.survivors.tolist() == [0, 1, 2]
    assert np.array_equal(outcome.total, x[:3].sum(axis=0))


def test_strangers_who_send_nonsense_are_hung_up_on_and_do_no_harm() -> None:
    x, session = inputs(3), Session.of(3, 5)

    def sends(content: bytes):  # type: ignore[no-untyped-def]
        async def stranger(port: int) -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(content)
            if content:
                await writer.drain()
            else:
                writer.close()
            strangers.append((reader, writer))

        return stranger

    strangers: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    foreign = Party(Session.of(3, 5), 0, x[0]).start()
    nonsense = [
        b"",
        struct.pack("<I", 1 << 31),
        struct.pack("<I", 3) + b"abc",
        struct.pack("<I", len(foreign)) + foreign,
    ]
    outcome = serve(session, x, [sends(content) for content in nonsense], strangers, timeout=20)
    assert outcome.survivors.tolist() == [0, 1, 2]
    assert np.array_equal(outcome.total, x.sum(axis=0))
    reasons = " ".join(outcome.refused)
    assert len(outcome.refused) == 3
    for part in ("has a wrong length: 2147483648 bytes", "too short to be one", "a message of session"):
        assert part in reasons


def test_a_second_party_of_the_same_number_is_refused() -> None:
    x, session = inputs(3), Session.of(3, 5, complete(3, 2))
    lines = []

    async def impostor(port: int) -> None:
        lines.append(await asyncio.open_connection("127.0.0.1", port))
        message = Party(session, 2, x[2]).start()
        lines[0][1].write((struct.pack("<I", len(message)) + message) * 2)

    outcome = serve(session, x[:2], [impostor], lines, timeout=20)  # it was first, then sent its keys again, and is out
    assert outcome.survivors.tolist() == [0, 1]
    assert "party 2, which has sent this message already" in outcome.refused[0]
