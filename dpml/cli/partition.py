"""`dpml data partition`: how uneven the parties of a partition are."""

import sys
from argparse import Namespace

import numpy as np
from rich.console import Console

from dpml.arrays import Array, Index
from dpml.cli.setting import one_setting
from dpml.cli.table import print_table
from dpml.config.build import build_partition, class_of, files, instantiate, optional, whole
from dpml.data import Source
from dpml.data.heterogeneity import Skew, distances
from dpml.data.partition import Parties, Partition, check_task, partition
from dpml.errors import UserError
from dpml.seeds import generator

_EXPLAINED = (
    "distance: total variation between a party's mix of classes and that of all rows, 0 (alike) to 1; by chance: of "
    "parties of the same sizes whose rows are dealt at random"
)


def run(arguments: Namespace) -> None:
    """Partition the rows as a run would, and print what the parties hold; draw a figure if asked to."""
    config, d = one_setting(arguments.overrides, "data partition", arguments.config_dir)
    if d is not None:
        raise UserError("unknown key 'd': the features do not matter here.")
    dataset: Source = instantiate(config.dataset, "dataset")
    # only the algorithm's auxiliary rows matter here, so the default algorithm suits any data
    rule = build_partition(instantiate(config.partition, "partition"), class_of(config.algo.get("_target_"), "algo"))
    M, N, seed = whole(config.M, "M"), optional(whole)(config.N, "N"), whole(config.seed, "seed")
    if seed < 0:
        raise UserError(f"seed must be a whole number >= 0, got seed={seed}.")
    check_task(rule, dataset.info.task, dataset.info.name)
    data = dataset.load(files(config), N, generator(seed, "data"))
    parties = partition(data, rule, M, generator(seed, "partition"))
    skew = Skew.of(parties, generator(seed, "partition", "chance"))
    _show(skew, rule, parties)
    if arguments.figure is not None:
        from dpml.reporting.heterogeneity import draw  # Matplotlib takes a second to import

        words = [word for word in arguments.overrides if not word.startswith(("data_dir=", "mirror=", "offline="))]
        title = f"dpml data partition {' '.join(words)}"
        for path in draw(skew, title, arguments.figure.with_suffix("")):
            print(path, file=sys.stderr)


def _show(skew: Skew, rule: Partition, parties: Parties) -> None:
    console = Console()
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
    console.print(f"{dealt}; {_EXPLAINED}", highlight=False, markup=False)


def _summary(values: Array | Index) -> list[str]:
    numbers = (float(number) for number in (values.min(), np.median(values), values.mean(), values.max()))
    return [f"{number:.4g}" if number < 1000 else f"{number:,.0f}" for number in numbers]
