"""`dpml cite`: BibTeX of dpml and of the papers whose figures it regenerates."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from dpml import paths
from dpml.errors import UserError, nearest

_PACKAGE = Path(paths.__file__).parent


def run(arguments: Namespace) -> None:
    """Print one entry, or all."""
    entries = citations()
    if arguments.name not in (None, *entries):
        raise UserError(f"there is no {arguments.name!r} to cite: {nearest(arguments.name, entries)}")
    print("\n\n".join([entries[arguments.name]] if arguments.name else entries.values()))


def citations() -> dict[str, str]:
    """The BibTeX entries by name: that of dpml by CITATION.cff, then the papers' by the names of their results."""
    text = (_PACKAGE / "papers" / "references.bib").read_text("utf-8").strip()
    papers = {entry.partition("{")[2].partition(",")[0]: entry for entry in text.split("\n\n")}
    return {"dpml": _software()} | papers


def _software() -> str:
    import yaml  # slow to load

    inside = _PACKAGE / "CITATION.cff"  # of a wheel; in a checkout it lies beside the package
    path = inside if inside.is_file() else _PACKAGE.parent / inside.name
    about: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    authors = [
        f"{{{one['name']}}}" if "name" in one else f"{one['family-names']}, {one['given-names']}"
        for one in about["authors"]
    ]
    fields = {
        "author": " and ".join(authors),
        "title": about["title"],
        "version": about["version"],
        "year": str(about["date-released"])[:4],
        "license": about["license"],
        "url": about.get("url") or about.get("repository-code"),
    }
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    return "\n".join(["@software{dpml,", *lines, "}"])
