"""The claims of the papers and their verdicts, read from results/claims.md."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from dpml_docs import papers

RESULTS = Path(__file__).resolve().parents[3] / "results"
_COLOURS = {
    "reproduced": "success",
    "not reproduced": "danger",
    "undecided with these seeds": "warning",
    "depends on an unstated choice": "info",
    "cannot be tested here": "secondary",
}
"""The colour of every verdict, in the words of sphinx-design."""


@dataclass(frozen=True)
class Claim:
    """A line of the page, and the experiment and its command that stand above it."""

    experiment: str
    title: str
    command: str
    name: str
    text: str
    test: str
    verdict: str
    seeds: str
    numbers: str

    @property
    def kind(self) -> str:
        """The verdict without what is said in parentheses."""
        return re.sub(r" \(.*", "", self.verdict)

    @property
    def paper(self) -> str:
        """The folder of the experiment."""
        return self.experiment.partition("/")[0]


def introduction(path: Path = RESULTS / "claims.md") -> str:
    """What the page says before its first section."""
    return path.read_text(encoding="utf-8").partition("\n## ")[0].partition("\n")[2].strip()


def read(path: Path = RESULTS / "claims.md") -> list[Claim]:
    """Every claim, in order."""
    claims = []
    for section in path.read_text(encoding="utf-8").split("\n## ")[1:]:
        head, *lines = section.splitlines()
        experiment, _, title = head.partition(": ")
        command = next(line.strip("`") for line in lines if line.startswith("`"))
        rows = [line for line in lines if line.startswith("| ")][2:]
        for row in rows:
            cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
            claims.append(Claim(experiment, title, command, *cells))
    return claims


def badge(claim: Claim) -> str:
    """The verdict in its colour."""
    return f"{{bdg-{_COLOURS[claim.kind]}}}`{claim.verdict}`"


def counted(claims: Sequence[Claim]) -> str:
    """How many claims got which verdict, each in its colour."""
    numbers = Counter(claim.kind for claim in claims)
    return " ".join(f"{{bdg-{_COLOURS[kind]}}}`{numbers[kind]} {kind}`" for kind in _COLOURS if numbers[kind])


def block(claim: Claim) -> str:
    """A claim with its verdict; how it was tested and the numbers behind a click."""
    seeds = f" Seeds: {claim.seeds}." if claim.seeds else ""
    return f"""**{claim.name}** {badge(claim)}

{_escaped(claim.text)}

:::{{dropdown}} Test and numbers
*Test.* {_escaped(claim.test)}{seeds}

*Numbers.* {_escaped(claim.numbers)}
:::
"""


def _escaped(text: str) -> str:
    """A sentence, without what Markdown would take for markup."""
    return re.sub(r"([\[\]*<$|])", r"\\\1", text if text.endswith(".") else f"{text}.")


def pages() -> dict[str, str]:
    """The pages below verdicts/: a summary, and a page for every paper."""
    claims = read()
    by_paper = {name: list(members) for name, members in groupby(claims, key=lambda claim: claim.paper)}
    return {"index": summary(by_paper)} | {name: paper(name, members) for name, members in by_paper.items()}


def summary(by_paper: dict[str, list[Claim]]) -> str:
    """How many claims of every paper got which verdict."""
    kinds = list(_COLOURS)
    lines = [f"| paper | {' | '.join(kinds)} | claims |", f"| --- |{' ---: |' * (len(kinds) + 1)}"]
    for name, members in by_paper.items():
        counts = [sum(claim.kind == kind for claim in members) for kind in kinds]
        lines.append(
            f"| [{papers.about(name)}]({name}.md) | {' | '.join(str(n or '') for n in counts)} | {len(members)} |"
        )
    totals = [sum(claim.kind == kind for members in by_paper.values() for claim in members) for kind in kinds]
    lines.append(f"| all | {' | '.join(map(str, totals))} | {sum(totals)} |")
    toctree = "\n".join(f"{name} <{name}>" for name in by_paper)
    table = "\n".join(lines)
    return f"# Verdicts\n\n{table}\n\n{introduction()}\n\n```{{toctree}}\n:hidden:\n\n{toctree}\n```\n"


def paper(name: str, claims: list[Claim]) -> str:
    """The verdicts on the claims of a paper, by experiment."""
    sections = [f"# {papers.about(name)}\n\nWhat the words mean: [](index.md).\n"]
    for (experiment, title, command), members in groupby(claims, key=lambda c: (c.experiment, c.title, c.command)):
        link = f"[{experiment}](/gallery/{experiment}.md)" if (RESULTS / f"{experiment}.json").is_file() else experiment
        sections.append(f"## {experiment.partition('/')[2]}\n\n{_escaped(title)}\n\n{link}: `{command}`\n")
        sections += map(block, members)
    return "\n".join(sections)
