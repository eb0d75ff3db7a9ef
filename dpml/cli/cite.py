"""`dpml cite`: BibTeX of dpml and of the papers whose figures it regenerates."""

from argparse import Namespace

from dpml import packs
from dpml.errors import UserError, nearest
from dpml.reporting.cards import card_of
from dpml.version import __version__


def run(arguments: Namespace) -> None:
    """Print one entry, or all."""
    entries = citations()
    if arguments.name not in (None, *entries):
        raise UserError(f"there is no {arguments.name!r} to cite: {nearest(arguments.name, entries)}")
    print("\n\n".join([entries[arguments.name]] if arguments.name else entries.values()))


def citations() -> dict[str, str]:
    """The BibTeX entries by name: dpml's, as CITATION.cff has it, and the papers', by the names of their packs."""
    cards = {name: card_of(name) for name in packs.known()}
    return {"dpml": _DPML} | {name: card.citation.strip() for name, card in cards.items() if card and card.citation}


_DPML = f"""\
@software{{dpml,
  author = {{{{The dpml authors}}}},
  title = {{dpml: experiments in multiparty differentially private learning}},
  version = {{{__version__}}},
  year = {{2026}},
  license = {{MIT}},
}}"""
