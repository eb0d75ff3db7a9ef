"""The plan that the parties of a federation have agreed on: one JSON file, the same for all.

A party does not rely on the aggregator for the amount of noise, the list of parties, or the number of drop-outs: all of
it is in the plan. Every party has signed the plan's checksum before any answers a message.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dpml.algorithms import Algorithm
from dpml.data import Task, sha256
from dpml.data.csv.column_bounds import ColumnBounds, bounds_from
from dpml.data.preprocess import check_ball, width
from dpml.data.sets.csv import CSV
from dpml.errors import UserError
from dpml.federated.agreed import Agreed
from dpml.federated.sums import Opening, Sums, sums_of
from dpml.files import from_json
from dpml.mechanism.counting import Counting
from dpml.optim.losses import for_task
from dpml.options import between, convert
from dpml.privacy import Guarantee, Problem, worst
from dpml.protocols import Session, Topology, complete
from dpml.protocols.messages import KEY_BYTES, SESSION_BYTES, SIGNATURE_BYTES
from dpml.protocols.session import least_quorum
from dpml.release.certificate import views
from dpml.release.facts import Facts, facts_about, gaps, statement
from dpml.release.inference import check_effects

FORMAT = "dpml plan 2"

_KEYS = ("format", "terms", "stated", "parties", "colluders", "dropouts", "signatures")
_SIGNED = b"dpml plan signature "  # before the checksum
_LONGEST = 1 << 24  # bytes of a plan or a card
_MOST = 10_000  # parties
_NAME = re.compile(r"\w[\w .-]{0,63}")


@dataclass(frozen=True)
class Seat:
    """A party in a plan: its name, how many rows it has, and its Ed25519 verification key."""

    name: str
    rows: int
    key: bytes

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UserError(
                f"the name {self.name[:64]!r} of a party, which is that of its file, must be at most 64 letters, "
                "digits, blanks, dots and dashes."
            )

    @property
    def fingerprint(self) -> str:
        """Of the key, to be compared by telephone: the first 16 bytes of its SHA-256."""
        digits = hashlib.sha256(self.key).hexdigest()[:32]
        return " ".join(digits[k : k + 4] for k in range(0, 32, 4))


@dataclass(frozen=True)
class FederationPlan:
    """The content of the agreement.

    Attributes:
        terms: algorithm, budget and the role of every column.
        stated: the public statements about the columns.
        seats: the parties, in the order of their numbers.
        colluders: the number of parties that may pool their knowledge with the aggregator, at least 1.
        dropouts: the number of parties that may be missing from the sum. The noise is wide enough without that of the
            colluders and of the drop-outs, so the guarantees hold for every possible sum.
        signatures: of parties under the checksum of all the rest, by name.
    """

    terms: Agreed
    stated: ColumnBounds
    seats: tuple[Seat, ...]
    colluders: int
    dropouts: int
    signatures: Mapping[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [seat.name for seat in self.seats]
        if len(set(names)) < len(names) or len({seat.key for seat in self.seats}) < len(names):
            raise UserError("two parties of the plan have the same name or the same key.")
        if self.colluders < 1:
            raise UserError(
                f"colluders={self.colluders} is no plan: the aggregator may be one of the parties, or know one; choose "
                "1 or more."
            )
        # refuse an invalid plan now, not when all parties are connected
        check_effects(self.algorithm, self.dataset.steps, self.stated)
        check_ball(self.dataset.steps, self.stated.columns)
        topology = self.topology  # first, as noise needs an honest party's part
        Session(len(self.seats), max(self.sums.lengths), topology, self.sums.beside)
        _ = self.guarantees

    @property
    def text(self) -> str:
        """The content of its file."""
        signatures = {name: signature.hex() for name, signature in sorted(self.signatures.items())}
        return _written({**self._content, "signatures": signatures})

    @property
    def _content(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "terms": self.terms.content(),
            "stated": self.stated.content(),
            "parties": {seat.name: {"rows": seat.rows, "key": seat.key.hex()} for seat in self.seats},
            "colluders": self.colluders,
            "dropouts": self.dropouts,
        }

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what is agreed on, independent of the layout of the file and of who has signed."""
        return hashlib.sha256(_written(self._content).encode()).hexdigest()

    def signed(self, signer: Ed25519PrivateKey) -> "FederationPlan":
        """Return the same with one more signature."""
        seat = self.seats[self.number_of(signer.public_key().public_bytes_raw())]
        return self.with_signatures({seat.name: signer.sign(_SIGNED + self.digest.encode())})

    def with_signatures(self, more: Mapping[str, bytes]) -> "FederationPlan":
        """The same with `more`, of parties that have not signed it; nothing that was agreed on is worked out anew."""
        plan, lacks = copy(self), self.unsigned  # with what is cached
        taken = {name: signature for name, signature in more.items() if name in lacks}
        object.__setattr__(plan, "signatures", {**self.signatures, **taken})
        return plan

    @property
    def unsigned(self) -> tuple[str, ...]:
        """The parties that have not signed it."""
        unsigned = []
        for seat in self.seats:
            try:
                key = Ed25519PublicKey.from_public_bytes(seat.key)
                key.verify(self.signatures.get(seat.name, b""), _SIGNED + self.digest.encode())
            except (InvalidSignature, ValueError):
                unsigned.append(seat.name)
        return tuple(unsigned)

    def require_signatures(self) -> None:
        """Raise UserError unless all parties have signed: a plan that others have not seen may be for one victim."""
        if self.unsigned:
            raise UserError(
                f"the plan lacks the signature of {', '.join(self.unsigned)}: every party signs it with "
                "`dpml federate sign`, and nobody takes part before."
            )

    @property
    def keys(self) -> str:
        """A digest of the parties' keys, in any order, by which their ledgers recognise them."""
        return sha256(*sorted(seat.key for seat in self.seats))

    @property
    def task(self) -> Task:
        """The prediction task."""
        return task_of(self.stated)

    @cached_property
    def dataset(self) -> CSV:
        """The options of the columns; no file is named."""
        return self.terms.dataset

    @cached_property
    def algorithm(self) -> Algorithm:
        """The algorithm, with the least noise that is proven to suffice."""
        return self.terms.algorithm(for_task(self.task, self.terms.loss), self.task)

    @property
    def problem(self) -> Problem:
        """What noise and guarantees depend on. A drop-out counts as a colluder: its noise protects no other party."""
        sizes = tuple(seat.rows for seat in self.seats)
        d = width(self.dataset.steps, self.stated.columns)
        K = len(self.stated.classes) if self.task == "multiclass" else 1
        return Problem(len(sizes), sum(sizes), d, classes=K, sizes=sizes, colluders=self.colluders + self.dropouts)

    @cached_property
    def sums(self) -> Sums:
        """The parties' messages, and the computation on them."""
        return sums_of(self.algorithm, self.terms.budget, self.problem, self.task)

    @cached_property
    def error_deviation(self) -> float:
        """The standard deviation of the noise of the counted error, with all parties and in the algorithm's units."""
        assert isinstance(self.algorithm, Counting)
        return self.algorithm.deviation(self.algorithm.messages(self.terms.budget, self.problem)[-1], self.problem)

    @cached_property
    def facts(self) -> Facts:
        """What every release under this plan is like.

        If parties may drop out, every view gets the guarantee of the view that sees most: the other guarantees assume
        the noise of all parties.
        """
        trust = "no place had the records of two parties: the parties ran secure aggregation"
        facts = facts_about(
            self.algorithm, self.problem, self.terms.budget, self.dropouts, dealt="natural", trust=trust
        )
        if not self.dropouts:
            return facts
        most = worst(facts.held)
        alike = tuple(replace(g, eps=most.eps, mu=most.mu, source=most.source, curve=most.curve) for g in facts.held)
        described = facts.certificate and {
            **facts.certificate, "views": views(alike, facts.certificate["messages"])
        }  # fmt: skip
        return replace(facts, given=alike, certificate=described)

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """The guarantees of a release, for every view."""
        return self.facts.held

    @property
    def statement(self) -> tuple[str, ...]:
        """The guarantees in words."""
        return *statement(self.facts), *gaps(self.stated.gaps("impute" in self.dataset.steps))

    @property
    def longest(self) -> int:
        """Bytes that no message of a party exceeds."""
        return 8 * (max(self.sums.lengths) + self.sums.beside) + 256 * len(self.seats) + 4096

    @property
    def topology(self) -> Topology:
        """Every pair of parties shares masks, and all but `dropouts` have to be in the sum."""
        return agreed_topology(len(self.seats), self.colluders, self.dropouts)

    def session(self, opening: Opening) -> Session:
        """The session of the secure sum that an opening starts.

        Its name is the first 16 bytes of SHA-256("dpml sum" | the opening), so parties that received different openings
        have no sum together.
        """
        name = hashlib.sha256(b"dpml sum" + opening.content).digest()[:SESSION_BYTES]
        identities = tuple(seat.key for seat in self.seats)
        length = self.sums.lengths[opening.number]
        return Session(len(self.seats), length, self.topology, self.sums.beside, name, identities)

    def number_of(self, key: bytes) -> int:
        """The number of the party with this verification key."""
        for number, seat in enumerate(self.seats):
            if seat.key == key:
                return number
        raise UserError("the plan has no party with the verification key of this signing key.")


