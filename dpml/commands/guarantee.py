"""What a release of one setting is guaranteed, view by view; no data are touched."""

import json
import math
from dataclasses import replace

from dpml.algorithms import Algorithm
from dpml.atomic import seal_object
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
from dpml.mechanism.declared import guaranteed
from dpml.privacy import Budget, Guarantee, Problem, UnsizedProblem
from dpml.privacy.guarantee import HELD
from dpml.release.certificate import certificate
from dpml.running.cell import Cell


def guarantees_of(settings: Settings) -> tuple[list[Guarantee], Problem]:
    """The guarantees of a release, and the problem that they are of.

    Raises:
        UserError: a setting is wrong, or has several values, or no noise can be calibrated for it.
    """
    algorithm, budget, problem = _requested(settings)
    return guaranteed(algorithm, budget, problem), problem


def certificate_of(settings: Settings) -> str:
    """The certificate of a release, as the content of its file.

    Raises:
        UserError: as for `guarantees_of`; or nothing is proven.
    """
    algorithm, budget, problem = _requested(settings)
    proven = [g for g in guaranteed(algorithm, budget, problem) if g.basis in HELD]
    if not all(math.isfinite(g.eps) for g in proven):
        raise UserError(f"nothing is proven of algo={algorithm.name} here, so that there is no certificate.")
    return json.dumps(seal_object(certificate(algorithm, budget, problem, proven)), indent=1) + "\n"


def _requested(settings: Settings) -> tuple[Algorithm, Budget, Problem]:
    """Build the algorithm, the budget and the problem that the settings describe."""
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
    return algorithm, cell.budgets[0], _as_known(problem, cell.partition, algorithm.name)


def _as_known(problem: Problem, rule: Partition, algo: str) -> Problem:
    """Return the problem without party sizes if `rule` needs the data to compute them.

    Using the sizes is a UserError then, and so is a rule that may leave rows out: even N is unknown.
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
