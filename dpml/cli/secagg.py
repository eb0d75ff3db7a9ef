"""`dpml secagg`: a secure sum by the real protocol."""

from argparse import Namespace

from dpml.protocols.costs import measure


def run(arguments: Namespace) -> None:
    """Print what a secure sum cost."""
    for name, value in measure(arguments.M, arguments.d, arguments.drop).items():
        print(f"{name:22} {value}")
