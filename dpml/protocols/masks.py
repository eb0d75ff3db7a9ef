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
from collections.abc import Callable
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
_BLOCK = 1 << 13  # words of a key stream at once: 64 KiB, which stay in the cache
_ZEROS = memoryview(bytes(8 * _BLOCK))
_ENDS = struct.Struct(f"<I{KEY_BYTES}sI{KEY_BYTES}s")


class End(NamedTuple):
    """A party and its public key, as one end of what a key is for."""

    party: int
    key: bytes


Agree = Callable[[X25519PrivateKey, End], bytes]
"""A way to `agree`."""


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


def once_a_pair() -> Agree:
    """`agree` for parties of one process: the first of two computes their secret, and the second takes it away.

    Each party of a deployment computes its own. A simulation is done in little more than half the time with it.
    """
    kept: dict[frozenset[bytes], bytes] = {}

    def agree_once(own: X25519PrivateKey, other: End) -> bytes:
        pair = frozenset((own.public_key().public_bytes_raw(), other.key))
        secret = kept.pop(pair, None)
        if secret is None:
            secret = kept[pair] = agree(own, other)
        return secret

    return agree_once


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
    add_stream(total, pair_mask_key(secret, session, own, other), 1 if own.party < other.party else -1)


def add_self_mask(total: Ring, seed: bytes, session: Session, own: End) -> None:
    """Add, in place, the mask that a party's own seed gives."""
    add_stream(total, self_mask_key(seed, session, own))
