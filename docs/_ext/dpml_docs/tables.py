"""Reference pages of metrics, of the columns of result files and of the tests of claims, from docstrings and cards."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass

from dpml import packs
from dpml.config import docstrings as config_docstrings
from dpml.reporting.cards import VOCABULARY, card_of
from dpml.running import metrics as metrics_module
from dpml.running import rows as rows_module
from dpml_docs import docstrings, rst

_ITEM = re.compile(r"(?P<names>``\w+``(?:, ``\w+``)*)(?: \[(?P<unit>[^]]+)\])?: (?P<text>.*)", re.DOTALL)


@dataclass(frozen=True)
class Item:
    """Names that are described together, their unit, and the sentence above the list that they are in."""

    names: tuple[str, ...]
    unit: str
    text: str
    above: str


def items(doc: str | None) -> Iterator[Item]:
    """Lines such as "- ``name``, ``other`` [unit]: what it is" of a docstring."""
    above = ""
    for block in re.split(r"\n\s*\n", inspect.cleandoc(doc or "")):
        if not block.startswith("- ``"):
            above = " ".join(block.split())
            continue
        for line in re.split(r"\n(?=- )", block):
            if found := _ITEM.fullmatch(" ".join(line[2:].split())):
                names = tuple(name.strip("` ") for name in found["names"].split(","))
                yield Item(names, found["unit"] or "", found["text"], above)


def pages() -> dict[str, str]:
    """The pages by their names below reference/."""
    return {"metrics": metrics(), "columns": columns(), "tests": tests()}


def tests() -> str:
    """What a claim of a paper's card may be tested by."""
    rows = [
        [
            rst.literal(f"{name}: {{{', '.join(inspect.signature(made).parameters)}}}"),
            _with_arguments(config_docstrings.parse(inspect.getdoc(made))),
        ]
        for name, made in VOCABULARY.items()
    ]
    about = "What a card may name as the ``test`` of a claim: :doc:`/howto/add_a_paper`."
    return rst.page(rst.title("Tests of claims"), about, rst.table(["Test", "Holds if"], rows, (2, 5)))


def _with_arguments(doc: config_docstrings.Docstring) -> str:
    """What a docstring says, its arguments as a list."""
    about = [f"- {rst.literal(name)}: {docstrings.inline(text)}" for name, text in doc.arguments.items()]
    return rst.page(docstrings.rst(doc.text), "\n".join(about)).rstrip()


def all_metrics() -> list[Item]:
    """Every metric that anything reports: what docstrings list, and what the cards of packs do."""
    of_packs = []
    for card in filter(None, map(card_of, packs.known())):
        for name, said in card.metrics.items():
            unit, _, text = said.removeprefix("[").partition("], ")
            of_packs.append(Item((name,), unit, text, f"Of {card.title} only:"))
    return [*items(metrics_module.evaluate.__doc__), *items(metrics_module.__doc__), *of_packs]


def metrics() -> str:
    """The page of metrics."""
    first, *rest = (block for block in inspect.cleandoc(metrics_module.__doc__ or "").split("\n\n"))
    blocks = [rst.title("Metrics"), "They stand in the columns ``metric`` and ``value`` of ``rows.csv``."]
    blocks += [docstrings.rst(first), docstrings.rst(rest[0])]
    tables: dict[str, list[list[str]]] = {}
    for item in all_metrics():
        names = ", ".join(rst.literal(name) for name in item.names)
        tables.setdefault(item.above, []).append([names, item.unit, docstrings.inline(item.text)])
    for number, (above, lines) in enumerate(tables.items()):
        blocks.append("Of every linear model:" if number == 0 else docstrings.inline(above))
        blocks.append(rst.table(["Metric", "Unit", "Meaning"], lines, (3, 2, 7)))
    return rst.page(*blocks)


def columns() -> str:
    """The page of columns."""
    blocks = [rst.title("Columns of results"), "Every run and sweep writes ``rows.csv`` and ``guarantees.csv``."]
    blocks.append(
        "A setting that was set or varies is a column of both, too, named as on the command line (``algo.lam``)."
    )
    tables: dict[str, list[list[str]]] = {}
    for item in items(rows_module.__doc__):
        names = ", ".join(rst.literal(name) for name in item.names)
        tables.setdefault(item.above, []).append([names, docstrings.inline(item.text)])
    for above, lines in tables.items():
        blocks += [docstrings.inline(above), rst.table(["Column", "Meaning"], lines, (2, 5))]
    return rst.page(*blocks)
