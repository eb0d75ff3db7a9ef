"""Write formulas as MathML, which browsers render themselves, without scripts, fonts or pictures."""

import re
from html import escape
from unicodedata import category
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)

_LABEL = re.compile(r"\\(?:label\{[^}]*\}|nonumber|notag)")
_NUMBERED = re.compile(r"\\(begin|end)\{(align|alignat|equation|gather|multline)\}")  # Sphinx numbers formulas itself
_ENDS = set(")]}\u27e9\u2016|!\u22a4\u2032")  # after them a minus is a difference
_QUANTITIES = set("\u221e\u2202\u2207\u2205")  # mathematical symbols that are not operators
_BARS = set("|\u2016\u2225")
_CHILDREN = {"mfrac": 2, "msup": 2, "msub": 2, "mover": 2, "munder": 2, "mroot": 2, "msubsup": 3, "munderover": 3}

ElementTree.register_namespace("", _SPACE := "http://www.w3.org/1998/Math/MathML")


def mathml(latex: str, display: str) -> str:
    """Return a formula as MathML.

    Args:
        latex: the formula, without dollar signs.
        display: inline or block.

    Raises:
        ValueError: the formula is not valid LaTeX, or has an unknown command.
    """
    try:
        markup = convert(_NUMBERED.sub(r"\\\1{\2*}", _LABEL.sub("", latex)).strip(), display=display)
        tree = ElementTree.fromstring(markup)
    except Exception as error:  # many types, some without a message
        raise ValueError(f"{type(error).__name__} {error}".strip()) from error
    unknown = {command for text in tree.itertext() for command in re.findall(r"\\[A-Za-z]+", text)}
    if unknown:
        raise ValueError(f"unknown {', '.join(sorted(unknown))}")
    for node in tree.iter():
        kind = node.tag.rpartition("}")[2]
        if len(node) != _CHILDREN.get(kind, len(node)):
            raise ValueError("something is missing")
        _mend(node)
    return ElementTree.tostring(tree, encoding="unicode")


def _mend(node: ElementTree.Element) -> None:
    """Correct the converter's output: relations marked as names, wide spaces at signs and slashes, stretched bars."""
    before = ""
    for child in node:
        text = child.text or ""
        if child.tag == f"{{{_SPACE}}}mi" and len(text) == 1 and category(text) == "Sm" and text not in _QUANTITIES:
            child.tag = f"{{{_SPACE}}}mo"
            child.text = "\u223c" if text == "~" else text
        is_operator = child.tag == f"{{{_SPACE}}}mo"
        if is_operator and text == "\u2212" and before != "quantity":
            child.set("form", "prefix")
        elif is_operator and text == "/":
            child.attrib |= {"lspace": "0", "rspace": "0"}
        elif is_operator and text in _BARS:
            child.attrib.setdefault("stretchy", "false")  # true after \left
        if is_operator or text or len(child):
            before = "operator" if is_operator and text not in _ENDS else "quantity"


def _markup(node: nodes.Node, display: str) -> str:
    latex = node.astext()
    try:
        return mathml(latex, display)
    except ValueError as error:
        logger.warning("formula %r: %s", latex, error, location=node, type="mathml")
        return f"<code>{escape(latex)}</code>"


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    """Write a formula in a sentence."""
    self.body.append(_markup(node, "inline"))
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a displayed formula, with its number if it has one; it scrolls if it is too wide for the page."""
    self.body.append(self.starttag(node, "div", CLASS="math"))
    self.body.append(f'<div class="formula" tabindex="0">{_markup(node, "block")}</div>')
    if node.get("number"):
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer that `html_math_renderer = "mathml"` names."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
