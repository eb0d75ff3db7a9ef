"""The mathematics of the pages about privacy: it is LaTeX, it becomes MathML, and GitHub reads it as it is meant.

GitHub and Sphinx (MyST, `dollarmath`) parse Markdown differently. The rules here are those under which both agree.
"""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "privacy.md", *sorted((ROOT / "docs" / "privacy").glob("*.md"))]
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]

FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`\n]+`")
DISPLAY = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
INLINE = re.compile(r"\$([^$]+)\$")


def wrong(formula: str) -> str:
    """Why GitHub or latex2mathml would not read a formula as it is meant; empty: they do."""
    from latex2mathml.converter import convert

    if re.search(r"\\[^a-zA-Z]", formula):
        return "a backslash before punctuation, which Markdown takes away"
    if re.search(r"(^|[^\w])_", formula):
        return "a subscript after punctuation, which Markdown may take for emphasis"
    if re.search(r"[|<>*]", formula):
        return "one of | < > *, which Markdown or HTML may take: write \\lvert, \\lt, \\gt, \\cdot"
    if formula.count("{") != formula.count("}"):
        return "braces that are not in pairs"
    if "\n\n" in formula:
        return "an empty line"
    try:
        mathml = convert(formula)
        ElementTree.fromstring(mathml)
    except Exception as error:  # whatever a converter raises, the formula is not readable
        return f"latex2mathml: {error!r}"
    return f"a command that latex2mathml does not know: {mathml}" if "\\" in mathml else ""


@pytest.mark.parametrize("name", NAMES)
def test_formulas_are_read_as_they_are_meant(name: str) -> None:
    pytest.importorskip("latex2mathml")
    text = CODE.sub("", FENCE.sub("", (ROOT / name).read_text(encoding="utf-8")))
    display, rest = DISPLAY.findall(text), DISPLAY.sub("", text)
    inline, prose = INLINE.findall(rest), INLINE.sub("", rest)
    assert display or inline
    reasons = {formula: wrong(formula) for formula in dict.fromkeys([*display, *inline])}
    assert {formula: reason for formula, reason in reasons.items() if reason} == {}
    assert "$" not in prose
    assert "\\" not in prose  # a command outside a formula
    assert [formula for formula in inline if formula != formula.strip() or "\n" in formula] == []
    around = {match[0]: f" {rest} "[match.start()] + f" {rest} "[match.end() + 1] for match in INLINE.finditer(rest)}
    # a letter or a digit next to a dollar makes it a price
    assert [formula for formula, both in around.items() if re.search(r"\w", both)] == []
