"""Modify experiments on the command line: check what is overridden, and drop published points that no longer apply."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpml.errors import UserError, refuse_unknown
from dpml.running.expansion import Point
from dpml.running.spec import Experiment, Panel, is_computed, parts

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


def published_where_equal(experiment: Experiment, points: Sequence[Point], usual: Sequence[Point]) -> Experiment:
    """Keep the published points only in the panels whose settings are those of the unmodified experiment, `usual`.

    The setting on the x axis of a panel may differ.
    """
    panels = []
    for panel in experiment.panels:
        own, before = ([point for point in part if point.block == panel.block] for part in (points, usual))
        same = _settings(own, panel) <= _settings(before, panel)
        panels.append(panel if same else replace(panel, published=None))
    return replace(experiment, panels=panels)


def _settings(points: Sequence[Point], panel: Panel) -> set[tuple[tuple[str, str], ...]]:
    """Return the settings of a panel's runs, without its x and the keys in `_FREE`."""
    without = {*_FREE, {"inverse_eps": "eps"}.get(panel.x, panel.x)}
    return {
        tuple(sorted((key, repr(value)) for key, value in _all(point).items() if key not in without))
        for point in points
        if point.cell
    }


def _all(point: Point) -> Mapping[str, Any]:
    """Return the settings of a point, including N, M and the budgets of its cell."""
    cell = point.cell
    if cell is None:
        return point.settings
    budgets = {key: sorted({getattr(one, key) for one in cell.budgets}) for key in ("eps", "delta")}
    return {**point.settings, "N": cell.N, "M": cell.M, **budgets}
