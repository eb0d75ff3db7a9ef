"""`dpml report`: pages about all experiments."""

from argparse import Namespace

from dpml.config.compose import PACKAGE
from dpml.reporting.html import write_report


def run(arguments: Namespace) -> None:
    """Write the pages and print the path of the first."""
    own = [arguments.config_dir / PACKAGE] if arguments.config_dir else []
    print(write_report(arguments.results, own))
