"""The node's side: it relays between Flower and the party behind a socket, and loads nothing else.

Flower starts a process for every message, so this module and what it imports must be quick to load.
"""

import struct
import sys
from importlib import import_module
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any, NamedTuple

from dpml.errors import UserError

OPEN, MESSAGE, REFUSED = b"o", b"m", b"r"
"""The first byte of a relayed message: an `Opening`, a message of the protocol, or the reason why there is none."""

LONGEST = 1 << 32
"""Bytes of a message."""

_OPENING = struct.Struct("<16s64sI")


class Opening(NamedTuple):
    """The message that starts a secure sum.

    Attributes:
        name: 16 bytes, never used before.
        digest: the checksum of the plan (64 characters).
        number: the number of the sum in the release, from 0.
        told: the content sent to all parties for this sum.
    """

    name: bytes
    digest: str
    number: int
    told: bytes

    @property
    def content(self) -> bytes:
        """The same as bytes."""
        return _OPENING.pack(self.name, self.digest.encode(), self.number) + self.told

    @classmethod
    def read(cls, content: bytes) -> "Opening | None":
        """The opening encoded in these bytes; None if they encode none."""
        if len(content) < _OPENING.size:
            return None
        name, digest, number = _OPENING.unpack_from(content)
        return cls(name, digest.decode("ascii", "replace"), number, content[_OPENING.size :])


_RECORD, _BYTES = "dpml", "bytes"


def flower(module: str) -> Any:
    """A module of Flower, which is not part of a plain installation.

    Raises:
        UserError: it is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] != "flwr":
            raise
        raise UserError(
            "parties on machines of their own need Flower, which is not installed: "
            "pip install -e '.[federated]' in the clone of dpml."
        ) from None


def client_app() -> Any:
    """A node's app: it forwards to the party behind the socket in the node's configuration."""
    app = flower("flwr.clientapp").ClientApp()

    def relay(message: Any, context: Any) -> Any:
        try:
            answer = ask(Path(str(context.node_config["socket"])), content(message))
        except (KeyError, OSError, EOFError) as error:
            print(f"dpml: no party answers: {error!r}", file=sys.stderr)
            answer = REFUSED + b"a node has no party behind it."
        return flower("flwr.app").Message(records(answer), reply_to=message)

    app.query()(relay)
    return app


def ask(socket: Path, said: bytes) -> bytes:
    """The answer of the party behind a socket."""
    with Client(str(socket), "AF_UNIX") as connection:
        connection.send_bytes(said)
        return connection.recv_bytes(LONGEST)


def records(said: bytes) -> Any:
    """Bytes in the form that Flower carries."""
    app = flower("flwr.app")
    return app.RecordDict({_RECORD: app.ConfigRecord({_BYTES: said})})


def content(message: Any) -> bytes:
    """The bytes in a Flower message."""
    return bytes(message.content[_RECORD][_BYTES])
