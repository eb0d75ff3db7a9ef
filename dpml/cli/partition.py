"""`dpml data partition`: how uneven the parties of a partition are."""

import sys
from argparse import Namespace

import numpy as np

from dpml.arrays import Array, Index
from dpml.cli.columns import print_table
from dpml.cli.files import AS_PRIVATE, stem
from dpml.commands.data import dealt
from dpml.commands.settings import Settings, is_private
from dpml.data.heterogeneity import Skew, distances
from dpml.data.partition import Parties, Partition
from dpml.screen import Screen

_EXPLAINED = (
    "distance: total variation between a party's mix of classes and that of all rows, 0 (alike) to 1; by chance: of "
    "parties of the same sizes whose rows are dealt at random"
)


def run(arguments: Namespace) -> None:
    """Partition the rows as a run would, and print what the parties hold; draw a figure if asked to."""
    figure = None if arguments.figure is None else stem(arguments.figure)
    skew, rule, parties = dealt(Settings(arguments.overrides, config_dir=arguments.config_dir))
    _show(skew, rule, parties)
    if figure is not None:
        from dpml.reporting.heterogeneity import draw  # Matplotlib takes a second to import

        words = [word for word in arguments.overrides if not is_private(word)]
        title = f"dpml data partition {' '.join(words)}"
        for path in draw(skew, title, figure):
            print(path, file=sys.stderr)


def _show(skew: Skew, rule: Partition, parties: Parties) -> None:
    console = Screen()
    lines = [
        ["rows", *_summary(skew.sizes)],
        ["classes", *_summary(skew.held)],
        ["distance", *_summary(skew.distances)],
        ["distance by chance", *_summary(distances(skew.chance))],
    ]
    print_table(console, ["per party", "smallest", "median", "mean", "largest"], lines)
    M, N, K = len(skew.sizes), len(parties.y), len(skew.names)
    kinds = "intervals of the target" if skew.intervals else "classes"
    dealt = f"partition={rule.name} of dataset={parties.data.name}: {N:,} rows, M={M:,} parties, {K} {kinds}"
    unused = len(parties.data.y) - N - len(parties.X_auxiliary)
    further = {"auxiliary": len(parties.X_auxiliary), "unused": unused}
    dealt += "".join(f", {rows:,} {what} rows" for what, rows in further.items() if rows)
    console.print(f"{dealt}; {_EXPLAINED}")
    console.print(AS_PRIVATE)


def _summary(values: Array | Index) -> list[str]:
    numbers = (float(number) for number in (values.min(), np.median(values), values.mean(), values.max()))
    return [f"{number:.4g}" if number < 1000 else f"{number:,.0f}" for number in numbers]
