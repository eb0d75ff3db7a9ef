"""Connect the parties to the aggregator: one TLS connection for each party and the whole release.

Parties connect to the aggregator, so they need no open port. They prove their identity with their signing key. The
aggregator closes the connection of a party that is silent too long or sends an invalid message. This party may connect
again, and then takes part in the next sum.
"""

import math
import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dpml.errors import UserError
from dpml.federated.plan import FederationPlan
from dpml.federated.sums import END

_WHOLE = struct.Struct("<I")
_CHALLENGE, _SIGNATURE = 32, 64
_HELLO = b"dpml link "  # a party signs this, a challenge and the plan's checksum to prove its identity
_GREETING = 5.0  # seconds in which a party must prove its identity
_PATIENCE = 86_400.0  # seconds that a party waits for the aggregator's next message
_PAUSE = 0.2  # seconds between two attempts to connect
_LONGEST = 1 << 28  # the most bytes that a party accepts from the aggregator, unless vectors are longer
_CHUNK = 1 << 16


class _HungUpError(Exception):
    """Raised if the other side has closed the connection, is too slow, or sends too much."""


def _send(connection: socket.socket, content: bytes, until: float) -> None:
    with _whatever_happens(connection, until):
        connection.sendall(_WHOLE.pack(len(content)) + content)


def _receive(connection: socket.socket, longest: int, until: float) -> bytes:
    (length,) = _WHOLE.unpack(_exactly(connection, _WHOLE.size, until))
    if length > longest:
        raise _HungUpError
    return _exactly(connection, length, until)


def _exactly(connection: socket.socket, length: int, until: float) -> bytes:
    found = bytearray()
    while len(found) < length:
        with _whatever_happens(connection, until):
            part = connection.recv(min(_CHUNK, length - len(found)))
        if not part:
            raise _HungUpError
        found += part
    return bytes(found)


@contextmanager
def _whatever_happens(connection: socket.socket, until: float) -> Iterator[None]:
    """Raise _HungUpError if the connection fails, takes too long, or is closed by another thread."""
    left = until - time.monotonic()
    if left <= 0:
        raise _HungUpError
    try:
        connection.settimeout(left)
        yield
    except (OSError, ValueError):  # TLS raises ValueError on a closed connection
        raise _HungUpError from None


