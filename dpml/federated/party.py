"""A party as a separate process: only this process reads the party's rows and signing key.

To whatever the aggregator says, it returns only messages of the protocol, and its vector once for each secure sum of
the plan.
"""

import hashlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.random import Generator

from dpml.arrays import Array
from dpml.atomic import check_writable, write_atomically
from dpml.errors import UserError
from dpml.federated.aggregator import model_of
from dpml.federated.opening import MESSAGE, OPEN, REFUSED, Opening
from dpml.federated.party_rows import agreed_rows
from dpml.federated.plan import FederationPlan
from dpml.federated.sums import Answer
from dpml.printable import printable
from dpml.privacy import Guarantee
from dpml.protocols.codec import Ring
from dpml.protocols.errors import ProtocolError, RefusedError
from dpml.protocols.party import Party
from dpml.release.ledger import Cap, Ledger, LedgerEntry
from dpml.release.model import Model, read_model
from dpml.release.release import entropy


class Member:
    """A party of a plan: `answer` takes a message of the aggregator and returns the party's answer.

    When its first vector is due, the whole release is entered into its ledger before the noise of that vector is drawn.
    The party sends one vector to each of the release's secure sums, in their order, and begins no other session: for
    another release it must be started again.

    Raises:
        UserError: its rows or its key do not match the plan, or its ledger has no room for the release.
    """

    def __init__(
        self,
        plan: FederationPlan,
        signer: Ed25519PrivateKey,
        data: Path,
        ledger: Path,
        source: Callable[[], Generator] = entropy,
        cap: Cap | None = None,
    ) -> None:
        plan.require_signatures()
        self.plan, self.number = plan, plan.number_of(signer.public_key().public_bytes_raw())
        self._signer, self._data, self._ledger, self._source = signer, data, Ledger(ledger), source
        self._used, self._cap = ledger.with_name(f"{ledger.name}.used"), cap
        agreed_rows(plan, self.number, data)  # report a mistake before others wait
        if not ledger.exists():
            check_writable(ledger)
        self._ledger.require_room(*self._entered)
        self._party: Party | None = None
        self._next = 0  # the next secure sum of the release: no vector was sent to it yet
        self._answer: Answer | None = None
        self._entry: LedgerEntry | None = None

    @property
    def _entered(self) -> tuple[str, Sequence[Guarantee], Cap | None, str | None]:
        """The whole release, as its ledger has it."""
        facts = self.plan.facts
        return " ".join(self.plan.terms.words), facts.held, self._cap, self.plan.keys

    @property
    def reached(self) -> int:
        """How many sums of the release are over for it: it has sent its vector to the last of them."""
        return self._next

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

    def receive_model(self, text: str, place: Path) -> None:
        """Write the model that the aggregator made to the path `place`, and its checksum into the ledger.

        Raises:
            UserError: it is no model of this plan, or the path exists.
        """
        check_writable(place)
        partial = place.with_name(f".{place.name}.received")
        try:
            write_atomically(partial, text)
            model = read_model(partial)
            if not self._agreed(model):
                raise UserError("what the aggregator hands over is no model of this plan.")
            if self._entry is not None:  # first, so that no model is there that the ledger does not know
                self._ledger.publish(self._entry, hashlib.sha256(text.encode()).hexdigest())
            partial.replace(place)
        finally:
            partial.unlink(missing_ok=True)

    def _agreed(self, model: Model) -> bool:
        """Whether all that a model's file says, but for its numbers, is what the plan says."""
        counted = self.plan.terms.count_errors is not None
        if model.weights.shape != (self.plan.problem.classes, self.plan.problem.d) or counted != bool(model.errors):
            return False
        try:
            ours = model_of(self.plan, model.weights, model.errors)
            return replace(ours, versions=model.versions).text() == model.text()
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError):  # errors of another form
            return False

    def _refused(self, own: str, told: str) -> bytes:
        print(printable(f"dpml: {own}"), file=sys.stderr, flush=True)
        return REFUSED + f"party {self.number}: {told}".encode()

    def _open(self, said: bytes) -> bytes:
        opening = Opening.read(said)
        if opening is None or opening.digest != self.plan.digest:
            raise RefusedError("the aggregator has another plan.")
        if opening.number >= len(self.plan.sums.lengths):
            raise RefusedError(f"the release has {len(self.plan.sums.lengths)} secure sums, and no more.")
        if opening.number < self._next:
            raise RefusedError("it has sent its part of this release already; it has to be started again for another.")
        self.plan.sums.read(opening.number, opening.told)  # before anything is spent on it
        self._use(opening)
        vector = partial(self._contribution, opening)
        self._party = Party(self.plan.session(opening), self.number, self._signer, vector)
        return self._party.start()

    def _use(self, opening: Opening) -> None:
        """Keep an opening beside the ledger: each begins one session, also of a party that is started again.

        Raises:
            RefusedError: it was used before.
        """
        line = hashlib.sha256(opening.content).hexdigest() + "\n"
        with os.fdopen(os.open(self._used, os.O_RDWR | os.O_CREAT, 0o600), "r+", encoding="ascii") as file:
            if line in file.readlines():
                raise RefusedError("the aggregator names a session that was used before.")
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    def _receive(self, message: bytes) -> bytes:
        if self._party is None:
            raise RefusedError("there is no session yet.")
        return self._party.receive(message)

    def _contribution(self, opening: Opening) -> tuple[Ring, Array]:
        self._next = opening.number + 1
        if self._answer is None:
            X, y = agreed_rows(self.plan, self.number, self._data)
            ready = self.plan.sums.ready(X, y, self.number)
            self._entry = self._ledger.enter(*self._entered)
            self._answer = ready(self._source())
        return self._answer(opening.number, opening.told)


def signing_key(path: Path, make: bool = True) -> Ed25519PrivateKey:
    """The signing key in a file; if there is none and one is to be made, the file is created for its owner only.

    Raises:
        UserError: the file contains no key, or cannot be created.
    """
    try:
        if path.exists() and path.stat().st_mode & 0o077:
            raise UserError(f"{path} may be read by others: a signing key is its owner's alone (chmod 600 {path}).")
        if make and not path.exists():
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(Ed25519PrivateKey.generate().private_bytes_raw().hex() + "\n")
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(path.read_text(encoding="ascii").strip()))
    except OSError as error:
        raise UserError(f"{path} cannot be read or made: {error.strerror}.") from None
    except ValueError:
        raise UserError(f"{path} is no signing key such as `dpml federate card` makes.") from None
