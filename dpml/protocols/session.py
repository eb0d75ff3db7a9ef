"""What is public and known to all before a run of secure aggregation, and the stages that a run goes through."""

import os
from dataclasses import dataclass, field
from enum import IntEnum

from dpml.protocols.errors import ProtocolError
from dpml.protocols.graph import Topology, choose
from dpml.protocols.messages import SESSION_BYTES

_LONGEST = 1 << 28  # entries of 8 bytes: a message of 2 GiB


@dataclass(frozen=True)
class Session:
    """What is public and known to all before a run: its name, who shares with whom, how long the vectors are.

    `beside` is how many floats a party sends openly with its masked vector, to be used only if it is in the sum.
    """

    parties: int
    length: int
    topology: Topology
    beside: int = 0
    name: bytes = field(default_factory=lambda: os.urandom(SESSION_BYTES))

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
        if not (self.length >= 1 and self.beside >= 0 and self.length + self.beside <= _LONGEST):
            raise ProtocolError(
                f"a vector must have 1 to {_LONGEST} entries with those beside, got {self.length} and {self.beside}."
            )
        if len(self.name) != SESSION_BYTES:
            raise ProtocolError(f"the name of a session has {SESSION_BYTES} bytes, got {len(self.name)}.")

    @classmethod
    def of(cls, parties: int, length: int, topology: Topology | None = None, beside: int = 0) -> "Session":
        """A new session; the topology that suits the number of parties unless one is given."""
        return cls(parties, length, choose(parties) if topology is None else topology, beside)


class Stage(IntEnum):
    """What the server is waiting for."""

    KEYS = 0
    SHARES = 1
    MASKED = 2
    UNMASK = 3
    DONE = 4
