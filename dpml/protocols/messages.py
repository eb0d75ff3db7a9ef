"""Encode the messages of secure aggregation as bytes, decode them, and refuse damaged messages.

Every message is ``version (1) | kind (1) | session (16) | party (4) | body | signature (64, if a party sent it) |
checksum (8)``, little-endian. `party` is the sender, or the receiver of a message from the server.
"""

import hashlib
import struct
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpml.errors import UserError
from dpml.protocols.shamir import LIMBS

VERSION = 4
"""Version of the messages and of the key derivation: increment it when either changes."""
SESSION_BYTES = 16
HASH_BYTES = 32
KEY_BYTES = 32
SIGNATURE_BYTES = 64
SHARE_BYTES = 4 * LIMBS
SEALED_BYTES = 2 * SHARE_BYTES + 16  # the shares of two secrets, and the tag of their encryption

_HEAD = struct.Struct(f"<BB{SESSION_BYTES}sI")
_CHECKSUM_BYTES = 8


class ProtocolError(UserError):
    """Raised if a run of secure aggregation cannot start, or ends without a sum."""


class RefusedError(ProtocolError):
    """Raised if a receiver refuses a message; the receiver's state does not change."""


class Kind(IntEnum):
    """The kinds of message, in a party's order of sending and receiving; each comment begins with the sender."""

    KEYS = 1  # party: its two public keys
    NEIGHBOURS = 2  # server: the Merkle path from the party's keys to the roster, and its neighbours' public keys
    SHARES = 3  # party: a commitment to its self-mask seed, and sealed shares for its neighbours
    INBOX = 4  # server: the sealed shares from the party's neighbours
    MASKED = 5  # party: its masked vector, its openly sent numbers, and the parties whose shares it cannot decrypt
    SURVIVORS = 6  # server: which parties are in the sum
    CONSISTENCY = 7  # party: the list of survivors, signed
    SIGNATURES = 8  # server: the signatures under the list of survivors
    UNMASK = 9  # party: shares of the survivors' self-mask seeds, and of the other parties' mask keys


FROM_PARTIES = frozenset({Kind.KEYS, Kind.SHARES, Kind.MASKED, Kind.CONSISTENCY, Kind.UNMASK})
"""The kinds of message that carry a signature."""

Share = tuple[int, bytes]


class Message(NamedTuple):
    """The content of a message; only messages from parties have a signature."""

    kind: Kind
    party: int
    body: bytes
    signature: bytes


def pack(kind: Kind, session: bytes, party: int, body: bytes, signature: bytes = b"") -> bytes:
    """Return a complete message as bytes."""
    message = _HEAD.pack(VERSION, kind, session, party) + body + signature
    return message + _checksum(message)


def unpack(message: bytes, session: bytes) -> Message:
    """Return the content of a message; raise RefusedError if the message is damaged or belongs to another session."""
    if len(message) < _HEAD.size + _CHECKSUM_BYTES:
        raise RefusedError(f"a message of {len(message)} bytes is too short.")
    content = message[:-_CHECKSUM_BYTES]
    if _checksum(content) != message[-_CHECKSUM_BYTES:]:
        raise RefusedError("a message is damaged: its checksum does not match.")
    version, number, of_session, party = _HEAD.unpack_from(content)
    if version != VERSION:
        raise RefusedError(f"a message of version {version} came, but this is version {VERSION}.")
    if of_session != session:
        raise RefusedError(f"a message of session {of_session.hex()} came to session {session.hex()}.")
    try:
        kind = Kind(number)
    except ValueError:
        raise RefusedError(f"a message of unknown kind {number} came from party {party}.") from None
    if kind not in FROM_PARTIES:
        return Message(kind, party, content[_HEAD.size :], b"")
    end = len(content) - SIGNATURE_BYTES
    if end < _HEAD.size:
        raise RefusedError(f"a message {kind.name} of {len(message)} bytes has no signature.")
    return Message(kind, party, content[_HEAD.size : end], content[end:])


