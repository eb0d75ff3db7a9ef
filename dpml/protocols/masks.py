"""Keys and masks: what a party adds to its vector, and what the server takes off the sum again.

All keys are derived by HKDF-SHA256 with the session's name as salt, each for one purpose.
"""

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dpml.protocols.codec import Ring
from dpml.protocols.errors import RefusedError
from dpml.protocols.messages import KEY_BYTES
from dpml.protocols.session import Session


def derive(secret: bytes, session: Session, purpose: bytes, length: int = KEY_BYTES) -> bytes:
    """A key of `length` bytes for one purpose in one session."""
    return HKDF(SHA256(), length, salt=session.name, info=b"dpml secagg " + purpose).derive(secret)


def agree(own: X25519PrivateKey, other: bytes, who: int) -> bytes:
    """The secret that we share with party `who`, whose public key is `other`.

    Raises:
        RefusedError: nobody can agree with that key.
    """
    try:
        return own.exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError:
        raise RefusedError(f"the public key of party {who} is not valid.") from None


def _mask(key: bytes, length: int) -> Ring:
    """`length` uniform ring elements: the key stream of ChaCha20, whose key is used this once."""
    stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(8 * length))
    return np.frombuffer(stream, "<u8")


def add_pair_mask(total: Ring, secret: bytes, session: Session, party: int, other: int) -> None:
    """Add, in place, what `party` adds to its vector for the sake of `other`."""
    mask = _mask(derive(secret, session, b"pair mask"), len(total))
    (np.add if party < other else np.subtract)(total, mask, out=total)


def add_self_mask(total: Ring, seed: bytes, session: Session) -> None:
    """Add, in place, the mask that a party's own seed gives."""
    total += _mask(derive(seed, session, b"self mask"), len(total))


def commitment(seed: bytes, session: Session, party: int) -> bytes:
    """What binds a party to its seed; as hard to read as the seed's 256 bits are to guess."""
    return derive(seed, session, b"commitment" + party.to_bytes(4, "little"))
