"""`dpml release`: one model for publication, recorded in a ledger before its noise is drawn."""

from argparse import Namespace

from dpml.cli.files import own_file
from dpml.commands.release import request_of
from dpml.commands.settings import Settings
from dpml.release.ledger import Cap, Ledger
from dpml.release.release import release
from dpml.screen import Screen


def run(arguments: Namespace) -> None:
    """Release one model, and print its guarantees."""
    settings = Settings(own_file(arguments, arguments.overrides), config_dir=arguments.config_dir)
    allowed = {"floating": arguments.floating, "any_delta": arguments.delta_anyway, "declared": arguments.declared}
    request, path = request_of(settings, arguments.ledger, **allowed)
    ledger = Ledger(path)
    cap = None if arguments.cap is None else Cap(arguments.cap, arguments.cap_delta, request.unit)
    model, entry = release(request, ledger, cap, arguments.output)
    console = Screen()
    for sentence in (*model.statement, ""):
        console.print(sentence)
    console.print(f"{arguments.output}\n{ledger.path}: release {entry.number}")
