"""Render pages as Markdown, with one template for each kind of page, and as HTML."""

import html
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.token import Token

from dpml.reporting.tables import cell, markdown
from dpml.reporting.words import VERDICTS, curve

LEGEND = " · ".join(f"{symbol} {word}" for symbol, word in VERDICTS.values())
"""A line that explains the symbols of verdicts."""

# the only HTML that templates write; other tags come from the text of a manifest, and are shown as text
_OURS = re.compile(r'</?(?:details|summary|br|div)(?: class="\w+")?>|<a id="[\w-]*">|</a>')


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("dpml.reporting"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"cell": cell, "anchor": anchor, "named": named, "markdown": markdown}
    environment.globals["legend"] = LEGEND
    return environment


def page(template: str, **content: Any) -> str:
    """Render a template as a page in Markdown, without superfluous blank lines."""
    text = _environment().get_template(template).render(**content)
    text = re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", text)).strip()
    return f"{text}\n"


def named(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table with the display names of algorithms; a name has the number of parties M only if needed."""
    lines = [[", ".join(map(curve, text.split(", "))) for text in line] for line in (table["columns"], *table["rows"])]
    bare = [[re.sub(r" M=\d+", "", text) for text in line] for line in lines]
    head, *rows = [one if len(set(one)) == len(set(line)) else line for one, line in zip(bare, lines, strict=True)]
    return {"columns": head, "rows": rows}


def anchor(name: str) -> str:
    """Return the address of a claim on the page of its paper."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower())


def framed(text: str, link: Callable[[str], str | None], **frame: Any) -> str:
    """Return a page in Markdown as an HTML page.

    `link` returns the address of a relative link or picture, or None if its target is missing. `frame` has ``pages``
    (names and addresses for the navigation), ``here``, and ``root``, the path to the folder of the script.
    """
    markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
    for kind in ("html_inline", "html_block"):
        markdown.add_render_rule(kind, _own_tags)
    tokens = markdown.parse(text)
    _relink(tokens, link)
    body = str(markdown.renderer.render(tokens, markdown.options, {}))
    body = body.replace("<table>", '<div class="scroll"><table>').replace("</table>", "</table></div>")
    return _environment().get_template("base.html").render(title=html.escape(title(text)), body=body, **frame)


def title(text: str) -> str:
    """Return the first heading of a page in Markdown."""
    return text.partition("\n")[0].lstrip("# ")


def script() -> str:
    """Return the JavaScript of the pages, which sorts and filters tables, and shows values of charts."""
    return _environment().get_template("script.js").render()


def _own_tags(_: Any, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    """Return HTML that keeps the tags of templates, and shows all other tags as text."""
    parts = re.split(r"(<[^<>]*>)", tokens[place].content)
    return "".join(part if _OURS.fullmatch(part) else html.escape(part) for part in parts)


def _relink(tokens: Sequence[Token], link: Callable[[str], str | None]) -> None:
    """Replace relative addresses. Remove links without a target and pictures on other hosts."""
    for token in tokens:
        _relink(token.children or (), link)
        key = {"link_open": "href", "image": "src"}.get(token.type, "")
        address = str(token.attrs.pop(key, "#"))
        stays = key == "href" and re.match(r"#|https?://|mailto:", address)
        if key and (found := address if stays else link(address)) is not None:
            token.attrs[key] = found
