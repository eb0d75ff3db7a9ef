"""Connect every party to the aggregator by one TLS connection for the whole release.

Parties prove their identity with their signing key. The aggregator closes the connection of a party that is silent too
long or sends an invalid message. This party may connect again, and then takes part in the next sum.
"""

import asyncio
import math
import os
import socket
import ssl
import struct
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from threading import Thread
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dpml.errors import UserError
from dpml.federated.plan import FederationPlan
from dpml.federated.sums import END

_WHOLE = struct.Struct("<I")
_CHALLENGE = 32  # bytes
_IDENTITY = struct.Struct("<I64s")  # a party's number and signature
_HELLO = b"dpml link "  # a party signs this, a challenge and the plan's checksum to prove its identity
_GREETING = 5.0  # seconds in which a party must prove its identity
_PATIENCE = 86_400.0  # seconds that a party waits for the aggregator's next message
_PAUSE = 0.2  # seconds between two attempts to connect
_LONGEST = 1 << 28  # the most bytes of a message that a party accepts, unless the sums' vectors are longer
_LOST = (OSError, EOFError)  # the other side has closed the connection, is too slow, or sends too much


async def _send(writer: StreamWriter, content: bytes) -> None:
    writer.write(_WHOLE.pack(len(content)) + content)
    await writer.drain()


async def _receive(reader: StreamReader, longest: int) -> bytes:
    (length,) = _WHOLE.unpack(await reader.readexactly(_WHOLE.size))
    if length > longest:
        raise EOFError
    return await reader.readexactly(length)


class Callers:
    """The connected parties, to which the aggregator sends messages; one thread serves all connections."""

    def __init__(self, plan: FederationPlan, timeout: float) -> None:
        self._plan, self._timeout = plan, timeout
        self._streams: dict[int, tuple[StreamReader, StreamWriter]] = {}

    async def serve(self, address: tuple[str, int], context: ssl.SSLContext | None, port: "Future[int]") -> None:
        """Serve all connections until `close`, and set `port` to the aggregator's port, or to an error."""
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        try:
            handshake = None if context is None else _GREETING
            server = await asyncio.start_server(
                self._connected, *address, ssl=context, ssl_handshake_timeout=handshake, backlog=len(self._plan.seats)
            )
        except OSError as error:
            port.set_exception(error)
            return
        port.set_result(server.sockets[0].getsockname()[1])
        await self._over.wait()
        server.close()

    def _connected(self, reader: StreamReader, writer: StreamWriter) -> None:
        greeting = asyncio.create_task(self._greet(reader, writer))
        greeting.add_done_callback(lambda _: writer.transport.abort())  # even if the greeting never begins

    async def _greet(self, reader: StreamReader, writer: StreamWriter) -> None:
        number, challenge = -1, os.urandom(_CHALLENGE)
        try:
            async with asyncio.timeout(_GREETING):
                writer.write(challenge)
                number, signature = _IDENTITY.unpack(await reader.readexactly(_IDENTITY.size))
            key = Ed25519PublicKey.from_public_bytes(self._plan.seats[number].key)
            key.verify(signature, _HELLO + challenge + self._plan.digest.encode())
            if number in self._streams:
                self._streams[number][1].transport.abort()
            self._streams[number] = reader, writer
            await writer.wait_closed()
        except (*_LOST, IndexError, ValueError, InvalidSignature):
            pass
        finally:
            if self._streams.get(number) == (reader, writer):
                del self._streams[number]

    def await_all(self, wait: float) -> None:
        until = time.monotonic() + wait
        while len(self._streams) < len(self._plan.seats) and time.monotonic() < until:
            time.sleep(_PAUSE / 4)

    def exchange(self, mail: Mapping[int, bytes]) -> dict[int, bytes]:
        """Send every party its message, and return the parties' answers that arrive before the time limit."""
        answers: dict[int, bytes] = {}

        async def ask(party: int, reader: StreamReader, writer: StreamWriter) -> None:
            try:
                async with asyncio.timeout(self._timeout):
                    await _send(writer, mail[party])
                    answers[party] = await _receive(reader, self._plan.longest)
            except _LOST:
                writer.transport.abort()

        self._run(ask(party, *self._streams[party]) for party in mail if party in self._streams)
        return answers

    def end(self, model: str) -> None:
        async def hand(writer: StreamWriter) -> None:
            with suppress(*_LOST):
                async with asyncio.timeout(self._timeout):
                    await _send(writer, END + model.encode())
                    writer.close()
                    await writer.wait_closed()

        self._run(hand(writer) for _, writer in self._streams.values())
        self.close()

    def _run(self, works: Iterable[Coroutine[Any, Any, None]]) -> None:
        async def all_of_them() -> None:
            await asyncio.gather(*works)

        asyncio.run_coroutine_threadsafe(all_of_them(), self._loop).result()

    def close(self) -> None:
        with suppress(RuntimeError):  # they are closed already
            self._loop.call_soon_threadsafe(self._over.set)