def agreed_topology(parties: int, colluders: int, dropouts: int) -> Topology:
    """Return the complete topology for given numbers of parties, colluders and drop-outs."""
    most = most_dropouts(parties, colluders)
    if max(2, least_quorum(parties, colluders)) > parties:
        raise UserError(f"{parties} parties cannot be protected from colluders={colluders} of them: more are needed.")
    if not 0 <= dropouts <= most:
        raise UserError(
            f"with {parties} parties and colluders={colluders} at most {most} may drop out, got dropouts={dropouts}."
        )
    return complete(parties, parties - dropouts)


def most_dropouts(parties: int, colluders: int) -> int:
    """The largest number of drop-outs, given the numbers of parties and colluders."""
    return max(0, parties - max(2, least_quorum(parties, colluders)))


def task_of(stated: ColumnBounds) -> Task:
    """The prediction task, from the statement about the label."""
    if stated.target is not None:
        return "regression"
    return "binary" if len(stated.classes) == 2 else "multiclass"


def read_plan(path: Path) -> FederationPlan:
    """The plan in a file."""
    content = _json(path, "plan such as `dpml federate plan` writes")
    if content.get("format") != FORMAT or set(content) != set(_KEYS):
        raise UserError(f"{path} is no plan of this dpml: it must have format: {FORMAT!r}, and {', '.join(_KEYS[1:])}.")
    try:
        for key in ("stated", "parties", "signatures"):
            if not isinstance(content[key], dict) or len(content[key]) > _MOST:
                raise UserError(f"{key} must be an object with at most {_MOST:,} entries.")
        seats = tuple(_seat(name, each) for name, each in content["parties"].items())
        signatures = {name: _bytes("signature", each, SIGNATURE_BYTES) for name, each in content["signatures"].items()}
        terms, stated = Agreed.read(content["terms"]), bounds_from(path, content["stated"])
        number = Annotated[int, between(0, _MOST)]
        colluders, dropouts = (convert(content[key], number, key) for key in ("colluders", "dropouts"))
        return FederationPlan(terms, stated, seats, colluders, dropouts, signatures)
    except UserError as error:
        raise UserError(f"{path} is no plan that can be carried out: {error}") from None


