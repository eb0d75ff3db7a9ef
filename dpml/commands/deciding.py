"""More seeds or draws where a claim is undecided, and nowhere else (`run.decide`).

After a look at the results, what would decide an open claim is known: comparisons, and how many seeds, or draws of each
seed, an effect of the present size needs (`criteria.Needs`). The cells of these comparisons get as many, of the kind
that takes fewer releases, unless that is more than `MOST` times what there is. Then comes the next look.

Every look is a test at 5 %, so that a comparison is wrong more often: in 10.7 % of cases after three looks, if each had
as many values again as the first (Armitage, McPherson & Rowe 1969, table 2). Here the numbers follow from what was
seen, and grow to `MOST` times: by simulation it is 11 to 14 % from five or ten seeds on, and up to 16 % from two.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from dpml.commands.jobs import ExperimentJob, Job, compute_jobs
from dpml.errors import UserError
from dpml.running.cell import Cell
from dpml.running.expansion import Point
from dpml.running.plan import Options, Plan, Task
from dpml.running.rows import setting

LOOKS = 3
MOST = 20  # times the seeds, or the draws of each, of the first look

Wanted = tuple[int, int]
"""How many seeds, and draws of each seed, there shall be."""


def compute_and_decide(  # many parameters: those of `compute_jobs`
    jobs: Sequence[Job], options: Options, results: Path, command: str, pool: ProcessPoolExecutor | None = None
) -> tuple[Plan, list[Job], int]:
    """Compute jobs as `compute_jobs` does; with `options.decide`, those with open claims again, with further cells.

    Returns:
        The plan, the jobs with all their cells, and an exit status.

    Raises:
        UserError: nothing of the only job can be computed on this machine.
    """
    now = list(jobs)
    plan, status = compute_jobs(now, options, results, command, pool)
    for _ in range(LOOKS - 1):
        if status or options.dry or not options.decide:
            break
        grown = [_grown(job, plan, first) for job, first in zip(now, jobs, strict=True)]
        if all(len(new.task.points) == len(old.task.points) for new, old in zip(grown, now, strict=True)):
            break
        now = grown
        plan, status = compute_jobs(now, options, results, command, pool, plan)
    return plan, now, status


def _grown(job: Job, plan: Plan, first: Job) -> Job:
    """A job with its further cells; one that cannot be written has none, and says why when the others are written."""
    if not isinstance(job, ExperimentJob):
        return job
    try:
        job.check(plan)
        return replace(job, task=further(job, plan, first.task.points))
    except UserError:
        return job


def further(job: ExperimentJob, plan: Plan, first: Iterable[Point]) -> Task:
    """An experiment's task, with the further cells that its undecided claims need; `first` were those at the start."""
    from dpml.reporting.cards import claims_about
    from dpml.reporting.evidence import evidence_of
    from dpml.reporting.results import results_of

    experiment, points = job.publication.experiment, job.publication.points
    claims = claims_about(experiment.name)
    if not claims:
        return job.task
    rows = results_of(job.publication, plan, job.task).rows
    panels = [asdict(panel) for panel in experiment.panels]
    evidence = replace(evidence_of(rows, panels, points, experiment.substitutes), traced=True)
    wanted: dict[Place, Wanted] = defaultdict(lambda: (0, 0))
    groups = _groups(job.task.points)
    at_first = {place: _counts(points) for place, points in _groups(first).items()}
    for claim in claims.values():
        for comparisons in claim.open(evidence):
            asked = [_asked(one.needs, _matching(groups, one.cells), at_first) for one in comparisons]
            for one in asked if all(asked) else ():  # deciding a part of them decides nothing
                for place, (seeds, draws) in one.items():
                    wanted[place] = max(seeds, wanted[place][0]), max(draws, wanted[place][1])
    return replace(job.task, points=[*job.task.points, *_added(groups, wanted)])


Place = tuple[str, Cell]
"""A block and the first of its cells that differ in seeds and draws only; another block may have the same cells."""

Groups = Mapping[Place, Sequence[Point]]
"""The points of every place."""


def _groups(points: Iterable[Point]) -> Groups:
    found: dict[Place, list[Point]] = defaultdict(list)
    first: dict[Place, Cell] = {}
    for point in points:
        if point.cell is not None:
            alike = point.block, replace(point.cell, seed=0, first=0, draws=1)
            found[point.block, first.setdefault(alike, point.cell)].append(point)
    return found


def _matching(groups: Groups, cells: Iterable[Mapping[str, Any]]) -> Groups:
    """The groups that some comparison is about."""
    about = list(cells)
    return {place: points for place, points in groups.items() if any(_is(*place, one) for one in about)}


def _is(block: str, cell: Cell, about: Mapping[str, Any]) -> bool:
    known: dict[str, Any] = {"block": block, "dataset": cell.dataset.info.name, "algo": cell.algorithm.name}
    known |= {"M": cell.M, "N": cell.N or cell.dataset.size(None)[0]}
    if cell.algorithm.calibration not in (None, "published"):
        return False
    return all(
        known.get(key, value) == value if "." not in key else setting(cell, key) in (None, value)
        for key, value in about.items()
    )


def _asked(needs: Any, groups: Groups, first: Mapping[Place, Wanted]) -> dict[Place, Wanted]:
    """How many seeds or draws the cells of one comparison shall have; nothing if no number of them would decide.

    All get more of one kind: with more seeds of one algorithm and more draws of the other, neither number is enough.
    """
    have = {place: _counts(points) for place, points in groups.items()}
    draws = {place: (own[0], max(needs.draws, own[1])) for place, own in have.items() if needs and needs.draws}
    seeds = {place: (max(needs.seeds, own[0]), own[1]) for place, own in have.items() if needs and needs.seeds}
    ways = [way for way in (draws, seeds) if way]
    # of the two, the one that takes fewer releases, or has enough
    wanted = min([way for way in ways if way != have] or ways, key=_releases, default={})
    most = {place: (MOST * first[place][0], MOST * first[place][1]) for place in wanted}
    return {
        place: (max(min(seeds, most[place][0]), have[place][0]), max(min(draws, most[place][1]), have[place][1]))
        for place, (seeds, draws) in wanted.items()
    }


def _releases(counts: Mapping[Place, Wanted]) -> int:
    return sum(seeds * draws for seeds, draws in counts.values())


def _counts(points: Sequence[Point]) -> Wanted:
    """The seeds, and the draws of each."""
    cells = [point.cell for point in points if point.cell is not None]
    return len({cell.seed for cell in cells}), max(cell.first + cell.draws for cell in cells)


def _added(groups: Groups, wanted: Mapping[Place, Wanted]) -> list[Point]:
    """The points that are missing."""
    added = []
    for place, points in groups.items():
        if place not in wanted:
            continue
        (seeds, draws), model, cell = wanted[place], points[0], place[1]
        known = sorted({point.cell.seed for point in points if point.cell})
        have = {
            seed: max(p.cell.first + p.cell.draws for p in points if p.cell and p.cell.seed == seed) for seed in known
        }
        new = range(known[-1] + 1, known[-1] + 1 + max(seeds - len(known), 0))
        for seed in (*known, *new):
            first = have.get(seed, 0)
            if draws > first:
                settings = {**model.settings, "seed": seed}
                added.append(Point(model.block, settings, replace(cell, seed=seed, first=first, draws=draws - first)))
    return added
