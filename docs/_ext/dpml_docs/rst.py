"""Functions that return pieces of reStructuredText."""

import textwrap
from collections.abc import Iterable, Sequence


def title(text: str, line: str = "=") -> str:
    """Return a heading."""
    return f"{text}\n{line * (2 * len(text))}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], widths: Sequence[int] = (), kind: str = "keys") -> str:
    """Return a table whose cells may have several paragraphs.

    Args:
        heads: the headings of the columns.
        rows: the cells, as reStructuredText.
        widths: the relative widths of the columns.
        kind: the CSS class of the table.
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
    """Return a block of code."""
    return f".. code-block:: {language}\n\n{textwrap.indent(text.rstrip(), '   ')}"


def literal(text: str) -> str:
    """Return a word of code."""
    return f"``{text}``" if text.strip() else ""


def toctree(names: Iterable[str], hidden: bool = True, depth: int = 1, glob: bool = False) -> str:
    """Return the list of pages below this page."""
    options = f"   :maxdepth: {depth}\n" + ("   :hidden:\n" if hidden else "") + ("   :glob:\n" if glob else "")
    return f".. toctree::\n{options}\n" + "".join(f"   {name}\n" for name in names)


def page(*blocks: str) -> str:
    """Return a page made of blocks."""
    return "\n\n".join(block for block in blocks if block) + "\n"
