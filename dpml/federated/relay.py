"""A node's side: it relays between Flower and the party behind a socket, and loads nothing else.

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
"""The first byte of what is relayed: an `Opening`, a message of the protocol, and why there is none."""

LONGEST = 1 << 32
"""Bytes of a message."""

_OPENING = struct.Struct("<16s64sI")


class Opening(NamedTuple):
    """What opens a secure sum.

    Attributes:
        name: 16 bytes, never used before.
        digest: of the plan (64 characters).
        number: of the sum in the release, from 0.
        told: what all parties are told for it.
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
        """The opening of these bytes; None: it is none."""
        if len(content) < _OPENING.size:
            return None
        name, digest, number = _OPENING.unpack_from(content)
        return cls(name, digest.decode("ascii", "replace"), number, content[_OPENING.size :])


_RECORD, _BYTES = "dpml", "bytes"


def flower(module: str) -> Any:
    """A module of Flower, which is no part of a plain installation.

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
            "pip install 'multiparty-dp[federated]'."
        ) from None


def client_app() -> Any:
    """A node's app: it asks the party behind the socket that the node's configuration names."""
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
    """What the party behind a socket answers."""
    with Client(str(socket), "AF_UNIX") as connection:
        connection.send_bytes(said)
        return connection.recv_bytes(LONGEST)


def records(said: bytes) -> Any:
    """Bytes, as Flower carries them."""
    app = flower("flwr.app")
    return app.RecordDict({_RECORD: app.ConfigRecord({_BYTES: said})})


def content(message: Any) -> bytes:
    """The bytes that Flower carried."""
    return bytes(message.content[_RECORD][_BYTES])
