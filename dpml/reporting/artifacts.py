"""Write the tables, the figures and the verdicts of an experiment from its result rows alone."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pandas as pd

from dpml.files import write_atomically
from dpml.privacy.guarantee import DECLARED
from dpml.reporting import evidence
from dpml.reporting.cards import claims_about
from dpml.reporting.charts import charts_of, read_published, titled
from dpml.reporting.curves import text
from dpml.reporting.figures import plot_experiment
from dpml.reporting.manifest import Manifest, checksums, manifests, stamp
from dpml.reporting.numerals import ZERO
from dpml.reporting.pages import figure_page, overviews
from dpml.reporting.panels import Chart
from dpml.reporting.ranking import oracle_table, rankings
from dpml.reporting.statistics import about_intervals, rows_of, summarise
from dpml.reporting.tables import Texts, overview, proven, shortened, texts, wide
from dpml.reporting.words import REASONS, WORDS, algorithm, metric
from dpml.running.environment import matrix_rate, provenance
from dpml.running.plan import Plan, Results
from dpml.running.rows import COLUMNS
from dpml.running.spec import Experiment


def write(plan: Plan, base: Path) -> list[Path]:
    """Write an experiment's base_rows.csv (result rows), base.csv (means), base.png, base.svg and base.md (page).

    With `twins`, each noise calibration except the published one has its own means, pictures and page, such as
    ``base_tight.csv``. Files that were made from the same fits (cells) stay unchanged.
    """
    manifest = Manifest(base.with_suffix(".json"))
    experiment = plan.experiment
    published = read_published(experiment.folders, experiment.name.rpartition("/")[0])
    made_from = stamp(plan, published)
    if manifest.current(made_from):
        return []
    start = process_time()
    base.parent.mkdir(parents=True, exist_ok=True)
    results = results_of(plan, published)
    files = [base.with_name(f"{base.name}_rows.csv")]
    write_atomically(files[0], results.rows.to_csv(index=False))
    files.append(evidence.rows_file(base))
    write_atomically(files[1], evidence.packed(results.rows))
    facts = _facts(results, len(plan.cells))
    calibrations = results.rows["calibration"].unique() if experiment.twins else ["published"]
    for twin in (None if calibration == "published" else str(calibration) for calibration in calibrations):
        target = base.with_name(f"{base.name}_{twin}") if twin else base
        figure, pictures, summary = draw(results, twin, target)
        facts["figures"].append(figure)
        files += [*pictures, *(target.with_name(f"{target.name}.{kind}") for kind in ("csv", "md"))]
        write_atomically(files[-2], shortened(summary).to_csv(index=False, float_format="%.6g"))
        write_atomically(files[-1], figure_page(facts, figure))
    drawing = float(f"{process_time() - start:.3g}")
    facts["cost"] = {"seconds": plan.seconds(), "drawing": drawing, "matrix_rate": matrix_rate()}
    made = {"stamp": made_from, "files": checksums(files)}
    manifest.keep({**made, **facts, "environment": provenance(plan.versions())})
    return [*files, manifest.path]


def draw(results: Results, twin: str | None, target: Path) -> tuple[dict[str, Any], list[Path], pd.DataFrame]:
    """Draw a figure, and return the content of its page, the paths of its pictures, and the summary of its rows."""
    experiment = results.experiment
    rows, guarantees = results.rows, results.guarantees
    if experiment.twins:  # the figure of each calibration also shows runs without noise
        rows = rows_of(rows, twin or "published")
        guarantees = guarantees[guarantees["calibration"] == (twin or "published")]
    summary = summarise(rows, experiment.reference, [block.block for block in experiment.computed])
    charts = charts_of(experiment.panels, summary, None if twin else results.published)
    files, caption = plot_experiment(charts, experiment.columns, target) if charts else ([], "")
    for kind in () if charts else ("png", "svg"):  # delete pictures of earlier panels
        target.with_name(f"{target.name}.{kind}").unlink(missing_ok=True)
    content = _sections(replace(results, rows=rows, guarantees=guarantees), charts, summary)
    figure = {"name": target.name, "twin": twin, "drawn": bool(charts), "caption": caption, "sections": content}
    return figure, files, summary


def _facts(results: Results, cells: int) -> dict[str, Any]:
    experiment = results.experiment
    panels = [asdict(panel) for panel in experiment.panels]
    claims = claims_about(experiment.name).values() if experiment.judged else ()
    verdicts = evidence.judge(results.rows, claims, panels, results.published)
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "source": experiment.source,
        "note": experiment.note,
        "command": experiment.command,
        "panels": panels,
        "reference": experiment.reference,
        "computed": [block.block for block in experiment.computed],
        "claims": [asdict(verdict) for verdict in verdicts],
        "rankings": rankings(results),
        "cells": cells,
        "skipped": dict(results.skipped),
        "figures": [],
    }


DIGITS = 9
"""The significant digits of published values, from which everything is computed. More digits carry no information."""


def results_of(plan: Plan, published: pd.DataFrame) -> Results:
    """Return an experiment's results with rounded values, and with settings in place of the placeholders in titles."""
    results = plan.results()
    rows = results.rows.assign(value=[float(f"{value:.{DIGITS}g}") for value in results.rows["value"]])
    wanted = {name.rpartition(".")[2] for name in plan.experiment.shown_metrics}
    blocks = [block.block for block in plan.experiment.computed]
    if "error" in wanted:
        computed = rows["block"].isin(blocks)
        right = rows[(rows["metric"] == "accuracy") & ~computed]
        rows = pd.concat([rows[~computed], right.assign(metric="error", value=1 - right["value"]), rows[computed]])
    rows = rows[rows["metric"].isin(wanted) | rows["block"].isin(blocks)].reset_index(drop=True)
    return replace(results, rows=rows, published=published, experiment=titled(plan.experiment, rows))


