"""`dpml report`: pages about experiments, runs and sweeps."""

from argparse import Namespace

from dpml.reporting.html import write_report


def run(arguments: Namespace) -> None:
    """Write the pages and print the path of the first."""
    print(write_report(arguments.results))
