"""What a release of one setting is guaranteed, view by view; no data are touched."""

from dataclasses import replace

from dpml.commands.settings import Settings, compose_one
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


def guarantees_of(settings: Settings) -> tuple[list[Guarantee], Problem]:
    """The guarantees of a release, and the problem that they are of.

    Raises:
        UserError: a setting is wrong, or has several values, or no noise can be calibrated for it.
    """
    config, d = compose_one(settings, "guarantee")
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
    problem = _as_known(problem, cell.partition, algorithm.name)
    return algorithm.guarantees(cell.budgets[0], problem), problem


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
