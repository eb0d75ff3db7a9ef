"""Everything that is made from an experiment's cells: rows, tables, figures, verdicts. Reads rows and only rows."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpml import where
from dpml.atomic import write_atomically
from dpml.errors import UserError, nearest
from dpml.reporting.figures import METRICS, Chart, plot_experiment, with_axis
from dpml.reporting.judging import Evidence, claims_of
from dpml.reporting.statistics import STATISTICS, compare, settings, summarise
from dpml.reporting.tables import latex, markdown, overview, proven, wide
from dpml.running.rows import COLUMNS, SETTING, own_columns, tabulate
from dpml.running.spec import Experiment, Panel

if TYPE_CHECKING:
    from dpml.running.runner import Plan


@dataclass(frozen=True)
class Made:
    """The files that were written, and what the manifest shall say about them."""

    files: Sequence[Path]
    about: Mapping[str, Any]


def write(plan: "Plan", base: Path, command: str) -> Made:
    """Write all outputs of a plan: ``base_rows.csv``, and for every calibration ``base.csv .png .svg .md .tex``.

    A calibration other than the published one is the figure's twin, and has its name at the end: ``base_tight.csv``.
    """
    experiment = plan.experiment
    rows, guarantees = tables_of(plan, {*experiment.metrics, *(panel.y for panel in experiment.panels)})
    points = published(experiment.name)
    made = [base.with_name(f"{base.name}_rows.csv")]
    write_atomically(made[0], rows.to_csv(index=False))
    verdicts = judge(experiment, rows[rows["calibration"] == "published"], points)
    skipped = Counter(entry.reason for entry in plan.entries.values() if not entry.finished)
    for calibration in rows["calibration"].unique() if experiment.twins else ["published"]:
        own = rows[rows["calibration"] == calibration] if experiment.twins else rows
        # what has no noise, and so no calibration of it, is shown beside either
        beside = rows[rows["block"].isin(own["block"]) & ~rows["algo"].isin(own["algo"])]
        own = pd.concat([beside.assign(calibration=calibration), own]) if len(beside) else own
        twin = calibration != "published"
        target = base.with_name(f"{base.name}_{calibration}") if twin else base
        summary = summary_of(own, experiment)
        charts = [
            Chart(panel, shown, None if twin else _points(points, panel))
            for panel in experiment.panels
            if len(shown := _shown(summary, panel))
        ]
        if charts:
            made += plot_experiment(charts, experiment.title, experiment.columns, command, target)
        given = guarantees[guarantees["calibration"] == calibration] if experiment.twins else guarantees
        made += [target.with_name(f"{target.name}.{kind}") for kind in ("csv", "md", "tex")]
        write_atomically(made[-3], summary.to_csv(index=False, float_format="%.6g"))
        page = _page(experiment, command, target.name, charts, summary, given, {} if twin else verdicts, skipped)
        write_atomically(made[-2], page)
        captions = [(f"{experiment.source}: {_heading(chart.panel)}", chart) for chart in charts]
        tables = [latex(wide(chart.summary, chart.panel.x, chart.panel.curve), caption) for caption, chart in captions]
        tables += [
            latex(table, f"{experiment.source}: {block}") for block, table in _undrawn(experiment, summary).items()
        ]
        write_atomically(made[-1], "\n".join(tables))
    about = {
        "experiment": experiment.name,
        "title": experiment.title,
        "source": experiment.source,
        "note": experiment.note,
        "command": command,
        "panels": [asdict(panel) for panel in experiment.panels],
        "claims": list(verdicts.values()),
        "cells": len(plan.entries),
        "skipped": dict(skipped),
        "guarantees": {
            str(calibration): _proven(experiment, guarantees[guarantees["calibration"] == calibration])
            for calibration in rows["calibration"].unique()
        },
    }
    return Made(made, about)


def _proven(experiment: Experiment, guarantees: pd.DataFrame) -> dict[str, Any]:
    """The table of guarantees as plain values; without lines where nothing but computed blocks is shown."""
    if not len(guarantees):
        return {"columns": [], "data": []}
    table = proven(_typical(experiment, guarantees), _own_keys(experiment))
    plain: dict[str, Any] = json.loads(table.to_json(orient="split", index=False))
    return plain


def tables_of(plan: "Plan", metrics: Collection[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of some metrics, and the guarantees, of all finished cells, with their block's name in front.

    Computed blocks come behind, with all their metrics. The metric `error` is 1 - `accuracy`.
    """
    rows, guarantees = [], []
    for point, entry in plan.points:
        if point.cell and entry.finished:
            measured, given = tabulate(point.cell, plan.measured(entry))
            shown = _settings_shown(plan.experiment, point.settings)
            measured, given = measured.assign(**shown), given.assign(**shown)
            measured.insert(0, "block", point.block)
            given.insert(0, "block", point.block)
            if "error" in metrics:
                right = measured[measured["metric"] == "accuracy"]
                measured = pd.concat([measured, right.assign(metric="error", value=1 - right["value"])])
            rows.append(measured[measured["metric"].isin(metrics)])
            guarantees.append(given)
    for block in plan.experiment.computed:
        made = block.rows(plan.store)
        made.insert(0, "block", block.block)
        rows.append(made)
    return pd.concat(rows, ignore_index=True), (
        pd.concat(guarantees, ignore_index=True) if guarantees else pd.DataFrame(columns=["block", "calibration"])
    )


