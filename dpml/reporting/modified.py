"""Modified experiments: which settings may be overridden, and titles and published points that stay true."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpml.errors import UserError, refuse_unknown
from dpml.running.expansion import Point
from dpml.running.spec import Experiment, Panel, is_computed, parts

_FREE = ("seed", "draws", "metrics", "calibration")  # they change how often something is run, or add to it
_COLUMNS = {"eps": "eps", "delta": "delta", "N": "N", "M": "M", "d": "dataset.d", "T": "algo.rounds", "lam": "algo.lam"}
_NAME = re.compile(rf"\{{({'|'.join(_COLUMNS)}|dataset)\}}")


def only_block(experiment: Experiment, block: str | None) -> Experiment:
    """Return an experiment with one of its blocks and the panels of that block; all of it for None."""
    if block is None:
        return experiment
    refuse_unknown("block", [block], experiment.grid, f"experiment={experiment.name}")
    panels = [panel for panel in experiment.panels if panel.block == block]
    return replace(experiment, grid={block: experiment.grid[block]}, panels=panels, rank_by=(), oracle=None)


def refuse_ambiguous(experiment: Experiment, keys: Iterable[str]) -> None:
    """Refuse an override of a key that some of several blocks set themselves."""
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
                f"{key} differs between the blocks of experiment={experiment.name}: name one of them, such as "
                f"block={owners[0]} ({', '.join(experiment.grid)})."
            )


def titled(experiment: Experiment, points: Sequence[Point]) -> Experiment:
    """Return an experiment whose titles say the settings of its `points`: ``{N}`` becomes the number of training rows.

    A part of a title, up to a comma, is left out if it asks for a setting that the points do not have.
    """
    shown = {panel.block for panel in experiment.panels}
    own = [point for point in points if point.cell and (not shown or point.block in shown)]
    panels = []
    for panel in experiment.panels:
        here = [point for point in own if point.block == panel.block]
        panels.append(replace(panel, title=_filled(panel.title, here, panel.where)))
    return replace(experiment, title=_filled(experiment.title, own, {}), panels=panels)


def without_points(experiment: Experiment, points: Sequence[Point], usual: Sequence[Point]) -> Experiment:
    """Return a modified experiment whose panels have published points only where all settings are the `usual` ones.

    The x of a panel may have other values.
    """
    panels = []
    for panel in experiment.panels:
        own, before = ([point for point in part if point.block == panel.block] for part in (points, usual))
        same = _settings(own, panel) <= _settings(before, panel)
        panels.append(panel if same else replace(panel, published=None))
    return replace(experiment, panels=panels)


def _settings(points: Sequence[Point], panel: Panel) -> set[tuple[tuple[str, str], ...]]:
    """The settings of a panel's runs, except its x and how often they are repeated."""
    without = {*_FREE, {"inverse_eps": "eps"}.get(panel.x, panel.x)}
    return {
        tuple(sorted((key, repr(value)) for key, value in _all(point).items() if key not in without))
        for point in points
        if point.cell
    }


def _all(point: Point) -> Mapping[str, Any]:
    """The settings of a point, with those of its cell."""
    cell = point.cell
    if cell is None:
        return point.settings
    budgets = {key: sorted({getattr(one, key) for one in cell.budgets}) for key in ("eps", "delta")}
    rounds = getattr(cell.algorithm, "rounds", None)
    return {"algo.rounds": rounds, **point.settings, "N": cell.N, "M": cell.M, **budgets}


def _filled(title: str, points: Sequence[Point], where: Mapping[str, Any]) -> str:
    """Return a title with the settings of the points in the place of their names in braces."""
    for name in _NAME.findall(title):
        text = _text(name, points, where)
        if text:
            title = title.replace(f"{{{name}}}", text)
        else:
            title = re.sub(rf"(, |^)[^,]*\{{{name}\}}[^,]*", "", title).removeprefix(", ")
    return title or _text("dataset", points, where)


def _text(name: str, points: Sequence[Point], where: Mapping[str, Any]) -> str:
    """Return the values of a setting, from the lowest to the highest; of data sets all titles."""
    if name == "dataset":
        return ", ".join(dict.fromkeys(point.cell.dataset.info.title for point in points if point.cell))
    key = _COLUMNS[name]
    values: set[float] = {where[key]} if key in where else set()
    for point in points if not values else ():
        known = _all(point).get(key)
        values.update(one for one in (known if isinstance(known, list) else [known]) if isinstance(one, int | float))
    values = {value for value in values if value > 1} or values if name == "M" else values  # central methods
    return " to ".join(_number(value) for value in sorted({min(values), max(values)})) if values else ""


def _number(value: float) -> str:
    if value >= 1 and float(value).is_integer():
        return f"{value:,.0f}"
    return re.sub(r"e-0?", "e-", f"{value:.0e}" if value < 0.01 and float(f"{value:.0e}") == value else f"{value:g}")
