"""`dpml guarantee`: what a release is guaranteed in every view."""

import json
from argparse import Namespace
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from dpml.cli.setting import one_setting
from dpml.cli.table import print_table, set_aside_common
from dpml.config.build import budget, build_algorithm, build_partition, instantiate, optional, whole
from dpml.data import Source
from dpml.data.partition import party_sizes, set_aside
from dpml.privacy import Guarantee, Problem
from dpml.seeds import generator


def run(arguments: Namespace) -> None:
    """Print the guarantees of one setting."""
    guarantees = guarantees_for(arguments.overrides, arguments.config_dir)
    if arguments.json:
        # JSON has no infinity; 1e999 is a number that every parser reads as one
        print(json.dumps([asdict(guarantee) for guarantee in guarantees], indent=2).replace("Infinity", "1e999"))
        return
    heads = ["view", "per", "eps", "delta", "basis", "source"]
    lines = [[g.view, g.unit, f"{g.eps:.6g}", f"{g.delta:g}", g.basis, g.source] for g in guarantees]
    heads, lines, common = set_aside_common(heads, lines, ("per", "delta"))
    console = Console()
    print_table(console, heads, lines, wrapped=("source",))
    if common:
        console.print("  ".join(f"{head} {value}" for head, value in common.items()), highlight=False)


def guarantees_for(overrides: Iterable[str], config_dir: Path | None = None) -> list[Guarantee]:
    """What `dpml guarantee` prints, for overrides as on its command line."""
    config, d = one_setting(overrides, "guarantee", config_dir)
    dataset: Source = instantiate(config.dataset, "dataset")
    N, own_d = dataset.size(optional(whole)(config.N, "N"))
    algorithm = build_algorithm(config, dataset)
    rule = build_partition(instantiate(config.partition, "partition"), algorithm)
    aside = set_aside(rule, N)
    problem = Problem(whole(config.M, "M"), N - aside, own_d if d is None else d, aside)
    problem = problem.of_sizes(party_sizes(rule, N, problem.M, generator(whole(config.seed, "seed"), "partition")))
    return algorithm.guarantees(budget(config.eps, config.delta), problem)
