"""`dpml cite`: BibTeX of dpml and of the papers whose figures it regenerates."""

from argparse import Namespace
from pathlib import Path

from dpml import paths
from dpml.errors import UserError, nearest


def run(arguments: Namespace) -> None:
    """Print one entry, or all."""
    entries = citations()
    if arguments.name not in (None, *entries):
        raise UserError(f"there is no {arguments.name!r} to cite: {nearest(arguments.name, entries)}")
    print("\n\n".join([entries[arguments.name]] if arguments.name else entries.values()))


def citations() -> dict[str, str]:
    """The BibTeX entries by name: dpml's, as CITATION.cff has it, and the papers', by the names of their results."""
    text = (Path(paths.__file__).parent / "papers" / "references.bib").read_text("utf-8").strip()
    return {entry.partition("{")[2].partition(",")[0]: entry for entry in text.split("\n\n")}
