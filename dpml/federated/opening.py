"""What the aggregator and a party say to each other besides the messages of secure aggregation."""

import struct
from typing import NamedTuple

OPEN, MESSAGE, REFUSED, END = b"o", b"m", b"r", b"e"
"""The first byte: an `Opening`, a message of the protocol, the reason why there is none, or the model at the end."""

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
