"""A party's side of secure aggregation."""

import os

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from dpml.arrays import Array
from dpml.protocols import masks, messages, shamir
from dpml.protocols.codec import Ring
from dpml.protocols.errors import ProtocolError, RefusedError
from dpml.protocols.messages import KEY_BYTES, Kind
from dpml.protocols.session import Session


class Party:
    """One party as a state machine: `start` gives its first message, `receive` the answer to each of the server's.

    A message is refused when it is not the one that is due or says what cannot be; the party then stays as it was.
    """

    def __init__(self, session: Session, party: int, vector: Ring, beside: Array | None = None) -> None:
        if not 0 <= party < session.parties:
            raise ProtocolError(
                f"party {party} is not one of the {session.parties} parties, 0 to {session.parties - 1}."
            )
        beside = np.empty(0) if beside is None else np.asarray(beside)
        if vector.shape != (session.length,) or vector.dtype != np.uint64 or beside.shape != (session.beside,):
            raise ProtocolError(
                f"party {party} must bring {session.length} elements of the ring and {session.beside} floats beside, "
                f"got shapes {vector.shape} ({vector.dtype}) and {beside.shape}."
            )
        self.session, self.party = session, party
        self._due: Kind | None = Kind.KEYS
        self._sealing, self._masking = X25519PrivateKey.generate(), X25519PrivateKey.generate()
        self._vector, self._beside = vector, beside
        self._neighbours: dict[int, bytes] = {}  # their mask keys; in the end only those who shared their secrets
        self._seals: dict[int, tuple[bytes, bytes]] = {}  # the keys for what we send and for what we receive
        self._held: dict[int, bytes] = {}  # both shares of each neighbour's secrets, and our own

    def __repr__(self) -> str:
        return f"Party({self.party} of {self.session.parties}, {messages.name(self._due)} is due)"

    def start(self) -> bytes:
        """The message KEYS."""
        if self._due is not Kind.KEYS:
            raise ProtocolError(f"party {self.party} has started already: its keys are for one run.")
        self._due = Kind.NEIGHBOURS
        return self._pack(Kind.KEYS, messages.pack_keys(*self._public()))

    def receive(self, message: bytes) -> bytes:
        """The answer to a message of the server.

        Raises:
            RefusedError: says what is wrong with it.
        """
        kind, receiver, body = messages.unpack(message, self.session.name)
        if receiver != self.party:
            raise RefusedError(f"a message for party {receiver} came to party {self.party}.")
        if kind is not self._due:
            raise RefusedError(
                f"party {self.party} got a message {kind.name} when {messages.name(self._due)} was due: "
                f"replayed or out of order."
            )
        answers = {Kind.NEIGHBOURS: self._share, Kind.INBOX: self._masked, Kind.SURVIVORS: self._unmask}
        return answers[kind](body)

    def _share(self, body: bytes) -> bytes:
        keys = messages.unpack_neighbours(body)
        ids = [who for who, _, _ in keys]
        self._check_ids(Kind.NEIGHBOURS, ids, range(self.session.parties))
        if len(ids) > self.session.topology.degree:
            raise RefusedError(f"party {self.party} got {len(ids)} neighbours, not {self.session.topology.degree}.")
        self._check_count(1 + len(ids))
        public = [key for _, *both in keys for key in both]
        if len({*public, *self._public()}) < len(public) + 2:
            raise RefusedError(f"party {self.party} got a public key twice, or its own.")
        seals = {}
        for who, sealing, _ in keys:
            secret = masks.agree(self._sealing, sealing, who)
            upward = masks.derive(secret, self.session, b"seal", 2 * KEY_BYTES)
            pair = upward[:KEY_BYTES], upward[KEY_BYTES:]  # from the lower to the higher number, and back
            seals[who] = pair if self.party < who else pair[::-1]
        seed = os.urandom(shamir.SECRET_BYTES)
        secrets = np.concatenate([shamir.split(seed), shamir.split(self._masking.private_bytes_raw())])
        holders = shamir.holders_of((*ids, self.party))
        shares = shamir.share(secrets, holders, self.session.topology.threshold).astype("<u4")
        sealed = []
        for who, share in zip(ids, shares, strict=False):  # the last share is our own
            aead = ChaCha20Poly1305(seals[who][0])
            sealed.append((who, aead.encrypt(bytes(12), share.tobytes(), self._associated(self.party, who))))
        self._seals, self._seed = seals, seed
        self._held = {self.party: shares[-1].tobytes()}
        self._neighbours = {who: masking for who, _, masking in keys}
        self._due = Kind.INBOX
        return self._pack(Kind.SHARES, messages.pack_shares(masks.commitment(seed, self.session, self.party), sealed))

    def _masked(self, body: bytes) -> bytes:
        inbox = messages.unpack_inbox(body)
        ids = [who for who, _ in inbox]
        self._check_ids(Kind.INBOX, ids, self._neighbours)
        self._check_count(1 + len(ids))
        held = {}
        for who, sealed in inbox:
            try:
                aead = ChaCha20Poly1305(self._seals[who][1])
                held[who] = aead.decrypt(bytes(12), sealed, self._associated(who, self.party))
            except InvalidTag:
                raise RefusedError(f"the share from party {who} for party {self.party} does not decrypt.") from None
        total = self._vector.copy()
        masks.add_self_mask(total, self._seed, self.session)
        for who in ids:
            secret = masks.agree(self._masking, self._neighbours[who], who)
            masks.add_pair_mask(total, secret, self.session, self.party, who)
        self._held |= held
        self._seals.clear()
        del self._seed
        self._neighbours = {who: self._neighbours[who] for who in ids}
        self._due = Kind.SURVIVORS
        return self._pack(Kind.MASKED, messages.pack_masked(total, self._beside))

    def _unmask(self, body: bytes) -> bytes:
        survivors = messages.unpack_survivors(body)
        if self.party not in survivors:
            raise RefusedError(f"party {self.party} sent its vector, but is not among the survivors.")
        self._check_ids(Kind.SURVIVORS, [who for who in survivors if who != self.party], self._neighbours)
        if len(set(survivors)) < len(survivors):
            raise RefusedError(f"the message SURVIVORS for party {self.party} names a party twice.")
        self._check_count(len(survivors))
        gone = self._neighbours.keys() - set(survivors)
        # one part of what we hold of each, and then nothing is left to give the other
        self_masks = [(who, self._held[who][: messages.SHARE_BYTES]) for who in sorted(survivors)]
        mask_keys = [(who, self._held[who][messages.SHARE_BYTES :]) for who in sorted(gone)]
        self._due = None
        self._held.clear()
        return self._pack(Kind.UNMASK, messages.pack_unmask(self_masks, mask_keys))

    def _public(self) -> tuple[bytes, bytes]:
        return self._sealing.public_key().public_bytes_raw(), self._masking.public_key().public_bytes_raw()

    def _check_ids(self, kind: Kind, ids: list[int], allowed: range | dict[int, bytes]) -> None:
        for who in ids:
            if who == self.party or who not in allowed:
                raise RefusedError(f"the message {kind.name} for party {self.party} names party {who}, unknown here.")
        if len(set(ids)) < len(ids):
            raise RefusedError(f"the message {kind.name} for party {self.party} names a party twice.")

    def _check_count(self, count: int) -> None:
        threshold = self.session.topology.threshold
        if count < threshold:
            raise RefusedError(
                f"party {self.party} sees {count} parties with itself, fewer than the threshold {threshold}."
            )

    def _associated(self, sender: int, receiver: int) -> bytes:
        """The associated data of a sealed share: between whom it goes, and in which session."""
        return self.session.name + sender.to_bytes(4, "little") + receiver.to_bytes(4, "little")

    def _pack(self, kind: Kind, body: bytes) -> bytes:
        return messages.pack(kind, self.session.name, self.party, body)