def _checksum(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()[:_CHECKSUM_BYTES]


_ENTRIES = {
    Kind.NEIGHBOURS: struct.Struct(f"<I{KEY_BYTES}s{KEY_BYTES}s{SIGNATURE_BYTES}s"),  # party, both keys, signature
    Kind.SHARES: struct.Struct(f"<I{SEALED_BYTES}s"),  # receiver, sealed shares
    Kind.INBOX: struct.Struct(f"<I{SEALED_BYTES}s"),  # sender, sealed shares
    Kind.SIGNATURES: struct.Struct(f"<I{SIGNATURE_BYTES}s"),  # party, signature
    Kind.UNMASK: struct.Struct(f"<I{SHARE_BYTES}s"),  # owner of the secret, share
}
_COUNT = struct.Struct("<I")


def pack_entries(kind: Kind, entries: Iterable[tuple[Any, ...]], head: bytes = b"") -> bytes:
    """Return the body of a message: the bytes `head`, and then each entry's party number and bytes."""
    return head + b"".join(_ENTRIES[kind].pack(*entry) for entry in entries)


def unpack_entries(kind: Kind, body: bytes, head: int = 0) -> tuple[bytes, list[tuple[Any, ...]]]:
    """Return the first `head` bytes of a message's body, and the entries in the rest of the body."""
    form = _ENTRIES[kind]
    if len(body) < head or (len(body) - head) % form.size:
        raise RefusedError(
            f"a message {kind.name} has a wrong length: {len(body)} bytes are not {head} and a multiple of {form.size}."
        )
    return body[:head], list(form.iter_unpack(body[head:]))


def unpack_keys(body: bytes) -> tuple[bytes, bytes]:
    """Return a party's two public keys from the body of the message KEYS."""
    _require_length(Kind.KEYS, body, 2 * KEY_BYTES)
    return body[:KEY_BYTES], body[KEY_BYTES:]


def pack_masked(vector: NDArray[np.uint64], beside: NDArray[np.float64], left_out: Iterable[int] = ()) -> bytes:
    """Return the body of the message MASKED, with which a party sends its masked vector."""
    numbers = vector.astype("<u8", copy=False).tobytes() + beside.astype("<f8", copy=False).tobytes()
    return numbers + np.array(sorted(left_out), "<u4").tobytes()


def unpack_masked(
    body: bytes, length: int, beside: int, parties: int = 0
) -> tuple[NDArray[np.uint64], NDArray[np.float64], list[int]]:
    """Return the masked vector, the unmasked numbers, and the parties whose shares the sender could not decrypt."""
    end = 8 * (length + beside)
    more = len(body) - end
    if not 0 <= more <= 4 * parties or more % 4:
        raise RefusedError(f"a message MASKED has a wrong length: {len(body)} bytes where {end} are due.")
    left_out = np.frombuffer(body, "<u4", offset=end).tolist()
    if left_out != sorted(set(left_out)) or (left_out and left_out[-1] >= parties):
        raise RefusedError("a message MASKED leaves out an unknown party, or a party twice.")
    return np.frombuffer(body, "<u8", length), np.frombuffer(body, "<f8", beside, offset=8 * length), left_out


def pack_survivors(ids: Iterable[int], parties: int) -> bytes:
    """Encode the set of surviving parties as the body of a message, with one bit per party."""
    here = np.zeros(parties, dtype=np.bool_)
    here[list(ids)] = True
    return np.packbits(here, bitorder="little").tobytes()


def unpack_survivors(body: bytes, parties: int) -> frozenset[int]:
    """Return the numbers of the surviving parties from the body of the message SURVIVORS."""
    _require_length(Kind.SURVIVORS, body, -(-parties // 8))
    bits = np.unpackbits(np.frombuffer(body, np.uint8), bitorder="little")
    if bits[parties:].any():
        raise RefusedError(f"a message SURVIVORS names an unknown party: there are {parties}.")
    return frozenset(np.flatnonzero(bits).tolist())


def pack_unmask(self_masks: list[Share], mask_keys: list[Share]) -> bytes:
    """Return the body of the message UNMASK, with the shares that the server needs to remove masks."""
    return pack_entries(Kind.UNMASK, (*self_masks, *mask_keys), _COUNT.pack(len(self_masks)))


def unpack_unmask(body: bytes) -> tuple[list[Share], list[Share]]:
    """Return the shares of survivors' self-mask seeds and the shares of dropped-out parties' mask keys."""
    head, entries = unpack_entries(Kind.UNMASK, body, _COUNT.size)
    (count,) = _COUNT.unpack(head)
    if count > len(entries):
        raise RefusedError(f"a message UNMASK announces {count} shares but contains {len(entries)}.")
    return entries[:count], entries[count:]


def _require_length(kind: Kind, body: bytes, length: int) -> None:
    if len(body) != length:
        raise RefusedError(f"a message {kind.name} has a wrong length: {len(body)} bytes where {length} are due.")


_ABSENT = bytes(HASH_BYTES)


def depth(parties: int) -> int:
    """Return how many hashes a party needs to compute the root of the Merkle tree from its own keys."""
    return (parties - 1).bit_length()


def root(party: int, keys: bytes, path: bytes) -> bytes:
    """Return the Merkle tree's root, computed from a party's keys and the sibling hashes on the path to the root."""
    node, place = _leaf(party, keys), party
    for start in range(0, len(path), HASH_BYTES):
        sibling = path[start : start + HASH_BYTES]
        node = _node(sibling, node) if place & 1 else _node(node, sibling)
        place >>= 1
    return node


class Roster:
    """The Merkle tree of all parties' fresh public keys; all later keys and signatures are bound to the tree's root."""

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
        """Return the sibling hashes from which a party computes the root of the tree."""
        return b"".join(level[(party >> height) ^ 1] for height, level in enumerate(self._levels[:-1]))


def _leaf(party: int, keys: bytes) -> bytes:
    return hashlib.sha256(b"dpml secagg leaf" + party.to_bytes(4, "little") + keys).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"dpml secagg node" + left + right).digest()
