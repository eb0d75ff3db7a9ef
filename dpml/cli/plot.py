"""`dpml plot`: a figure of a run or a sweep."""

from argparse import Namespace

from dpml.reporting.figures import plot
from dpml.reporting.tables import read_rows


def run(arguments: Namespace) -> None:
    """Draw the figure and print its paths."""
    rows = read_rows(arguments.folder / "rows.csv")
    for path in plot(rows, arguments.folder, f"dpml plot {arguments.folder}", arguments.x, arguments.metric):
        print(path)
