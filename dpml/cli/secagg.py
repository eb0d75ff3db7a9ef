"""`dpml secagg`: run a secure sum with the real protocol."""

from argparse import Namespace

from dpml.protocols.costs import measure


def run(arguments: Namespace) -> None:
    """Print the cost of a secure sum."""
    for name, value in measure(arguments.M, arguments.d, arguments.drop).items():
        print(f"{name:22} {value}")
