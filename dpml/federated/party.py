"""A party as a process of its own: the only one that reads its rows and its signing key.

It listens on a Unix socket that its owner alone may open. Whatever the relay on the other side is made to say, it gets
messages of the protocol and nothing else, and the party's vector once.
"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, Listener
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.random import Generator

from dpml.arrays import Array
from dpml.errors import UserError
from dpml.federated.plan import Plan
from dpml.federated.relay import LONGEST, MESSAGE, OPEN, REFUSED
from dpml.federated.rows import agreed_rows, content_digest
from dpml.protocols.codec import Ring
from dpml.protocols.errors import ProtocolError, RefusedError
from dpml.protocols.messages import SESSION_BYTES
from dpml.protocols.party import Party
from dpml.release.ledger import Ledger
from dpml.release.release import entropy


class Member:
    """A party of a plan: `answer` takes what the aggregator says, and says what the party says to it.

    Its noise is drawn, and the release entered into its ledger, when its vector is due. After that it begins no other
    session: who wants another release starts it again.

    Raises:
        UserError: its rows or its key are not those of the plan.
    """

    def __init__(
        self,
        plan: Plan,
        signer: Ed25519PrivateKey,
        data: Path,
        ledger: Path,
        source: Callable[[], Generator] = entropy,
    ) -> None:
        self.plan, self.number = plan, plan.number_of(signer.public_key().public_bytes_raw())
        self._signer, self._data, self._ledger, self._source = signer, data, Ledger(ledger), source
        agreed_rows(plan, self.number, data)  # a mistake shows before others wait
        self._party: Party | None = None
        self._spent = False

    def answer(self, said: bytes) -> bytes:
        """The answer to what the aggregator said; its first byte says what it is.

        What is wrong with the party's own rows is not for the aggregator: it is told that there is something.
        """
        try:
            return MESSAGE + (self._open(said[1:]) if said[:1] == OPEN else self._receive(said[1:]))
        except ProtocolError as error:
            return self._refused(str(error), str(error))
        except Exception as error:  # whatever it says may be private
            return self._refused(str(error), "it cannot take part; its own log says why.")

    def _refused(self, own: str, told: str) -> bytes:
        print(f"dpml: {own}", file=sys.stderr, flush=True)
        return REFUSED + f"party {self.number}: {told}".encode()

    def _open(self, said: bytes) -> bytes:
        name, digest = said[:SESSION_BYTES], said[SESSION_BYTES:].decode("ascii", "replace")
        if digest != self.plan.digest:
            raise RefusedError("the aggregator has another plan.")
        if self._spent:
            raise RefusedError("it has sent its part of this release already; it has to be started again for another.")
        self._party = Party(self.plan.session(name), self.number, self._signer, self._contribution)
        return self._party.start()

    def _receive(self, message: bytes) -> bytes:
        if self._party is None:
            raise RefusedError("there is no session yet.")
        return self._party.receive(message)

    def _contribution(self) -> tuple[Ring, Array]:
        X, y = agreed_rows(self.plan, self.number, self._data)
        self._spent = True
        self._ledger.enter(content_digest(self._data), " ".join(self.plan.setting), self.plan.guarantees)
        return self.plan.sum.part(X, y, self.number, self._source())


def serve(member: Member, socket: Path) -> None:
    """Answer what comes over a Unix socket, one after the other, until somebody ends the process.

    Raises:
        UserError: there can be no such socket.
    """
    try:
        mask = os.umask(0o177)  # nobody else may open it
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
    """The signing key in a file, which is made if there is none, for its owner alone.

    Raises:
        UserError: the file holds none, or cannot be made.
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
