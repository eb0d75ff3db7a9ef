"""Secure aggregation: the server learns the sum of the parties' vectors, and nothing else about any of them.

Bonawitz et al. 2017 (CCS, "Practical secure aggregation for privacy-preserving machine learning", Fig. 4) for
honest-but-curious parties, and with a sparse `Topology` its variant by Bell et al. 2020. Four times every party sends
one message, and the server answers those from whom it came:

1. KEYS: two X25519 public keys, one to agree on sealing keys and one to agree on masks.
2. SHARES: Shamir shares of the secret mask key ``s_u`` and of a random seed ``b_u``, sealed for each neighbour
   (ChaCha20-Poly1305 under keys agreed on by X25519 and HKDF-SHA256), and a commitment to ``b_u``.
3. MASKED: ``y_u = x_u + PRG(b_u) + sum_(v > u) PRG(k_uv) - sum_(v < u) PRG(k_uv)`` modulo 2^64, with ``k_uv`` agreed
   on by the mask keys of u and its neighbours v, and PRG the key stream of ChaCha20.
4. UNMASK: for every neighbour (and itself) in the sum its share of ``b_u``; for every neighbour that shared its
   secrets and then dropped out, its share of ``s_u``. Never both for one party: they would unmask its vector.

Whoever has not sent the message that is due has dropped out. t shares of each secret are enough to take the masks off
the sum of those who sent MASKED; the server checks what it reconstructs against the public key and the commitment, so
that wrong shares end the run, and do not change the sum.

*What is covered.* A server and up to t - 1 parties (complete topology; with a sparse one, `Topology.colluders`,
independent of the seats) who follow the protocol and put together all they see learn the sum of the other survivors'
vectors, who the survivors are, and nothing else, provided X25519, HKDF, ChaCha20 and Poly1305 are what they are taken
for.

*What is not.* The channels between the parties and the server must be private and authentic (TLS), and there is no
public-key infrastructure and no consistency round: a server that lies about keys or survivors can unmask vectors. A
party can send any vector, and spoil the sum by it. Vectors of a party that is alone among colluders follow from the
sum. Memory is not wiped, and timing is not hidden. Messages carry checksums, which find damage but no forgery.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from random import SystemRandom
from typing import Protocol

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dpml.arrays import Array, Index
from dpml.protocols import messages, shamir
from dpml.protocols.codec import Ring
from dpml.protocols.errors import ProtocolError, RefusedError
from dpml.protocols.graph import Topology, choose, seat
from dpml.protocols.messages import KEY_BYTES, SESSION_BYTES, Kind

_LONGEST = 1 << 28  # entries of 8 bytes: a message of 2 GiB


@dataclass(frozen=True)
class Session:
    """What is public and known to all before a run: its name, who shares with whom, how long the vectors are.

    `beside` is how many floats a party sends openly with its masked vector, to be used only if it is in the sum.
    """

    parties: int
    length: int
    topology: Topology
    beside: int = 0
    name: bytes = field(default_factory=lambda: os.urandom(SESSION_BYTES))

    def __post_init__(self) -> None:
        topology = self.topology
        if not (
            (
                topology.degree == self.parties - 1
                or (0 < topology.degree < self.parties - 1 and topology.degree % 2 == 0)
            )
            and 2 <= topology.threshold <= min(topology.degree + 1, topology.quorum)
            and topology.quorum <= self.parties
        ):
            raise ProtocolError(f"{topology} does not suit {self.parties} parties.")
        if not (self.length >= 1 and self.beside >= 0 and self.length + self.beside <= _LONGEST):
            raise ProtocolError(
                f"a vector must have 1 to {_LONGEST} entries with those beside, got {self.length} and {self.beside}."
            )
        if len(self.name) != SESSION_BYTES:
            raise ProtocolError(f"the name of a session has {SESSION_BYTES} bytes, got {len(self.name)}.")

    @classmethod
    def of(cls, parties: int, length: int, topology: Topology | None = None, beside: int = 0) -> "Session":
        """A new session; the topology that suits the number of parties unless one is given."""
        return cls(parties, length, choose(parties) if topology is None else topology, beside)


class Stage(IntEnum):
    """What the server is waiting for."""

    KEYS = 0
    SHARES = 1
    MASKED = 2
    UNMASK = 3
    DONE = 4


_SENT = {Stage.KEYS: Kind.KEYS, Stage.SHARES: Kind.SHARES, Stage.MASKED: Kind.MASKED, Stage.UNMASK: Kind.UNMASK}


# ---- keys and masks


def _derive(secret: bytes, session: Session, purpose: bytes, length: int = KEY_BYTES) -> bytes:
    return HKDF(SHA256(), length, salt=session.name, info=b"dpml secagg " + purpose).derive(secret)


def _agree(own: X25519PrivateKey, other: bytes, who: int) -> bytes:
    try:
        return own.exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError:
        raise RefusedError(f"the public key of party {who} is not valid.") from None


def _mask(key: bytes, length: int) -> Ring:
    """`length` uniform ring elements: the key stream of ChaCha20, whose key is used this once."""
    stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(8 * length))
    return np.frombuffer(stream, "<u8")


def _add_pair_mask(total: Ring, secret: bytes, session: Session, party: int, other: int) -> None:
    """Add, in place, what `party` adds to its vector for the sake of `other`."""
    mask = _mask(_derive(secret, session, b"pair mask"), len(total))
    (np.add if party < other else np.subtract)(total, mask, out=total)


def _add_self_mask(total: Ring, seed: bytes, session: Session) -> None:
    total += _mask(_derive(seed, session, b"self mask"), len(total))


def _commitment(seed: bytes, session: Session, party: int) -> bytes:
    """What binds a party to its seed; as hard to read as the seed's 256 bits are to guess."""
    return _derive(seed, session, b"commitment" + party.to_bytes(4, "little"))


