"""The experiments that a paper's claims need and that were not computed."""

from collections.abc import Mapping, Sequence
from typing import Any

from dpml import packs
from dpml.reporting.cards import claims_of
from dpml.reporting.claims import UNTESTED, Verdict


def not_computed(known: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Manifest entries for the experiments without a manifest, of papers that have at least one.

    The first line of an experiment's file says how to run it and what data it needs.
    """
    computed = {manifest["experiment"] for manifest in known}
    papers = {name.partition("/")[0] for name in computed}
    missing: dict[str, dict[str, Any]] = {}
    for claim in (claim for paper in sorted(papers) for claim in claims_of(paper).values()):
        file = packs.home(claim.figure.partition("/")[0]) / f"{claim.figure.partition('/')[2]}.yaml"
        if claim.figure in computed or not file.is_file():
            continue
        first = file.read_text(encoding="utf-8").partition("\n")[0]
        command, _, needs = first.removeprefix("# To run: ").partition("(")
        lacks = "not computed" + (f"; needs data_dir=DIR: {needs.rstrip(')')}" if needs else "")
        reading = {"name": "all", "metric": "", "outcome": UNTESTED, "lacks": [lacks], "groups": []}
        verdict = Verdict(claim.id, claim.text, claim.criterion, UNTESTED, [reading])
        about: dict[str, Any] = {"experiment": claim.figure, "title": "not computed here", "command": command.strip()}
        missing.setdefault(claim.figure, about | {"panels": [], "claims": []})["claims"].append(verdict.record)
    return list(missing.values())
