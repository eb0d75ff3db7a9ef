"""Read, check and sign the plan of a federation, a JSON file that is the same for all parties.

The plan fixes the noise, the parties and the number of drop-outs, so that no party must trust the aggregator with them.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dpml.algorithms import Algorithm
from dpml.data import Task, sha256
from dpml.data.csv.column_bounds import ColumnBounds, bounds_from
from dpml.data.preprocess import check_ball, width
from dpml.errors import UserError
from dpml.federated.agreed import Agreed
from dpml.federated.sums import Opening, Sums, sums_of
from dpml.files import from_json
from dpml.mechanism.counting import Counting
from dpml.optim.losses import for_task
from dpml.options import between, convert
from dpml.privacy import Problem
from dpml.protocols import Session, Topology, complete
from dpml.protocols.messages import KEY_BYTES, SESSION_BYTES, SIGNATURE_BYTES
from dpml.protocols.session import least_quorum
from dpml.release.facts import Facts, facts_about, gaps, statement
from dpml.release.inference import check_effects

FORMAT = "dpml plan 2"

_KEYS = ("format", "terms", "stated", "parties", "colluders", "dropouts", "signatures")
_SIGNED = b"dpml plan signature "  # parties sign this and the plan's checksum
_LONGEST = 1 << 24  # the most bytes of a plan or a card
_MOST = 10_000  # the largest number of parties
_NAME = re.compile(r"\w[\w .-]{0,63}")


@dataclass(frozen=True)
class Seat:
    """The entry of one party in a plan: its name, its number of rows, and its Ed25519 verification key."""

    name: str
    rows: int
    key: bytes

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UserError(
                f"{self.name[:64]!r} cannot be the name of a party (it comes from the name of its file): use 1 to 64 "
                "letters, digits, blanks, dots and dashes, and begin with a letter or digit."
            )

    @property
    def fingerprint(self) -> str:
        """Return a short checksum of the party's key, which people compare by telephone."""
        digits = hashlib.sha256(self.key).hexdigest()[:32]
        return " ".join(digits[k : k + 4] for k in range(0, 32, 4))


@dataclass(frozen=True)
class FederationPlan:
    """The plan of a federation, which all parties must sign."""

    terms: Agreed  # the algorithm, the budget and the role of every column
    stated: ColumnBounds  # the public statements about the columns
    seats: tuple[Seat, ...]  # the parties, in the order of their numbers
    colluders: int  # the number of parties that may pool their knowledge with the aggregator, at least 1
    dropouts: int  # the number of parties that may be missing from a sum; the others' noise suffices
    signatures: Mapping[str, bytes] = field(default_factory=dict)  # the signatures of all other fields, by party

    def __post_init__(self) -> None:
        names = [seat.name for seat in self.seats]
        if len(set(names)) < len(names) or len({seat.key for seat in self.seats}) < len(names):
            raise UserError("two parties of the plan have the same name or key: give each party its own name and key.")
        if self.colluders < 1:
            raise UserError(
                f"colluders={self.colluders} is too small: choose 1 or more, because the aggregator may be one of the "
                "parties or collude with a party, whose noise it then knows."
            )
        # refuse an invalid plan before all parties are connected
        check_effects(self.algorithm, self.terms.dataset.steps, self.stated)
        check_ball(self.terms.dataset.steps, self.stated.columns)
        topology = self.topology  # raises an error without enough honest parties, before the noise is computed
        Session(len(self.seats), max(self.sums.lengths), topology, self.sums.beside)
        _ = self.facts

    @property
    def text(self) -> str:
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
        """Return the SHA-256 of the plan without its signatures, independently of the layout of the plan's file."""
        return hashlib.sha256(_written(self._content).encode()).hexdigest()

    def signed(self, signer: Ed25519PrivateKey) -> "FederationPlan":
        seat = self.seats[self.number_of(signer.public_key().public_bytes_raw())]
        return self.with_signatures({seat.name: signer.sign(_SIGNED + self.digest.encode())})

    def with_signatures(self, more: Mapping[str, bytes]) -> "FederationPlan":
        plan, lacks = copy(self), self.unsigned  # keeps cached values
        taken = {name: signature for name, signature in more.items() if name in lacks}
        object.__setattr__(plan, "signatures", {**self.signatures, **taken})
        return plan

    @property
    def unsigned(self) -> tuple[str, ...]:
        """Return the names of all parties that have not signed the plan, or whose signature is invalid."""
        unsigned = []
        for seat in self.seats:
            try:
                key = Ed25519PublicKey.from_public_bytes(seat.key)
                key.verify(self.signatures.get(seat.name, b""), _SIGNED + self.digest.encode())
            except (InvalidSignature, ValueError):
                unsigned.append(seat.name)
        return tuple(unsigned)

    def require_signatures(self) -> None:
        """Raise UserError unless all parties have signed the plan: a plan can harm a party that has not read it."""
        if self.unsigned:
            raise UserError(
                f"the plan lacks the signature of {', '.join(self.unsigned)}: every party must sign it with "
                "`dpml federate sign` before anybody takes part."
            )

    @property
    def keys(self) -> str:
        """Return a checksum of all parties' verification keys, by which a ledger of releases recognises the parties."""
        return sha256(*sorted(seat.key for seat in self.seats))

    @property
    def task(self) -> Task:
        return task_of(self.stated)

    @cached_property
    def algorithm(self) -> Algorithm:
        return self.terms.algorithm(for_task(self.task, self.terms.loss), self.task)

    @property
    def problem(self) -> Problem:
        """Return the plan's public numbers, such as the row count. Parties that may drop out count as colluders."""
        sizes = tuple(seat.rows for seat in self.seats)
        d = width(self.terms.dataset.steps, self.stated.columns)
        K = len(self.stated.classes) if self.task == "multiclass" else 1
        return Problem(len(sizes), sum(sizes), d, classes=K, sizes=sizes, colluders=self.colluders + self.dropouts)

    @cached_property
    def sums(self) -> Sums:
        return sums_of(self.algorithm, self.terms.budget, self.problem, self.task)

    @cached_property
    def error_deviation(self) -> float:
        """Return the standard deviation of the noise in the model's published error, if no party drops out."""
        assert isinstance(self.algorithm, Counting)
        return self.algorithm.deviation(self.algorithm.messages(self.terms.budget, self.problem)[-1], self.problem)

    @cached_property
    def facts(self) -> Facts:
        trust = "no place had the records of two parties: the parties ran secure aggregation"
        return facts_about(self.algorithm, self.problem, self.terms.budget, self.dropouts, dealt="natural", trust=trust)

    @property
    def statement(self) -> tuple[str, ...]:
        return *statement(self.facts), *gaps(self.stated.gaps("impute" in self.terms.dataset.steps))

    @property
    def longest(self) -> int:
        return 8 * (max(self.sums.lengths) + self.sums.beside) + 256 * len(self.seats) + 4096

    @property
    def topology(self) -> Topology:
        return agreed_topology(len(self.seats), self.colluders, self.dropouts)

    def session(self, opening: Opening) -> Session:
        """Return the session, named by a hash of `opening`, of the secure sum that the message `opening` starts."""
        name = hashlib.sha256(b"dpml sum" + opening.content).digest()[:SESSION_BYTES]
        identities = tuple(seat.key for seat in self.seats)
        length = self.sums.lengths[opening.number]
        return Session(len(self.seats), length, self.topology, self.sums.beside, name, identities)

    def number_of(self, key: bytes) -> int:
        for number, seat in enumerate(self.seats):
            if seat.key == key:
                return number
        raise UserError(
            "this signing key belongs to no party of the plan: use a key that `dpml federate card` made for a party."
        )


