"""Tables that fit the terminal's width: a number, a name or a verdict is never cut."""

from collections.abc import Collection, Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from dpml.screen import Screen

_GAP = "  "
_ANY = 10_000  # columns: more than any table needs


def print_table(
    console: Screen,
    heads: Sequence[str],
    lines: Sequence[Sequence[str]],
    keys: int = 1,
    wrapped: Collection[str] = (),
) -> None:
    """Print a table; if the terminal is too narrow for it, print a paragraph for each line.

    Args:
        console: where to print.
        heads: the column heads.
        lines: a cell for every head.
        keys: how many of the first columns identify a line, and so begin a paragraph.
        wrapped: heads of the columns whose cells may be broken between words.
    """
    table, widths, widest = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0)), [], []
    for head, *cells in zip(heads, *lines, strict=True):
        widest.append(max(map(cell_len, (head, *cells))))
        widths.append(max(map(cell_len, " ".join((head, *cells)).split())) if head in wrapped else widest[-1])
        table.add_column(Text(head), overflow="fold", width=widths[-1])  # a tab is wider than it counts
    for line in lines:
        table.add_row(*map(Text, line))
    spare = console.width - Measurement.get(console, console.options.update(width=_ANY), table).minimum
    if spare >= 0:
        for _ in range(min(spare, sum(widest) - sum(widths))):  # one character more to the narrowest that lacks some
            k = min((k for k in range(len(widths)) if widths[k] < widest[k]), key=lambda k: widths[k])
            widths[k] += 1
        for column, width in zip(table.columns, widths, strict=True):
            column.width = width
        console.print(table)
        return
    for line in lines:
        pairs = [f"{head}={cell}" if cell != "-" else "" for head, cell in zip(heads, line, strict=True)]
        console.print()
        console.print(packed(pairs[:keys], console.width), style="bold")
        for text in packed(pairs[keys:], console.width - len(_GAP)).splitlines():
            console.print(f"{_GAP}{text}")
    console.print()


def set_aside_common(
    heads: Sequence[str], lines: Sequence[Sequence[str]], candidates: Collection[str]
) -> tuple[list[str], list[list[str]], dict[str, str]]:
    """Heads and lines without the candidate columns whose cells are all equal, and those common values by head."""
    columns = dict(zip(heads, zip(*lines, strict=True), strict=True))
    common = {head: columns[head][0] for head in heads if head in candidates and len(set(columns[head])) == 1}
    kept = [head for head in heads if head not in common]
    return kept, [list(line) for line in zip(*(columns[head] for head in kept), strict=True)], common


def packed(items: Sequence[str], width: int) -> str:
    """The non-empty items in lines of at most `width` columns; an item that fits into a line is not broken."""
    lines = [""]
    for item in filter(None, items):
        longer = f"{lines[-1]}{_GAP}{item}" if lines[-1] else item
        if cell_len(longer) <= width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(item)
    return "\n".join(lines)
