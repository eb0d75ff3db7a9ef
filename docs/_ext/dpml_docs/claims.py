"""The pages of verdicts on the papers' claims, from the manifests in results/."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from dpml.reporting import outputs
from dpml.reporting.claims import Decision, Verdict
from dpml.reporting.outputs import Paper
from dpml.reporting.pages import CLAIMS

RESULTS = Path(__file__).resolve().parents[3] / "results"
_COLOURS: dict[Decision, str] = {
    "reproduced": "success",
    "not reproduced": "danger",
    "undecided with these seeds": "warning",
    "depends on an unstated choice": "info",
    "on a substitute": "secondary",
    "cannot be tested here": "secondary",
}
"""The colour of every verdict, in the words of sphinx-design."""


@cache
def results() -> list[Paper]:
    """All results by paper, in the order of their names."""
    return sorted(outputs.read(RESULTS), key=lambda paper: paper.name)


def badge(verdict: Verdict) -> str:
    """The verdict in its colour."""
    return f"{{bdg-{_COLOURS[verdict.kind]}}}`{verdict.outcome}`"


def counted(verdicts: Sequence[Verdict]) -> str:
    """How many claims got which verdict, each in its colour."""
    numbers = Counter(verdict.kind for verdict in verdicts)
    return " ".join(f"{{bdg-{_COLOURS[kind]}}}`{numbers[kind]} {kind}`" for kind in _COLOURS if numbers[kind])


def block(verdict: Verdict) -> str:
    """A claim with its verdict; how it was tested and the outcomes behind a click."""
    seeds = f" Seeds: at least {verdict.seeds}." if verdict.seeds else ""
    return f"""**{verdict.id}** {badge(verdict)}

{_escaped(verdict.text)}

:::{{dropdown}} Test and outcomes
*Test.* {_escaped(verdict.criterion)}{seeds}

*Outcomes.* {_escaped("; ".join(verdict.numbers))}
:::
"""


def _escaped(text: str) -> str:
    """A sentence, without what Markdown would take for markup."""
    return re.sub(r"([\[\]*<$|])", r"\\\1", text if text.endswith(".") else f"{text}.")


def pages() -> dict[str, str]:
    """The pages below verdicts/: a summary, and a page for every paper."""
    papers = [paper for paper in results() if paper.verdicts]
    return {"index": summary(papers)} | {paper.name: page(paper) for paper in papers}


def summary(papers: Sequence[Paper]) -> str:
    """How many claims of every paper got which verdict."""
    lines = [f"| paper | {' | '.join(_COLOURS)} | claims |", f"| --- |{' ---: |' * (len(_COLOURS) + 1)}"]
    lines += [_counts(f"[{paper.title}]({paper.name}.md)", paper.verdicts) for paper in papers]
    lines.append(_counts("all", [verdict for paper in papers for verdict in paper.verdicts]))
    toctree = "\n".join(f"{paper.name} <{paper.name}>" for paper in papers)
    table = "\n".join(lines)
    return f"# Verdicts\n\n{table}\n\n{CLAIMS}\n\n```{{toctree}}\n:hidden:\n\n{toctree}\n```\n"


def _counts(name: str, verdicts: Sequence[Verdict]) -> str:
    numbers = Counter(verdict.kind for verdict in verdicts)
    return f"| {name} | {' | '.join(str(numbers[kind] or '') for kind in _COLOURS)} | {len(verdicts)} |"


def page(paper: Paper) -> str:
    """The verdicts on the claims of a paper, by experiment."""
    sections = [f"# {paper.title}\n\nWhat the words mean: [](index.md).\n"]
    for experiment in paper.experiments:
        if experiment.verdicts:
            name = experiment.name
            link = f"[{name}](/gallery/{name}.md)" if experiment.figures else name
            sections.append(f"## {experiment.short}\n\n{_escaped(experiment.title)}\n")
            sections.append(f"{link}: `{experiment.about['command']}`\n")
            sections += map(block, experiment.verdicts)
    return "\n".join(sections)