def agreed_topology(parties: int, colluders: int, dropouts: int) -> Topology:
    """Return the topology of a federation: all pairs of parties share masks, and up to `dropouts` may drop out."""
    most = most_dropouts(parties, colluders)
    if max(2, least_quorum(parties, colluders)) > parties:
        raise UserError(f"{parties} parties cannot be protected from colluders={colluders}: add parties.")
    if not 0 <= dropouts <= most:
        raise UserError(
            f"with {parties} parties and colluders={colluders}, at most {most} parties may drop out, got "
            f"dropouts={dropouts}."
        )
    return complete(parties, parties - dropouts)


def most_dropouts(parties: int, colluders: int) -> int:
    """Return how many of `parties` parties may drop out of a secure sum if `colluders` parties collude."""
    return max(0, parties - max(2, least_quorum(parties, colluders)))


def task_of(stated: ColumnBounds) -> Task:
    """Return the prediction task that the label's public classes or range imply."""
    if stated.target is not None:
        return "regression"
    return "binary" if len(stated.classes) == 2 else "multiclass"


def read_plan(path: Path) -> FederationPlan:
    """Return the plan in a file."""
    content = _json(path, "plan such as `dpml federate plan` writes")
    if content.get("format") != FORMAT or set(content) != set(_KEYS):
        raise UserError(
            f"{path} is not a plan of this version of dpml: its format must be {FORMAT!r}, and it must have the "
            f"keys {', '.join(_KEYS[1:])}."
        )
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
        raise UserError(f"{path} is not a valid plan: {error}") from None


def read_card(path: Path) -> Seat:
    """Read a party's card (a file with its key and number of rows), and return the party's entry in the plan."""
    content = _json(path, "card such as `dpml federate card` writes")
    try:
        return _seat(path.stem, content)
    except UserError as error:
        raise UserError(f"{path} is not a card such as `dpml federate card` writes: {error}") from None


def _json(path: Path, what: str) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(_LONGEST + 1)
        content = from_json(text.decode("utf-8")) if len(text) <= _LONGEST else None
    except (ValueError, RecursionError):  # also if the text is not UTF-8
        content = None
    if not isinstance(content, dict):
        raise UserError(f"{path} is not a {what}: a {what} is a JSON object of at most {_LONGEST:,} bytes.")
    return content


def _seat(name: str, content: Any) -> Seat:
    if not isinstance(content, dict) or set(content) != {"rows", "key"}:
        raise UserError("the entry of a party must consist of 'rows' and 'key' only.")
    rows = convert(content["rows"], Annotated[int, between(1, 10**9)], "rows")
    return Seat(name, rows, _bytes("key", content["key"], KEY_BYTES))


def _bytes(key: str, value: Any, length: int) -> bytes:
    if not isinstance(value, str) or not re.fullmatch(rf"[0-9a-f]{{{2 * length}}}", value):
        raise UserError(f"{key} must consist of {2 * length} hexadecimal digits.")
    return bytes.fromhex(value)


def _written(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