def read_card(path: Path) -> Seat:
    """The party described by a card; its name is that of the file."""
    content = _json(path, "card such as `dpml federate card` writes")
    try:
        return _seat(path.stem, content)
    except UserError as error:
        raise UserError(f"{path} is no card such as `dpml federate card` writes: {error}") from None


def _json(path: Path, what: str) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(_LONGEST + 1)
        content = from_json(text.decode("utf-8")) if len(text) <= _LONGEST else None
    except (ValueError, RecursionError):  # also of what is not UTF-8
        content = None
    if not isinstance(content, dict):
        raise UserError(f"{path} is no {what}: it is no JSON object of at most {_LONGEST:,} bytes.")
    return content


def _seat(name: str, content: Any) -> Seat:
    if not isinstance(content, dict) or set(content) != {"rows", "key"}:
        raise UserError("a party must have rows and key.")
    rows = convert(content["rows"], Annotated[int, between(1, 10**9)], "rows")
    return Seat(name, rows, _bytes("key", content["key"], KEY_BYTES))


def _bytes(key: str, value: Any, length: int) -> bytes:
    if not isinstance(value, str) or not re.fullmatch(rf"[0-9a-f]{{{2 * length}}}", value):
        raise UserError(f"{key} must be {2 * length} hexadecimal digits.")
    return bytes.fromhex(value)


def _written(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
