"""Run one party of a federation; only this process reads the party's rows and signing key.

The party answers only with protocol messages, and sends one vector to each secure sum.
"""

import hashlib
import json
import math
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.random import Generator

from dpml.algorithms import require_domain
from dpml.algorithms.quadratic.moments import Moments, NewtonMoments, Round, moments_of
from dpml.algorithms.quadratic.newton_sums import LAST
from dpml.algorithms.quadratic.regression import Regression
from dpml.arrays import Array
from dpml.data import Dataset
from dpml.data.csv.column_bounds import ColumnBounds
from dpml.data.partition import Parties
from dpml.data.preprocess import apply_steps, scale_target
from dpml.data.sets.csv import CSV, read_rows
from dpml.errors import UserError
from dpml.federated.aggregator import counted_errors, model_of
from dpml.federated.plan import FederationPlan, task_of
from dpml.federated.sums import MESSAGE, OPEN, REFUSED, Answer, Opening
from dpml.files import check_writable, create_atomically, from_json
from dpml.privacy import Guarantee
from dpml.protocols.codec import Ring
from dpml.protocols.messages import ProtocolError, RefusedError
from dpml.protocols.party import Party
from dpml.release.ledger import Cap, Ledger, LedgerEntry
from dpml.release.release import entropy
from dpml.running.environment import provenance
from dpml.screen import printable

_VERSION = re.compile(r"[\w.+!-]{1,40}", re.ASCII)


class Member:
    """A party that answers the messages of a federation's aggregator about one release.

    Before the party draws noise, it enters the whole release into its ledger. It sends one vector to each secure sum.
    """

    def __init__(  # noqa: PLR0913 - a party has files and its own limits
        self,
        plan: FederationPlan,
        signer: Ed25519PrivateKey,
        data: Path,
        ledger: Path,
        source: Callable[[], Generator] = entropy,
        cap: Cap | None = None,
        reading: Mapping[str, Any] | None = None,
    ) -> None:
        plan.require_signatures()
        self.plan, self.number = plan, plan.number_of(signer.public_key().public_bytes_raw())
        self._signer, self._data, self._ledger, self._source = signer, data, Ledger(ledger), source
        self._cap, self._reading = cap, reading
        agreed_rows(plan, self.number, data, reading)  # report a mistake before other parties wait
        if not ledger.exists():
            check_writable(ledger)
        self._ledger.require_room(*self._entered)
        self._party: Party | None = None
        self._asked: bytes | None = None  # the last message that was answered
        self._answered = b""  # the answer to that message
        self.reached = 0  # the number of sums to which the party has sent its vector, or that it has missed
        self._answer: Answer | None = None
        self._entry: LedgerEntry | None = None

    @property
    def _entered(self) -> tuple[str, Sequence[Guarantee], Cap | None, str | None]:
        facts = self.plan.facts
        return " ".join(self.plan.terms.words), facts.held, self._cap, self.plan.keys

    def answer(self, said: bytes) -> bytes:
        """Return the answer to a message; a restarted aggregator that repeats its last message gets the same answer."""
        if said == self._asked:
            return self._answered
        answer = self._new_answer(said)
        if answer[:1] == MESSAGE:  # a refused message does not change the state
            self._asked, self._answered = said, answer
        return answer

    def _new_answer(self, said: bytes) -> bytes:
        try:
            return MESSAGE + (self._open(said[1:]) if said[:1] == OPEN else self._receive(said[1:]))
        except ProtocolError as error:
            return self._refused(str(error), str(error))
        except Exception as error:  # the message may contain private data
            return self._refused(str(error), "it cannot take part; see its own log.")

    def receive_model(self, text: str, place: Path) -> None:
        """Check the aggregator's model, enter its checksum into the ledger, and write the model to `place`."""
        check_writable(place)
        if text != self._own_text(text):
            raise UserError("the aggregator sent a file that is not a model of this plan; nothing was written.")
        if self._entry is not None:  # before the file is written, so that the ledger knows every model that exists
            self._ledger.publish(self._entry, hashlib.sha256(text.encode()).hexdigest())
        try:
            create_atomically(place, text)
        except FileExistsError:
            raise UserError(f"{place} is there already: another program has written it in the meantime.") from None

    def _own_text(self, text: str) -> str | None:
        """Return the model file that this party's plan and the weights in `text` imply, or None if `text` is invalid.

        The party also takes from `text` what it cannot compute itself: the noisy error, the noisy sums of a regression,
        and the software versions.
        """
        try:
            content = from_json(text)
            weights = np.array(content["weights"], dtype=float)
            versions = {name: content["versions"][name] for name in provenance()["versions"]}
            errors = None if self.plan.terms.count_errors is None else self._errors(**content["errors"])
            moments = self._moments(content["moments"]) if self.plan.terms.algo == Regression.name else None
            if weights.shape == (self.plan.problem.classes, self.plan.problem.d) and all(
                _VERSION.fullmatch(version) for version in versions.values()
            ):
                return model_of(self.plan, weights, errors, versions, moments).text()
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError):
            pass
        return None

    def _errors(self, error: float, rows: int, deviation: float, **_: object) -> dict[str, Any]:
        """Return a model's noisy error; raise ValueError if no possible number of dropouts implies this `deviation`."""
        for parties in self._numbers_of_parties(int(rows)):
            errors = counted_errors(self.plan, float(error), int(rows), parties)
            if errors["deviation"] == deviation:
                return errors
        raise ValueError("no number of parties has this deviation")

    def _moments(self, content: Mapping[str, Any]) -> Moments | NewtonMoments:
        """Return a regression's noisy sums; raise ValueError if no possible number of dropouts implies their noise."""
        problem, moments = self.plan.problem, moments_of(content)
        program = replace(self.plan.sums.algorithm, protocol="secagg")  # as in `Sums`
        messages = program.messages(self.plan.terms.budget, problem)
        parts: list[tuple[Moments | Round, int]] = [(moments, 0)] if isinstance(moments, Moments) else []
        if isinstance(moments, NewtonMoments):
            parts = list(zip((moments.first, moments.before, moments.last), (0, *LAST), strict=True))
        for part, number in parts:
            arrays = [of.shape for of in vars(part).values() if isinstance(of, np.ndarray)]
            if {*arrays} != {(problem.d, problem.d), (problem.d,)} or moments.rows != problem.N:
                raise ValueError("the sums are about other rows or features")
            widenings = [
                part.scaled_up * math.sqrt(parties / problem.M)
                for parties in self._numbers_of_parties(round(problem.N / part.scaled_up))
            ]
            if not any(part.has_noise(messages[number], widening) for widening in widenings):
                raise ValueError("no number of parties has this noise")
        return moments

    def _numbers_of_parties(self, rows: int) -> Iterator[int]:
        """Yield each k >= quorum with `rows` between the total rows of the k smallest and of the k largest parties."""
        sizes = sorted(seat.rows for seat in self.plan.seats)
        M = len(sizes)
        for parties in range(self.plan.topology.quorum, M + 1):
            if sum(sizes[:parties]) <= rows <= sum(sizes[M - parties :]):
                yield parties

    def _refused(self, own: str, sent: str) -> bytes:
        print(printable(f"dpml: {own}"), file=sys.stderr, flush=True)
        return REFUSED + f"party {self.number}: {sent}".encode()

    def _open(self, said: bytes) -> bytes:
        opening = Opening.read(said)
        if opening is None or opening.digest != self.plan.digest:
            raise RefusedError("the aggregator has a different plan.")
        if opening.number >= len(self.plan.sums.lengths):
            raise RefusedError(f"the release has only {len(self.plan.sums.lengths)} secure sums.")
        if opening.number < self.reached:
            raise RefusedError("it has already sent its vector to this sum; for another release, start it again.")
        self.plan.sums.read(opening.number, opening.payload)  # refuses invalid arguments before any budget is spent
        vector = partial(self._contribution, opening)
        self._party = Party(self.plan.session(opening), self.number, self._signer, vector)
        return self._party.start()

    def _receive(self, message: bytes) -> bytes:
        if self._party is None:
            raise RefusedError("no session has started yet.")
        return self._party.receive(message)

    def _contribution(self, opening: Opening) -> tuple[Ring, Array]:
        self.reached = opening.number + 1
        print(f"sent to sum {self.reached} of {len(self.plan.sums.lengths)}", flush=True)
        if self._answer is None:
            X, y = agreed_rows(self.plan, self.number, self._data, self._reading)
            ready = self.plan.sums.ready(X, y, self.number)
            self._entry = self._ledger.enter(*self._entered)
            self._answer = ready(self._source())
        return self._answer(opening.number, opening.payload)


