"""Sign and verify messages with Ed25519; a signature is bound to the session, the round, the party and the message."""

import hashlib
from dataclasses import replace
from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dpml.protocols import messages
from dpml.protocols.messages import Kind, RefusedError
from dpml.protocols.session import PROTOCOL, Session


def enrol(session: Session) -> tuple[Session, tuple[Ed25519PrivateKey, ...]]:
    """Return the session with a new verification key for each party, and all parties' signing keys."""
    signers = tuple(Ed25519PrivateKey.generate() for _ in range(session.parties))
    return replace(session, identities=tuple(s.public_key().public_bytes_raw() for s in signers)), signers


def signed(session: Session, signer: Ed25519PrivateKey, kind: Kind, party: int, body: bytes) -> bytes:
    """Return a party's complete message as bytes, with its signature."""
    signature = signer.sign(_content(session.context, kind, party, body))
    return messages.pack(kind, session.name, party, body, signature)


def check(session: Session, kind: Kind, party: int, body: bytes, signature: bytes) -> None:
    """Raise RefusedError unless `party` signed a message with this `kind` and `body`."""
    if not _verified(session.identities[party], _content(session.context, kind, party, body), signature):
        raise RefusedError(f"the signature under the message {kind.name} of party {party} is not that party's.")


def signers_of(session: Session, survivors: bytes, signatures: bytes) -> frozenset[int]:
    """Check the body of the message SIGNATURES, and return the parties that signed the list of survivors."""
    _, entries = messages.unpack_entries(Kind.SIGNATURES, signatures)
    present = messages.unpack_survivors(survivors, session.parties)
    ids = frozenset(party for party, _ in entries)
    if len(ids) < len(entries):
        raise RefusedError("a message SIGNATURES names a party twice.")
    for party, signature in entries:
        if party not in present:
            raise RefusedError(f"a message SIGNATURES names party {party}, which is not among the survivors.")
        check(session, Kind.CONSISTENCY, party, survivors, signature)
    return ids


def _content(context: bytes, kind: Kind, party: int, body: bytes) -> bytes:
    place = bytes([kind]) + party.to_bytes(4, "little")
    return PROTOCOL + b" signature" + context + place + hashlib.sha256(body).digest()


@lru_cache(maxsize=1 << 14)  # a signature is verified once for all parties of one process
def _verified(identity: bytes, content: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(identity).verify(signature, content)
    except InvalidSignature:
        return False
    return True
