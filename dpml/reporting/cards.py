"""The card of a pack: the paper, and what it claims, in YAML (docs/howto/add_a_paper.md).

A claim names its test and gives the test's arguments, so that one word has one meaning for all papers. The tests are
those of `VOCABULARY`; one that starts with a dot is in the pack's own Python. Cards and their Python are chosen by the
user, who names packs (`dpml.packs`); results name an experiment, and its pack is looked up.
"""

import importlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import product
from pathlib import Path
from typing import Any

from dpml import code, packs
from dpml.errors import UserError, refuse_unknown
from dpml.files import read_mapping
from dpml.reporting import claim_exact, claim_laws, claim_points, claim_tests
from dpml.reporting.claims import Check, Claim, Evidence, Reading, Test
from dpml.running.computed import check_arguments
from dpml.running.store import digest

VOCABULARY: Mapping[str, Callable[..., Test]] = {
    made.__name__: made
    for made in (
        claim_points.agrees,
        claim_exact.as_stated,
        claim_exact.at_most,
        claim_laws.below_bound,
        claim_tests.best_inside,
        claim_tests.by_data_set,
        claim_tests.compare,
        claim_tests.degrades,
        claim_tests.depends,
        claim_tests.easier,
        claim_exact.exceeds,
        claim_laws.falls_as,
        claim_tests.fluctuates,
        claim_tests.improves,
        claim_tests.is_steady,
        claim_tests.on_sets,
        claim_exact.private,
        claim_tests.wider_gap,
    )
}

AUDIT = "audit/all"
"""The experiment whose rows decide claims about privacy."""

_CARD = ("title", "citation", "proposes", "headline", "sentences", "privacy", "metrics", "readings", "claims")
_CLAIM = ("id", "figure", "text", "criterion", "readings", "test")
_GROUP = ("for", "claims")


@dataclass(frozen=True)
class Card:
    """What a pack's card says.

    Args:
        title: authors and year.
        claims: by id.
        made_from: a checksum of the card and of the Python that its tests are in.
        citation: in BibTeX.
        proposes: what the paper proposes, in a sentence.
        headline: what was found, in two sentences.
        sentences: the paper's sentences by id, for claims that several figures repeat or that need other words.
        privacy: the ids of claims about privacy.
        metrics: what the metrics are that only this pack's experiments have, by name, with their units.
    """

    title: str
    claims: Mapping[str, Claim]
    made_from: str
    citation: str = ""
    proposes: str = ""
    headline: str = ""
    sentences: Mapping[str, str] = field(default_factory=dict)
    privacy: Sequence[str] = ()
    metrics: Mapping[str, str] = field(default_factory=dict)


def card_of(pack: str) -> Card | None:
    """The card of a pack; None if there is no such pack."""
    folder = packs.known().get(pack)
    return None if folder is None else _read(folder / packs.CARD, (folder / packs.CARD).stat().st_mtime_ns)


def claims_of(pack: str) -> Mapping[str, Claim]:
    """The claims of a pack by id; none if there is no such pack."""
    card = card_of(pack)
    return card.claims if card else {}


def claims_about(experiment: str) -> dict[str, Claim]:
    """Return the claims about an experiment, PACK/FIGURE, by id; those about the audit are of all packs."""
    names = packs.known() if experiment == AUDIT else [experiment.partition("/")[0]]
    claims = [claim for pack in names for claim in claims_of(pack).values()]
    return {claim.id: claim for claim in claims if claim.figure == experiment}


@lru_cache(maxsize=64)
def _read(path: Path, _: int) -> Card:
    content = read_mapping(path, "a pack's card", deepest=20)
    refuse_unknown("key", content, _CARD, str(path))
    words = {key: content[key] for key in _CARD if key in content}
    reader = _Reader(path, words.pop("readings", {}))
    claims: dict[str, Claim] = {}
    for entry in _spread(words.pop("claims", []), {}, str(path)):
        claim = reader.claim(entry)
        if claim.id in claims:
            raise UserError(f"{path}: two claims are called {claim.id}.")
        claims[claim.id] = claim
    made_from = digest([path.read_text("utf-8"), code.digest([], sorted(reader.modules))])
    return Card(**{"title": path.parent.name} | words, claims=claims, made_from=made_from)