def write_claims(folder: Path) -> list[Path]:
    """Write the start page about all papers and the pages of each paper. Return the pages whose text has changed."""
    pages = {folder / name: text for name, text in overviews(manifests(folder)).items()}
    changed = [path for path, text in pages.items() if not path.is_file() or path.read_bytes() != text.encode()]
    for path in changed:
        write_atomically(path, pages[path])
    return changed


def _sections(results: Results, charts: Sequence[Chart], summary: pd.DataFrame) -> list[dict[str, Any]]:
    experiment = results.experiment
    found = []
    if len(results.guarantees):
        found.append({"title": "Guarantees", "content": _guarantees(experiment, results.guarantees)})
    values: list[str | Texts] = []
    if len(experiment.computed) < len(experiment.grid):
        values.append(_reading(experiment, summary))
    for chart in charts:
        panel = chart.panel
        values.append(texts(wide(chart.summary, panel.x, panel.curve), f"{metric(panel.y)}, {panel.title}"))
    drawn = {panel.block for panel in experiment.panels}
    for block in (each.block for each in experiment.computed if each.block not in drawn):
        values.append(texts(overview(summary[summary["block"] == block].dropna(axis=1, how="all")), block))
    found.append({"title": "Values", "content": values})
    found += [{"title": "Published points", "content": [table]} for table in _published(charts)]
    if experiment.oracle:
        table = texts(oracle_table(experiment.oracle, summary))
        found.append({"title": "What an oracle is worth", "content": [WORDS["oracle"], table]})
    return found


def _guarantees(experiment: Experiment, guarantees: pd.DataFrame) -> list[str | Texts]:
    about_eps = [panel.block for panel in experiment.panels if panel.x in ("eps", "inverse_eps")]
    block = next((b for b in about_eps if b in set(guarantees["block"])), guarantees["block"].iloc[0])
    own, sizes = guarantees[guarantees["block"] == block], []
    for key, name in {"M": "M", "N": "N", "d": "d", "budget_delta": "δ"}.items():
        if own[key].notna().any():
            ends = dict.fromkeys(f"{end:.15g}" for end in (own[key].min(), own[key].max()))
            sizes.append(f"{name} = {' to '.join(ends)}")
    text = (
        f"For each requested ε (a column), the table shows the proven ε per {' or '.join(own['unit'].unique())}, with "
        f"{', '.join(sizes)}. The column `claimed` shows ε if the paper or its scripts claim ε for the line's view."
    )
    curves = dict.fromkeys(key for panel in experiment.panels for key in panel.curve if key not in COLUMNS)
    return [text, texts(proven(own, list(curves))), *_reasons(guarantees)]


def _reasons(guarantees: pd.DataFrame) -> list[str]:
    """Return a sentence for every reason why no eps is proven although an eps is claimed."""
    keys = ["algo", "variant", "view", "budget_eps"]
    claimed = guarantees[(guarantees["basis"] != "proven") & np.isfinite(guarantees["eps"])][keys].drop_duplicates()
    open_ = guarantees[(guarantees["basis"] == "proven") & np.isinf(guarantees["eps"])].merge(claimed, on=keys)
    open_ = pd.concat([open_, guarantees[guarantees["basis"] == DECLARED]], ignore_index=True)
    names = open_["algo"].map(algorithm)
    names = names.where(open_["variant"] == "paper", names + " " + open_["variant"])
    reasons = names.groupby(open_["source"].replace(REASONS), sort=False).unique()
    return [f"No ε is proven for {', '.join(own)}. Reason: {reason}." for reason, own in reasons.items()]


def _reading(experiment: Experiment, summary: pd.DataFrame) -> str:
    cells = summary[~summary["block"].isin([block.block for block in experiment.computed])]
    ways = cells.groupby("algo")["tuned"].nunique()
    shown = {algo: algorithm(algo) + (" (in some panels)" if ways[algo] > 1 else "") for algo in sorted(ways.index)}
    named = {way: set(cells.loc[cells["tuned"] == way, "algo"]) for way in WORDS["tuning"]}
    tuned = [
        WORDS["tuning"][way].format(", ".join(shown[a] for a in shown if a in own)) for way, own in named.items() if own
    ]
    tuning = " ".join(tuned) or "All hyper-parameters are fixed."
    more = f"standard deviations, and differences from {algorithm(experiment.reference)} with their intervals"
    return f"{about_intervals(cells)} {tuning} The CSV file of this figure also has the numbers of values, {more}."


def _published(charts: Sequence[Chart]) -> list[Texts]:
    """Return a table that compares our means with published means by algorithm, or [] if no means were published."""
    pairs = [pd.DataFrame(columns=["algo", "mean", "ours"])]
    for chart in charts:
        if chart.published is not None:
            ours = chart.summary.assign(x=chart.summary[chart.panel.x].map(text), ours=chart.summary["mean"])
            theirs = chart.published.assign(x=chart.published["x"].map(text))
            pairs.append(theirs[["algo", "x", "mean"]].merge(ours[["algo", "x", "ours"]], on=["algo", "x"]))
    both = pd.concat(pairs[1:] or pairs)
    both = both[(both["mean"].abs() > ZERO) & (both["ours"].abs() > ZERO)]
    ratios = (both["ours"] / both["mean"]).abs().groupby(both["algo"], sort=False)
    near = ratios.agg(lambda own: f"{own.between(0.5, 2).sum()} of {len(own)}")
    medians = ratios.median().map("{:.3g}".format)
    table = pd.DataFrame(
        {"algorithm": near.index, "within a factor of 2 of ours": near, "median ours / theirs": medians}
    )
    return [texts(table)] if len(table) else []
