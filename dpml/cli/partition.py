"""`dpml data partition`: how unequal the parties of a partition are."""

import sys
from argparse import Namespace

import numpy as np
from rich.console import Console

from dpml.arrays import Array, Index
from dpml.cli.setting import cell_of, one_setting
from dpml.cli.table import print_table
from dpml.data.skew import Skew, distances
from dpml.errors import UserError
from dpml.running.cell import deal
from dpml.seeds import generator

_EXPLAINED = (
    "distance: total variation between a party's mix of classes and that of all rows, 0 (alike) to 1; by chance: of "
    "parties of the same sizes whose rows are dealt at random"
)


def run(arguments: Namespace) -> None:
    """Deal the rows as a run would, and print what parties hold; draw it if asked to."""
    config, d = one_setting(arguments.overrides, "data partition", arguments.config_dir)
    if d is not None:
        raise UserError("unknown key 'd': the features do not matter here.")
    cell = cell_of(config)
    parties = deal(cell)
    skew = Skew.of(parties, generator(cell.seed, "partition", "chance"))
    console = Console()
    _show(console, skew)
    M, N, K = len(skew.sizes), len(parties.y), len(skew.names)
    kinds = "intervals of the target" if skew.intervals else "classes"
    dealt = f"partition={cell.partition.name} of dataset={parties.data.name}: {N:,} rows, M={M:,} parties, {K} {kinds}"
    unused = len(parties.data.y) - N - len(parties.X_auxiliary)
    further = {"auxiliary": len(parties.X_auxiliary), "unused": unused}
    dealt += "".join(f", {rows:,} {what} rows" for what, rows in further.items() if rows)
    console.print(f"{dealt}; {_EXPLAINED}", highlight=False, markup=False)
    if arguments.figure is not None:
        from dpml.reporting.skew import draw  # Matplotlib takes a second to import

        title = f"dpml data partition {' '.join(arguments.overrides)}"
        for path in draw(skew, title, arguments.figure.with_suffix("")):
            print(path, file=sys.stderr)


def _show(console: Console, skew: Skew) -> None:
    lines = [
        ["rows", *_summary(skew.sizes)],
        ["classes", *_summary(skew.held)],
        ["distance", *_summary(skew.distances)],
        ["distance by chance", *_summary(distances(skew.chance))],
    ]
    print_table(console, ["per party", "smallest", "median", "mean", "largest"], lines)


def _summary(values: Array | Index) -> list[str]:
    numbers = (float(number) for number in (values.min(), np.median(values), values.mean(), values.max()))
    return [f"{number:.4g}" if number < 1000 else f"{number:,.0f}" for number in numbers]
