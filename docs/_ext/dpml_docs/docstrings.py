"""Convert docstrings from the little Markdown in which they are written to reStructuredText for Sphinx."""

import re
import textwrap
from typing import Any

from numpy.typing import ArrayLike
from sphinx.application import Sphinx
from sphinx.ext.napoleon.docstring import GoogleDocstring
from sphinx.util.typing import stringify_annotation

from dpml.arrays import Array, Index

SECTION = re.compile(r"(Args|Attributes|Raises|Returns|Yields):$")
_WORDS = re.compile(
    r"(?P<code>``.+?``|`[^`]+`)"
    r"|(?P<emphasis>(?<![\w*|])\*\w(?:[^*\n]*\w)?\*(?![\w*|]))"
    r"|(?P<special>[\\*|]|_(?!\w)|_(?=_))",
    re.DOTALL,
)
_ALIASES = {
    stringify_annotation(alias, mode, short_literals=short): name
    for name, alias in (("ArrayLike", ArrayLike), ("Array", Array), ("Index", Index))
    for mode in ("smart", "fully-qualified-except-typing")
    for short in (False, True)
}


def rst(text: str) -> str:
    """Return a docstring as reStructuredText: `code` in backticks, lists with hyphens, formulas in indented blocks."""
    blocks = re.split(r"\n\s*\n", text)
    out: list[str] = []
    for number, block in enumerate(blocks):
        lines = block.splitlines()
        before = out[-1] if out else ""
        if number and all(line.startswith("    ") for line in lines) and not _in_list(before):
            out.append("::\n\n" + textwrap.indent(textwrap.dedent(block), "   "))
        elif lines and lines[0].startswith(">>>"):
            out.append(block)
        else:
            out.append(_separated(inline(block)))
    return "\n\n".join(out)


def inline(text: str) -> str:
    """Return a text in which accidental markup of reStructuredText is escaped."""

    def replaced(match: re.Match[str]) -> str:
        if match["code"]:
            content = re.sub(r"\s*\n\s*", " ", match["code"].strip("`")).strip()
            after = text[match.end() : match.end() + 1]
            return f"``{content}``" + ("\\ " if after.isalnum() else "")
        return match["emphasis"] or f"\\{match['special']}"

    return _WORDS.sub(replaced, text)


def _in_list(block: str) -> bool:
    return block.lstrip().startswith("- ")


def _separated(block: str) -> str:
    """Return the text with an empty line before a list that follows a sentence."""
    lines = block.splitlines()
    for number in range(len(lines) - 1, 0, -1):
        if lines[number].startswith("- ") and not re.match(r"- |  ", lines[number - 1]):
            lines.insert(number, "")
    return "\n".join(lines)


def _convert(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Convert a docstring for autodoc: text by `rst`, sections by napoleon."""
    parts: list[list[str]] = [[]]
    for line in lines:
        if SECTION.match(line) or (parts[-1] and SECTION.match(parts[-1][0]) and line and not line.startswith(" ")):
            parts.append([])
        parts[-1].append(line)
    out = []
    for part in parts:
        content = "\n".join(part).rstrip()
        if part and SECTION.match(part[0]):
            out += inline(content).splitlines()
        else:
            out += rst(content).splitlines()
        out.append("")
    # napoleon is skipped for attributes, because it reads words before a colon as their type
    lines[:] = GoogleDocstring(out, what="object", name=name, obj=obj, options=options).lines()


def _shorten(  # noqa: PLR0913 - the options of the Sphinx event
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Return a signature with the array types named as in the source; no signature for a protocol."""
    if getattr(obj, "_is_protocol", False):
        return "", None
    for long, short in _ALIASES.items():
        signature, returns = (text and text.replace(long, short) for text in (signature, returns))
    return signature, returns


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the conversion to autodoc."""
    app.connect("autodoc-process-docstring", _convert)
    app.connect("autodoc-process-signature", _shorten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