def _name(kind: Kind | None) -> str:
    return "none" if kind is None else kind.name


def _holder(party: int) -> int:
    return party + 1  # 0 is where the secret lies


# ---- a party


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
        return f"Party({self.party} of {self.session.parties}, {_name(self._due)} is due)"

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
                f"party {self.party} got a message {kind.name} when {_name(self._due)} was due: "
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
            secret = _agree(self._sealing, sealing, who)
            upward = _derive(secret, self.session, b"seal", 2 * KEY_BYTES)
            pair = upward[:KEY_BYTES], upward[KEY_BYTES:]  # from the lower to the higher number, and back
            seals[who] = pair if self.party < who else pair[::-1]
        seed = os.urandom(shamir.SECRET_BYTES)
        secrets = np.concatenate([shamir.split(seed), shamir.split(self._masking.private_bytes_raw())])
        holders = np.array([_holder(who) for who in (*ids, self.party)], dtype=np.uint64)
        shares = shamir.share(secrets, holders, self.session.topology.threshold).astype("<u4")
        sealed = [
            (who, ChaCha20Poly1305(seals[who][0]).encrypt(bytes(12), part.tobytes(), self._about(self.party, who)))
            for who, part in zip(ids, shares, strict=False)  # the last share is our own
        ]
        self._seals, self._seed = seals, seed
        self._held = {self.party: shares[-1].tobytes()}
        self._neighbours = {who: masking for who, _, masking in keys}
        self._due = Kind.INBOX
        return self._pack(Kind.SHARES, messages.pack_shares(_commitment(seed, self.session, self.party), sealed))

    def _masked(self, body: bytes) -> bytes:
        inbox = messages.unpack_inbox(body)
        ids = [who for who, _ in inbox]
        self._check_ids(Kind.INBOX, ids, self._neighbours)
        self._check_count(1 + len(ids))
        held = {}
        for who, sealed in inbox:
            try:
                aead = ChaCha20Poly1305(self._seals[who][1])
                held[who] = aead.decrypt(bytes(12), sealed, self._about(who, self.party))
            except InvalidTag:
                raise RefusedError(f"the share from party {who} for party {self.party} does not decrypt.") from None
        total = self._vector.copy()
        _add_self_mask(total, self._seed, self.session)
        for who in ids:
            _add_pair_mask(total, _agree(self._masking, self._neighbours[who], who), self.session, self.party, who)
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

    def _about(self, sender: int, receiver: int) -> bytes:
        return self.session.name + sender.to_bytes(4, "little") + receiver.to_bytes(4, "little")

    def _pack(self, kind: Kind, body: bytes) -> bytes:
        return messages.pack(kind, self.session.name, self.party, body)


