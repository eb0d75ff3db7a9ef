"""A party as a separate process: only this process reads the party's rows and signing key.

It listens on a Unix socket that only its owner may open. For any request of the relay on the other side, the party
returns only messages of the protocol, and its vector once for each secure sum of the plan.
"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, Listener
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.random import Generator

from dpml.arrays import Array
from dpml.errors import UserError
from dpml.federated.party_rows import agreed_rows
from dpml.federated.plan import FederationPlan
from dpml.federated.relay import LONGEST, MESSAGE, OPEN, REFUSED, Opening
from dpml.federated.sums import Answer
from dpml.protocols.codec import Ring
from dpml.protocols.errors import ProtocolError, RefusedError
from dpml.protocols.party import Party
from dpml.release.ledger import Ledger
from dpml.release.release import entropy


class Member:
    """A party of a plan: `answer` takes a message of the aggregator and returns the party's answer.

    When its first vector is due, the whole release is entered into its ledger before the noise of that vector is drawn.
    The party sends one vector to each of the release's secure sums, in their order, and begins no other session: for
    another release it must be started again.

    Raises:
        UserError: its rows or its key do not match the plan.
    """

    def __init__(
        self,
        plan: FederationPlan,
        signer: Ed25519PrivateKey,
        data: Path,
        ledger: Path,
        source: Callable[[], Generator] = entropy,
    ) -> None:
        self.plan, self.number = plan, plan.number_of(signer.public_key().public_bytes_raw())
        self._signer, self._data, self._ledger, self._source = signer, data, Ledger(ledger), source
        agreed_rows(plan, self.number, data)  # report a mistake before others wait
        self._party: Party | None = None
        self._next = 0  # the next secure sum of the release: no vector was sent to it yet
        self._answer: Answer | None = None

    def answer(self, said: bytes) -> bytes:
        """The answer to a message of the aggregator; its first byte gives the kind of answer.

        Errors in the party's own rows are not disclosed to the aggregator: it only learns that there is an error.
        """
        try:
            return MESSAGE + (self._open(said[1:]) if said[:1] == OPEN else self._receive(said[1:]))
        except ProtocolError as error:
            return self._refused(str(error), str(error))
        except Exception as error:  # the message may contain private data
            return self._refused(str(error), "it cannot take part; its own log says why.")

    def _refused(self, own: str, told: str) -> bytes:
        print(f"dpml: {own}", file=sys.stderr, flush=True)
        return REFUSED + f"party {self.number}: {told}".encode()

    def _open(self, said: bytes) -> bytes:
        opening = Opening.read(said)
        if opening is None or opening.digest != self.plan.digest:
            raise RefusedError("the aggregator has another plan.")
        if opening.number >= len(self.plan.sums.lengths):
            raise RefusedError(f"the release has {len(self.plan.sums.lengths)} secure sums, and no more.")
        if opening.number < self._next:
            raise RefusedError("it has sent its part of this release already; it has to be started again for another.")
        vector = partial(self._contribution, opening)
        self._party = Party(self.plan.session(opening), self.number, self._signer, vector)
        return self._party.start()

    def _receive(self, message: bytes) -> bytes:
        if self._party is None:
            raise RefusedError("there is no session yet.")
        return self._party.receive(message)

    def _contribution(self, opening: Opening) -> tuple[Ring, Array]:
        self._next = opening.number + 1
        if self._answer is None:
            X, y = agreed_rows(self.plan, self.number, self._data)
            facts = self.plan.facts
            self._ledger.enter(" ".join(self.plan.setting), facts.held, parties=facts.parties)
            self._answer = self.plan.sums.party(X, y, self.number, self._source())
        return self._answer(opening.number, opening.told)


def serve(member: Member, socket: Path) -> None:
    """Answer messages on a Unix socket, one after the other, until the process is ended.

    Raises:
        UserError: the socket cannot be created.
    """
    try:
        mask = os.umask(0o177)  # only the owner may open it
        try:
            listener = Listener(str(socket), "AF_UNIX")
        finally:
            os.umask(mask)
    except OSError as error:
        raise UserError(f"{socket} cannot be listened on: {error.strerror or error}.") from None
    with listener:
        while True:
            with listener.accept() as connection:
                _one(member, connection)


def _one(member: Member, connection: Connection) -> None:
    with suppress(EOFError, OSError):  # the relay is gone
        connection.send_bytes(member.answer(connection.recv_bytes(LONGEST)))


def signing_key(path: Path) -> Ed25519PrivateKey:
    """The signing key in a file; if there is none, the file is created, readable by its owner only.

    Raises:
        UserError: the file contains no key, or cannot be created.
    """
    try:
        if not path.exists():
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(Ed25519PrivateKey.generate().private_bytes_raw().hex() + "\n")
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(path.read_text(encoding="ascii").strip()))
    except OSError as error:
        raise UserError(f"{path} cannot be read or made: {error.strerror}.") from None
    except ValueError:
        raise UserError(f"{path} is no signing key such as `dpml federate card` makes.") from None
