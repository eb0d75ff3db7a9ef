"""Pieces of reStructuredText."""

import textwrap
from collections.abc import Iterable, Sequence


def title(text: str, line: str = "=") -> str:
    """A heading."""
    return f"{text}\n{line * (2 * len(text))}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], widths: Sequence[int] = (), kind: str = "keys") -> str:
    """A table whose cells may have several paragraphs.

    Args:
        heads: of the columns.
        rows: cells, as reStructuredText.
        widths: of the columns, in parts.
        kind: the class of the table, for its looks.
    """
    options = f"   :header-rows: 1\n   :class: {kind}\n"
    options += f"   :widths: {' '.join(map(str, widths))}\n" if widths else ""
    lines = []
    for row in [heads, *rows]:
        for number, cell in enumerate(row):
            mark = "* - " if number == 0 else "  - "
            lines.append(mark + textwrap.indent(cell, " " * 4)[4:] if cell else mark.rstrip())
    body = textwrap.indent("\n".join(lines), "   ")
    return f".. list-table::\n{options}\n{body}"


def code(text: str, language: str = "none") -> str:
    """A block of code."""
    return f".. code-block:: {language}\n\n{textwrap.indent(text.rstrip(), '   ')}"


def literal(text: str) -> str:
    """A word of code."""
    return f"``{text}``" if text.strip() else ""


def toctree(names: Iterable[str], hidden: bool = True, depth: int = 1, glob: bool = False) -> str:
    """Pages below this one."""
    options = f"   :maxdepth: {depth}\n" + ("   :hidden:\n" if hidden else "") + ("   :glob:\n" if glob else "")
    return f".. toctree::\n{options}\n" + "".join(f"   {name}\n" for name in names)


def page(*blocks: str) -> str:
    """A whole page."""
    return "\n\n".join(block for block in blocks if block) + "\n"
