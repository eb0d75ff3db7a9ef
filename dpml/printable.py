"""What is shown to people: control characters of files that others wrote are escaped, so that none reaches a terminal.

A name out of somebody's file could otherwise clear the screen, change what was printed before, or hide a line.
"""

import sys
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import Any

_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # controls, invisible and turning characters, lone surrogates, line breaks


def printable(text: str) -> str:
    """The text with an escape such as ``\\x1b`` in place of every control character but line breaks and tabs."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(
        repr(each)[1:-1] if unicodedata.category(each) in _HIDDEN and each not in "\n\t" else each for each in text
    )


def plain_cell(text: str) -> str:
    """The text as a cell of a CSV file: with a quote before what a spreadsheet would compute, unless it is a number."""
    text = printable(text)
    if text.lstrip()[:1] not in ("=", "+", "-", "@"):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


class _Printable:
    """A text stream of which `print` writes printable text only. Rich's console goes around it, by this name."""

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
    """A context in which what is printed is printable: on stderr always, on stdout where it is a terminal.

    What goes into a file or to another program is data, and stays as it is.
    """
    with ExitStack() as stack:
        stack.enter_context(redirect_stderr(_Printable(sys.stderr)))
        if sys.stdout.isatty():
            stack.enter_context(redirect_stdout(_Printable(sys.stdout)))
        yield
