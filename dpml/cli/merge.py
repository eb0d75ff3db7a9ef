"""`dpml merge`: combine the tables of several runs or sweeps."""

from argparse import Namespace

from dpml.reporting.tables import merge


def run(arguments: Namespace) -> None:
    """Write the merged tables and print their paths."""
    for path in merge(arguments.folders, arguments.output):
        print(path)