def _own_keys(experiment: Experiment) -> list[str]:
    """The keys by which panels tell curves apart and rows of cells do not have."""
    return list(dict.fromkeys(key for panel in experiment.panels for key in panel.curve if key not in COLUMNS))


def _settings_shown(experiment: Experiment, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that panels ask for and rows do not have, by the last part of their keys: ``u`` of partition.u."""
    asked = {key for panel in experiment.panels for key in (panel.x, *panel.curve, *panel.where)} - {*COLUMNS}
    named = {key.rpartition(".")[2]: value for key, value in settings.items() if "." in key}
    return {key: value for key, value in named.items() if key in asked}


def summary_of(rows: pd.DataFrame, experiment: Experiment) -> pd.DataFrame:
    """Mean, s.d., n and interval of every metric that a panel shows, and its difference from the reference's."""
    summary = summarise(rows)
    rows = rows[~rows["block"].isin([block.block for block in experiment.computed])]
    if experiment.reference not in set(rows["algo"]):
        return summary
    paired = compare(rows, experiment.reference).rename(columns={"interval": "difference_interval"})
    keys = [*settings(rows), "metric"]
    columns = ["reference", "difference", "difference_interval", "paired"]
    return summary.merge(paired[[*keys, *columns]], on=keys, how="left")


def published(name: str) -> pd.DataFrame:
    """The published points that belong to a paper's experiments (series, x, algo, metric, mean, std, n), if any."""
    path = where.folder("experiments").joinpath(name.rpartition("/")[0], "published.csv")
    if not path.is_file():
        return pd.DataFrame(columns=["series", "x", "algo", "metric", "mean", "std", "n"])
    with path.open(encoding="utf-8") as file:
        return pd.read_csv(file, comment="#")


def judge(experiment: Experiment, rows: pd.DataFrame, points: pd.DataFrame) -> dict[str, dict[str, str]]:
    """The verdict on every claim of an experiment."""
    if not experiment.claims:
        return {}
    claims = claims_of(f"dpml.papers.{experiment.name.partition('/')[0]}.claims")
    axes = {panel.block: panel.x for panel in reversed(experiment.panels)}  # of several panels the first says it
    verdicts = {}
    for name in experiment.claims:
        if name not in claims:
            raise UserError(f"unknown claim {name!r} in experiment={experiment.name}: {nearest(name, claims)}")
        verdict = claims[name].judge(Evidence(rows, points, axes))
        described = {"id": name, "text": claims[name].text, "criterion": claims[name].criterion}
        verdicts[name] = described | asdict(verdict)
    return verdicts


def _shown(summary: pd.DataFrame, panel: Panel) -> pd.DataFrame:
    rows = summary[summary["block"] == panel.block]
    for key, value in panel.where.items():
        if key not in rows:
            raise UserError(f"unknown key {key!r} in a panel's where: {nearest(key, map(str, rows))}")
        rows = rows[rows[key] == value]
    rows = with_axis(rows, panel.x)
    return _proven_rows(rows, panel.x) if panel.y == "proven_eps" else rows[rows["metric"] == panel.y]


def _proven_rows(rows: pd.DataFrame, x: str) -> pd.DataFrame:
    """The proven eps as if it were a metric, and the claimed one as if it were an algorithm beside the others."""
    keys = [*SETTING, *(key for key in own_columns(rows) if key not in STATISTICS)]
    rows = rows[np.isfinite(rows["claimed_eps"])].drop_duplicates(keys)
    rows = rows.assign(metric="proven_eps", mean=rows["proven_eps"], std=0.0, interval=0.0)
    claimed = rows.assign(algo="claimed", mean=rows["claimed_eps"], proven_eps=rows["claimed_eps"])
    return pd.concat([rows, claimed.drop_duplicates(["delta", x, "claimed_eps"])])


def _points(points: pd.DataFrame, panel: Panel) -> pd.DataFrame | None:
    found = points[(points["series"] == panel.published) & (points["metric"] == panel.y)]
    return found if len(found) else None


def _typical(experiment: Experiment, guarantees: pd.DataFrame) -> pd.DataFrame:
    """The guarantees of one block: the first whose panel is about eps, else the first that there is."""
    about_eps = [panel.block for panel in experiment.panels if panel.x in ("eps", "inverse_eps")]
    block = next((b for b in about_eps if b in set(guarantees["block"])), guarantees["block"].iloc[0])
    return guarantees[guarantees["block"] == block]


def _heading(panel: Panel) -> str:
    reading = {"authors": ", as the authors ran it", "paper": ", as in the text"}
    return f"{METRICS.get(panel.y, panel.y)}, {panel.title}{reading.get(str(panel.where.get('variant')), '')}"


def _page(
    experiment: Experiment,
    command: str,
    name: str,
    charts: Sequence[Chart],
    summary: pd.DataFrame,
    guarantees: pd.DataFrame,
    verdicts: Mapping[str, Mapping[str, str]],
    skipped: Mapping[str, int],
) -> str:
    """The Markdown page of a figure."""
    parts = [f"# {experiment.title}\n", f"{experiment.source}. Made by `{command}`.\n"]
    if experiment.note:
        parts.append(f"{experiment.note}\n")
    if charts:
        parts.append(f"![{experiment.title}]({name}.png)\n")
    if verdicts:
        parts.append("## Claims\n")
        parts.append(_claims_table(verdicts.values()))
    if len(guarantees):
        typical = _typical(experiment, guarantees)
        one = typical.iloc[0]
        parts.append("## Guarantees\n")
        delta = "" if pd.isna(one["budget_delta"]) else f"δ = {one['budget_delta']:g}, "
        parts.append(
            f"What is proven when ε is asked for (M = {one['M']}, N = {one['N']}, d = {one['d']}, "
            f"{delta}per {one['unit']}). `claimed` marks the views for which the paper or its scripts "
            "claim ε.\n"
        )
        parts.append(markdown(proven(typical, _own_keys(experiment))))
    parts.append("## Values\n")
    if len(experiment.computed) < len(experiment.grid):
        parts.append(
            f"Mean ± half a 95 % interval over seeds and draws. {_tuning(summary)} The CSV file of the "
            f"same name has n, s.d., and differences from {experiment.reference} with intervals.\n"
        )
    for chart in charts:
        parts.append(f"### {_heading(chart.panel)}\n")
        parts.append(markdown(wide(chart.summary, chart.panel.x, chart.panel.curve)))
    for block, table in _undrawn(experiment, summary).items():
        parts.append(f"### {block}\n")
        parts.append(markdown(table))
    if skipped:
        parts.append("## Not computed\n")
        parts.append("".join(f"- {number} cells: {reason}\n" for reason, number in skipped.items()))
    return "\n".join(parts)


def _tuning(summary: pd.DataFrame) -> str:
    tuned = sorted(set(summary.loc[summary["tuned"] != "fixed", "algo"]))
    if not tuned:
        return "All hyper-parameters are fixed."
    return f"Chosen on the private rows, which no budget counts: hyper-parameters of {', '.join(tuned)} (`tuned`)."


def _undrawn(experiment: Experiment, summary: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The computed blocks that no panel shows, as tables."""
    drawn = {panel.block for panel in experiment.panels}
    blocks = [block.block for block in experiment.computed if block.block not in drawn]
    return {block: overview(summary[summary["block"] == block].dropna(axis=1, how="all")) for block in blocks}


def _claims_table(verdicts: Any) -> str:
    columns = {"id": "claim", "text": "what it says", "criterion": "test", "decision": "verdict", "numbers": "numbers"}
    return markdown(pd.DataFrame(list(verdicts))[list(columns)].rename(columns=columns))


def with_published(summary: pd.DataFrame, panels: Sequence[Panel], points: pd.DataFrame) -> pd.DataFrame:
    """The summary with a column `published`: the point that a panel lays over this row, as its authors stored it."""
    summary = summary.assign(published=float("nan"))
    for panel in panels:
        theirs = _points(points, panel)
        if theirs is None:
            continue
        known = {(algo, f"{x:g}"): mean for algo, x, mean in theirs[["algo", "x", "mean"]].itertuples(index=False)}
        shown = _shown(summary, panel)
        for row, algo, x in zip(shown.index, shown["algo"], shown[panel.x], strict=True):
            summary.loc[row, "published"] = known.get((algo, f"{x:g}"), float("nan"))
    return summary


def manifests(results: Path) -> list[dict[str, Any]]:
    """What is known about every experiment whose outputs lie under `results`, by name."""
    found = []
    for path in sorted(results.glob("*/*.json")):
        try:
            content = json.loads(path.read_bytes())
        except ValueError:
            continue
        if isinstance(content, dict) and "experiment" in content:
            found.append(content)
    return found


def write_ledger(results: Path) -> list[Path]:
    """Write ``results/claims.md``: the verdicts of all experiments under `results`."""
    parts = [
        "# Claims\n",
        "Every verdict is computed from the rows of the experiment named above it, by the tests in dpml/claims: "
        "*significant* is a one-sided t-test at 5 %, Holm-corrected; capefm *reaches* nonpriv where 95 % of the way "
        "from its value at the smallest eps is done. *plotted* is the noisy objective at its own minimiser, in size, "
        "as the authors ran it; *true* is the loss of the released models.\n",
    ]
    for about in manifests(results):
        if about["claims"]:
            parts.append(f"## {about['experiment']}: {about['title']}\n")
            parts.append(f"`{about['command']}`\n")
            parts.append(_claims_table(about["claims"]))
    write_atomically(results / "claims.md", "\n".join(parts))
    return [results / "claims.md"]
