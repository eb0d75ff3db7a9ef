"""`dpml secagg`: run a secure sum with the real protocol."""

from argparse import Namespace

from dpml.protocols.costs import measure
from dpml.running.cell import limit_blas


def run(arguments: Namespace) -> None:
    """Print the cost of a secure sum."""
    with limit_blas():  # its products are small: more threads would only spin
        costs = measure(arguments.M, arguments.d, arguments.drop)
    for name, value in costs.items():
        print(f"{name:25} {value}")