# ---- the server


class Server:
    """The server as a state machine: `receive` takes the parties' messages, `advance` ends a stage and answers.

    After the last stage `total` is the sum, in the ring, over the `survivors`.
    """

    def __init__(self, session: Session) -> None:
        self.session, self.stage = session, Stage.KEYS
        self._seats = seat(session.parties, session.topology.degree, SystemRandom())
        self._waiting = set(range(session.parties))
        self._keys: dict[int, tuple[bytes, bytes]] = {}
        self._public: set[bytes] = set()  # all of them
        self._probe = X25519PrivateKey.generate()  # finds keys with which nobody can agree
        self._commitments: dict[int, bytes] = {}
        self._inbox: dict[int, dict[int, bytes]] = {}
        self._beside: dict[int, Array] = {}
        self._total = np.zeros(session.length, dtype=np.uint64)
        self._shares: dict[int, dict[int, bytes]] = {}  # of each party's one secret, by who held them
        self._answered: set[int] = set()

    def __repr__(self) -> str:
        return f"Server({self.session.parties} parties, waits for {self.stage.name} of {len(self._waiting)})"

    @property
    def waiting(self) -> frozenset[int]:
        """The parties whose message of this stage has not come yet."""
        return frozenset(self._waiting)

    @property
    def survivors(self) -> Index:
        """The parties that are in the sum, ascending."""
        return np.array(sorted(self._beside), dtype=np.intp)

    @property
    def beside(self) -> Array:
        """What the survivors sent beside their masked vectors, in their order: (survivors, beside)."""
        return np.stack([self._beside[party] for party in self.survivors])

    @property
    def total(self) -> Ring:
        """The sum, (length,)."""
        if self.stage is not Stage.DONE:
            raise ProtocolError(f"there is no sum yet: the server waits for {self.stage.name}.")
        return self._total

    def receive(self, message: bytes, expected: int | None = None) -> int:
        """Take a party's message; who sent it. `expected` is who must have, where the channel tells.

        Raises:
            RefusedError: says what is wrong with it; the server is as if it had not come.
        """
        kind, sender, body = messages.unpack(message, self.session.name)
        if not 0 <= sender < self.session.parties:
            raise RefusedError(f"a message came from unknown party {sender}: there are {self.session.parties}.")
        if expected is not None and sender != expected:
            raise RefusedError(f"a message in the name of party {sender} came from party {expected}.")
        due = _SENT.get(self.stage)
        if kind is not due:
            raise RefusedError(
                f"a message {kind.name} came from party {sender} when {_name(due)} was due: "
                f"replayed, late or out of order."
            )
        if sender not in self._waiting:
            dropped = "has dropped out before" if sender not in self._answered else "has sent this message already"
            raise RefusedError(f"a message {kind.name} came from party {sender}, which {dropped}.")
        {
            Stage.KEYS: self._take_keys,
            Stage.SHARES: self._take_shares,
            Stage.MASKED: self._take_masked,
            Stage.UNMASK: self._take_unmask,
        }[self.stage](sender, body)
        self._waiting.discard(sender)
        self._answered.add(sender)
        return sender

    def advance(self) -> dict[int, bytes]:
        """End the stage: who has not sent has dropped out. The answers to those who have, none after the last stage.

        Raises:
            ProtocolError: too few are left, or the shares do not fit what they were said to be.
        """
        if self.stage is Stage.DONE:
            raise ProtocolError("the run is over.")
        present = sorted(self._answered)
        quorum = self.session.topology.quorum
        if len(present) < quorum:
            raise ProtocolError(
                f"only {len(present)} of {self.session.parties} parties are left after {self.stage.name}, "
                f"fewer than the {quorum} that secure aggregation was set up for: no sum."
            )
        if self.stage is Stage.UNMASK:
            self._unmask()
            self.stage = Stage.DONE
            return {}
        answer, body = {
            Stage.KEYS: (Kind.NEIGHBOURS, self._neighbours_of),
            Stage.SHARES: (Kind.INBOX, self._inbox_of),
            Stage.MASKED: (Kind.SURVIVORS, self._survivors_of),
        }[self.stage]
        answers = {who: messages.pack(answer, self.session.name, who, body(who)) for who in present}
        self.stage = Stage(self.stage + 1)
        self._waiting, self._answered = set(present), set()
        return answers

    # What comes in.

    def _take_keys(self, sender: int, body: bytes) -> None:
        keys = messages.unpack_keys(body)
        if len({*keys, *self._public}) < len(self._public) + 2:
            raise RefusedError(f"a public key of party {sender} has been announced before.")
        for key in keys:  # or all of its neighbours would refuse it, and drop out
            _agree(self._probe, key, sender)
        self._public.update(keys)
        self._keys[sender] = keys

    def _take_shares(self, sender: int, body: bytes) -> None:
        commitment, sealed = messages.unpack_shares(body)
        wanted = [who for who in self._seats[sender] if who in self._keys]
        if sorted(who for who, _ in sealed) != wanted:
            raise RefusedError(
                f"party {sender} must send one share to each of its {len(wanted)} neighbours, no others."
            )
        self._commitments[sender] = commitment
        for who, content in sealed:
            self._inbox.setdefault(who, {})[sender] = content

    def _take_masked(self, sender: int, body: bytes) -> None:
        vector, beside = messages.unpack_masked(body, self.session.length, self.session.beside)
        if not np.isfinite(beside).all():
            raise RefusedError(f"a number from party {sender} is out of range: not finite.")
        self._beside[sender] = beside
        self._total += vector

    def _take_unmask(self, sender: int, body: bytes) -> None:
        self_masks, mask_keys = messages.unpack_unmask(body)
        held = {sender, *(who for who in self._seats[sender] if who in self._commitments)}
        for entries, wanted in ((self_masks, held & self._beside.keys()), (mask_keys, held - self._beside.keys())):
            if len(entries) != len(wanted) or {who for who, _ in entries} != wanted:
                raise RefusedError(
                    f"party {sender} must send a share of the seed of each survivor that it holds one of, "
                    f"and of the mask key of each party that dropped out, no others."
                )
        if any(np.any(np.frombuffer(share, "<u4") >= shamir.PRIME) for _, share in (*self_masks, *mask_keys)):
            raise RefusedError(f"a share from party {sender} is out of range: not an element of the field.")
        for who, content in (*self_masks, *mask_keys):
            self._shares.setdefault(who, {})[sender] = content

    # What goes out.

    def _neighbours_of(self, party: int) -> bytes:
        return messages.pack_neighbours((who, *self._keys[who]) for who in self._seats[party] if who in self._keys)

    def _inbox_of(self, party: int) -> bytes:
        return messages.pack_inbox(
            (who, content) for who, content in sorted(self._inbox.pop(party, {}).items()) if who in self._commitments
        )

    def _survivors_of(self, party: int) -> bytes:
        return messages.pack_survivors(who for who in sorted((party, *self._seats[party])) if who in self._beside)

    # The end.

    def _unmask(self) -> None:
        """Take the self masks of the survivors, and the pair masks they share with those who dropped out, off."""
        masks = np.zeros_like(self._total)
        for party in sorted(self._commitments):
            if party in self._beside:
                seed = self._reconstruct(party)
                if _commitment(seed, self.session, party) != self._commitments[party]:
                    raise ProtocolError(f"the shares of the seed of party {party} do not fit its commitment: no sum.")
                _add_self_mask(masks, seed, self.session)
                continue
            survivors = [who for who in self._seats[party] if who in self._beside]
            if survivors:
                key = X25519PrivateKey.from_private_bytes(self._reconstruct(party))
                if key.public_key().public_bytes_raw() != self._keys[party][1]:
                    raise ProtocolError(f"the shares of the key of party {party} do not fit its public key: no sum.")
                for who in survivors:
                    _add_pair_mask(masks, _agree(key, self._keys[who][1], who), self.session, who, party)
        self._total -= masks

    def _reconstruct(self, party: int) -> bytes:
        shares, threshold = self._shares.get(party, {}), self.session.topology.threshold
        if len(shares) < threshold:
            raise ProtocolError(
                f"only {len(shares)} of the parties that hold shares of party {party}'s secret are left, "
                f"fewer than the threshold {threshold}: no sum."
            )
        chosen = sorted(shares)[:threshold]
        holders = np.array([_holder(who) for who in chosen], dtype=np.uint64)
        points = np.frombuffer(b"".join(shares[who] for who in chosen), "<u4").reshape(threshold, -1)
        try:
            return shamir.join(shamir.reconstruct(holders, points.astype(np.uint64)))
        except ValueError as error:
            raise ProtocolError(f"the secret of party {party} cannot be put together: {error} No sum.") from None