@contextmanager
def listening(
    plan: FederationPlan, address: tuple[str, int], timeout: float, context: ssl.SSLContext | None
) -> Iterator[tuple[Callers, int]]:
    """Accept connections of parties inside a `with` block; yield the connected parties and the port."""
    parties, port = Callers(plan, timeout), Future[int]()
    thread = Thread(target=asyncio.run, args=(parties.serve(address, context, port),), daemon=True)
    thread.start()
    try:
        number = port.result()
    except OSError as error:
        raise UserError(f"cannot listen on {address[0]}:{address[1]}: {error.strerror or error}.") from None
    try:
        yield parties, number
    finally:
        parties.close()
        thread.join()


def take_part(
    signer: Ed25519PrivateKey,
    plan: FederationPlan,
    answer: Callable[[bytes], bytes],
    address: tuple[str, int],
    wait: float,
    context: ssl.SSLContext | None,
) -> str:
    """Answer the aggregator's messages as a party, reconnect if necessary, and return the model."""
    until, longest = time.monotonic() + wait, max(_LONGEST, 2 * plan.longest)
    number, taken_in = plan.number_of(signer.public_key().public_bytes_raw()), math.inf

    async def connected() -> str:
        nonlocal until, taken_in
        async with asyncio.timeout(_GREETING):
            # try all addresses of a name, even if the first does not answer
            reader, writer = await asyncio.open_connection(*address, ssl=context, happy_eyeballs_delay=_PAUSE)
        try:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            async with asyncio.timeout(_GREETING):
                challenge = await reader.readexactly(_CHALLENGE)
            writer.write(_IDENTITY.pack(number, signer.sign(_HELLO + challenge + plan.digest.encode())))
            taken_in = time.monotonic()
            while True:
                async with asyncio.timeout(_PATIENCE):
                    received = await _receive(reader, longest)
                    if received[:1] == END:
                        return received[1:].decode("utf-8", "replace")
                    answered = answer(received)
                    await asyncio.sleep(0)  # Ctrl-C during the answer ends the party here, before it sends the answer
                    await _send(writer, answered)
                until = time.monotonic() + wait
        finally:
            writer.transport.abort()

    while True:
        taken_in = math.inf
        try:
            return asyncio.run(connected())
        except ssl.SSLCertVerificationError as error:
            raise UserError(
                f"--aggregator {address[0]} has an invalid certificate (see --ca): {error.verify_message.rstrip('.')}."
            ) from None
        except _LOST:
            if time.monotonic() > taken_in + _GREETING:  # the party was accepted, and may have waited for others
                until = time.monotonic() + wait
            if time.monotonic() > until:
                why = "it does not answer" if taken_in == math.inf else "it hangs up, and may have a different plan"
                raise UserError(f"connecting to the aggregator at {address[0]}:{address[1]} failed: {why}.") from None
            time.sleep(_PAUSE)


def address_of(text: str) -> tuple[str, int]:
    """Return the host and the port of an address HOST:PORT."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    try:
        host.encode("idna")  # raises ValueError here instead of in the lookup
    except ValueError:
        host = ""
    if not host or not port.isdecimal() or not 0 < int(port) <= 65535:
        raise UserError(f"an address must have the form HOST:PORT, with a port from 1 to 65535, got {text!r}.")
    return host, int(port)


def server_tls(address: tuple[str, int], certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Return the aggregator's TLS settings, or None if no TLS is needed because all parties are on this machine."""
    if certificate is None or key is None:
        _require_this_machine(address, "--certificate and --certificate-key")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:
        raise UserError(f"cannot use {certificate} with the key {key}: {error.strerror or error}.") from None
    return context


def client_tls(address: tuple[str, int], authority: Path | None) -> ssl.SSLContext | None:
    """Return a party's TLS settings, or None if no TLS is needed because the aggregator is on this machine."""
    if authority is None:
        _require_this_machine(address, "--ca")
        return None
    try:
        return ssl.create_default_context(cafile=str(authority))
    except OSError as error:
        raise UserError(f"{authority} is not a certificate: {error.strerror or error}.") from None


def _require_this_machine(address: tuple[str, int], missing: str) -> None:
    with suppress(ValueError):
        if ip_address(address[0]).is_loopback:
            return
    raise UserError(f"{address[0]} is another machine, so the connection needs TLS: add {missing}, or use 127.0.0.1.")
