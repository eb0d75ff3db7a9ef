"""`dpml report`: one page about all experiments."""

from argparse import Namespace

from dpml.reporting.html import write_report


def run(arguments: Namespace) -> None:
    """Write the page and print its path."""
    print(write_report(arguments.results))
