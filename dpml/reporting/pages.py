"""Markdown pages from manifests: of every figure, of all claims, of a paper's claims, and of a paper's rankings."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from dpml.reporting.claims import Decision, Verdict
from dpml.reporting.ranking import (
    READING,
    beside,
    details,
    matrix,
    premises,
    tally,
    titled,
)
from dpml.reporting.tables import markdown, texts

CLAIMS = (
    "Every verdict is computed from the rows of the experiment that it names, by criteria that are the same for all "
    "papers. An effect is a difference of accuracies, errors or other shares, or the factor (x) between two losses, "
    "gaps or distances, with its 95 % interval over seeds (draws, where there is one seed): of the comparison that the "
    "verdict hangs on. *Better* and *worse* mean significantly (one-sided t-test at 5 %, Holm-corrected) and by at "
    "least 0.01 of a share or a tenth of a size. *Similar*, *steady* and *reaches* mean within 0.05 of a share or a "
    "factor of two, on both sides, by two one-sided tests. A claim whose text can be read in several ways is judged by "
    "each: its verdict says so if they differ. One on data that stand for the paper's is a verdict on these. What the "
    "runs neither show nor rule out is undecided; every block of an experiment has a fixed number of seeds. On "
    "Adult, KDD-99 and HAR all seeds share the official test file, so that intervals of accuracies are about this "
    "file. When each criterion was chosen, and what was known then: experiments/CRITERIA.md."
)
"""How to read the verdicts."""


def figure_page(about: Mapping[str, Any], figure: Mapping[str, Any]) -> str:
    """The page of one of an experiment's figures, whose picture is ``NAME.svg``, from the manifest's content."""
    parts = [f"# {about['title']}\n", f"{about['source']}. Made by `{about['command']}`.\n"]
    if about["note"]:
        parts.append(f"{about['note']}\n")
    if figure["drawn"]:
        parts.append(f"![{about['title']}]({figure['name']}.svg)\n")
    if about["claims"] and figure["twin"] is None:
        # a trial has no page of claims beside it: its own page is all there is
        parts += ["## Claims\n", *(_entry(Verdict.stored(claim)) for claim in about["claims"])]
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


def claims_page(papers: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The verdicts on the claims of all papers in a line each, and a paragraph per paper of what was found.

    Args:
        papers: the manifests of every paper's experiments.
    """
    parts = ["# Claims\n", f"{CLAIMS}\n"]
    for paper, known in papers.items():
        verdicts = [(about["experiment"], one) for about in known for one in map(Verdict.stored, about["claims"])]
        parts += [
            f"## {paper}\n",
            f"{found([one for _, one in verdicts])} [How, and all numbers]({paper}/claims.md).\n",
        ]
        lines = [
            {"claim": one.id, "what it says": one.text, "verdict": one.outcome, "effect": one.effect, "in": name}
            for name, one in verdicts
        ]
        parts.append(markdown(texts(pd.DataFrame(lines))))
    return "\n".join(parts)


_FINDINGS: Mapping[Decision, str] = {
    "reproduced": "hold",
    "not reproduced": "do not hold",
    "depends on an unstated choice": "depend on how the text is read",
    "undecided with these seeds": "are open",
    "on a substitute": "were judged on a substitute for the paper's data",
    "cannot be tested here": "cannot be tested here",
}


def found(verdicts: Sequence[Verdict]) -> str:
    """What was found about a paper, in a paragraph: which claims hold and which do not, in the words of the claims."""
    parts = [f"Of {len(verdicts)} claims {sum(one.kind == 'reproduced' for one in verdicts)} hold."]
    for decision, words in _FINDINGS.items():
        ids: dict[str, list[str]] = {}
        for one in verdicts:
            if one.kind == decision:
                text = one.text.partition(" [")[0].rstrip(".")
                ids.setdefault(f"{text}: {one.decision}" if one.substitute else text, []).append(one.id)
        claims = "; ".join(f"{text} ({', '.join(names)})" for text, names in ids.items())
        parts += [f"*These {words}:* {claims}."] if claims else []
    return " ".join(parts)


def paper_page(paper: str, manifests: Iterable[Mapping[str, Any]], metrics: Mapping[str, str]) -> str:
    """The claims of a paper by experiment: what each says, its test, and the numbers of every reading.

    `metrics` says what the paper's own are.
    """
    parts = [f"# Claims of {paper}\n", "What the words mean: [claims](../claims.md).\n"]
    for about in manifests:
        parts += [f"## {about['experiment']}: {about['title']}\n", f"`{about['command']}`\n"]
        parts += [_entry(verdict) for verdict in map(Verdict.stored, about["claims"])]
    if metrics:
        parts += ["Metrics that only this paper has:\n", *(f"- `{name}` {said}" for name, said in metrics.items()), ""]
    return "\n".join(parts)


def _entry(verdict: Verdict) -> str:
    seeds = f" over at least {verdict.seeds} seeds" if verdict.seeds else ""
    seeds = " with one seed: these rows and this partition only" if verdict.seeds == 1 else seeds
    effect = f"; {verdict.effect}" if verdict.effect else ""
    lines = [f"**{verdict.id}** {verdict.text} **{verdict.outcome}**{seeds}{effect}\n"]
    lines += [f"- Test: {verdict.criterion}"] if verdict.criterion else []
    lines += [f"- The paper's own points: {verdict.published}"] if verdict.published else []
    return "\n".join([*lines, *(f"- {part}" for part in verdict.numbers)]) + "\n"


def which_page(manifests: Iterable[Mapping[str, Any]]) -> str:
    """The page about all ranking experiments of a paper's folder, from their manifests."""
    parts, manifests = ["# Which algorithm when\n", f"{READING}\n"], list(manifests)
    for manifest in manifests:
        rankings = manifest["rankings"]
        parts += [f"## {manifest['title']}\n", f"`{manifest['command']}`\n", f"{premises(rankings)}\n"]
        parts += [markdown(matrix(rankings)), markdown(tally(rankings))]
        others = beside(rankings, manifest.get("reference", ""))
        parts += [f"{others['title']} than that of a program of others:\n", markdown(others)] if others["rows"] else []
        for ranking in rankings:
            parts += [f"### {titled(ranking)}\n", markdown(details(ranking))]
    return "\n".join(parts)
