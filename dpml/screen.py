"""Escape control characters in printed text, so that text from other people's files cannot control the terminal."""

import sys
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # control, invisible and direction characters, surrogates, line breaks


def printable(text: str) -> str:
    """Return a text in which all control characters but line breaks and tabs are escaped, as in ``\\x1b``."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(
        repr(each)[1:-1] if unicodedata.category(each) in _HIDDEN and each not in "\n\t" else each for each in text
    )


def plain_cell(text: str) -> str:
    """Return the text of a CSV cell, with a quote in front if a spreadsheet would evaluate the text as a formula."""
    text = printable(text)
    if text.lstrip()[:1] not in ("=", "+", "-", "@"):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


class _Printable:
    def __init__(self, raw: Any) -> None:
        self.rich_proxied_file = raw  # Rich writes to the stream in the attribute of this name

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


@contextmanager
def guarded() -> Iterator[None]:
    """Inside a `with` block, escape control characters in all text that goes to stderr or to a terminal."""
    with ExitStack() as stack:
        stack.enter_context(redirect_stderr(_Printable(sys.stderr)))
        if sys.stdout.isatty():
            stack.enter_context(redirect_stdout(_Printable(sys.stdout)))
        yield


class Screen(Console):
    """Print text with Rich, with control characters escaped, and without markup, emoji codes or highlighting."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)
        if not self.width:  # COLUMNS=0: the shell does not know the width
            self.width = 80

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))
