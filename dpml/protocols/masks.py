"""Keys and masks: a party adds masks to its vector, and the server removes them from the sum.

Every key is ``HKDF-SHA256(secret, salt = context of the session, info)`` with

    ``info = "dpml secagg 4 " | purpose | 0 | sender (4) | its public key (32) | receiver (4) | its public key (32)``

so each key serves one purpose, in one session, in one direction between two parties with exactly these public keys.
This binding is necessary: with X25519 alone, a key and its sum with a point of small order agree on the same secret
with a third key, so a party that announced such a variant of another party's key could cancel that party's masks.
The sender of a pair mask is the party with the lower number, which adds it; for a party's own seed, the party is both
sender and receiver.

    purpose       secret                                  public keys   what the key is for
    "seal"        X25519 of two sealing keys              sealing       ChaCha20-Poly1305 of one message, nonce 0
    "pair mask"   X25519 of two mask keys                 mask          key stream of ChaCha20, nonce and counter 0
    "self mask"   a party's seed                          mask          the same
    "commitment"  a party's seed                          mask          published directly
"""

import struct
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from dpml.arrays import blocks
from dpml.protocols.codec import Ring
from dpml.protocols.errors import RefusedError
from dpml.protocols.messages import KEY_BYTES
from dpml.protocols.session import PROTOCOL, Session

_PRIME = 2**255 - 19
_BLOCK = 1 << 15  # words of a key stream at once: 256 KiB, which stays in cache
_ZEROS = memoryview(bytes(8 * _BLOCK))
_NONCE = bytes(16)  # and the counter
_ENDS = struct.Struct(f"<I{KEY_BYTES}sI{KEY_BYTES}s")


Masks = Callable[[Ring], None]
"""A function that adds masks to a vector, in place."""

Stream = tuple[bytes, Ring | None, Ring | None]
"""The key of a key stream, the vector to which it is added, and the one from which it is subtracted."""


class End(NamedTuple):
    """A party and its public key, as one of the two ends that a key is bound to."""

    party: int
    key: bytes


def seal_key(secret: bytes, session: Session, sender: End, receiver: End) -> bytes:
    """Return the key of the single message that the sender seals for the receiver."""
    return _key(_extract(secret, session), b"seal", sender, receiver)


def pair_mask_key(secret: bytes, session: Session, one: End, other: End) -> bytes:
    """Return the key of the mask that the lower-numbered of two parties adds and the higher-numbered one subtracts."""
    return _key(_extract(secret, session), b"pair mask", *sorted((one, other)))


def self_mask_key(seed: bytes, session: Session, own: End) -> bytes:
    """Return the key of the mask derived from a party's own seed."""
    return _key(_extract(seed, session), b"self mask", own, own)


def commitment(seed: bytes, session: Session, own: End) -> bytes:
    """Return a commitment of a party to its seed; inverting it is as hard as guessing the seed's 256 bits."""
    return _key(_extract(seed, session), b"commitment", own, own)


def _extract(secret: bytes, session: Session) -> bytes:
    """Return the first half of HKDF: HMAC of the secret, with the context as its key."""
    extracting = _salted(session.context).copy()
    extracting.update(secret)
    return extracting.finalize()


@lru_cache(maxsize=4)  # a session needs the same object for millions of keys
def _salted(context: bytes) -> HMAC:
    return HMAC(context, SHA256())


def _key(extracted: bytes, purpose: bytes, sender: End, receiver: End) -> bytes:
    """Return the second half of HKDF."""
    info = PROTOCOL + b" " + purpose + b"\0" + _ENDS.pack(*sender, *receiver)
    return HKDFExpand(SHA256(), KEY_BYTES, info).derive(extracted)


def agree(own: X25519PrivateKey, other: End) -> bytes:
    """Return the secret that we share with a party. Derive keys from it; never use it as a key.

    A variant of the party's key by a point of small order gives the same secret.

    Raises:
        RefusedError: the key is not canonical, or of small order.
    """
    try:
        return own.exchange(_public(other))
    except ValueError:  # the secret would be 0 for any key of ours
        raise RefusedError(f"the public key of party {other.party} is not valid: it is of small order.") from None


@lru_cache(maxsize=1 << 15)  # a key is checked and parsed once for all parties of one process
def _public(other: End) -> X25519PublicKey:
    require_canonical(other)
    return X25519PublicKey.from_public_bytes(other.key)


def require_canonical(other: End) -> None:
    """Raise RefusedError if the top bit of a public key is set, or if it is 2^255 - 19 or more."""
    if int.from_bytes(other.key, "little") >= _PRIME:
        raise RefusedError(f"the public key of party {other.party} is not valid: it is not canonical.")