def _hang_up(connection: socket.socket) -> None:
    """Close a connection, so that a thread that waits for the other side returns."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


@dataclass
class Callers:
    """The connected parties, to which `exchange` sends messages."""

    plan: FederationPlan
    timeout: float
    _connections: dict[int, socket.socket] = field(default_factory=dict)
    over: bool = False

    def __post_init__(self) -> None:
        self._pool = ThreadPoolExecutor(len(self.plan.seats))  # so that nobody waits for a slow party

    def greet(self, connection: socket.socket, context: ssl.SSLContext | None) -> None:
        """Accept a party that proves its identity, in place of its earlier connection; refuse anybody else."""
        until, challenge = time.monotonic() + _GREETING, os.urandom(_CHALLENGE)
        try:
            connection.settimeout(_GREETING)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                connection = context.wrap_socket(connection, server_side=True)
            connection.sendall(challenge)
            said = _exactly(connection, _WHOLE.size + _SIGNATURE, until)
            (number,) = _WHOLE.unpack_from(said)
            key = Ed25519PublicKey.from_public_bytes(self.plan.seats[number].key)
            key.verify(said[_WHOLE.size :], _HELLO + challenge + self.plan.digest.encode())
        except (_HungUpError, OSError, IndexError, ValueError, InvalidSignature):
            connection.close()
            return
        earlier, self._connections[number] = self._connections.get(number), connection
        if earlier is not None:
            _hang_up(earlier)
        if self.over:  # the party connected while all connections were being closed
            connection.close()

    def await_all(self, wait: float) -> None:
        """Wait at most `wait` seconds until all parties are connected."""
        until = time.monotonic() + wait
        while len(self._connections) < len(self.plan.seats) and time.monotonic() < until:
            time.sleep(_PAUSE / 4)

    def exchange(self, mail: Mapping[int, bytes]) -> dict[int, bytes]:
        """Send messages to parties, and return the answers that arrive in time, by party."""
        until = time.monotonic() + self.timeout
        here = [party for party in mail if party in self._connections]
        answers = self._pool.map(lambda party: self._ask(party, mail[party], until), here)
        return {party: answer for party, answer in zip(here, answers, strict=True) if answer is not None}

    def _ask(self, party: int, message: bytes, until: float) -> bytes | None:
        connection = self._connections[party]
        try:
            _send(connection, message, until)
            return _receive(connection, self.plan.longest, until)
        except _HungUpError:
            connection.close()
            if self._connections.get(party) is connection:
                del self._connections[party]
            return None

    def end(self, model: str) -> None:
        """Send the model to all connected parties, and close the connections."""
        until, content = time.monotonic() + self.timeout, END + model.encode()

        def hand(connection: socket.socket) -> None:
            with suppress(_HungUpError):
                _send(connection, content, until)

        list(self._pool.map(hand, list(self._connections.values())))
        self.close()

    def close(self) -> None:
        """Close all connections, also those of parties that connect later."""
        self.over = True
        for connection in list(self._connections.values()):
            _hang_up(connection)
        self._pool.shutdown()


@contextmanager
def listening(
    plan: FederationPlan, address: tuple[str, int], timeout: float, context: ssl.SSLContext | None
) -> Iterator[tuple[Callers, int]]:
    """Listen for parties; yield the connected parties and the port."""
    try:
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        server = socket.create_server(address, family=family, backlog=len(plan.seats))
    except OSError as error:
        raise UserError(f"cannot listen on {address[0]}:{address[1]}: {error.strerror or error}.") from None
    parties = Callers(plan, timeout)

    def accept() -> None:
        while True:
            try:
                plain, _ = server.accept()
            except OSError:
                if parties.over:
                    return
                time.sleep(_PAUSE)  # too many connections, or a connection that was closed at once
                continue
            threading.Thread(target=parties.greet, args=(plain, context), daemon=True).start()

    with server:
        threading.Thread(target=accept, daemon=True).start()
        try:
            yield parties, server.getsockname()[1]
        finally:
            parties.over = True
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            parties.close()


def take_part(
    signer: Ed25519PrivateKey,
    plan: FederationPlan,
    answer: Callable[[bytes], bytes],
    address: tuple[str, int],
    wait: float,
    context: ssl.SSLContext | None,
) -> str:
    """Answer the aggregator until it sends the model; return the model. Connect again if the connection is lost."""
    until, longest = time.monotonic() + wait, max(_LONGEST, 2 * plan.longest)
    while True:
        taken_in = math.inf
        try:
            with _called(address, context) as connection:
                challenge = _exactly(connection, _CHALLENGE, time.monotonic() + _GREETING)
                number = plan.number_of(signer.public_key().public_bytes_raw())
                connection.sendall(_WHOLE.pack(number) + signer.sign(_HELLO + challenge + plan.digest.encode()))
                taken_in = time.monotonic()
                while (said := _receive(connection, longest, time.monotonic() + _PATIENCE))[:1] != END:
                    _send(connection, answer(said), time.monotonic() + _PATIENCE)
                    until = time.monotonic() + wait
                return said[1:].decode("utf-8", "replace")
        except ssl.SSLCertVerificationError as error:
            raise UserError(
                f"the aggregator at {address[0]} has an invalid certificate: {error.verify_message.rstrip('.')}."
            ) from None
        except (_HungUpError, OSError):
            if time.monotonic() > taken_in + _GREETING:  # it may have waited for other parties
                until = time.monotonic() + wait
            if time.monotonic() > until:
                does = "does not answer" if taken_in == math.inf else "hangs up at once: it may have a different plan"
                raise UserError(f"the aggregator at {address[0]}:{address[1]} {does}.") from None
            time.sleep(_PAUSE)


def _called(address: tuple[str, int], context: ssl.SSLContext | None) -> socket.socket:
    plain = socket.create_connection(address, timeout=_GREETING)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return plain if context is None else context.wrap_socket(plain, server_hostname=address[0])


def address_of(text: str) -> tuple[str, int]:
    """Return the host and the port in a text HOST:PORT."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    try:
        host.encode("idna")  # raises ValueError here instead of in the lookup
    except ValueError:
        host = ""
    if not host or not port.isdecimal() or not 0 < int(port) <= 65535:
        raise UserError(f"an address must be HOST:PORT, the port from 1 to 65535, got {text!r}.")
    return host, int(port)


def server_tls(address: tuple[str, int], certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Return the aggregator's TLS context; None (no TLS) is allowed only on this machine."""
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
    """Return a party's TLS context, which verifies the aggregator; None (no TLS) is allowed only on this machine."""
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
    raise UserError(f"{address[0]} is another machine, which needs TLS: add {missing}, or use 127.0.0.1.")
