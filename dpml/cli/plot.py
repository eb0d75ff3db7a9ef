"""`dpml plot`: a figure of a run or a sweep."""

from argparse import Namespace

import pandas as pd

from dpml.errors import UserError
from dpml.reporting.figures import plot


def run(arguments: Namespace) -> None:
    """Draw the figure and print its paths."""
    source = arguments.folder / "rows.csv"
    if not source.is_file():
        raise UserError(f"there is no {source}: give the folder that a dpml-run wrote to.")
    rows = pd.read_csv(source)
    for path in plot(rows, arguments.folder, f"dpml plot {arguments.folder}", arguments.x, arguments.metric):
        print(path)
