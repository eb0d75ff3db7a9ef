"""Formulas as MathML, which browsers set themselves: no script, no font and no picture is fetched to read a page."""

import re
from html import escape

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)

_LABEL = re.compile(r"\\(?:label\{[^}]*\}|nonumber|notag)")


def mathml(latex: str, display: str) -> str:
    """One formula.

    Args:
        latex: as between dollars.
        display: inline or block.

    Raises:
        ValueError: the formula is no LaTeX, or has a command that is not known.
    """
    try:
        markup = convert(_LABEL.sub("", latex).strip(), display=display)
    except Exception as error:  # of many kinds, some without a word
        raise ValueError(f"{type(error).__name__} {error}".strip()) from error
    unknown = re.findall(r"\\[A-Za-z]+", re.sub(r"<[^>]*>", " ", markup))
    if unknown:
        raise ValueError(f"unknown {', '.join(sorted(set(unknown)))}")
    return markup


def _markup(node: nodes.Node, display: str) -> str:
    latex = node.astext()
    try:
        return mathml(latex, display)
    except ValueError as error:
        logger.warning("formula %r: %s", latex, error, location=node, type="mathml")
        return f"<code>{escape(latex)}</code>"


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    """A formula in a sentence."""
    self.body.append(_markup(node, "inline"))
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    """A formula in lines of its own, with its number if it has one; too wide for the page, it scrolls."""
    self.body.append(self.starttag(node, "div", CLASS="math"))
    self.body.append(f'<div class="formula" tabindex="0">{_markup(node, "block")}</div>')
    if node.get("number"):
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Make it what `html_math_renderer = "mathml"` names."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