def own_rows(dataset: CSV, stated: ColumnBounds, path: Path) -> tuple[Array, Array]:
    """Return the preprocessed rows X (n, d) and labels y (n,) of a file; features are ordered as in a bounds file."""
    with tempfile.TemporaryDirectory() as folder:
        bounds = Path(folder) / "stated.json"
        bounds.write_text(json.dumps(stated.content()), encoding="utf-8")
        try:
            rows, _, known = read_rows(replace(dataset, path=str(path), bounds=str(bounds)))
        except UserError as error:
            raise UserError(str(error).replace(str(bounds), str(stated.path))) from None
    assert known is not None
    names = list(known.columns)
    X = rows.X[:, [names.index(name) for name in stated.columns]]
    X, _, _ = apply_steps(dataset.steps, X, X[:0], stated.columns)
    y = rows.y if stated.target is None else scale_target(rows.y, rows.y[:0], stated.target)[0]
    return X, y


def agreed_rows(
    plan: FederationPlan, party: int, path: Path, reading: Mapping[str, Any] | None = None
) -> tuple[Array, Array]:
    """Return the rows X (n, d) and labels y (n,) of a party's file; raise UserError unless the rows match the plan.

    `reading` has the options of dataset=csv in which the format of this party's file differs from the plan.
    """
    X, y = own_rows(replace(plan.terms.dataset, **(reading or {})), plan.stated, path)
    seat = plan.seats[party]
    if len(y) != seat.rows:
        raise UserError(
            f"{path} has {len(y):,} usable rows, but the plan states {seat.rows:,} rows for the party {seat.name!r}: "
            "agree on a new plan."
        )
    n = len(y)
    data = Dataset(str(path), task_of(plan.stated), X, y, X[:0], y[:0])
    require_domain(Parties(data, np.arange(n), np.array([0, n]), X, y, X[:0]), plan.algorithm.loss)
    return X, y


def signing_key(path: Path, make: bool = True) -> Ed25519PrivateKey:
    """Return the signing key in a file; if `make` is true, a missing file is created with a new key."""
    try:
        if path.exists() and path.stat().st_mode & 0o077:
            raise UserError(f"{path} can be read by others, but a signing key is secret: type chmod 600 {path}.")
        if make and not path.exists():
            create_atomically(path, Ed25519PrivateKey.generate().private_bytes_raw().hex() + "\n", private=True)
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(path.read_text(encoding="ascii").strip()))
    except ValueError:
        raise UserError(f"{path} is not a signing key such as `dpml federate card` makes.") from None
