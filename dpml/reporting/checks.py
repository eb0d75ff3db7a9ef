"""Checks that find an experiment's mistakes before any work is done for it."""

from collections.abc import Iterable

import pandas as pd

from dpml.errors import UserError, nearest
from dpml.reporting.claims import claims_of
from dpml.reporting.style import METRICS
from dpml.running.expansion import Point
from dpml.running.rows import COLUMNS
from dpml.running.spec import Experiment


def check(experiment: Experiment, points: Iterable[Point], published: pd.DataFrame) -> None:
    """Refuse an experiment with panels or claims that could show nothing.

    Args:
        experiment: as in its file.
        points: its combinations of settings.
        published: the paper's points.

    Raises:
        UserError: a metric, a column, a series or a claim is unknown; names the nearest known one.
    """
    check_panels(experiment, points, published)
    if experiment.claims:
        if experiment.claims_from is None:
            raise UserError(
                f"experiment={experiment.name} has claims, but no claims_from: MODULE that says what they are."
            )
        known = claims_of(experiment.claims_from)
        for name in experiment.claims:
            if name not in known:
                raise UserError(f"unknown claim {name!r} in experiment={experiment.name}: {nearest(name, known)}")


def check_panels(experiment: Experiment, points: Iterable[Point], published: pd.DataFrame) -> None:
    """Refuse a panel that could show nothing: each of its keys must mean something in its block.

    Raises:
        UserError: a metric, a column or a published series is unknown; names the nearest known one.
    """
    settings: dict[str, set[str]] = {}
    metrics: dict[str, set[str]] = {}
    for point in points:
        settings.setdefault(point.block, set()).update(key for key in point.settings if "." in key)
        own = getattr(point.cell.algorithm, "metrics", ()) if point.cell else ()
        metrics.setdefault(point.block, set()).update(own)
    for panel in experiment.panels:
        where = f"in a panel of experiment={experiment.name}"
        if panel.published is not None and panel.published not in set(published["series"]):
            raise UserError(
                f"unknown series {panel.published!r} {where}: {nearest(panel.published, map(str, published['series']))}"
            )
        if panel.block not in settings:
            continue  # computed by a function: its columns are known only after it has run
        known = {*METRICS, *metrics[panel.block]}
        if panel.y not in known and "." not in panel.y:
            raise UserError(f"unknown metric {panel.y!r} {where}: {nearest(panel.y, known)}")
        columns = {*COLUMNS, *settings[panel.block], "inverse_eps"}
        for key in (panel.x, *panel.curve, *panel.where):
            if key not in columns:
                raise UserError(f"unknown key {key!r} {where}: {nearest(key, columns)}")
