"""Secure aggregation over loopback TCP, with the parties in processes of their own.

A message is preceded by its length (4 bytes, little-endian). The server waits for a stage's messages until all have
come or their connections have closed, at most `timeout` seconds; then whoever has not sent has dropped out. A message
that is refused costs its sender the connection, and a connection speaks for the party whose keys came over it. The next
message of a connection is read when the last one has been taken, and the first may be no longer than KEYS: who has
signed none makes the server hold no more than that.

Here the server's process makes the signing keys and hands them to the parties' processes: a simulation. In a deployment
every party makes its own, and all know each other's verification keys beforehand.
"""

import asyncio
import io
import os
import struct
import sys
from dataclasses import astuple, dataclass

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dpml.arrays import Array, Index
from dpml.protocols.codec import Ring
from dpml.protocols.errors import ProtocolError, RefusedError
from dpml.protocols.graph import Topology
from dpml.protocols.identities import enrol
from dpml.protocols.messages import KEY_BYTES, SEALED_BYTES, SIGNATURE_BYTES
from dpml.protocols.party import Party
from dpml.protocols.server import Server
from dpml.protocols.session import Session, Stage
from dpml.protocols.transports import Dropouts, Outcome, Traffic, advance, check_inputs

_LENGTH = struct.Struct("<I")
_PROCESSES = 16  # at most; more parties share them, each with a connection of its own
_AROUND = 64 + SIGNATURE_BYTES  # more than what a message has around its body
_FIRST = _AROUND + 2 * KEY_BYTES  # the longest first message, KEYS
_GRACE = 10.0  # seconds for a process to end when the run has ended; then it is killed

Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter


def over_tcp(
    session: Session,
    inputs: Ring,
    beside: Array | None = None,
    dropouts: Dropouts | None = None,
    timeout: float = 60.0,
) -> Outcome:
    """Run a session with the parties in up to 16 other processes. Traffic counts messages, without lengths and TCP's.

    Raises:
        ProtocolError: too few parties are left.
    """
    check_inputs(session, inputs, beside)
    floats = np.empty((session.parties, 0)) if beside is None else beside
    enrolled, signers = enrol(session)
    return asyncio.run(_run(_Run(enrolled, signers, inputs, floats, dict(dropouts or {}), timeout)))


@dataclass(frozen=True)
class _Run:
    """What `over_tcp` was called with, and the parties' signing keys."""

    session: Session
    signers: tuple[Ed25519PrivateKey, ...]
    inputs: Ring
    beside: Array
    dropouts: Dropouts
    timeout: float


async def _run(run: _Run) -> Outcome:
    session = run.session
    aggregator = Aggregator(session, run.timeout)
    listener = await asyncio.start_server(aggregator.connected, "127.0.0.1", 0)
    port: int = listener.sockets[0].getsockname()[1]
    groups = np.array_split(np.arange(session.parties), min(session.parties, _PROCESSES))
    workers = [asyncio.create_task(_work(_encode(run, port, group))) for group in groups]
    try:
        return await aggregator.run()
    finally:
        listener.close()
        aggregator.close()
        _, hanging = await asyncio.wait(workers, timeout=_GRACE)  # the connections are closed: nothing is left to do
        for worker in hanging:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


