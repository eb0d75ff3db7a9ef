"""Tables that fit the terminal's width: nothing in them is cut."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from dpml.privacy.safe import written
from dpml.screen import Screen

_GAP = "  "
_MEANINGLESS = 100.0  # an eps from which on a guarantee says nothing: e^100 is 3e43


def eps_text(eps: float) -> str:
    """Return an eps as tables show it, rounded up."""
    return "-" if eps != eps else written(eps) if eps < _MEANINGLESS else "no meaningful guarantee"


def print_table(console: Screen, heads: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """Print a table, with a cell for every head in each line. A cell that is too wide goes on below."""
    columns = list(zip(heads, *lines, strict=True))
    widths = [max(map(cell_len, texts)) for texts in columns]
    longest_words = [max(map(cell_len, " ".join(texts).split())) for texts in columns]
    room = console.width - len(_GAP) * (len(columns) - 1)
    while sum(widths) > room and widths != longest_words:  # Rich alone would also break words and numbers
        k = max(range(len(widths)), key=lambda k: widths[k] - longest_words[k])
        widths[k] -= 1
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for head, width in zip(heads, widths, strict=True):
        table.add_column(Text(head), overflow="fold", max_width=width)
    for line in lines:
        table.add_row(*map(Text, line))
    console.print("", table, "", sep="\n")
