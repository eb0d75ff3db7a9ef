"""The roster of a run: one hash of the fresh keys of all parties, to which all keys and signatures after it are bound.

The server makes it, and nobody needs to trust it for that. A party checks that its own keys of this run are in it, at
its own place, so that whatever is signed for this roster was signed after the party made them: nothing of an earlier
run verifies. There is one place for every party. So a party that is started again, with other keys, is in another
roster, and under one roster nobody signs two lists.

It is a Merkle tree (1987) with a leaf for each of M parties, in SHA-256: of "dpml secagg leaf" | party (4 bytes) | its
message KEYS, or 32 zeros for a party that sent none; and of "dpml secagg node" | left | right.
"""

import hashlib
from collections.abc import Mapping

HASH_BYTES = 32
_ABSENT = bytes(HASH_BYTES)


def depth(parties: int) -> int:
    """How many hashes a party needs to find the roster from its own keys."""
    return (parties - 1).bit_length()


def root(party: int, keys: bytes, path: bytes) -> bytes:
    """The roster that has a party's keys in its place, if these are the hashes beside the way up to it."""
    found, place = _leaf(party, keys), party
    for start in range(0, len(path), HASH_BYTES):
        beside = path[start : start + HASH_BYTES]
        found = _node(beside, found) if place & 1 else _node(found, beside)
        place >>= 1
    return found


class Roster:
    """The roster of all `keys`, the parties' messages KEYS."""

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
        """What a party needs to find the root."""
        return b"".join(level[(party >> height) ^ 1] for height, level in enumerate(self._levels[:-1]))


def _leaf(party: int, keys: bytes) -> bytes:
    return hashlib.sha256(b"dpml secagg leaf" + party.to_bytes(4, "little") + keys).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"dpml secagg node" + left + right).digest()
