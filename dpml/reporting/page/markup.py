"""HTML from Python values: elements whose text is escaped, tables, and Markdown."""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token


class Html(str):
    """Text that is already HTML and is not escaped again."""

    __slots__ = ()


Content = str | Iterable[str]

_VOID = {"input", "img"}
_SHAPES = {"path", "circle", "rect"}  # self-closing SVG elements
_SCROLLS = '<div class=scroll tabindex=0 role=region aria-label="{}">'
_BARE = re.compile(r"[\w.#:-]+")  # a value that needs no quotes
_LONG = 30  # letters: a longer cell may be broken into lines


def html(*parts: Content) -> Html:
    """Concatenated parts; a part that is not `Html` is escaped text."""
    pieces = (piece for part in parts for piece in ([part] if isinstance(part, str) else part))
    return Html("".join(piece if isinstance(piece, Html) else escape(piece) for piece in pieces))


def tag(name: str, *parts: Content, **attributes: str | bool | None) -> Html:
    """An element; an attribute that is True has no value, and one that is False or None is left out.

    ``class_`` and ``for_`` are attributes whose names are reserved in Python; other underscores become hyphens.
    """
    pairs = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    written = "".join(
        f" {key}" if value is True else f" {key}={_quoted(value)}"
        for key, value in pairs.items()
        if isinstance(value, str) or value is True
    )
    if name in _SHAPES:
        return Html(f"<{name}{written}{'' if written.endswith(chr(34)) else ' '}/>")
    return Html(f"<{name}{written}>" if name in _VOID else f"<{name}{written}>{html(*parts)}</{name}>")


def _quoted(value: str) -> str:
    return value if _BARE.fullmatch(value) else f'"{escape(value)}"'


def anchor(name: str) -> str:
    """A name as part of a URL."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name)


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], label: str, names: bool = False, total: Sequence[str] = ()
) -> Html:
    """A table in its own box, which scrolls if the screen is narrow.

    Args:
        heads: the column heads.
        rows: a text, or HTML, for each column.
        label: the name that a screen reader gives it.
        names: whether the first entry of a row is the row's head.
        total: a last row, which stays at the bottom when the others are sorted.
    """
    head = html(tag("th", text, scope="col") for text in heads)
    lines = html(_line(row, names) for row in rows)
    foot = tag("tfoot", _line(total, names)) if total else Html("")
    whole = tag("table", tag("thead", tag("tr", head)), tag("tbody", lines), foot)
    return html(Html(_SCROLLS.format(escape(label))), whole, Html("</div>"))


def _line(row: Sequence[str], names: bool) -> Html:
    return html(Html("<tr>"), (_cell(cell, names and not i) for i, cell in enumerate(row)))


def _cell(content: str, names: bool = False) -> Html:
    """A cell without its end tag, which HTML allows to be left out: it would be a fifth of a table."""
    start = "<th scope=row>" if names else _td(content)
    return html(Html(start), content)


def _td(content: str) -> str:
    return "<td class=t>" if not isinstance(content, Html) and len(content) > _LONG else "<td>"


def disclosure(summary: Content, *parts: Content, **attributes: str) -> Html:
    """Content that a click opens."""
    return tag("details", tag("summary", summary), *parts, **attributes)


# ---- Markdown


@cache
def _parser() -> MarkdownIt:
    """CommonMark and tables, without HTML and pictures; tables as `table` makes them."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    rules = {
        "table_open": _table_open,
        "table_close": lambda *_: "</table></div>",
        "th_open": lambda *_: "<th scope=col>",
        "td_open": _td_open,
        "td_close": lambda *_: "",
        "th_close": lambda *_: "",
        "tr_close": lambda *_: "",
    }
    for name, rule in rules.items():
        parser.add_render_rule(name, lambda _, *arguments, rule=rule: rule(*arguments))
    return parser


def _table_open(tokens: Sequence[Token], index: int, *_: Any) -> str:
    """A table is labelled by the heading above it."""
    before = range(index - 1, 0, -1)
    label = next((tokens[i].content for i in before if tokens[i - 1].type == "heading_open"), "Table")
    return f"{_SCROLLS.format(escape(label))}<table>"


def _td_open(tokens: Sequence[Token], index: int, *_: Any) -> str:
    return _td(tokens[index + 1].content)


def inline(text: str) -> Html:
    """A sentence in Markdown."""
    return Html(_parser().renderInline(text))


def block(text: str, level: int = 0) -> Html:
    """Markdown with paragraphs, lists and tables; its headings become `level` levels deeper."""
    tokens = _parser().parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1:]) + level)}"
    return Html(_parser().renderer.render(tokens, _parser().options, {}))
