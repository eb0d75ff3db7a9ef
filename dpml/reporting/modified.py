"""Modify experiments on the command line: check what is overridden, and drop published points that no longer apply."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpml.errors import UserError, refuse_unknown
from dpml.running.expansion import Point
from dpml.running.spec import Experiment, is_computed, parts

_FREE = ("seed", "draws", "metrics", "calibration")  # these keys repeat or extend a run, but do not change its settings


def only_block(experiment: Experiment, block: str | None) -> Experiment:
    """Return an experiment with only one of its blocks and the panels of that block; None keeps all blocks."""
    if block is None:
        return experiment
    refuse_unknown("block", [block], experiment.grid, f"experiment={experiment.name}")
    panels = [panel for panel in experiment.panels if panel.block == block]
    return replace(experiment, grid={block: experiment.grid[block]}, panels=panels, rank_by=(), oracle=None)


def refuse_ambiguous(experiment: Experiment, keys: Iterable[str]) -> None:
    """Raise UserError if an overridden key is set by one of several blocks itself."""
    if len(experiment.grid) < 2:
        return
    for key in keys:
        if key in _FREE:
            continue
        owners = [
            name
            for name, block in experiment.grid.items()
            if not is_computed(block) and any(key in part for part in parts(block))
        ]
        if owners:
            raise UserError(
                f"{key} differs between the blocks of experiment={experiment.name}: choose one block, such as "
                f"block={owners[0]} ({', '.join(experiment.grid)})."
            )


def as_published(experiment: Experiment, points: Sequence[Point], usual: Sequence[Point]) -> Experiment:
    """Keep published points and claims only where the settings are those of the unmodified experiment.

    A panel keeps its published points if its settings, except for x, are those of the `usual` points. The paper's
    claims are judged only if all settings are.
    """

    def settings(part: Sequence[Point], block: str, x: str = "") -> set[tuple[tuple[str, str], ...]]:
        without = {*_FREE, {"inverse_eps": "eps"}.get(x, x)}
        return {
            tuple(sorted((key, repr(value)) for key, value in _all(point).items() if key not in without))
            for point in part
            if point.cell and point.block == block
        }

    panels = []
    for panel in experiment.panels:
        same = settings(points, panel.block, panel.x) <= settings(usual, panel.block, panel.x)
        panels.append(panel if same else replace(panel, published=None))
    same = all(settings(points, block) <= settings(usual, block) for block in experiment.grid)
    return replace(experiment, panels=panels, judged=experiment.judged and same)


def _all(point: Point) -> Mapping[str, Any]:
    """Return the settings of a point, including N, M and the budgets of its cell."""
    cell = point.cell
    if cell is None:
        return point.settings
    budgets = {key: sorted({getattr(one, key) for one in cell.budgets}) for key in ("eps", "delta")}
    return {**point.settings, "N": cell.N, "M": cell.M, **budgets}
