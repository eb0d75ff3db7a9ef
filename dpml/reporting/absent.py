"""The experiments that were not computed although others of the same paper were."""

from collections.abc import Mapping, Sequence
from typing import Any

from dpml import paths
from dpml.reporting.judging import Decision, claims_of

NOT_TESTED: Decision = "cannot be tested here"


def not_computed(known: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Manifest entries for the experiments without a manifest, of papers that have at least one.

    The first line of an experiment's file says how to run it and what data it needs.
    """
    computed = {manifest["experiment"] for manifest in known}
    papers = {name.partition("/")[0] for name in computed}
    modules = sorted({manifest["claims_from"] for manifest in known if manifest.get("claims_from")})
    absent: dict[str, dict[str, Any]] = {}
    for claim in (claim for module in modules for claim in claims_of(module).values()):
        file = paths.folder("experiments") / f"{claim.figure}.yaml"
        if claim.figure in computed or claim.figure.partition("/")[0] not in papers or not file.is_file():
            continue
        first = file.read_text(encoding="utf-8").partition("\n")[0]
        command, _, needs = first.removeprefix("# To run: ").partition("(")
        about = {"experiment": claim.figure, "title": "not computed here", "command": command.strip(), "claims": []}
        verdict = {"id": claim.id, "text": claim.text, "criterion": claim.criterion, "decision": NOT_TESTED}
        verdict["numbers"] = "not computed" + (f"; needs data_dir=DIR: {needs.rstrip(')')}" if needs else "")
        absent.setdefault(claim.figure, about)["claims"].append(verdict)
    return list(absent.values())
