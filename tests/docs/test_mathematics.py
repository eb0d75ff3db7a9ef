"""The mathematics of the pages about privacy: it is LaTeX, it becomes MathML, and GitHub reads it as it is meant.

GitHub and Sphinx (MyST, `dollarmath`) parse Markdown differently. The rules here are those under which both agree.
"""

import re
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "privacy.md", *sorted((ROOT / "docs" / "privacy").glob("*.md"))]
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]

FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`\n]+`")
DISPLAY = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
INLINE = re.compile(r"\$([^$]+)\$")

# a formula written with these has not been set
CHARACTERS = re.compile(r"[ΑΒ-ωΔΣΦ√∫‖≤≥≈∝∞∈±×·⁰¹²³⁴⁵⁶⁷⁸⁹⁻⊥⟂⪰⪯⊗←→]")
# and a span of code with these is a formula
FORMULA = re.compile(r" = |\^|sqrt|\|\||<=|>=")


class Page(NamedTuple):
    """The parts of a page: formulas, spans of code, and the prose that is left without both."""

    display: list[str]
    inline: list[str]
    code: list[str]
    prose: str


def parts(text: str) -> Page:
    text = FENCE.sub("", text)
    code = CODE.findall(text)
    text = CODE.sub("", text)
    display = DISPLAY.findall(text)
    text = DISPLAY.sub("", text)
    return Page(display, INLINE.findall(text), code, INLINE.sub("", text))


@pytest.fixture(params=NAMES)
def text(request: pytest.FixtureRequest) -> str:
    return (ROOT / request.param).read_text(encoding="utf-8")


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


def test_every_formula_becomes_mathml(text: str) -> None:
    pytest.importorskip("latex2mathml")
    page = parts(text)
    assert page.inline or page.display
    reasons = {formula: wrong(formula) for formula in dict.fromkeys([*page.display, *page.inline])}
    assert {formula: reason for formula, reason in reasons.items() if reason} == {}


def test_formulas_are_set_and_dollars_are_seen(text: str) -> None:
    page = parts(text)
    assert "$" not in page.prose
    assert "\\" not in page.prose  # a command outside a formula
    assert [formula for formula in page.inline if formula != formula.strip() or "\n" in formula] == []
    plain = f" {DISPLAY.sub('', CODE.sub('', FENCE.sub('', text)))} "
    around = {match[0]: plain[match.start() - 1] + plain[match.end()] for match in INLINE.finditer(plain)}
    # a letter or a digit next to a dollar makes it a price
    assert [formula for formula, both in around.items() if re.search(r"\w", both)] == []
    assert [line for line in page.prose.splitlines() if CHARACTERS.search(line)] == []
    assert [span for span in page.code if CHARACTERS.search(span) or FORMULA.search(span)] == []
