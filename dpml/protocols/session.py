"""The public parameters of a run of secure aggregation, and its stages."""

import hashlib
import os
import struct
from dataclasses import astuple, dataclass, field, replace
from enum import IntEnum
from functools import cached_property

from dpml.protocols.graph import Topology, choose, least_quorum
from dpml.protocols.messages import KEY_BYTES, SESSION_BYTES, VERSION, ProtocolError

PROTOCOL = b"dpml secagg %d" % VERSION
"""The prefix of every key derivation and every signature."""

_LONGEST = 1 << 28  # entries of 8 bytes: a message of 2 GiB


@dataclass(frozen=True)
class Session:
    """The public parameters that all parties know before a run.

    Attributes:
        parties: the number of parties M.
        length: entries of a vector.
        topology: which parties share masks, and the threshold.
        beside: the number of floats that a party sends openly with its masked vector, used only if it is in the sum.
        name: 16 bytes; on a ring they determine the seats, so nobody can choose them or use them again.
        identities: the Ed25519 verification key of every party; none until the parties are enrolled.
        roster: the hash of all fresh keys of a run (`dpml.protocols.roster`); none until they are known.
    """

    parties: int
    length: int
    topology: Topology
    beside: int = 0
    name: bytes = field(default_factory=lambda: os.urandom(SESSION_BYTES))
    identities: tuple[bytes, ...] = ()
    roster: bytes = b""

    def __post_init__(self) -> None:
        topology = self.topology
        if not (
            (
                topology.degree == self.parties - 1
                or (0 < topology.degree < self.parties - 1 and topology.degree % 2 == 0)
            )
            and 2 <= topology.threshold <= min(topology.degree + 1, topology.quorum)
            and topology.quorum <= self.parties
        ):
            raise ProtocolError(f"{topology} does not suit {self.parties} parties.")
        if topology.quorum < (least := least_quorum(self.parties, topology.colluders)):
            raise ProtocolError(
                f"a quorum of {topology.quorum} does not protect {self.parties} parties against a server that lies and "
                f"{topology.colluders} colluders: they could have two lists of survivors signed; "
                f"the least quorum is {least}."
            )
        if topology.degree == self.parties - 1 and topology.threshold <= topology.colluders:
            raise ProtocolError(
                f"a threshold of {topology.threshold} does not protect {self.parties} parties against "
                f"{topology.colluders} colluders: they hold that many shares of every secret."
            )
        if not (self.length >= 1 and self.beside >= 0 and self.length + self.beside <= _LONGEST):
            raise ProtocolError(
                f"a vector must have 1 to {_LONGEST} entries with the open ones, got {self.length} and {self.beside}."
            )
        if len(self.name) != SESSION_BYTES:
            raise ProtocolError(f"the name of a session has {SESSION_BYTES} bytes, got {len(self.name)}.")
        if self.identities and (
            len(self.identities) != self.parties
            or len(set(self.identities)) < self.parties
            or {len(key) for key in self.identities} != {KEY_BYTES}
        ):
            raise ProtocolError(f"{self.parties} parties need as many different identities of {KEY_BYTES} bytes.")

    def require_identities(self) -> None:
        """Raise ProtocolError unless the parties are enrolled."""
        if not self.identities:
            raise ProtocolError("the parties of this session are not enrolled: nobody knows their verification keys.")

    @cached_property
    def context(self) -> bytes:
        """The value that every key and signature of the session is bound to: SHA-256 of all public parameters.

        ``"dpml secagg 4" | name | M, length, beside, degree, threshold, quorum, colluders (8 bytes each,
        little-endian) | roster | identities``. The roster is empty in KEYS, and that of the run from then on.

        Raises:
            ProtocolError: the parties are not enrolled yet.
        """
        self.require_identities()
        numbers = struct.pack("<7Q", self.parties, self.length, self.beside, *astuple(self.topology))
        return hashlib.sha256(PROTOCOL + self.name + numbers + self.roster + b"".join(self.identities)).digest()

    def run(self, roster: bytes) -> "Session":
        """Return the session bound to the keys of one run."""
        return replace(self, roster=roster)

    @classmethod
    def of(cls, parties: int, length: int, topology: Topology | None = None, beside: int = 0) -> "Session":
        """Return a new session; a topology that is not given suits the number of parties."""
        return cls(parties, length, choose(parties) if topology is None else topology, beside)


class Stage(IntEnum):
    """The message that the server is waiting for."""

    KEYS = 0
    SHARES = 1
    MASKED = 2
    CONSISTENCY = 3
    UNMASK = 4
    DONE = 5