# ---- a run


@dataclass(frozen=True)
class Traffic:
    """Bytes of messages that went between the server and every party: `sent` by the party, `received` by it, (M,)."""

    sent: Index
    received: Index

    @property
    def server(self) -> int:
        """All that the server sent and received."""
        return int(self.sent.sum() + self.received.sum())


@dataclass(frozen=True)
class Outcome:
    """The sum over the survivors, in the ring; what they sent beside; messages refused, with the reason; bytes."""

    total: Ring
    survivors: Index
    beside: Array
    refused: tuple[str, ...]
    traffic: Traffic


Dropouts = Mapping[int, Stage]
"""Parties that fall silent, and the first message that they do not send."""


class Transport(Protocol):
    """A way to run a session: who carries the messages. Parties bring `inputs` (M, length), `beside` (M, beside)."""

    def __call__(
        self, session: Session, inputs: Ring, beside: Array | None = None, dropouts: Dropouts | None = None
    ) -> Outcome: ...


def in_process(
    session: Session, inputs: Ring, beside: Array | None = None, dropouts: Dropouts | None = None
) -> Outcome:
    """Run a session with all parties in this process. Every message is made and read as bytes.

    Raises:
        ProtocolError: too few parties are left.
    """
    check_inputs(session, inputs, beside)
    silent = dict(dropouts or {})
    server = Server(session)
    parties = {k: Party(session, k, inputs[k], None if beside is None else beside[k]) for k in range(session.parties)}
    sent, received = (np.zeros(session.parties, dtype=np.intp) for _ in range(2))
    refused: list[str] = []
    mail: dict[int, bytes] = {}
    while server.stage is not Stage.DONE:
        for k in sorted(server.waiting):
            if silent.get(k, Stage.DONE) <= server.stage:
                continue
            try:
                message = parties[k].start() if server.stage is Stage.KEYS else parties[k].receive(mail[k])
                sent[k] += len(message)
                server.receive(message, k)
            except RefusedError as error:
                refused.append(str(error))
        mail = advance(server, refused)
        for k, message in mail.items():
            received[k] += len(message)
    return Outcome(server.total, server.survivors, server.beside, tuple(refused), Traffic(sent, received))


def advance(server: Server, refused: Sequence[str]) -> dict[int, bytes]:
    """`Server.advance`; when it ends the run, the error also says what was refused, first of all."""
    try:
        return server.advance()
    except ProtocolError as error:
        if not refused:
            raise
        count = f", the first of {len(refused)} such messages" if len(refused) > 1 else ""
        raise ProtocolError(f"{error} Refused{count}: {refused[0]}") from None


def check_inputs(session: Session, inputs: Ring, beside: Array | None) -> None:
    """Raise ProtocolError unless there is a row for every party."""
    rows = (len(inputs), session.parties if beside is None else len(beside))
    if rows != (session.parties, session.parties):
        raise ProtocolError(
            f"a session of {session.parties} parties got the vectors of {' and '.join(map(str, rows))}."
        )
