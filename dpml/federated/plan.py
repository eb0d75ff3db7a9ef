"""The plan that the parties of a federation have agreed on: one YAML file, the same for all.

A party does not rely on the aggregator for the amount of noise, the list of parties, or the number of drop-outs: all of
it is in the plan. Every party compares the plan's checksum before it answers any message.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dpml.algorithms import Algorithm
from dpml.config.build import algorithm_of, budget, check_keys, instantiate
from dpml.config.complete import require_complete
from dpml.config.compose import compose
from dpml.data import Task
from dpml.data.csv.column_bounds import ColumnBounds, bounds_from
from dpml.data.extent import after_one_hot
from dpml.data.preprocess import maps, width
from dpml.data.sets.csv import CSV
from dpml.errors import UserError, nearest
from dpml.federated.relay import Opening
from dpml.federated.sums import Setting, Sums, sums_of
from dpml.optim.losses import for_task
from dpml.privacy import Guarantee, Problem, worst
from dpml.protocols import Session, Topology, complete
from dpml.protocols.graph import least_quorum
from dpml.protocols.messages import KEY_BYTES, SESSION_BYTES
from dpml.release.certificate import certificate
from dpml.release.exactness import exact_algorithm, has_exact_noise, require_exact
from dpml.release.facts import Facts, facts_about, named
from dpml.release.statement import statement

FORMAT = "dpml plan 1"

_WORDS = ("algo", "eps", "delta", "loss", "dataset.label", "dataset.drop", "dataset.missing", "dataset.steps")
_KEYS = ("format", "setting", "stated", "parties", "colluders", "dropouts")


@dataclass(frozen=True)
class Seat:
    """A party in a plan: its name, how many rows it has, and its Ed25519 verification key."""

    name: str
    rows: int
    key: bytes


@dataclass(frozen=True)
class FederationPlan:
    """The content of the agreement.

    Attributes:
        setting: algorithm, budget and columns, in the words of the command line.
        stated: the public statements about the columns.
        seats: the parties, in the order of their numbers.
        colluders: the number of parties that may pool their knowledge with the aggregator.
        dropouts: the number of parties that may be missing from the sum. The noise is wide enough without that of the
            colluders and of the drop-outs, so the guarantees hold for every possible sum.
    """

    setting: tuple[str, ...]
    stated: ColumnBounds
    seats: tuple[Seat, ...]
    colluders: int
    dropouts: int

    def __post_init__(self) -> None:
        names = [seat.name for seat in self.seats]
        if len(set(names)) < len(names) or len({seat.key for seat in self.seats}) < len(names):
            raise UserError("two parties of the plan have the same name or the same key.")
        check_setting(self.setting)
        _ = self.topology, self.sums, self.guarantees  # refuse an invalid plan now, not when all parties are connected

    @property
    def text(self) -> str:
        """The content of its file."""
        content = {
            "format": FORMAT,
            "setting": list(self.setting),
            "stated": self.stated.content(),
            "parties": {seat.name: {"rows": seat.rows, "key": seat.key.hex()} for seat in self.seats},
            "colluders": self.colluders,
            "dropouts": self.dropouts,
        }
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"  # JSON is YAML

    @property
    def digest(self) -> str:
        """SHA-256 of the content, independent of the layout of the file."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def task(self) -> Task:
        """The prediction task."""
        return task_of(self.stated)

    @cached_property
    def _config(self) -> Any:
        return compose_setting(self.setting)

    @cached_property
    def dataset(self) -> CSV:
        """The options of the columns; no file is named."""
        dataset: CSV = instantiate(self._config.dataset, "dataset")
        return dataset

    @cached_property
    def algorithm(self) -> Algorithm:
        """The algorithm, with the least noise that is proven to suffice."""
        return algorithm_of(self._config.algo, for_task(self.task, self._config.loss), "tight")

    @property
    def problem(self) -> Problem:
        """What noise and guarantees depend on. A drop-out counts as a colluder: its noise protects no other party."""
        sizes = self._sizes
        d = width(self.dataset.steps, after_one_hot(self.stated.columns))
        return Problem(len(sizes), int(sizes.sum()), d, colluders=self.colluders + self.dropouts).of_sizes(sizes)

    @cached_property
    def sums(self) -> Sums:
        """The parties' messages, and the computation on them."""
        chosen = budget(self._config.eps, self._config.delta)
        return sums_of(self.algorithm, Setting(chosen, self.problem, self._sizes, self.task))

    @cached_property
    def facts(self) -> Facts:
        """What every release under this plan is like.

        If parties may drop out, every view gets the guarantee of the view that sees most: the other guarantees assume
        the noise of all parties.
        """
        trust = (
            f"no place had the records of two parties; {len(self.seats)} parties ran secure aggregation, of which "
            f"{self.colluders} may have colluded with the aggregator and {self.dropouts} may have been missing, who "
            "count as colluders"
        )
        chosen = budget(self._config.eps, self._config.delta)
        facts = facts_about(
            self.algorithm, self.problem, chosen, self.dropouts, dealt="natural",
            parties=named(seat.key.hex() for seat in self.seats), trust=trust, missing=self.dataset.missing == "drop",
        )  # fmt: skip
        most = worst(facts.held)
        if not self.dropouts:
            return facts
        alike = tuple(replace(g, eps=most.eps, mu=most.mu, source=most.source, curve=most.curve) for g in facts.held)
        described = certificate(self.algorithm, chosen, self.problem, alike, self.dropouts)
        return replace(facts, given=alike, certificate=described)

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """The guarantees of a release, for every view."""
        return self.facts.held

    @property
    def statement(self) -> tuple[str, ...]:
        """The guarantees in words."""
        return statement(self.facts)

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
        """The number of the party with this verification key.

        Raises:
            UserError: no party has this key.
        """
        for number, seat in enumerate(self.seats):
            if seat.key == key:
                return number
        raise UserError("the plan has no party with the verification key of this signing key.")

    @property
    def _sizes(self) -> Any:
        return np.array([seat.rows for seat in self.seats])


