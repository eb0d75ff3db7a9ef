"""Derive keys and masks: a party adds masks to its vector, and the server removes the masks from the sum.

Each key depends on its purpose, the session, and both parties' numbers and public keys (to encrypt, also on the
direction). Otherwise a party could announce a variant of another party's key and cancel its masks.
"""

import struct
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dpml.arrays import blocks
from dpml.protocols.codec import Ring
from dpml.protocols.messages import KEY_BYTES, RefusedError
from dpml.protocols.session import PROTOCOL, Session

_PRIME = 2**255 - 19
_BLOCK = 1 << 15  # words of a key stream that are drawn at once: 256 KiB, which stay in the CPU cache
_NONCE = bytes(16)  # nonce and counter
_ENDS = struct.Struct(f"<I{KEY_BYTES}sI{KEY_BYTES}s")


class End(NamedTuple):
    """A party and its public key, which together are one end of a connection between two parties."""

    party: int
    key: bytes


def seal_key(secret: bytes, session: Session, sender: End, receiver: End) -> bytes:
    """Return the key that encrypts the one message that the sender sends to the receiver."""
    return _key(secret, session, b"seal", sender, receiver)


def pair_mask_key(secret: bytes, session: Session, one: End, other: End) -> bytes:
    """Return the key of the mask that the lower-numbered of two parties adds and the other party subtracts."""
    return _key(secret, session, b"pair mask", *sorted((one, other)))


def self_mask_key(seed: bytes, session: Session, own: End) -> bytes:
    """Return the key of the mask that a party derives from its own seed."""
    return _key(seed, session, b"self mask", own, own)


def commitment(seed: bytes, session: Session, own: End) -> bytes:
    """Return a party's commitment to its seed; recovering the seed is as hard as guessing 256 bits."""
    return _key(seed, session, b"commitment", own, own)


def _key(secret: bytes, session: Session, purpose: bytes, sender: End, receiver: End) -> bytes:
    info = PROTOCOL + b" " + purpose + b"\0" + _ENDS.pack(*sender, *receiver)
    return HKDF(SHA256(), KEY_BYTES, session.context, info).derive(secret)


def agree(own: X25519PrivateKey, other: End) -> bytes:
    """Return the secret of two parties, from which keys are derived; raise RefusedError for an invalid public key."""
    require_canonical(other)
    try:
        return own.exchange(X25519PublicKey.from_public_bytes(other.key))
    except ValueError:  # the secret would be 0 for every private key
        raise RefusedError(f"the public key of party {other.party} is not valid: it is of small order.") from None


def require_canonical(other: End) -> None:
    """Raise RefusedError unless the public key, as a number, is below 2^255 - 19."""
    if int.from_bytes(other.key, "little") >= _PRIME:
        raise RefusedError(f"the public key of party {other.party} is not valid: it is not canonical.")


def add_pair_mask(total: Ring, secret: bytes, session: Session, own: End, other: End) -> None:
    """Add two parties' shared mask in place to the vector `total` of integers modulo 2^64."""
    add_stream(total, pair_mask_key(secret, session, own, other), np.add if own.party < other.party else np.subtract)


def add_self_mask(total: Ring, seed: bytes, session: Session, own: End) -> None:
    """Add the mask from a party's own seed in place to the vector `total` of integers modulo 2^64."""
    add_stream(total, self_mask_key(seed, session, own))


def add_stream(total: Ring, key: bytes, combine: np.ufunc = np.add) -> None:
    """Add a ChaCha20 key stream to the integers `total` modulo 2^64 in place, or subtract it; use a key only once."""
    stream = Cipher(ChaCha20(key, _NONCE), mode=None).encryptor()
    for some in blocks(len(total), most=_BLOCK):
        words = np.frombuffer(stream.update(bytes(8 * (some.stop - some.start))), "<u8")
        combine(total[some], words, out=total[some])
