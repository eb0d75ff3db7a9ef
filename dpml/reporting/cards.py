"""Read cards: YAML files that each describe a paper and its claims (docs/howto/add_a_paper.md)."""

import importlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

from dpml import code, packs
from dpml.errors import UserError, refuse_unknown
from dpml.files import read_mapping
from dpml.reporting import claim_exact, claim_tests
from dpml.reporting.claims import Claim, Evidence, Group, Reading, Test
from dpml.running.computed import check_arguments
from dpml.running.store import digest

_TESTS = (
    (claim_exact, "as_stated at_most exceeds private"),
    (claim_tests, "agrees below_bound by_data_set compare degrades falls_as improves on_sets"),
)
VOCABULARY: Mapping[str, Test] = {name: getattr(module, name) for module, names in _TESTS for name in names.split()}

AUDIT = "audit/all"
"""The name of the experiment whose rows decide claims about privacy."""


@dataclass(frozen=True)
class Card:
    """The content of a pack's card."""

    title: str  # authors and year of the paper
    claims: Mapping[str, Claim]  # by id
    made_from: str  # a checksum of the card and of the Python modules that contain its tests
    citation: str = ""  # the BibTeX entry of the paper
    proposes: str = ""  # a sentence that says what the paper proposes
    headline: str = ""  # two sentences that say what we found
    # by id, a sentence for the paper's page in place of a claim's text, such as one for the claims of several figures
    sentences: Mapping[str, str] = field(default_factory=dict)
    privacy: Sequence[str] = ()  # the ids of claims about privacy
    metrics: Mapping[str, str] = field(default_factory=dict)  # descriptions, with units, of the paper's own metrics


def card_of(pack: str) -> Card | None:
    """Return the content of a paper's card (YAML file of claims); None if no pack (paper's folder) has this name."""
    folder = packs.known().get(pack)
    return None if folder is None else _read(folder / packs.CARD, (folder / packs.CARD).stat().st_mtime_ns)


def claims_of(pack: str) -> Mapping[str, Claim]:
    """Return the claims of a pack (the folder of a paper) by claim id, or {} if no pack has this name."""
    card = card_of(pack)
    return card.claims if card else {}


def claims_about(experiment: str) -> dict[str, Claim]:
    """Return the claims of a paper about an experiment, or of all papers about the experiment AUDIT, by claim id."""
    names = packs.known() if experiment == AUDIT else [experiment.partition("/")[0]]
    claims = [claim for pack in names for claim in claims_of(pack).values()]
    return {claim.id: claim for claim in claims if claim.figure == experiment}


@lru_cache(maxsize=64)
def _read(path: Path, _: int) -> Card:
    content = read_mapping(path, "a pack's card", deepest=20)
    known = [one.name for one in fields(Card) if one.name != "made_from"]
    refuse_unknown("key", content, [*known, "readings"], str(path))
    reader = _Reader(path, content.pop("readings", {}))
    claims = list(reader.claims(content.pop("claims", []), {}))
    if len(by_id := {claim.id: claim for claim in claims}) < len(claims):
        raise UserError(f"{path}: two claims have the same id.")
    made_from = digest([path.read_text("utf-8"), code.digest([], sorted(reader.modules))])
    return Card(**{"title": path.parent.name} | content, claims=by_id, made_from=made_from)


def filled(value: Any, names: Mapping[str, Any]) -> Any:
    """Replace each placeholder ``{NAME}`` in a value by its value in `names`."""
    if isinstance(value, dict):
        return {filled(key, names): filled(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, names) for inner in value]
    if not isinstance(value, str):
        return value
    whole = re.fullmatch(r"\{(\w+)\}", value)
    if whole and whole[1] in names:
        return names[whole[1]]
    return re.sub(r"\{(\w+)\}", lambda found: str(names.get(found[1], found[0])), value)


class _Reader:
    """Read the claims of a card (a paper's YAML file), and collect the names of its pack's modules that test claims."""

    def __init__(self, path: Path, readings: Mapping[str, Any]) -> None:
        self.path, self.pack, self.sets = path, path.parent.name, readings
        self.modules: set[str] = set()

    def claims(self, entries: Any, given: Mapping[str, Any]) -> Iterator[Claim]:
        """Yield the claims of a list. YAML keys next to a nested list of claims apply to all claims in that list."""
        for entry in entries:
            for names in entry.get("for", [{}]):
                own = filled({**given, **entry}, names)
                own.pop("for", None)
                if "claims" in own:
                    yield from self.claims(own.pop("claims"), own)
                else:
                    check_arguments(self.claim, own, f"claim {own.get('id', '')!r} of {self.path}")
                    yield self.claim(**own)

    def claim(  # many parameters: the keys of a claim
        self, id: str, figure: str, text: str, criterion: str, test: Any, readings: Any = ()
    ) -> Claim:
        where = f"claim {id!r} of {self.path}"
        known = tuple(self._readings(readings if isinstance(readings, list | tuple) else [readings], where))
        experiment = AUDIT if figure == AUDIT else f"{self.pack}/{figure}"
        return Claim(str(id), experiment, str(text).strip(), str(criterion).strip(), self._test(test, where), known)

    def _readings(self, asked: Sequence[Any], where: str) -> Iterator[Reading]:
        """Yield a claim's interpretations: a `Reading` per combination of metric, algorithm variant and options."""
        refuse_unknown("readings", [one for one in asked if isinstance(one, str)], self.sets, where)
        sets = [(self.sets[one] if isinstance(one, str) else one).items() for one in asked]
        for parts in product(*sets):
            known: dict[str, Any] = {"variant": "paper", "metric": ""}
            for _, more in parts:
                known |= more or {}
            name = ", ".join(filter(None, (str(words) for words, _ in parts))) or "as stated"
            yield Reading(name, known.pop("variant"), known.pop("metric"), known)

    def _test(self, content: Any, where: str, **later: Any) -> Test:
        if isinstance(content, list):
            return partial(claim_tests.all_of, tests=[self._test(one, where, **later) for one in content])
        ((name, given),) = content.items() if isinstance(content, dict) else [(content, {})]
        function = self._named(name, where)
        check_arguments(partial(function, None, **later), given, f"{name} in {where}")
        if "tests" in given:  # these tests are applied to one block at a time
            given = given | {"tests": self._test(given["tests"], where, blocks=[])}

        def test(evidence: Evidence, **more: Any) -> Sequence[Group]:
            reading = evidence.reading
            return function(evidence, **filled(given, {**reading.more, "reading": reading.name}) | more)

        return test

    def _named(self, name: str, where: str) -> Test:
        if not name.startswith("."):
            refuse_unknown("test", [name], VOCABULARY, where)
            return VOCABULARY[name]
        module, _, function = packs.absolute(name, self.pack).rpartition(".")
        try:
            found: Test = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError, ValueError) as error:
            raise UserError(f"the test {name} in {where} cannot be loaded: {error}.") from None
        self.modules.add(module)
        return found
