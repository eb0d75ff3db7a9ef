"""Printable text: control characters are escaped, so that text from other people's files cannot control a terminal."""

import sys
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # control, invisible and direction characters, surrogates, line breaks


def printable(text: str) -> str:
    """Escape all control characters except line breaks and tabs, as in ``\\x1b``."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(
        repr(each)[1:-1] if unicodedata.category(each) in _HIDDEN and each not in "\n\t" else each for each in text
    )


def plain_cell(text: str) -> str:
    """Return the text for a cell of a CSV file: quoted if a spreadsheet would compute it, unless it is a number."""
    text = printable(text)
    if text.lstrip()[:1] not in ("=", "+", "-", "@"):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


class _Printable:
    """A text stream that escapes control characters. Rich's console finds the wrapped stream by this attribute."""

    def __init__(self, raw: Any) -> None:
        self.rich_proxied_file = raw

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
    """Enter a context in which stderr, and stdout if it is a terminal, print escaped text only.

    Output to a file or to another program is data and stays unchanged.
    """
    with ExitStack() as stack:
        stack.enter_context(redirect_stderr(_Printable(sys.stderr)))
        if sys.stdout.isatty():
            stack.enter_context(redirect_stdout(_Printable(sys.stdout)))
        yield


class Screen(Console):
    """Rich's console for `printable` text, without markup, emoji codes or highlighting."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)
        if not self.width:  # COLUMNS=0: the shell does not know the width
            self.width = 80

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield Rich's segments with printable text."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))