def _spread(entries: Any, given: Mapping[str, Any], where: str) -> Iterator[dict[str, Any]]:
    """The claims of a list, and of the groups in it, which give their members what these do not say themselves."""
    for entry in entries:
        refuse_unknown("key", entry, (*_CLAIM, *_GROUP), f"a claim of {where}")
        own = {**given, **{key: value for key, value in entry.items() if key not in _GROUP}}
        for names in entry.get("for", [{}]):
            if "claims" in entry:
                yield from _spread(filled(entry["claims"], names), filled(own, names), where)
            else:
                yield filled(own, names)


def filled(value: Any, names: Mapping[str, Any]) -> Any:
    """A value with what stands for ``{NAME}``; the only word of a text may stand for a value of any kind."""
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
    """Makes claims of what a card says; `modules` are those in which it has found their tests."""

    def __init__(self, path: Path, readings: Mapping[str, Any]) -> None:
        self.path, self.pack, self.sets = path, path.parent.name, readings
        self.modules: set[str] = set()

    def claim(self, entry: Mapping[str, Any]) -> Claim:
        """A claim of its content."""
        where = f"claim {entry.get('id', '')!r} of {self.path}"
        for key in ("id", "figure", "text", "criterion", "test"):
            if key not in entry:
                raise UserError(f"{where} needs a value for {key!r}.")
        text, criterion = (str(entry[key]).strip() for key in ("text", "criterion"))
        figure = AUDIT if entry["figure"] == AUDIT else f"{self.pack}/{entry['figure']}"
        test = self._test(entry["test"], where)
        readings = tuple(self._readings(entry.get("readings"), where))
        return Claim(str(entry["id"]), figure, text, criterion, test, readings)

    def _readings(self, asked: Any, where: str) -> Iterator[Reading]:
        """One reading for every combination of the sets that are asked for, each a name or a mapping."""
        asked = asked if isinstance(asked, list) else [asked] if asked else []
        refuse_unknown("readings", [one for one in asked if isinstance(one, str)], self.sets, where)
        sets = [(self.sets[one] if isinstance(one, str) else one).items() for one in asked]
        for parts in product(*sets):
            known: dict[str, Any] = {"variant": "paper", "metric": ""}
            for _, more in parts:
                known |= more or {}
            name = ", ".join(filter(None, (str(words) for words, _ in parts))) or "as stated"
            yield Reading(name, known.pop("variant"), known.pop("metric"), known)

    def _test(self, content: Any, where: str) -> Test:
        """The test of a claim: of a list all must hold."""
        if isinstance(content, list):
            return claim_tests.all_of([self._test(one, where) for one in content])
        if isinstance(content, str) and content.startswith("."):
            return self._named(content, where)
        ((name, given),) = content.items() if isinstance(content, dict) else [(content, {})]
        maker = self._named(name, where)
        check_arguments(maker, given, f"{name} in {where}")
        if "tests" in given:  # of one block, whatever it is called
            parts = given["tests"]
            tests = cache(lambda block: self._test(_in_block(parts, block), where))
            tests("{block}")
            given = given | {"tests": tests}

        def test(evidence: Evidence, reading: Reading) -> Check:
            made: Test = maker(**filled(given, {**reading.more, "reading": reading.name}))
            return made(evidence, reading)

        return test

    def _named(self, name: str, where: str) -> Callable[..., Any]:
        """The test, or the function that makes it, of a name."""
        if not name.startswith("."):
            refuse_unknown("test", [name], VOCABULARY, where)
            return VOCABULARY[name]
        module, _, function = packs.absolute(name, self.pack).rpartition(".")
        try:
            found = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError, ValueError) as error:
            raise UserError(f"{name} in {where}: {error}.") from None
        self.modules.add(module)
        return found


def _in_block(tests: Any, block: str) -> Any:
    """The tests of a card for one block."""
    if isinstance(tests, list):
        return [_in_block(one, block) for one in tests]
    return {name: {**arguments, "blocks": [block]} for name, arguments in tests.items()}
