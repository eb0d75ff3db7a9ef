"""Build the sections of a figure's page, paragraphs and tables, as data that manifests store and pages show."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from dpml.privacy.guarantee import DECLARED
from dpml.reporting.curves import text
from dpml.reporting.numerals import ZERO
from dpml.reporting.panels import Chart
from dpml.reporting.ranking import oracle_table
from dpml.reporting.statistics import replication
from dpml.reporting.tables import Texts, overview, proven, texts, wide
from dpml.reporting.words import metric
from dpml.running.plan import Results
from dpml.running.rows import COLUMNS
from dpml.running.spec import Experiment

VALUES = "Values"
_ORACLE = (
    "The rule sets hyper-parameters without any private row. For every ε, the oracle takes the best of all that were "
    "tried, the rule included (their number is *of*), by the mean over seeds on the very test rows that score them. So "
    "it is not a release and has no guarantee. *worth* is what a better rule could gain within the grid, or luck."
)


def sections(results: Results, charts: Sequence[Chart], summary: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the sections of a figure's page, each with a title and its content: Markdown paragraphs and tables."""
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
    found.append({"title": VALUES, "content": values})
    found += [{"title": "Published points", "content": [table]} for table in _published(charts)]
    if experiment.oracle:
        table = texts(oracle_table(experiment.oracle, summary))
        found.append({"title": "What an oracle is worth", "content": [_ORACLE, table]})
    return found


def _guarantees(experiment: Experiment, guarantees: pd.DataFrame) -> list[str | Texts]:
    own = _typical(experiment, guarantees)
    names = {"M": "M", "N": "N", "d": "d", "budget_delta": "δ"}
    sizes = [f"{name} = {_span(own[key])}" for key, name in names.items() if own[key].notna().any()]
    text = (
        f"The proven ε for every requested ε ({', '.join(sizes)}, per {' or '.join(own['unit'].unique())}). "
        "`claimed` marks the views for which the paper or its scripts claim ε."
    )
    curves = dict.fromkeys(key for panel in experiment.panels for key in panel.curve if key not in COLUMNS)
    table = proven(own, list(curves))
    return [text, texts(table), *_reasons(guarantees)]


def _span(numbers: pd.Series) -> str:
    return " to ".join(dict.fromkeys(f"{end:.15g}" for end in (numbers.min(), numbers.max())))


def _reasons(guarantees: pd.DataFrame) -> list[str]:
    """Return a sentence for every reason why nothing is proven although an eps is claimed."""
    keys = ["algo", "variant", "view", "budget_eps"]
    claimed = guarantees[(guarantees["basis"] != "proven") & np.isfinite(guarantees["eps"])][keys].drop_duplicates()
    open_ = guarantees[(guarantees["basis"] == "proven") & np.isinf(guarantees["eps"])].merge(claimed, on=keys)
    open_ = pd.concat([open_, guarantees[guarantees["basis"] == DECLARED]], ignore_index=True)
    names = open_["algo"].where(open_["variant"] == "paper", open_["algo"] + " " + open_["variant"])
    reasons = names.groupby(open_["source"], sort=False).unique()
    return [f"No ε is proven for {', '.join(own)}: {reason}." for reason, own in reasons.items()]


def _typical(experiment: Experiment, guarantees: pd.DataFrame) -> pd.DataFrame:
    """Return the guarantees of the first block with a panel over eps, or else of the first block with guarantees."""
    about_eps = [panel.block for panel in experiment.panels if panel.x in ("eps", "inverse_eps")]
    block = next((b for b in about_eps if b in set(guarantees["block"])), guarantees["block"].iloc[0])
    return guarantees[guarantees["block"] == block]


def _reading(experiment: Experiment, summary: pd.DataFrame) -> str:
    computed = [block.block for block in experiment.computed]
    cells = summary[~summary["block"].isin(computed)]
    return (
        f"Mean ± half a 95 % interval ({replication(cells)}). {_tuning(cells)} The CSV file of the same name also has "
        f"n, the standard deviation, and the differences from {experiment.reference} with their intervals."
    )


def _tuning(summary: pd.DataFrame) -> str:
    ways = {
        "rule": "A rule that reads no private row sets the hyper-parameters of {}.",
        "oracle": "The hyper-parameters of {} were chosen on the private rows, and no budget covers this choice.",
        "validated": "The hyper-parameters of {} were chosen on held-out private rows: no budget covers this choice.",
    }
    named = {way: sorted(set(summary.loc[summary["tuned"] == way, "algo"])) for way in ways}
    sentences = [ways[way].format(", ".join(names)) for way, names in named.items() if names]
    return " ".join(sentences) or "All hyper-parameters are fixed."


def _published(charts: Sequence[Chart]) -> list[Texts]:
    """Return a table of our means relative to the published means, by algorithm; no table without published means."""
    pairs = []
    for chart in charts:
        if chart.published is not None:
            ours = chart.summary.assign(x=chart.summary[chart.panel.x].map(text), ours=chart.summary["mean"])
            theirs = chart.published.assign(x=chart.published["x"].map(text))[["algo", "x", "mean"]]
            pairs.append(theirs.merge(ours[["algo", "x", "ours"]], on=["algo", "x"]))
    both = pd.concat(pairs) if pairs else pd.DataFrame(columns=["algo", "mean", "ours"])
    both = both[(both["mean"].abs() > ZERO) & (both["ours"].abs() > ZERO)]
    ratios = (both["ours"] / both["mean"]).abs().groupby(both["algo"], sort=False)
    near = ratios.agg(lambda own: f"{own.between(0.5, 2).sum()} of {len(own)}")
    medians = ratios.median().map("{:.3g}".format)
    table = pd.DataFrame(
        {"algorithm": near.index, "within a factor of 2 of ours": near, "median ours / theirs": medians}
    )
    return [texts(table)] if len(table) else []
