"""The link between parties and aggregator: one TLS connection for each party, for the whole release.

Callers call the aggregator, so that none has to be reached from outside, and prove with their signing key who they are.
Who is silent too long, or sends anything else than is due, is hung up on; it may call again, and is in the next sum.
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
_HELLO = b"dpml link "  # before what a party signs to prove who it is
_GREETING = 5.0  # seconds to prove it
_PATIENCE = 86_400.0  # seconds that a party waits for the aggregator's next word
_PAUSE = 0.2  # seconds between two calls
_LONGEST = 1 << 28  # bytes that a party takes of the aggregator, or more where vectors are longer
_CHUNK = 1 << 16


class _HungUpError(Exception):
    """The other side is gone, too slow, or sends more than it may."""


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
    """A connection that fails, takes too long, or is closed by another thread meanwhile is one that was hung up."""
    left = until - time.monotonic()
    if left <= 0:
        raise _HungUpError
    try:
        connection.settimeout(left)
        yield
    except (OSError, ValueError):  # TLS raises the second where it was closed
        raise _HungUpError from None


def _hang_up(connection: socket.socket) -> None:
    """Close a connection; a thread that waits for its other side stops doing so."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


@dataclass
class Callers:
    """The parties that have called: `exchange` sends each of some a message and takes the answers that come in time."""

    plan: FederationPlan
    timeout: float
    _connections: dict[int, socket.socket] = field(default_factory=dict)
    over: bool = False

    def __post_init__(self) -> None:
        self._pool = ThreadPoolExecutor(len(self.plan.seats))  # so that nobody waits for another who is slow

    def greet(self, connection: socket.socket, context: ssl.SSLContext | None) -> None:
        """Take in a party that proves who it is, in the place of an earlier connection; hang up on anybody else."""
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
        if self.over:  # it called while all were hung up on
            connection.close()

    def await_all(self, wait: float) -> None:
        """Return when all parties have called, or the seconds to wait are over."""
        until = time.monotonic() + wait
        while len(self._connections) < len(self.plan.seats) and time.monotonic() < until:
            time.sleep(_PAUSE / 4)

    def exchange(self, mail: Mapping[int, bytes]) -> dict[int, bytes]:
        """The answers of the parties that are there, by their numbers."""
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
        """Hand the model to all parties that are there, and hang up."""
        until, content = time.monotonic() + self.timeout, END + model.encode()

        def hand(connection: socket.socket) -> None:
            with suppress(_HungUpError):
                _send(connection, content, until)

        list(self._pool.map(hand, list(self._connections.values())))
        self.close()

    def close(self) -> None:
        """Hang up on all, also on who calls from now on."""
        self.over = True
        for connection in list(self._connections.values()):
            _hang_up(connection)
        self._pool.shutdown()


@contextmanager
def listening(
    plan: FederationPlan, address: tuple[str, int], timeout: float, context: ssl.SSLContext | None
) -> Iterator[tuple[Callers, int]]:
    """Let parties call; yields them, and the port that they call."""
    try:
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        server = socket.create_server(address, family=family, backlog=len(plan.seats))
    except OSError as error:
        raise UserError(f"{address[0]}:{address[1]} cannot be listened on: {error.strerror or error}.") from None
    parties = Callers(plan, timeout)

    def accept() -> None:
        while True:
            try:
                plain, _ = server.accept()
            except OSError:
                if parties.over:
                    return
                time.sleep(_PAUSE)  # too many strangers, or one that was gone at once
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
    """Answer the aggregator until it hands over the model, and return the model. Connect again after a lost line."""
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
                f"the aggregator at {address[0]} is not who it should be: {error.verify_message.rstrip('.')}."
            ) from None
        except (_HungUpError, OSError):
            if time.monotonic() > taken_in + _GREETING:  # not hung up on at once: it may have waited for others
                until = time.monotonic() + wait
            if time.monotonic() > until:
                does = "does not answer" if taken_in == math.inf else "hangs up at once: it may have another plan"
                raise UserError(f"the aggregator at {address[0]}:{address[1]} {does}.") from None
            time.sleep(_PAUSE)


def _called(address: tuple[str, int], context: ssl.SSLContext | None) -> socket.socket:
    plain = socket.create_connection(address, timeout=_GREETING)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return plain if context is None else context.wrap_socket(plain, server_hostname=address[0])


def address_of(text: str) -> tuple[str, int]:
    """HOST:PORT."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    try:
        host.encode("idna")  # as it is when it is looked up
    except ValueError:
        host = ""
    if not host or not port.isdecimal() or not 0 < int(port) <= 65535:
        raise UserError(f"an address must be HOST:PORT, the port from 1 to 65535, got {text!r}.")
    return host, int(port)


def server_tls(address: tuple[str, int], certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """What the aggregator shows; None on this machine only, where nobody listens in."""
    if certificate is None or key is None:
        _require_this_machine(address, "--certificate and --certificate-key")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:
        raise UserError(f"{certificate} and {key} are no certificate and its key: {error.strerror or error}.") from None
    return context


def client_tls(address: tuple[str, int], authority: Path | None) -> ssl.SSLContext | None:
    """By which a party knows the aggregator; None on this machine only."""
    if authority is None:
        _require_this_machine(address, "--ca")
        return None
    try:
        return ssl.create_default_context(cafile=str(authority))
    except OSError as error:
        raise UserError(f"{authority} is no certificate: {error.strerror or error}.") from None


def _require_this_machine(address: tuple[str, int], missing: str) -> None:
    with suppress(ValueError):
        if ip_address(address[0]).is_loopback:
            return
    raise UserError(f"{address[0]} is another machine, and TLS needs {missing}: without it there is 127.0.0.1 only.")
