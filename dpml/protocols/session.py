"""Define the public parameters of a run of secure aggregation, and which parties share masks.

A ring has the least degree k and threshold t that are safe: docs/secure_aggregation.md, "What the ring needs".
"""

import hashlib
import math
import os
import struct
from bisect import bisect_left
from dataclasses import astuple, dataclass, field, replace
from enum import IntEnum
from functools import cache, cached_property, lru_cache

from dpml.protocols.messages import SESSION_BYTES, VERSION, ProtocolError

PROTOCOL = b"dpml secagg %d" % VERSION
"""The prefix of every key derivation and every signature."""

_LONGEST = 1 << 28  # entries of 8 bytes: a message of 2 GiB
SECURITY = 2.0**-40
"""The allowed probability that a ring violates privacy (the first two failures)."""
FAILURE = 2.0**-30
"""The allowed probability that a run on a ring ends without a sum (the third failure)."""


@dataclass(frozen=True)
class Topology:
    """Each party shares masks with `degree` other parties, and `threshold` parties can reconstruct a secret.

    A run with fewer than `quorum` survivors has no sum. Up to `colluders` parties may collude with the server.
    """

    degree: int
    threshold: int
    quorum: int
    colluders: int


def least_quorum(parties: int, colluders: int) -> int:
    """Return the least quorum of signatures that at most one list of survivors can reach.

    Honest parties sign one list, but C colluders of a malicious server sign any number. Two lists with q signatures
    would each need q - C different honest parties, which ``2 (q - C) > M - C`` excludes (Bonawitz et al. 2017, Sec. 6).
    """
    return (parties + colluders) // 2 + 1


