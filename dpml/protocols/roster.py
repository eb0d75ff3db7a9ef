"""The roster of a run: one hash of the fresh keys of all parties, to which all later keys and signatures are bound.

The server computes it and need not be trusted: a party checks that its own keys of this run are in it, at its own
place. So all signatures for this roster were made after the party's keys, and none of an earlier run verifies. There is
one place for every party, so a party that is started again, with other keys, is in another roster.

It is a Merkle tree (1987) with a leaf for each of M parties, in SHA-256: of "dpml secagg leaf" | party (4 bytes) | its
message KEYS, or 32 zeros for a party that sent none; and of "dpml secagg node" | left | right.
"""

import hashlib
from collections.abc import Mapping

HASH_BYTES = 32
_ABSENT = bytes(HASH_BYTES)


def depth(parties: int) -> int:
    """Return how many hashes a party needs to compute the roster from its own keys."""
    return (parties - 1).bit_length()


def root(party: int, keys: bytes, path: bytes) -> bytes:
    """Return the roster with a party's keys in its place, from the sibling hashes on the path to the root."""
    node, place = _leaf(party, keys), party
    for start in range(0, len(path), HASH_BYTES):
        sibling = path[start : start + HASH_BYTES]
        node = _node(sibling, node) if place & 1 else _node(node, sibling)
        place >>= 1
    return node


class Roster:
    """The Merkle tree of all `keys`, the parties' messages KEYS."""

    def __init__(self, parties: int, keys: Mapping[int, bytes]) -> None:
        leaves = [_leaf(k, keys[k]) if k in keys else _ABSENT for k in range(parties)]
        self._levels = [leaves + [_ABSENT] * ((1 << depth(parties)) - parties)]
        while len(self._levels[-1]) > 1:
            last = self._levels[-1]
            self._levels.append([_node(*last[k : k + 2]) for k in range(0, len(last), 2)])

    @property
    def root(self) -> bytes:
        return self._levels[-1][0]

    def path(self, party: int) -> bytes:
        """Return the sibling hashes with which a party computes the root."""
        return b"".join(level[(party >> height) ^ 1] for height, level in enumerate(self._levels[:-1]))


def _leaf(party: int, keys: bytes) -> bytes:
    return hashlib.sha256(b"dpml secagg leaf" + party.to_bytes(4, "little") + keys).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"dpml secagg node" + left + right).digest()
