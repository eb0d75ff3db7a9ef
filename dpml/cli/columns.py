"""Tables that fit the terminal's width: nothing in them is cut."""

from collections.abc import Collection, Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from dpml.screen import Screen

_GAP = "  "


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


def set_aside_common(
    heads: Sequence[str], lines: Sequence[Sequence[str]], candidates: Collection[str]
) -> tuple[list[str], list[list[str]], dict[str, str]]:
    """Heads and lines without the candidate columns whose cells are all equal, and those common values by head."""
    columns = dict(zip(heads, zip(*lines, strict=True), strict=True))
    common = {head: columns[head][0] for head in heads if head in candidates and len(set(columns[head])) == 1}
    kept = [head for head in heads if head not in common]
    return kept, [list(line) for line in zip(*(columns[head] for head in kept), strict=True)], common
