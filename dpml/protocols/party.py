"""Implement a party's side of secure aggregation."""

import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from dpml.arrays import Array
from dpml.protocols import identities, masks, messages, shamir
from dpml.protocols.codec import Ring
from dpml.protocols.masks import End
from dpml.protocols.messages import Kind, ProtocolError, RefusedError
from dpml.protocols.session import Session, seat

_NONCE = bytes(12)  # safe, because each key encrypts only one message, from one sender to one receiver

Contribution = Callable[[], tuple[Ring, Array]]
"""A function that returns a party's vector and its openly sent numbers; it is called once, when they are due."""


class Party:
    """A party of secure aggregation as a state machine; a refused message does not change its state."""

    def __init__(self, session: Session, party: int, signer: Ed25519PrivateKey, contribution: Contribution) -> None:
        self.session, self.party, self._signer, self._contribution = session, party, signer, contribution
        self._due: Kind | None = Kind.KEYS
        self._sealing, self._masking = X25519PrivateKey.generate(), X25519PrivateKey.generate()
        self._seal_end, self._mask_end = (
            End(party, key.public_key().public_bytes_raw()) for key in (self._sealing, self._masking)
        )
        self._neighbours: dict[int, bytes] = {}  # neighbours' public mask keys, finally only if their shares arrived
        self._seals: dict[int, bytes] = {}  # the keys that decrypt the shares from other parties
        self._held: dict[int, bytes] = {}  # of each party, also this one: a share of each of its two secrets
        self._survivors = b""  # the list of survivors that this party signed

    def start(self) -> bytes:
        if self._due is not Kind.KEYS:
            raise ProtocolError(f"party {self.party} has started already: its keys are for one run.")
        self._due = Kind.NEIGHBOURS
        return self._pack(Kind.KEYS, self._public())

    def receive(self, message: bytes) -> bytes:
        kind, receiver, body, _ = messages.unpack(message, self.session.name)
        if receiver != self.party:
            raise RefusedError(f"a message for party {receiver} came to party {self.party}.")
        if kind is not self._due:
            raise RefusedError(
                f"party {self.party} got a message {kind.name} when {self._due.name if self._due else 'none'} was due: "
                f"replayed or out of order."
            )
        answers = {
            Kind.NEIGHBOURS: self._share,
            Kind.INBOX: self._masked,
            Kind.SURVIVORS: self._consistency,
            Kind.SIGNATURES: self._unmask,
        }
        return answers[kind](body)

    def _share(self, body: bytes) -> bytes:
        head = messages.HASH_BYTES * messages.depth(self.session.parties)
        path, public = messages.unpack_entries(Kind.NEIGHBOURS, body, head)
        seals, keys = self._check_neighbours(public)
        session = self.session.run(messages.root(self.party, self._public(), path))
        seed = os.urandom(shamir.SECRET_BYTES)
        secrets = np.concatenate([shamir.split(seed), shamir.split(self._masking.private_bytes_raw())])
        holders = shamir.holders_of([end.party for end in (*seals, self._seal_end)])
        shares = shamir.share(secrets, holders, session.topology.threshold).astype("<u4")
        sealed, to_open = [], {}
        for end, share in zip(seals, shares, strict=False):  # the last share is the party's own
            secret = masks.agree(self._sealing, end)
            key = masks.seal_key(secret, session, self._seal_end, end)
            to_open[end.party] = masks.seal_key(secret, session, end, self._seal_end)
            sealed.append((end.party, ChaCha20Poly1305(key).encrypt(_NONCE, share.tobytes(), None)))
        self.session, self._seals, self._seed = session, to_open, seed
        self._held = {self.party: shares[-1].tobytes()}
        self._neighbours = keys
        self._due = Kind.INBOX
        committed = masks.commitment(seed, self.session, self._mask_end)
        return self._pack(Kind.SHARES, messages.pack_entries(Kind.SHARES, sealed, committed))

    def _check_neighbours(self, keys: list[tuple[Any, ...]]) -> tuple[list[End], dict[int, bytes]]:
        self._check_ids(Kind.NEIGHBOURS, [who for who, *_ in keys], self._seats())
        self._check_count(1 + len(keys))
        public = [key for _, sealing, masking, _ in keys for key in (sealing, masking)]
        if len({*public, self._seal_end.key, self._mask_end.key}) < len(public) + 2:
            raise RefusedError(f"party {self.party} got a public key twice, or its own.")
        for who, sealing, masking, signature in keys:
            masks.require_canonical(End(who, masking))  # `masks.agree` soon checks the sealing key
            identities.check(self.session, Kind.KEYS, who, sealing + masking, signature)
        return [End(who, key) for who, key, _, _ in keys], {who: key for who, _, key, _ in keys}

    def _masked(self, body: bytes) -> bytes:
        _, inbox = messages.unpack_entries(Kind.INBOX, body)
        session, own = self.session, self._mask_end
        self._check_ids(Kind.INBOX, [who for who, _ in inbox], self._neighbours)
        held, left_out = dict(self._held), []
        for who, sealed in inbox:
            try:
                held[who] = ChaCha20Poly1305(self._seals[who]).decrypt(_NONCE, sealed, None)
            except InvalidTag:  # treated as missing, so that an invalid share does not stop the other parties
                left_out.append(who)
        self._check_count(len(held))
        neighbours = {who: key for who, key in self._neighbours.items() if who in held}
        secrets = {end: masks.agree(self._masking, end) for end in map(End._make, neighbours.items())}
        vector, beside = self._contribution()
        if vector.shape != (session.length,) or vector.dtype != np.uint64 or beside.shape != (session.beside,):
            raise ProtocolError(
                f"party {self.party} must send {session.length} elements of the ring and {session.beside} open floats, "
                f"got shapes {vector.shape} ({vector.dtype}) and {beside.shape}."
            )
        total = vector.copy()
        masks.add_self_mask(total, self._seed, session, own)
        for end, secret in secrets.items():
            masks.add_pair_mask(total, secret, session, own, end)
        self._held, self._seals, self._neighbours = held, {}, neighbours
        del self._seed
        self._due = Kind.SURVIVORS
        return self._pack(Kind.MASKED, messages.pack_masked(total, beside, left_out))

    def _consistency(self, body: bytes) -> bytes:
        survivors = messages.unpack_survivors(body, self.session.parties)
        if self.party not in survivors:
            raise RefusedError(f"party {self.party} sent its vector, but is not among the survivors.")
        quorum = self.session.topology.quorum
        if len(survivors) < quorum:
            raise RefusedError(
                f"party {self.party} sees {len(survivors)} survivors, fewer than the agreed quorum of {quorum}."
            )
        around = self._seats().intersection(survivors)
        self._check_ids(Kind.SURVIVORS, sorted(around), self._neighbours)
        self._check_count(1 + len(around))
        self._survivors = body
        self._due = Kind.SIGNATURES
        return self._pack(Kind.CONSISTENCY, body)

    def _unmask(self, body: bytes) -> bytes:
        signers, quorum = identities.signers_of(self.session, self._survivors, body), self.session.topology.quorum
        if len(signers) < quorum:
            raise RefusedError(
                f"party {self.party} got {len(signers)} signatures of the survivors' list, fewer than {quorum}."
            )
        survivors, end = messages.unpack_survivors(self._survivors, self.session.parties), messages.SHARE_BYTES
        shares = sorted(self._held.items())  # disclose one of the two shares of each party's secrets, then delete both
        self_masks = [(who, both[:end]) for who, both in shares if who in survivors]
        mask_keys = [(who, both[end:]) for who, both in shares if who not in survivors]
        self._due = None
        self._held = {}
        return self._pack(Kind.UNMASK, messages.pack_unmask(self_masks, mask_keys))

    def _public(self) -> bytes:
        return self._seal_end.key + self._mask_end.key

    def _seats(self) -> frozenset[int]:
        """Return the parties with which this party may share masks; the server cannot change this public list."""
        session = self.session
        return frozenset(seat(session.parties, session.topology.degree, session.name)[self.party])

    def _check_ids(self, kind: Kind, ids: list[int], allowed: Iterable[int]) -> None:
        allowed = frozenset(allowed)
        for who in ids:
            if who not in allowed:
                raise RefusedError(f"the message {kind.name} for party {self.party} names unknown party {who}.")
        if len(set(ids)) < len(ids):
            raise RefusedError(f"the message {kind.name} for party {self.party} names a party twice.")

    def _check_count(self, count: int) -> None:
        threshold = self.session.topology.threshold
        if count < threshold:
            raise RefusedError(
                f"party {self.party} sees {count} parties with itself, fewer than the threshold {threshold}."
            )

    def _pack(self, kind: Kind, body: bytes) -> bytes:
        return identities.signed(self.session, self._signer, kind, self.party, body)
