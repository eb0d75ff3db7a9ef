"""`dpml guarantee`: the privacy guarantees of a release, view by view."""

import json
from argparse import Namespace
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console

from dpml.cli.setting import one_setting
from dpml.cli.table import print_table, set_aside_common
from dpml.config.build import (
    budget,
    build_adversary,
    build_algorithm,
    build_partition,
    instantiate,
    optional,
    whole,
)
from dpml.data import Source
from dpml.data.partition import LabelRule, Natural, Partition
from dpml.errors import UserError
from dpml.privacy import Guarantee, Problem, UnsizedProblem
from dpml.running.cell import Cell


def run(arguments: Namespace) -> None:
    """Print the guarantees of one setting."""
    cell, problem = _described(arguments.overrides, arguments.config_dir)
    guarantees = cell.algorithm.guarantees(cell.budgets[0], problem)
    if arguments.json:
        # JSON has no infinity; every parser reads 1e999 as one
        print(json.dumps([asdict(guarantee) for guarantee in guarantees], indent=2).replace("Infinity", "1e999"))
        return
    heads = ["view", "per", "eps", "delta", "basis", "source"]
    lines = [[g.view, g.unit, f"{g.eps:.6g}", f"{g.delta:g}", g.basis, g.source] for g in guarantees]
    heads, lines, common = set_aside_common(heads, lines, ("per", "delta"))
    if any(guarantee.view == "colluders" for guarantee in guarantees):
        common["colluders"] = f"{problem.colluders} of {problem.M} parties"
    console = Console()
    print_table(console, heads, lines, wrapped=("source",))
    if common:
        console.print("  ".join(f"{head} {value}" for head, value in common.items()), highlight=False)


def guarantees_for(overrides: Iterable[str], config_dir: Path | None = None) -> list[Guarantee]:
    """The table that `dpml guarantee` prints, for the same overrides as on its command line."""
    cell, problem = _described(overrides, config_dir)
    return cell.algorithm.guarantees(cell.budgets[0], problem)


def _described(overrides: Iterable[str], config_dir: Path | None) -> tuple[Cell, Problem]:
    """The cell that would be released, and the quantities that its guarantees depend on."""
    config, d = one_setting(overrides, "guarantee", config_dir)
    dataset: Source = instantiate(config.dataset, "dataset")
    algorithm = build_algorithm(config, dataset)
    cell = Cell(
        dataset=dataset,
        partition=build_partition(instantiate(config.partition, "partition"), algorithm),
        algorithm=algorithm,
        M=whole(config.M, "M"),
        N=optional(whole)(config.N, "N"),
        seed=whole(config.seed, "seed"),
        budgets=(budget(config.eps, config.delta),),
        draws=1,
        adversary=build_adversary(config.adversary),
    )
    problem = cell.problem if d is None else replace(cell.problem, d=d)
    return cell, _as_known(problem, cell.partition, algorithm.name)


def _as_known(problem: Problem, rule: Partition, algo: str) -> Problem:
    """The same problem, without party sizes if `rule` needs the data to compute them; using them then is a UserError.

    Raises:
        UserError: `rule` may also leave rows out, so that even N is unknown.
    """
    if not isinstance(rule, LabelRule | Natural):
        return problem
    why = (
        f"what algo={algo} is guaranteed may depend on how many rows the parties have, and partition={rule.name} does "
        f"not tell without the data: choose a partition by size, or see guarantees.csv of a run."
    )
    if not getattr(rule, "every_row", False):
        raise UserError(why)
    return UnsizedProblem(problem, why)