class Pairs:
    """The keys and masks that a party shares with its neighbours: in a deployment each party computes its own."""

    def seal_keys(self, private: X25519PrivateKey, session: Session, own: End, other: End) -> tuple[bytes, bytes]:
        """Return the key that seals our message for the other party, and the key that opens its message for us.

        Raises:
            RefusedError: as `agree`.
        """
        extracted = _extract(agree(private, other), session)
        return _key(extracted, b"seal", own, other), _key(extracted, b"seal", other, own)

    def masks(self, private: X25519PrivateKey, session: Session, own: End, others: Collection[End]) -> Masks:
        """Return a function that adds, in place, the masks that a party shares with others.

        Raises:
            RefusedError: as `agree`.
        """
        return partial(add_streams, keys=_pair_mask_keys(private, session, own, others))


PAIRS = Pairs()


class OncePerPair(Pairs):
    """Keys and masks for all parties of one process: the first party of a pair computes them for both.

    They are stored under both public keys, so two parties that disagree about their keys share nothing.
    """

    def __init__(self) -> None:
        self._seal_keys: dict[bytes, bytes] = {}  # two keys concatenated: one object for each of many pairs
        self._ahead: dict[End, tuple[Ring, list[End]]] = {}  # masks to be added, and the parties they are shared with

    def seal_keys(self, private: X25519PrivateKey, session: Session, own: End, other: End) -> tuple[bytes, bytes]:
        kept = self._seal_keys.pop(other.key + own.key, None)
        if kept is not None:
            return kept[KEY_BYTES:], kept[:KEY_BYTES]  # the other party's keys, in reverse
        to_seal, to_open = super().seal_keys(private, session, own, other)
        self._seal_keys[own.key + other.key] = to_seal + to_open
        return to_seal, to_open

    def masks(self, private: X25519PrivateKey, session: Session, own: End, others: Collection[End]) -> Masks:
        ready, those = self._ahead.pop(own, (None, []))
        before = set(those)
        fresh = [other for other in others if other not in before]
        keys = _pair_mask_keys(private, session, own, fresh)
        surplus = _pair_mask_keys(private, session, own, before.difference(others))

        def add(total: Ring) -> None:
            def streams() -> Iterator[Stream]:
                for other, (key, added) in zip(fresh, keys, strict=True):
                    if other not in self._ahead:
                        self._ahead[other] = np.zeros_like(total), []
                    theirs, in_them = self._ahead[other]
                    in_them.append(own)
                    yield (key, total, theirs) if added else (key, theirs, total)

            _add_and_subtract(len(total), streams())
            if ready is not None:
                total += ready
            add_streams(total, [(key, not added) for key, added in surplus])  # parties that are not in `others`

        return add


def _pair_mask_keys(
    private: X25519PrivateKey, session: Session, own: End, others: Iterable[End]
) -> list[tuple[bytes, bool]]:
    """Return the keys of the masks that a party shares with others, and whether it adds or subtracts each."""
    return [(pair_mask_key(agree(private, other), session, own, other), own < other) for other in others]


def add_streams(total: Ring, keys: Iterable[tuple[bytes, bool]]) -> None:
    """Add the key streams of ChaCha20 to ring elements in place; subtract those marked False.

    A key is used for this mask only.
    """
    _add_and_subtract(len(total), ((key, total, None) if added else (key, None, total) for key, added in keys))


def _add_and_subtract(length: int, streams: Iterable[Stream]) -> None:
    buffer = bytearray(8 * min(_BLOCK, length))
    words = np.frombuffer(buffer, "<u8")
    parts = [(some, _ZEROS[: 8 * (some.stop - some.start)]) for some in blocks(length, most=_BLOCK)]
    for key, plus, minus in streams:
        stream = Cipher(ChaCha20(key, _NONCE), mode=None).encryptor()
        for some, zeros in parts:
            stream.update_into(zeros, buffer)
            for total, combine in ((plus, np.add), (minus, np.subtract)):
                if total is not None:
                    combine(total[some], words[: len(zeros) // 8], total[some])


def add_pair_mask(total: Ring, secret: bytes, session: Session, own: End, other: End) -> None:
    """Add, in place, the mask that a party shares with another, from the secret they agree on."""
    add_streams(total, [(pair_mask_key(secret, session, own, other), own.party < other.party)])


def add_self_mask(total: Ring, seed: bytes, session: Session, own: End) -> None:
    """Add, in place, the mask derived from a party's own seed."""
    add_streams(total, [(self_mask_key(seed, session, own), True)])
