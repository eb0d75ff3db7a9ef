"""Check the settings that a user changes in a paper's experiment, and drop published points that no longer apply."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dpml.errors import UserError, refuse_unknown
from dpml.running.expansion import Point
from dpml.running.spec import Experiment, is_computed, parts

_FREE = ("seed", "draws", "metrics", "calibration")  # these keys repeat or extend a run, but do not change its settings


def only_block(experiment: Experiment, block: str | None) -> Experiment:
    """Reduce an experiment to one block and the panels of this block; return it unchanged if `block` is None."""
    if block is None:
        return experiment
    refuse_unknown("block", [block], experiment.grid, f"experiment={experiment.name}")
    panels = [panel for panel in experiment.panels if panel.block == block]
    return replace(experiment, grid={block: experiment.grid[block]}, panels=panels, rank_by=(), oracle=None)


def refuse_ambiguous(experiment: Experiment, keys: Iterable[str]) -> None:
    """Raise UserError if the user overrides a setting that differs between the blocks of an experiment."""
    blocks = {name: block for name, block in experiment.grid.items() if not is_computed(block)}
    for key in keys if len(experiment.grid) > 1 else ():
        owners = [name for name, block in blocks.items() if any(key in part for part in parts(block))]
        if owners and key not in _FREE:
            raise UserError(
                f"{key} differs between the blocks of experiment={experiment.name}: choose one block, such as "
                f"block={owners[0]} ({', '.join(experiment.grid)})."
            )


def as_published(experiment: Experiment, points: Sequence[Point], usual: Sequence[Point]) -> Experiment:
    """Keep published points and claims only where a modified experiment has the settings of the unmodified experiment.

    A panel keeps its points if its settings, except for x, are those of the `usual` points; claims need all settings.
    """

    def settings(part: Sequence[Point], block: str, x: str) -> set[str]:
        without = {*_FREE, {"inverse_eps": "eps"}.get(x, x)}
        found = set()
        for given, cell in ((point.settings, point.cell) for point in part if point.block == block):
            if cell:
                budgets = {key: sorted({getattr(one, key) for one in cell.budgets}) for key in ("eps", "delta")}
                every = {**given, "N": cell.N, "M": cell.M, **budgets}
                found.add(repr(sorted((key, repr(value)) for key, value in every.items() if key not in without)))
        return found

    def same(block: str, x: str = "") -> bool:
        return settings(points, block, x) <= settings(usual, block, x)

    panels = [one if same(one.block, one.x) else replace(one, published=None) for one in experiment.panels]
    return replace(experiment, panels=panels, judged=experiment.judged and all(map(same, experiment.grid)))
