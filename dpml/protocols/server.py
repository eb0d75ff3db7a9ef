"""The server's side of secure aggregation."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from dpml.arrays import Array, Index
from dpml.protocols import identities, masks, messages, shamir
from dpml.protocols.codec import Ring
from dpml.protocols.errors import ProtocolError, RefusedError
from dpml.protocols.graph import seat
from dpml.protocols.masks import End
from dpml.protocols.messages import Kind, Message
from dpml.protocols.session import Session, Stage

_SENT = {
    Stage.KEYS: Kind.KEYS,
    Stage.SHARES: Kind.SHARES,
    Stage.MASKED: Kind.MASKED,
    Stage.CONSISTENCY: Kind.CONSISTENCY,
    Stage.UNMASK: Kind.UNMASK,
}
_SHARE = np.dtype([("holder", "<u4"), ("share", "<u4", shamir.LIMBS)])


class Answers(Mapping[int, bytes]):
    """The server's message to each of some parties, made when it is asked for.

    All at once would be large: on a ring of 10,000 parties the signatures alone are 5 GB.
    """

    def __init__(self, receivers: Sequence[int], make: Callable[[int], bytes]) -> None:
        self._receivers, self._make = dict.fromkeys(receivers), make

    def __getitem__(self, party: int) -> bytes:
        self._receivers[party]  # raises KeyError for a party that is due none
        return self._make(party)

    def __iter__(self) -> Iterator[int]:
        return iter(self._receivers)

    def __len__(self) -> int:
        return len(self._receivers)


class Server:
    """The server as a state machine: `receive` takes the parties' messages, `advance` ends a stage and answers.

    After the last stage `total` is the sum in the ring over the `survivors`.
    """

    def __init__(self, session: Session) -> None:
        session.require_identities()
        self.session, self.stage = session, Stage.KEYS
        self._seats = seat(session.parties, session.topology.degree, session.name)
        self._waiting = set(range(session.parties))
        self._keys: dict[int, tuple[bytes, bytes, bytes]] = {}  # sealing, masking, and their signature
        self._public: set[bytes] = set()  # all of them
        self._probe = X25519PrivateKey.generate()  # detects keys with which no key agreement is possible
        self._commitments: dict[int, bytes] = {}
        self._inbox: dict[int, bytearray] = {}  # the sealed shares for each party, as INBOX has them
        self._survivors = b""  # the list of them
        self._beside: dict[int, Array] = {}
        self._total = np.zeros(session.length, dtype=np.uint64)
        self._signatures: dict[int, bytes] = {}  # on the list of survivors
        self._shares: dict[int, bytearray] = {}  # of one secret of each party: (holder, share), packed
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
        """The numbers that the survivors sent openly with their masked vectors, in their order: (survivors, beside)."""
        return np.stack([self._beside[party] for party in self.survivors])

    @property
    def total(self) -> Ring:
        """The sum, (length,)."""
        if self.stage is not Stage.DONE:
            raise ProtocolError(f"there is no sum yet: the server waits for {self.stage.name}.")
        return self._total

    def receive(self, message: bytes, expected: int | None = None) -> int:
        """Take a party's message; returns its sender. `expected` is the sender that the channel gives, if it does.

        Raises:
            RefusedError: the message is invalid; the error gives the reason, and the server's state does not change.
        """
        content = messages.unpack(message, self.session.name)
        kind, sender, body, signature = content
        if not 0 <= sender < self.session.parties:
            raise RefusedError(f"a message came from unknown party {sender}: there are {self.session.parties}.")
        if expected is not None and sender != expected:
            raise RefusedError(f"a message in the name of party {sender} came from party {expected}.")
        due = _SENT.get(self.stage)
        if kind is not due:
            raise RefusedError(
                f"a message {kind.name} came from party {sender} when {messages.name(due)} was due: "
                f"replayed, late or out of order."
            )
        if sender not in self._waiting:
            dropped = "has dropped out before" if sender not in self._answered else "has sent this message already"
            raise RefusedError(f"a message {kind.name} came from party {sender}, which {dropped}.")
        identities.check(self.session, kind, sender, body, signature)
        {
            Stage.KEYS: self._take_keys,
            Stage.SHARES: self._take_shares,
            Stage.MASKED: self._take_masked,
            Stage.CONSISTENCY: self._take_consistency,
            Stage.UNMASK: self._take_unmask,
        }[self.stage](content)
        self._waiting.discard(sender)
        self._answered.add(sender)
        return sender

    def advance(self) -> Mapping[int, bytes]:
        """End the stage: parties that have not sent drop out. The answers to the others; none after the last stage.

        An answer is made whenever it is read, before the next `advance`.

        Raises:
            ProtocolError: too few are left, or the shares do not match the public keys or commitments.
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
        kind, body = self._answer()
        self.stage = Stage(self.stage + 1)
        self._waiting, self._answered = set(present), set()
        return Answers(present, lambda who: messages.pack(kind, self.session.name, who, body(who)))

    def _answer(self) -> tuple[Kind, Callable[[int], bytes]]:
        """What this stage is answered with: the kind of the messages, and the body for each party."""
        match self.stage:
            case Stage.KEYS:
                return Kind.NEIGHBOURS, self._neighbours_of
            case Stage.SHARES:
                return Kind.INBOX, self._inbox_of
            case Stage.MASKED:
                self._inbox.clear()
                self._survivors = messages.pack_survivors(self._beside, self.session.parties)
                return Kind.SURVIVORS, lambda _: self._survivors
        signed = messages.pack_signatures(sorted(self._signatures.items())[: self.session.topology.quorum])
        return Kind.SIGNATURES, lambda _: signed  # as many as a party requires

    # Incoming messages.

    def _take_keys(self, content: Message) -> None:
        sender = content.party
        keys = messages.unpack_keys(content.body)
        if len({*keys, *self._public}) < len(self._public) + 2:
            raise RefusedError(f"a public key of party {sender} has been announced before.")
        for key in keys:  # otherwise all of its neighbours would refuse it and drop out
            masks.agree(self._probe, End(sender, key))
        self._public.update(keys)
        self._keys[sender] = (*keys, content.signature)

    def _take_shares(self, content: Message) -> None:
        sender = content.party
        commitment, sealed = messages.unpack_shares(content.body)
        wanted = [who for who in self._seats[sender] if who in self._keys]
        if sorted(who for who, _ in sealed) != wanted:
            raise RefusedError(
                f"party {sender} must send one share to each of its {len(wanted)} neighbours, no others."
            )
        self._commitments[sender] = commitment
        for who, text in sealed:
            self._inbox.setdefault(who, bytearray()).extend(messages.pack_inbox([(sender, text)]))

    def _take_masked(self, content: Message) -> None:
        vector, beside = messages.unpack_masked(content.body, self.session.length, self.session.beside)
        if not np.isfinite(beside).all():
            raise RefusedError(f"a number from party {content.party} is out of range: not finite.")
        self._beside[content.party] = beside.copy()  # a view would keep the whole message
        self._total += vector

    def _take_consistency(self, content: Message) -> None:
        if content.body != self._survivors:
            raise RefusedError(f"party {content.party} signed another list of survivors.")
        self._signatures[content.party] = content.signature

    def _take_unmask(self, content: Message) -> None:
        sender = content.party
        self_masks, mask_keys = messages.unpack_unmask(content.body)
        held = {sender, *(who for who in self._seats[sender] if who in self._commitments)}
        for entries, wanted in ((self_masks, held & self._beside.keys()), (mask_keys, held - self._beside.keys())):
            if len(entries) != len(wanted) or {who for who, _ in entries} != wanted:
                raise RefusedError(
                    f"party {sender} must send a share of the seed of each survivor that it holds one of, "
                    f"and of the mask key of each party that dropped out, no others."
                )
        elements = np.frombuffer(b"".join(share for _, share in (*self_masks, *mask_keys)), "<u4")
        if elements.max() >= shamir.PRIME:
            raise RefusedError(f"a share from party {sender} is out of range: not an element of the field.")
        holder = sender.to_bytes(4, "little")
        for who, share in (*self_masks, *mask_keys):
            self._shares.setdefault(who, bytearray()).extend(holder + share)

    # Outgoing messages.

    def _neighbours_of(self, party: int) -> bytes:
        return messages.pack_neighbours((who, *self._keys[who]) for who in self._seats[party] if who in self._keys)

    def _inbox_of(self, party: int) -> bytes:
        return messages.pack_inbox(sorted(messages.unpack_inbox(bytes(self._inbox.get(party, b"")))))

    # The last stage.

    def _unmask(self) -> None:
        """Remove the self masks of the survivors, and the pair masks that they share with drop-outs."""
        total = np.zeros_like(self._total)
        for party in sorted(self._commitments):
            if party in self._beside:
                seed, own = self._reconstruct(party), self._mask_end(party)
                if masks.commitment(seed, self.session, own) != self._commitments[party]:
                    raise ProtocolError(f"the shares of the seed of party {party} do not fit its commitment: no sum.")
                masks.add_self_mask(total, seed, self.session, own)
                continue
            survivors = [who for who in self._seats[party] if who in self._beside]
            if survivors:
                key = X25519PrivateKey.from_private_bytes(self._reconstruct(party))
                if key.public_key().public_bytes_raw() != self._keys[party][1]:
                    raise ProtocolError(f"the shares of the key of party {party} do not fit its public key: no sum.")
                own = self._mask_end(party)
                for end in map(self._mask_end, survivors):
                    masks.add_pair_mask(total, masks.agree(key, end), self.session, end, own)
        self._total -= total

    def _mask_end(self, party: int) -> End:
        return End(party, self._keys[party][1])

    def _reconstruct(self, party: int) -> bytes:
        shares, threshold = np.frombuffer(self._shares.get(party, b""), _SHARE), self.session.topology.threshold
        if len(shares) < threshold:
            raise ProtocolError(
                f"only {len(shares)} of the parties that hold shares of party {party}'s secret are left, "
                f"fewer than the threshold {threshold}: no sum."
            )
        chosen = np.sort(shares, order="holder")[:threshold]
        holders, points = shamir.holders_of(chosen["holder"]), chosen["share"].astype(np.uint64)
        try:
            return shamir.join(shamir.reconstruct(holders, points))
        except ValueError as error:
            raise ProtocolError(f"the secret of party {party} cannot be put together: {error} No sum.") from None