def _default_colluders(parties: int) -> int:
    return -(-parties // 3) - 1


def complete(parties: int, threshold: int | None = None) -> Topology:
    """Return the topology in which all pairs of parties share masks (Bonawitz et al. 2017).

    It protects M parties against a malicious server with up to ``2 threshold - M - 1`` colluders. The default threshold
    is two thirds of M, rounded up, which protects against fewer than M/3 colluders.
    """
    t = least_quorum(parties, _default_colluders(parties)) if threshold is None else threshold
    if parties < 2 or not least_quorum(parties, 0) <= t <= parties:
        raise ProtocolError(
            f"secure aggregation needs at least 2 parties, and a threshold of more than half of them and at most all, "
            f"as otherwise a malicious server can unmask vectors: got {parties} parties and threshold {t}; "
            f"the least is {max(2, least_quorum(parties, 0))}."
        )
    return Topology(parties - 1, t, t, 2 * t - parties - 1)


@cache
def sparse(
    parties: int,
    colluders: float = 1 / 3,
    dropouts: float = 0.3,
    security: float = SECURITY,
    failure: float = FAILURE,
) -> Topology | None:
    """Return the ring with the fewest neighbours per party that tolerates these fractions of colluders and dropouts.

    The result is None if the bounds on failures need the complete graph, or cannot be satisfied.
    """
    from scipy.stats import hypergeom  # slow to load, and not needed in a party's process

    C, D = math.ceil(colluders * parties) - 1, math.floor(dropouts * parties)
    for degree in range(2, parties - 1, 2):
        # first failure: all neighbours on one side of a party collude or drop out
        cut = parties * math.prod(max(C + D - i, 0) / (parties - i) for i in range(degree // 2))
        if cut > security:
            continue
        # second failure: at least t neighbours of an honest party collude
        more = hypergeom(parties - 1, C, degree).sf
        t = 2 + bisect_left(range(2, degree + 1), True, key=lambda t: cut + (parties - C) * more(t - 1) <= security)
        if t > degree:
            continue
        # third failure: fewer than t survivors hold shares of some party's secrets; a survivor itself holds one
        others = hypergeom.cdf(t - 1, parties - 1, parties - D, degree)
        itself = hypergeom.cdf(t - 2, parties - 1, parties - D - 1, degree)
        if D * others + (parties - D) * itself <= failure:
            return Topology(degree, t, parties - D, C)
    return None


def choose(parties: int, colluders: int = 0) -> Topology:
    """Return a ring if it tolerates `colluders` and has at most half the complete graph's edges, else that graph."""
    ring = sparse(parties) if parties > 1 else None
    if ring is not None and 2 * ring.degree <= parties - 1 and ring.colluders >= colluders:
        return ring
    return complete(parties, least_quorum(parties, max(colluders, _default_colluders(parties))))


@lru_cache(maxsize=4)
def seat(parties: int, degree: int, name: bytes) -> tuple[tuple[int, ...], ...]:
    """Return every party's neighbours in ascending order: the nearest parties on both sides of it on the ring.

    On the ring, parties are sorted by a hash of the session's `name` and the party's number.
    """
    if degree == parties - 1:
        return tuple((*range(k), *range(k + 1, parties)) for k in range(parties))
    text = b"dpml secagg seat" + name
    ring = sorted(range(parties), key=lambda party: hashlib.sha256(text + party.to_bytes(4, "little")).digest())
    neighbours: list[tuple[int, ...]] = [()] * parties
    for place, party in enumerate(ring):
        steps = (*range(-(degree // 2), 0), *range(1, degree // 2 + 1))
        neighbours[party] = tuple(sorted(ring[(place + step) % parties] for step in steps))
    return tuple(neighbours)


@dataclass(frozen=True)
class Session:
    """The public parameters of a run, which all parties know before it starts.

    Attributes:
        length: entries of a vector.
        beside: the number of floats that a party sends openly with its masked vector.
        name: 16 random bytes, never used before, which determine the parties' places on a ring.
        identities: the Ed25519 verification key of every party; () until the parties are enrolled.
        roster: the hash of all fresh keys of a run (`dpml.protocols.messages`); empty until they are known.
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
        complete = topology.degree == self.parties - 1
        ring = 0 < topology.degree < self.parties - 1 and topology.degree % 2 == 0
        shared = 2 <= topology.threshold <= min(topology.degree + 1, topology.quorum)
        if not ((complete or ring) and shared and topology.quorum <= self.parties):
            raise ProtocolError(f"{topology} is not possible with {self.parties} parties.")
        if topology.quorum < (least := least_quorum(self.parties, topology.colluders)):
            raise ProtocolError(
                f"a quorum of {topology.quorum} does not protect {self.parties} parties against a server that lies and "
                f"{topology.colluders} colluders: they could have two lists of survivors signed; "
                f"the least quorum is {least}."
            )
        if complete and topology.threshold <= topology.colluders:
            raise ProtocolError(
                f"a threshold of {topology.threshold} does not protect {self.parties} parties against "
                f"{topology.colluders} colluders: they hold that many shares of every secret."
            )
        if not (self.length >= 1 and self.beside >= 0 and self.length + self.beside <= _LONGEST):
            raise ProtocolError(
                f"a vector must have 1 to {_LONGEST} entries including open ones, got {self.length} and {self.beside}."
            )
        if self.identities and len(set(self.identities)) != self.parties:
            raise ProtocolError(f"{self.parties} parties need as many different identities.")

    @cached_property
    def context(self) -> bytes:
        """The SHA-256 hash of all public parameters, to which every key and signature of the session is bound."""
        numbers = struct.pack("<7Q", self.parties, self.length, self.beside, *astuple(self.topology))
        return hashlib.sha256(PROTOCOL + self.name + numbers + self.roster + b"".join(self.identities)).digest()

    def run(self, roster: bytes) -> "Session":
        """Return the session with `roster`, a hash of all fresh keys; later keys and signatures are bound to it."""
        return replace(self, roster=roster)

    @classmethod
    def of(cls, parties: int, length: int, topology: Topology | None = None, beside: int = 0) -> "Session":
        """Return a new session, by default with the topology that `choose` returns."""
        return cls(parties, length, choose(parties) if topology is None else topology, beside)


class Stage(IntEnum):
    """The stages of a run, named after the kind of message that the server waits for."""

    KEYS = 0
    SHARES = 1
    MASKED = 2
    CONSISTENCY = 3
    UNMASK = 4
    DONE = 5
