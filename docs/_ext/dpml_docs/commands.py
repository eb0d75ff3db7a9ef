"""Generate the reference page of the commands: their output with --help."""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator

from dpml.cli.main import parser
from dpml_docs import rst


def pages() -> dict[str, str]:
    """Return the page by its name below reference/."""
    return {"commands": commands()}


def commands() -> str:
    """Return the page of `dpml-run`, `dpml` and all commands of `dpml`."""
    blocks = [rst.title("Commands"), "Each section shows what a command prints with ``--help``."]
    blocks += [rst.title("``dpml-run``", "-"), rst.code(run_help())]
    for name, text in helps():
        blocks += [rst.title(f"``{name}``", "-"), rst.code(text)]
    return rst.page(*blocks)


def run_help() -> str:
    """Return the help of `dpml-run`, which Hydra generates when it runs."""
    entry = [sys.executable, "-c", "from dpml.cli import dpml_run; dpml_run()", "--help"]
    return subprocess.run(entry, capture_output=True, check=True, text=True, env=os.environ | {"NO_COLOR": "1"}).stdout


def helps() -> Iterator[tuple[str, str]]:
    """Yield every command without subcommands, with its help, 100 characters wide."""
    usual = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"
    try:
        yield from _helps(parser())
    finally:
        os.environ.pop("COLUMNS")
        if usual is not None:
            os.environ["COLUMNS"] = usual


def _helps(command: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    yield command.prog, command.format_help()
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _helps(inner)
