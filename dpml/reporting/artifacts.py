"""Write everything that is made from an experiment's rows, and from nothing else: tables, figures and verdicts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from time import process_time
from typing import Any

import pandas as pd

from dpml.files import write_atomically
from dpml.reporting import evidence
from dpml.reporting.cards import claims_about
from dpml.reporting.charts import charts_of, read_published, titled
from dpml.reporting.figures import plot_experiment
from dpml.reporting.manifest import Manifest, manifests, stamp
from dpml.reporting.pages import figure_page, not_computed, papers_of, start_page, which_page
from dpml.reporting.ranking import rankings
from dpml.reporting.render import page
from dpml.reporting.sections import sections
from dpml.reporting.statistics import rows_of, summarise
from dpml.reporting.tables import shortened
from dpml.running.environment import matrix_rate
from dpml.running.plan import Plan, Results


def write(plan: Plan, base: Path) -> list[Path]:
    """Write the rows of an experiment, ``base_rows.csv``, and the files of its figure, ``base.csv .png .svg .md``.

    The rows are also written compressed, for publication (`dpml.reporting.evidence`). Another calibration than the
    published one gets a second figure with its name appended, such as ``base_tight.csv``. Nothing is written if all
    files exist and were made from the same cells.

    Args:
        plan: the experiment and its computed cells.
        base: the path of the files, without a suffix.
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
    twins = experiment.twins
    for calibration in results.rows["calibration"].unique() if twins else ["published"]:
        twin = None if calibration == "published" else str(calibration)
        part = results
        if twins:  # runs without noise have no calibration: they are in the figure of each calibration
            own = results.guarantees[results.guarantees["calibration"] == calibration]
            part = replace(results, rows=rows_of(results.rows, str(calibration)), guarantees=own)
        files += _write_figure(part, base.with_name(f"{base.name}_{twin}") if twin else base, twin, facts)
    drawing = float(f"{process_time() - start:.3g}")
    facts["cost"] = {"seconds": plan.seconds(), "drawing": drawing, "matrix_rate": matrix_rate()}
    manifest.write(made_from, files, facts, plan.versions())
    return [*files, manifest.path]


def _write_figure(results: Results, target: Path, twin: str | None, facts: dict[str, Any]) -> list[Path]:
    """Write the files of one figure, and add it to `facts`. Only the published calibration shows published points."""
    experiment = results.experiment
    computed = [block.block for block in experiment.computed]
    summary = summarise(results.rows, experiment.reference, computed)
    charts = charts_of(experiment.panels, summary, None if twin else results.published)
    files, caption = plot_experiment(charts, experiment.columns, target) if charts else ([], "")
    content = sections(results, charts, summary)
    figure = {"name": target.name, "twin": twin, "drawn": bool(charts), "caption": caption, "sections": content}
    facts["figures"].append(figure)
    for kind in () if charts else ("png", "svg"):  # delete pictures of earlier panels, which pages would show
        target.with_name(f"{target.name}.{kind}").unlink(missing_ok=True)
    files += [target.with_name(f"{target.name}.{kind}") for kind in ("csv", "md")]
    write_atomically(files[-2], shortened(summary).to_csv(index=False, float_format="%.6g"))
    write_atomically(files[-1], figure_page(facts, facts["figures"][-1]))
    return files


def _facts(results: Results, cells: int) -> dict[str, Any]:
    """Return the content of an experiment's manifest, from which all pages are made, except for its figures."""
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
    """Return an experiment's results: values are rounded to `DIGITS`, titles filled in, and `error` is added."""
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
    """Write the start page ``claims.md``, and ``PAPER/claims.md`` and ``PAPER/which.md``, unless they are up to date.

    Some claims of these papers need experiments that were not computed: the pages name these experiments.
    """
    pages = {folder / name: text for name, text in overviews(manifests(folder)).items()}
    changed = [path for path, text in pages.items() if not path.is_file() or path.read_bytes() != text.encode()]
    for path in changed:
        write_atomically(path, pages[path])
    return changed


def overviews(known: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the start page and the pages of papers by their paths in a results folder. `known` are the manifests."""
    papers = papers_of([*known, *not_computed(known)])
    ranked: dict[str, list[Mapping[str, Any]]] = {}
    for about in known:
        if about.get("rankings"):
            ranked.setdefault(about["experiment"].rpartition("/")[0], []).append(about)
    pages = {"claims.md": start_page(papers, known)}
    pages |= {f"{paper['key']}/claims.md": page("paper.md", p=paper) for paper in papers}
    return pages | {f"{paper}/which.md": which_page(own) for paper, own in ranked.items()}