def agreed_topology(parties: int, colluders: int, dropouts: int) -> Topology:
    """The complete topology for given numbers of parties, colluders and drop-outs.

    Raises:
        UserError: a malicious server could obtain two sums, or a sum of too few parties.
    """
    most = parties - max(2, least_quorum(parties, colluders))
    if not (colluders >= 0 and 0 <= dropouts <= most):
        raise UserError(
            f"{parties} parties of which colluders={colluders} collude can do without {max(most, 0)} at most, got "
            f"dropouts={dropouts}."
            if most >= 0
            else f"{parties} parties cannot be protected from colluders={colluders} of them: take part with more."
        )
    return complete(parties, parties - dropouts)


def most_dropouts(parties: int, colluders: int) -> int:
    """The largest number of drop-outs, given the numbers of parties and colluders."""
    return max(0, parties - max(2, least_quorum(parties, colluders)))


def check_setting(words: Iterable[str]) -> None:
    """Raise UserError when a word is not one that a plan may contain: none names code that a party would then run."""
    for word in words:
        key, equals, _ = word.partition("=")
        if "_target_" in word or key == "algo.local":
            raise UserError(f"a plan has no {key!r}: it may name no code, only algorithms that come with dpml.")
        if not equals or not (key in _WORDS or key.startswith("algo.")) or key == "algo.protocol":
            raise UserError(f"a plan has no {key!r}: {nearest(key, _WORDS)}")


def with_exact_noise(words: Sequence[str], stated: ColumnBounds, floating: bool) -> tuple[str, ...]:
    """The words of a plan, with `algo.noise=discrete` where they say nothing of the noise and there is such noise.

    Raises:
        UserError: the noise would be floating-point numbers, and it is not said that this may be.
    """
    config = compose_setting(words)
    said = any(word.startswith("algo.noise=") for word in words)
    node = {key: value for key, value in config.algo.items() if key != "noise" or said}
    algorithm = exact_algorithm(node, for_task(task_of(stated), config.loss), "tight")
    if not floating:
        require_exact(algorithm, "say --floating", ("dpgd", "ssp"))
    return tuple(words) if said or not has_exact_noise(algorithm) else (*words, "algo.noise=discrete")


def compose_setting(words: Iterable[str]) -> Any:
    """The configuration of a plan's words."""
    words = list(words)
    config = compose([*words, "dataset=csv"])
    check_keys(config)
    require_complete(config.dataset, {word.partition("=")[0] for word in words})
    return config


def task_of(stated: ColumnBounds) -> Task:
    """The prediction task, from the statement about the label."""
    if stated.target is not None:
        return "regression"
    return "binary" if len(stated.classes) == 2 else "multiclass"


def check_columns(dataset: CSV, stated: ColumnBounds) -> None:
    """Raise UserError unless the preprocessing steps suit the statements about the columns."""
    if dataset.label is None:
        raise UserError("dataset.label is missing: which column is to be predicted?")
    maps(dataset.steps, stated.columns)


def read_plan(path: Path) -> FederationPlan:
    """The plan in a file.

    Raises:
        UserError: there is no plan, or it cannot be carried out.
    """
    import yaml  # slow to load

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    except (UnicodeDecodeError, yaml.YAMLError):
        raise UserError(f"{path} is no plan: it is not YAML.") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT or set(content) != set(_KEYS):
        raise UserError(f"{path} is no plan of this dpml: it must have format: {FORMAT!r}, and {', '.join(_KEYS[1:])}.")
    try:
        seats = tuple(_seat(name, said) for name, said in content["parties"].items())
        setting = tuple(str(word) for word in content["setting"])
        numbers = int(content["colluders"]), int(content["dropouts"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is no plan: {error!r}.") from None
    return FederationPlan(setting, bounds_from(path, content["stated"]), seats, *numbers)


def read_card(path: Path) -> Seat:
    """The party described by a card; its name is that of the file.

    Raises:
        UserError: the file is not a card.
    """
    try:
        return _seat(path.stem, json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{path} is no card such as `dpml federate card` writes.") from None


def _seat(name: Any, said: Mapping[str, Any]) -> Seat:
    key = bytes.fromhex(said["key"])
    rows = said["rows"]
    if len(key) != KEY_BYTES or not isinstance(rows, int) or rows < 1:
        raise ValueError(f"party {name!r} needs a key of {KEY_BYTES} bytes and one row or more")
    return Seat(str(name), rows, key)


def with_file(dataset: CSV, path: Path, bounds: Path) -> CSV:
    """The rows of one file, with the options of a plan."""
    return replace(dataset, path=str(path), bounds=str(bounds))
