"""`dpml completion SHELL`: a script that completes the commands and options of `dpml` in bash, zsh or fish."""

from argparse import Namespace

import shtab

from dpml.cli.main import parser


def run(arguments: Namespace) -> None:
    """Print the script."""
    print(shtab.complete(parser(), arguments.shell))
