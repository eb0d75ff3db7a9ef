"""Markdown pages from manifests: one for every figure, one of all claims, and one of the rankings of a paper."""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from dpml.config.compose import natural
from dpml.reporting.claims import Verdict
from dpml.reporting.ranking import READING, details, matrix, premises, tally, titled
from dpml.reporting.tables import markdown, texts

CLAIMS = (
    "Every verdict is computed from the rows of the experiment named above it, by the tests in dpml/papers: "
    "*significant* is a one-sided t-test at 5 % over seeds, of the means over their draws, Holm-corrected; capefm "
    "*reaches* nonpriv where 95 % of the way from its value at the smallest eps is done. *plotted* is the noisy "
    "objective at its own minimiser, in size, as the authors ran it; *true* is the loss of the released models.\n\n"
    "A difference matters when it is 0.01 of an accuracy or an error, or a tenth of the larger of two losses, "
    "gaps or distances. What is not significant counts as false only where the 95 % bound on the difference is "
    "less than that, and a loss or a step the wrong way counts only where it is significant and matters; otherwise "
    "the claim is undecided, and the verdict names the seeds that would show such a "
    "difference with a probability of 0.8, at the spread that was seen. *seeds* are those of the reading and the "
    "algorithm that has the fewest; a claim without any is about formulas, bytes or single numbers."
)
"""How to read the verdicts."""


def figure_page(about: Mapping[str, Any], figure: Mapping[str, Any]) -> str:
    """The page of one of an experiment's figures, whose picture is ``NAME.png``, from the manifest's content."""
    parts = [f"# {about['title']}\n", f"{about['source']}. Made by `{about['command']}`.\n"]
    if about["note"]:
        parts.append(f"{about['note']}\n")
    if figure["drawn"]:
        parts.append(f"![{about['title']}]({figure['name']}.png)\n")
    if about["claims"] and figure["twin"] is None:
        parts += ["## Claims\n", _claims_table(about["claims"])]
    for section in figure["sections"]:
        parts += [f"## {section['title']}\n", content(section)]
    if about["skipped"]:
        parts.append("## Not computed\n")
        parts.append("".join(f"- {number} cells: {reason}\n" for reason, number in about["skipped"].items()))
    return "\n".join(parts)


def content(section: Mapping[str, Any], heading: str = "### {}") -> str:
    """The paragraphs and tables of a section, a heading above each table that has a title."""
    parts = []
    for part in section["content"]:
        if isinstance(part, str):
            parts.append(f"{part}\n")
        else:
            parts += [f"{heading.format(part['title'])}\n"] if part["title"] else []
            parts.append(markdown(part))
    return "\n".join(parts)


def claims_page(manifests: Iterable[Mapping[str, Any]]) -> str:
    """The verdicts of all experiments, in the order of the papers' figures."""
    parts = ["# Claims\n", f"{CLAIMS}\n"]
    for manifest in sorted(manifests, key=lambda manifest: natural(manifest["experiment"])):
        if manifest["claims"]:
            parts.append(f"## {manifest['experiment']}: {manifest['title']}\n")
            parts += [f"`{manifest['command']}`\n", _claims_table(manifest["claims"])]
    return "\n".join(parts)


def _claims_table(records: Iterable[Mapping[str, Any]]) -> str:
    lines = [
        {
            "claim": verdict.id,
            "what it says": verdict.text,
            "test": verdict.criterion,
            "verdict": verdict.outcome,
            "seeds": str(verdict.seeds or ""),
            "numbers": verdict.numbers,
        }
        for verdict in map(Verdict.stored, records)
    ]
    return markdown(texts(pd.DataFrame(lines)))


def which_page(manifests: Iterable[Mapping[str, Any]]) -> str:
    """The page about all ranking experiments of a paper's folder, from their manifests."""
    parts = ["# Which algorithm when\n", f"{READING}\n"]
    for manifest in manifests:
        rankings = manifest["rankings"]
        parts += [f"## {manifest['title']}\n", f"`{manifest['command']}`\n", f"{premises(rankings)}\n"]
        parts += [markdown(matrix(rankings)), markdown(tally(rankings))]
        for ranking in rankings:
            parts += [f"### {titled(ranking)}\n", markdown(details(ranking))]
    return "\n".join(parts)
