"""Keys and masks: what a party adds to its vector, and what the server takes off the sum again.

Every key is ``HKDF-SHA256(secret, salt = context of the session, info)`` with

    ``info = "dpml secagg 2 " | purpose | 0 | sender (4) | its public key (32) | receiver (4) | its public key (32)``

so that it serves one purpose, in one session, in one direction between two parties with these very keys. It has to be
so: by X25519 alone different public keys can agree on the same secret with a third one (a key and its sum with a point
of small order), and whoever announced such a twin of another's key could make that party's masks cancel. Of a pair mask
the sender is the party of the lower number, who adds it; of what a party makes for itself it is both ends.

    purpose       secret                                  public keys   what the key is for
    "seal"        X25519 of two sealing keys              sealing       ChaCha20-Poly1305 of one message, nonce 0
    "pair mask"   X25519 of two mask keys                 mask          key stream of ChaCha20, nonce and counter 0
    "self mask"   a party's seed                          mask          the same
    "commitment"  a party's seed                          mask          published as it is
"""

import struct
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dpml.protocols.codec import Ring
from dpml.protocols.errors import RefusedError
from dpml.protocols.messages import KEY_BYTES
from dpml.protocols.session import PROTOCOL, Session

_PRIME = 2**255 - 19
_BLOCK = 1 << 15  # words of a key stream at once: 256 KiB, which stay in the cache
_ZEROS = memoryview(bytes(8 * _BLOCK))
_ENDS = struct.Struct(f"<I{KEY_BYTES}sI{KEY_BYTES}s")


class End(NamedTuple):
    """A party and its public key, as one end of what a key is for."""

    party: int
    key: bytes


def seal_key(secret: bytes, session: Session, sender: End, receiver: End) -> bytes:
    """The key of the one message that the sender seals for the receiver."""
    return _derive(secret, session, b"seal", sender, receiver)


def pair_mask_key(secret: bytes, session: Session, one: End, other: End) -> bytes:
    """The key of the mask that the lower of two parties adds, and the higher one subtracts."""
    return _derive(secret, session, b"pair mask", *sorted((one, other)))


def self_mask_key(seed: bytes, session: Session, own: End) -> bytes:
    """The key of the mask that a party's own seed gives."""
    return _derive(seed, session, b"self mask", own, own)


def commitment(seed: bytes, session: Session, own: End) -> bytes:
    """What binds a party to its seed; as hard to read as the seed's 256 bits are to guess."""
    return _derive(seed, session, b"commitment", own, own)


def _derive(secret: bytes, session: Session, purpose: bytes, sender: End, receiver: End) -> bytes:
    info = PROTOCOL + b" " + purpose + b"\0" + _ENDS.pack(*sender, *receiver)
    return HKDF(SHA256(), KEY_BYTES, salt=session.context, info=info).derive(secret)


def agree(own: X25519PrivateKey, other: End) -> bytes:
    """The secret that we share with a party. A twin of its key gives the same: to derive keys from, not to be one.

    Raises:
        RefusedError: the key is not canonical, or of small order.
    """
    require_canonical(other)
    try:
        return own.exchange(X25519PublicKey.from_public_bytes(other.key))
    except ValueError:  # the secret would be 0, whatever our key is
        raise RefusedError(f"the public key of party {other.party} is not valid: it is of small order.") from None


def require_canonical(other: End) -> None:
    """Raise RefusedError if the top bit of a public key is set, or if it is 2^255 - 19 or more."""
    if int.from_bytes(other.key, "little") >= _PRIME:
        raise RefusedError(f"the public key of party {other.party} is not valid: it is not canonical.")


class Pairs:
    """The keys that a party has in common with each of its neighbours: each party of a deployment computes its own."""

    def seal_keys(self, private: X25519PrivateKey, session: Session, own: End, other: End) -> tuple[bytes, bytes]:
        """The key that seals our message for another, and the one that opens its for us.

        Raises:
            RefusedError: as `agree`.
        """
        secret = agree(private, other)
        return seal_key(secret, session, own, other), seal_key(secret, session, other, own)

    def mask_key(self, private: X25519PrivateKey, session: Session, own: End, other: End) -> bytes:
        """The key of the mask that two parties share.

        Raises:
            RefusedError: as `agree`.
        """
        return pair_mask_key(agree(private, other), session, own, other)


PAIRS = Pairs()


class OncePerPair(Pairs):
    """The same for parties of one process: the first of two computes what they share, and the second takes it away.

    Keys are kept under both public keys, so that two that do not have the same view of them share nothing.
    """

    def __init__(self) -> None:
        self._seal_keys: dict[bytes, tuple[bytes, bytes]] = {}
        self._mask_keys: dict[bytes, bytes] = {}

    def seal_keys(self, private: X25519PrivateKey, session: Session, own: End, other: End) -> tuple[bytes, bytes]:
        kept = self._seal_keys.pop(other.key + own.key, None)
        if kept is not None:
            return kept
        to_seal, to_open = super().seal_keys(private, session, own, other)
        self._seal_keys[own.key + other.key] = to_open, to_seal  # as the other has them
        return to_seal, to_open

    def mask_key(self, private: X25519PrivateKey, session: Session, own: End, other: End) -> bytes:
        kept = self._mask_keys.pop(other.key + own.key, None)
        if kept is None:
            kept = self._mask_keys[own.key + other.key] = super().mask_key(private, session, own, other)
        return kept


def add_stream(total: Ring, key: bytes, sign: int = 1) -> None:
    """Add the key stream of ChaCha20, whose key is used this once, to ring elements in place, or subtract it."""
    stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
    buffer = bytearray(8 * min(_BLOCK, len(total)))
    block = np.frombuffer(buffer, "<u8")
    for start in range(0, len(total), _BLOCK):
        part = total[start : start + _BLOCK]
        stream.update_into(_ZEROS[: 8 * len(part)], buffer)
        (np.add if sign > 0 else np.subtract)(part, block[: len(part)], out=part)


def add_pair_mask(total: Ring, secret: bytes, session: Session, own: End, other: End) -> None:
    """Add, in place, what a party adds to its vector for the sake of another, from the secret they agree on."""
    add_between(total, pair_mask_key(secret, session, own, other), own, other)


def add_between(total: Ring, key: bytes, own: End, other: End) -> None:
    """The same from the key of their mask."""
    add_stream(total, key, 1 if own.party < other.party else -1)


def add_self_mask(total: Ring, seed: bytes, session: Session, own: End) -> None:
    """Add, in place, the mask that a party's own seed gives."""
    add_stream(total, self_mask_key(seed, session, own))