async def _work(task: bytes) -> None:
    """A process that does its task, or is stopped when we are."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, stdin=asyncio.subprocess.PIPE, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    )
    try:
        await process.communicate(task)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


class Aggregator:
    """The server's side: `connected` for every connection, `run` to the end of the session."""

    def __init__(self, session: Session, timeout: float) -> None:
        self._server, self._timeout = Server(session), timeout
        self._mail: asyncio.Queue[tuple[Writer, bytes | None]] = asyncio.Queue()
        self._taken: dict[Writer, asyncio.Event] = {}
        self._party_of: dict[Writer, int] = {}
        self._writers: set[Writer] = set()
        self._closed: set[Writer] = set()  # those of which no more mail is to come
        self._refused: list[str] = []
        self._sent, self._received = (np.zeros(session.parties, dtype=np.intp) for _ in range(2))
        # the longest message is the masked vector or the shares for all neighbours, or a list of many survivors
        self._longest = _AROUND + max(
            8 * (session.length + session.beside), (session.topology.degree + 1) * SEALED_BYTES * 2, session.parties
        )

    async def connected(self, reader: Reader, writer: Writer) -> None:
        """Put all that comes from one connection into the mail, a message when the last one is taken; then None."""
        self._writers.add(writer)
        taken = self._taken[writer] = asyncio.Event()
        try:
            while True:
                longest = self._longest if writer in self._party_of else _FIRST
                self._mail.put_nowait((writer, await _read(reader, longest)))
                await taken.wait()
                taken.clear()
        except (RefusedError, OSError, asyncio.IncompleteReadError) as error:
            if isinstance(error, RefusedError):
                self._refused.append(str(error))
            self._mail.put_nowait((writer, None))
            writer.close()

    async def run(self) -> Outcome:
        """Serve to the end."""
        server = self._server
        while server.stage is not Stage.DONE:
            try:
                async with asyncio.timeout(self._timeout):
                    while server.waiting - self._gone():
                        self._take(*await self._mail.get())
            except TimeoutError:
                pass  # who has not sent has dropped out
            answers = advance(server, self._refused)
            writers = {party: writer for writer, party in self._party_of.items()}
            await asyncio.gather(*(self._answer(writers[party], party, text) for party, text in answers.items()))
        traffic = Traffic(self._sent, self._received)
        return Outcome(server.total, server.survivors, server.beside, tuple(self._refused), traffic)

    def close(self) -> None:
        """Close all connections."""
        for writer in self._writers:
            writer.close()

    def _gone(self) -> set[int]:
        return {party for writer, party in self._party_of.items() if writer in self._closed}

    def _take(self, writer: Writer, message: bytes | None) -> None:
        self._taken[writer].set()
        if message is None or writer in self._closed:
            self._closed.add(writer)
            return
        try:
            known = self._party_of.get(writer)
            if known is None and self._server.stage is not Stage.KEYS:
                raise RefusedError(f"a connection that brought no keys spoke up at {self._server.stage.name}.")
            party = self._server.receive(message, known)
            self._party_of.setdefault(writer, party)
            self._sent[party] += len(message)
        except RefusedError as error:
            self._refused.append(str(error))
            self._closed.add(writer)
            writer.close()

    async def _answer(self, writer: Writer, party: int, message: bytes) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await _write(writer, message)
            self._received[party] += len(message)
        except (OSError, TimeoutError):
            writer.close()  # gone, or too slow to be waited for


async def take_part(party: Party, port: int, silent_from: Stage, timeout: float) -> None:
    """A party's side: connect, and answer until all is sent, or to `silent_from`.

    Raises:
        RefusedError: the server sent something that the party does not answer.
        TimeoutError, OSError, asyncio.IncompleteReadError: the server is gone.
    """
    if silent_from is Stage.KEYS:
        return
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        message = party.start()
        for stage in list(Stage)[:-1]:
            if stage > Stage.KEYS:
                async with asyncio.timeout(4 * timeout):  # the server may wait that long for others
                    text = await _read(reader)
                if stage >= silent_from:
                    return
                message = party.receive(text)
            await _write(writer, message)
    finally:
        writer.close()


async def _read(reader: Reader, longest: int = 1 << 32) -> bytes:
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > longest:
        raise RefusedError(f"a message has a wrong length: {length} bytes where {longest} are the most.")
    return await reader.readexactly(length)


async def _write(writer: Writer, message: bytes) -> None:
    writer.write(_LENGTH.pack(len(message)) + message)
    await writer.drain()


# ---- a worker's task, as one file of arrays on its standard input


def _encode(run: _Run, port: int, group: Index) -> bytes:
    """All that a process needs which plays the parties of `group`."""
    session, file = run.session, io.BytesIO()
    np.savez(
        file,
        session=np.array([session.parties, session.length, session.beside, *astuple(session.topology)]),
        name=np.frombuffer(session.name, np.uint8),
        identities=np.frombuffer(b"".join(session.identities), np.uint8).reshape(session.parties, -1),
        signers=np.stack([np.frombuffer(run.signers[k].private_bytes_raw(), np.uint8) for k in group]),
        port=port,
        timeout=run.timeout,
        group=group,
        inputs=run.inputs[group],
        beside=run.beside[group],
        silent_from=np.array([run.dropouts.get(int(k), Stage.DONE) for k in group]),
    )
    return file.getvalue()


async def _do(task: bytes) -> None:
    with np.load(io.BytesIO(task)) as fields:
        parties, length, beside, *topology = map(int, fields["session"])
        identities = tuple(key.tobytes() for key in fields["identities"])
        session = Session(parties, length, Topology(*topology), beside, fields["name"].tobytes(), identities)
        signers = [Ed25519PrivateKey.from_private_bytes(key.tobytes()) for key in fields["signers"]]
        port, timeout = int(fields["port"]), float(fields["timeout"])
        rows = zip(fields["group"], signers, fields["inputs"], fields["beside"], fields["silent_from"], strict=True)
        members = [(Party(session, int(k), key, x, own), Stage(int(silent))) for k, key, x, own, silent in rows]
    outcomes = await asyncio.gather(
        *(take_part(party, port, silent, timeout) for party, silent in members), return_exceptions=True
    )
    for outcome in outcomes:
        if isinstance(outcome, ProtocolError):  # others are the server's end, which it reports itself
            print(f"dpml: {outcome}", file=sys.stderr)


if __name__ == "__main__":
    asyncio.run(_do(sys.stdin.buffer.read()))
