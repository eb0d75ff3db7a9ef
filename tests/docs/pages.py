"""Pages of the documentation as tests read them: their commands, the files that they show, and what they print.

A fenced block of ``bash`` has one command a line. Before it may stand ``<!-- slow -->`` or ``<!-- not run: WHY -->``. A
block of ``text`` right after it shows lines of what the last command prints. A block of Python, YAML or text is a file
where the text before it names one, and else an example for doctest.
"""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    language: str
    body: str
    file: str
    comment: str

    @property
    def commands(self) -> list[str]:
        joined = self.body.replace("\\\n", " ").splitlines()
        return [line for line in joined if line.strip() and not line.startswith("#")]


def blocks(text: str) -> list[Block]:
    found, end = [], 0
    for match in _FENCE.finditer(text):
        before, end = text[end : match.start()].strip(), match.end()
        *_, paragraph = before.split("\n\n")
        file = re.search(r"`([\w/]+\.(?:py|yaml|csv))`[^`]*:$", paragraph)
        comment = re.search(r"<!-- (.*?) -->$", before)
        found.append(Block(match[1], match[2], file[1] if file else "", comment[1] if comment else ""))
    return found


def words(line: str) -> tuple[dict[str, str], list[str]]:
    """The environment and the words of a command line: ``PYTHONPATH=. dpml-run ...``."""
    parts = shlex.split(line)
    count = next(number for number, part in enumerate(parts) if not re.match(r"[A-Z_]+=", part))
    return dict(part.split("=", 1) for part in parts[:count]), parts[count:]


def flat(line: str) -> str:
    return " ".join(line.replace("─", " ").split())
