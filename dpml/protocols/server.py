"""Implement the server's side of secure aggregation."""

from collections.abc import Callable, Iterator
from itertools import combinations, islice

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from dpml.arrays import Array, Index
from dpml.protocols import identities, masks, messages, shamir
from dpml.protocols.codec import Ring
from dpml.protocols.masks import End
from dpml.protocols.messages import Kind, Message, ProtocolError, RefusedError, Roster, Share
from dpml.protocols.session import Session, Stage, seat

_MOST_TRIES = 5000  # sets of shares that are tried for one secret


class Server:
    """The server as a state machine: `receive` takes a party's message, and `advance` ends a stage and returns answers.

    After the last stage, `total` is the sum modulo 2^64 over the `survivors`.
    """

    def __init__(self, session: Session) -> None:
        self.session, self.stage = session, Stage.KEYS
        self._seats = seat(session.parties, session.topology.degree, session.name)
        self._waiting = set(range(session.parties))
        self._keys: dict[int, tuple[bytes, bytes, bytes]] = {}  # sealing key, masking key, their signature
        self._public: set[bytes] = set()  # the public keys of all parties
        self._probe = X25519PrivateKey.generate()  # detects keys with which no key agreement is possible
        self._commitments: dict[int, bytes] = {}
        self._inbox: dict[int, list[tuple[int, bytes]]] = {}  # the senders and sealed shares for each party
        self._survivors = b""  # the list of survivors as bytes
        self._beside: dict[int, Array] = {}
        self._total = np.zeros(session.length, dtype=np.uint64)
        self._left_out: dict[int, frozenset[int]] = {}  # for each party: the senders whose shares it cannot decrypt
        self._vectors: dict[int, Ring] = {}  # kept until the survivors are known
        self.liars: dict[int, str] = {}  # parties that were left out or sent wrong shares, and the reason
        self._signatures: dict[int, bytes] = {}  # signatures on the list of survivors
        self._shares: dict[int, dict[int, bytes]] = {}  # for each party: the shares of one of its secrets by holder
        self._answered: set[int] = set()

    @property
    def waiting(self) -> frozenset[int]:
        """The parties whose message in the current stage has not arrived yet."""
        return frozenset(self._waiting)

    @property
    def survivors(self) -> Index:
        return np.array(sorted(self._beside), dtype=np.intp)

    @property
    def beside(self) -> Array:
        """The numbers that the survivors sent in plaintext with their masked vectors, one row per survivor."""
        return np.stack([self._beside[party] for party in self.survivors])

    @property
    def total(self) -> Ring:
        if self.stage is not Stage.DONE:
            raise ProtocolError(f"there is no sum yet: the server waits for {self.stage.name}.")
        return self._total

    def receive(self, message: bytes, expected: int | None = None) -> int:
        """Accept a message and return the sender; refuse an invalid message, or a sender other than `expected`."""
        content = messages.unpack(message, self.session.name)
        kind, sender, body, signature = content
        if not 0 <= sender < self.session.parties:
            raise RefusedError(f"a message came from unknown party {sender}: there are {self.session.parties}.")
        if expected is not None and sender != expected:
            raise RefusedError(f"a message in the name of party {sender} came from party {expected}.")
        due = None if self.stage is Stage.DONE else Kind[self.stage.name]
        if kind is not due:
            raise RefusedError(
                f"a message {kind.name} came from party {sender} when {due.name if due else 'none'} was due: "
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

    def advance(self) -> dict[int, bytes]:
        """End the stage, and return the answer for each party that sent its message; all other parties drop out."""
        if self.stage is Stage.MASKED:
            self._leave_out()
        present = sorted(self._answered)
        quorum = self.session.topology.quorum
        if len(present) < quorum:
            raise ProtocolError(
                f"only {len(present)} of {self.session.parties} parties are left after {self.stage.name}, "
                f"fewer than the quorum of {quorum} of this session: no sum."
            )
        if self.stage is Stage.UNMASK:
            self._unmask()
            self.stage = Stage.DONE
            return {}
        kind, body = self._answer()
        self.stage = Stage(self.stage + 1)
        self._waiting, self._answered = set(present), set()
        return {who: messages.pack(kind, self.session.name, who, body(who)) for who in present}

    def _answer(self) -> tuple[Kind, Callable[[int], bytes]]:
        match self.stage:
            case Stage.KEYS:
                public = {who: keys[0] + keys[1] for who, keys in self._keys.items()}
                self._roster = Roster(self.session.parties, public)
                self.session = self.session.run(self._roster.root)
                return Kind.NEIGHBOURS, self._neighbours_of
            case Stage.SHARES:
                return Kind.INBOX, lambda who: messages.pack_entries(Kind.INBOX, sorted(self._inbox.get(who, [])))
            case Stage.MASKED:
                self._inbox.clear()
                self._survivors = messages.pack_survivors(self._beside, self.session.parties)
                return Kind.SURVIVORS, lambda _: self._survivors
        signed = messages.pack_entries(
            Kind.SIGNATURES, sorted(self._signatures.items())[: self.session.topology.quorum]
        )
        return Kind.SIGNATURES, lambda _: signed  # a party requires `quorum` signatures

    def _take_keys(self, content: Message) -> None:
        sender = content.party
        keys = messages.unpack_keys(content.body)
        if keys[0] == keys[1] or not self._public.isdisjoint(keys):
            raise RefusedError(f"a public key of party {sender} has been announced before.")
        for key in keys:  # an invalid key would make all neighbours of this party drop out
            masks.agree(self._probe, End(sender, key))
        self._public.update(keys)
        self._keys[sender] = (*keys, content.signature)

    def _take_shares(self, content: Message) -> None:
        sender = content.party
        commitment, sealed = messages.unpack_entries(Kind.SHARES, content.body, messages.KEY_BYTES)
        wanted = [who for who in self._seats[sender] if who in self._keys]
        if sorted(who for who, _ in sealed) != wanted:
            raise RefusedError(
                f"party {sender} must send one share to each of its {len(wanted)} neighbours, no others."
            )
        self._commitments[sender] = commitment
        for who, text in sealed:
            self._inbox.setdefault(who, []).append((sender, text))

    def _take_masked(self, content: Message) -> None:
        session = self.session
        vector, beside, left_out = messages.unpack_masked(content.body, session.length, session.beside, session.parties)
        if left_out and session.topology.degree < session.parties - 1:  # on a ring, leave out the party that reports
            raise RefusedError(f"party {content.party} reports that shares do not open, first those of {left_out[0]}.")
        if not np.isfinite(beside).all():
            raise RefusedError(f"a number from party {content.party} is out of range: not finite.")
        self._beside[content.party] = beside.copy()  # without a copy, the whole message would stay in memory
        self._left_out[content.party] = frozenset(left_out)
        self._vectors[content.party] = vector.copy()

    def _leave_out(self) -> None:
        """Exclude parties until all remaining parties can decrypt each other's shares; then sum their vectors."""
        conflicts: dict[int, set[int]] = {k: set() for k in self._beside}
        for k in self._beside:
            for j in self._left_out[k] & conflicts.keys():
                conflicts[k].add(j)
                conflicts[j].add(k)
        while any(conflicts.values()):
            worst = max(conflicts, key=lambda k: (len(conflicts[k]), len(self._left_out[k]), k))
            others = conflicts.pop(worst)
            for other in others:
                conflicts[other].discard(worst)
            del self._beside[worst]
            self._answered.discard(worst)
            names = ", ".join(map(str, sorted(others)))
            self.liars[worst] = f"shares between party {worst} and {names} cannot be read: party {worst} is left out."
        for party, vector in self._vectors.items():
            if party in self._beside:
                self._total += vector
        self._vectors.clear()

    def _take_consistency(self, content: Message) -> None:
        if content.body != self._survivors:
            raise RefusedError(f"party {content.party} signed another list of survivors.")
        self._signatures[content.party] = content.signature

    def _take_unmask(self, content: Message) -> None:
        sender = content.party
        self_masks, mask_keys = messages.unpack_unmask(content.body)
        held = {sender, *(who for who in self._seats[sender] if who in self._commitments)} - self._left_out[sender]
        here = {who for who in held if who in self._beside}
        for entries, wanted in ((self_masks, here), (mask_keys, held - here)):
            if len(entries) != len(wanted) or {who for who, _ in entries} != wanted:
                raise RefusedError(
                    f"party {sender} must send exactly its shares of the survivors' seeds and of the mask keys of "
                    f"the parties that dropped out."
                )
        elements = np.frombuffer(b"".join(share for _, share in (*self_masks, *mask_keys)), "<u4")
        if elements.max() >= shamir.PRIME:
            raise RefusedError(f"a share from party {sender} is out of range: not an element of the field.")
        for who, share in (*self_masks, *mask_keys):
            self._shares.setdefault(who, {})[sender] = share

    def _neighbours_of(self, party: int) -> bytes:
        keys = ((who, *self._keys[who]) for who in self._seats[party] if who in self._keys)
        return messages.pack_entries(Kind.NEIGHBOURS, keys, self._roster.path(party))

    def _unmask(self) -> None:
        total = np.zeros_like(self._total)
        for party in sorted(self._commitments):
            own = self._mask_end(party)
            if party in self._beside:
                masks.add_self_mask(total, self._seed_of(party), self.session, own)
                continue
            around = [who for who in self._seats[party] if who in self._beside and party not in self._left_out[who]]
            if around:
                key = X25519PrivateKey.from_private_bytes(self._key_of(party))
                for end in map(self._mask_end, around):
                    masks.add_pair_mask(total, masks.agree(key, end), self.session, end, own)
        self._total -= total

    def _seed_of(self, party: int) -> bytes:
        own, due = self._mask_end(party), self._commitments[party]
        return self._reconstruct(
            party, lambda seed: masks.commitment(seed, self.session, own) == due, "seed", "its commitment"
        )

    def _key_of(self, party: int) -> bytes:
        def fits(key: bytes) -> bool:
            return X25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw() == self._keys[party][1]

        return self._reconstruct(party, fits, "key", "its public key")

    def _mask_end(self, party: int) -> End:
        return End(party, self._keys[party][1])

    def _reconstruct(self, party: int, fits: Callable[[bytes], bool], what: str, to: str) -> bytes:
        """Reconstruct a party's secret from `threshold` shares; if `fits` rejects it, a share is wrong: try others."""
        shares = sorted(self._shares.get(party, {}).items(), key=lambda item: (item[0] in self.liars, item[0]))
        threshold = self.session.topology.threshold
        if len(shares) < threshold:
            raise ProtocolError(
                f"only {len(shares)} shares of party {party}'s secret are left, fewer than the threshold {threshold}: "
                f"no sum."
            )
        for chosen in islice(_subsets(len(shares), threshold), _MOST_TRIES):
            secret = _secret([shares[place] for place in chosen])
            if secret is not None and fits(secret):
                self._name_liars(party, shares, chosen, secret)
                return secret
        raise ProtocolError(
            f"the shares of the {what} of party {party} do not fit {to}: no sum. Party {party} gave wrong shares, or "
            f"more than {len(shares) - threshold} holders returned wrong ones."
        )

    def _name_liars(self, party: int, shares: list[Share], chosen: tuple[int, ...], secret: bytes) -> None:
        for place in set(range(len(shares))) - set(chosen) if chosen[-1] >= len(chosen) else ():
            if _secret([shares[each] for each in (*chosen[:-1], place)]) != secret:
                holder, _ = shares[place]
                self.liars.setdefault(holder, f"party {holder} sent a wrong share of party {party}'s secret.")


def _subsets(count: int, size: int) -> Iterator[tuple[int, ...]]:
    """Yield each subset of `size` numbers from 0 to `count` - 1 once, in order of the largest number in the subset."""
    for more in range(count - size + 1):
        for out in combinations(range(size + more), more):
            if not more or out[-1] < size + more - 1:  # other subsets were yielded before
                yield tuple(place for place in range(size + more) if place not in out)


def _secret(shares: list[Share]) -> bytes | None:
    values = np.array([np.frombuffer(share, "<u4") for _, share in shares], np.uint64)
    try:
        return shamir.join(shamir.reconstruct(shamir.holders_of([holder for holder, _ in shares]), values))
    except ValueError:
        return None
