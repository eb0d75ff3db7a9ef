"""Modified experiments: which settings may be overridden, and titles and published points that stay true."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpml.errors import UserError, refuse_unknown
from dpml.running.expansion import Point
from dpml.running.spec import Experiment, Panel, is_computed, parts

_FREE = ("seed", "draws", "metrics", "calibration")  # they change how often something is run, or add to it
_COLUMNS = {"ε": "eps", "δ": "delta", "N": "N", "M": "M", "d": "dataset.d", "T": "algo.rounds", "λ": "algo.lam"}
_SETTING = re.compile(rf"\b({'|'.join(_COLUMNS)}) = (\d(?:[\d.,]*\d)?(?:e-?\d+)?)(?!\w)")


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


def truthful(experiment: Experiment, points: Sequence[Point], usual: Sequence[Point]) -> Experiment:
    """Return a modified experiment with the settings of its `points` in titles.

    A panel keeps the published points only if its runs have the settings of the `usual` ones, except along its x.
    """
    title = _title(experiment.title, points)
    panels = []
    for panel in experiment.panels:
        own, before = ([point for point in part if point.block == panel.block] for part in (points, usual))
        same = _settings(own, panel) <= _settings(before, panel)
        panels.append(replace(panel, title=_title(panel.title, own), published=panel.published if same else None))
    return replace(experiment, title=title, panels=panels)


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
    return {**point.settings, "N": cell.N, "M": cell.M, **budgets}


def _title(title: str, points: Sequence[Point]) -> str:
    """Return a title in which settings, such as ``N = 20,000``, are those of the points."""

    def true(found: re.Match[str]) -> str:
        symbol, text = found.groups()
        values: set[float] = set()
        for point in points:
            known = _all(point).get(_COLUMNS[symbol])
            numbers = [one for one in (known if isinstance(known, list) else [known]) if isinstance(one, int | float)]
            values.update(map(float, numbers))
        values = {value for value in values if value > 1} or values if symbol == "M" else values  # central methods
        if not values or float(text.replace(",", "")) in values:
            return found[0]
        low, high = min(values), max(values)
        return f"{symbol} = {_number(low)}" + (f" to {_number(high)}" if high > low else "")

    return _SETTING.sub(true, title)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 and value.is_integer() else re.sub(r"e-0?", "e-", f"{value:g}")
