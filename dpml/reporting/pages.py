"""Markdown pages: one for every figure, and one of all claims."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dpml.config.compose import natural
from dpml.reporting.curves import algorithms
from dpml.reporting.panels import Chart
from dpml.reporting.ranking import oracle_table
from dpml.reporting.results import Results
from dpml.reporting.statistics import replication
from dpml.reporting.style import METRICS
from dpml.reporting.tables import markdown, overview, proven, wide
from dpml.running.rows import COLUMNS
from dpml.running.spec import Experiment, Panel

_ORACLE = (
    "The hyper-parameters of the rule read no private row. Those of the oracle are, for every ε, the best of all that "
    "were tried, the rule among them (*of* so many), by the mean over seeds on the very test rows that score them: no "
    "release, and no guarantee. What it is worth is what better rules could gain at most, and some of it is luck.\n"
)


def figure_page(
    results: Results,
    name: str,
    charts: Sequence[Chart],
    summary: pd.DataFrame,
    verdicts: Mapping[str, Mapping[str, Any]],
) -> str:
    """The page of a figure whose picture is ``name.png``."""
    experiment = results.experiment
    sections = [f"# {experiment.title}\n", f"{experiment.source}. Made by `{results.publication.command}`.\n"]
    if experiment.note:
        sections.append(f"{experiment.note}\n")
    if charts:
        sections.append(f"![{experiment.title}]({name}.png)\n")
    if verdicts:
        sections += ["## Claims\n", _claims_table(verdicts.values())]
    if len(results.guarantees):
        sections += ["## Guarantees\n", *_guarantees(experiment, results.guarantees)]
    sections.append("## Values\n")
    if len(experiment.computed) < len(experiment.grid):
        sections.append(_reading(experiment, summary))
    for chart in charts:
        sections.append(f"### {heading(chart.panel)}\n")
        sections.append(markdown(wide(chart.summary, chart.panel.x, chart.panel.curve)))
    for block, table in undrawn(experiment, summary).items():
        sections += [f"### {block}\n", markdown(table)]
    if experiment.oracle:
        sections += ["## What an oracle is worth\n", _ORACLE, markdown(oracle_table(experiment.oracle, summary))]
    if results.skipped:
        sections.append("## Not computed\n")
        sections.append("".join(f"- {number} cells: {reason}\n" for reason, number in results.skipped.items()))
    return "\n".join(sections)


def _guarantees(experiment: Experiment, guarantees: pd.DataFrame) -> list[str]:
    first = _typical(experiment, guarantees).iloc[0]
    delta = "" if pd.isna(first["budget_delta"]) else f"δ = {first['budget_delta']:g}, "
    text = (
        f"What is proven when ε is asked for (M = {first['M']}, N = {first['N']}, d = {first['d']}, "
        f"{delta}per {first['unit']}). `claimed` marks the views for which the paper or its scripts claim ε.\n"
    )
    return [text, markdown(guarantees_table(experiment, guarantees)), *_reasons(guarantees)]


def _reasons(guarantees: pd.DataFrame) -> list[str]:
    """Why nothing is proven although something is claimed, a line for every reason."""
    keys = ["algo", "variant", "view", "budget_eps"]
    claimed = guarantees[(guarantees["basis"] != "proven") & np.isfinite(guarantees["eps"])]
    open_ = guarantees[(guarantees["basis"] == "proven") & np.isinf(guarantees["eps"])]
    open_ = open_[pd.MultiIndex.from_frame(open_[keys]).isin(pd.MultiIndex.from_frame(claimed[keys]))]
    return [
        f"No ε is proven for {', '.join(algorithms(rows))}: {reason}.\n"
        for reason, rows in open_.groupby("source", sort=False)
    ]


def guarantees_table(experiment: Experiment, guarantees: pd.DataFrame) -> pd.DataFrame:
    """The guarantees of the block with the panel about eps, a line per algorithm and view."""
    curves = dict.fromkeys(key for panel in experiment.panels for key in panel.curve if key not in COLUMNS)
    return proven(_typical(experiment, guarantees), list(curves))


def _typical(experiment: Experiment, guarantees: pd.DataFrame) -> pd.DataFrame:
    """The guarantees of one block: the first with a panel about eps, otherwise the first that has any."""
    about_eps = [panel.block for panel in experiment.panels if panel.x in ("eps", "inverse_eps")]
    block = next((b for b in about_eps if b in set(guarantees["block"])), guarantees["block"].iloc[0])
    return guarantees[guarantees["block"] == block]


def _reading(experiment: Experiment, summary: pd.DataFrame) -> str:
    """How to read the tables."""
    computed = [block.block for block in experiment.computed]
    cells = summary[~summary["block"].isin(computed)]
    return (
        f"Mean ± half a 95 % interval ({replication(cells)}). {_tuning(cells)} The CSV file of the same name has n, "
        f"s.d., and differences from {experiment.reference} with intervals.\n"
    )


def _tuning(summary: pd.DataFrame) -> str:
    ways = {
        "rule": "By a rule that reads no private row: hyper-parameters of {}.",
        "private": "Chosen on the private rows, which the budget counts: hyper-parameters of {}.",
        "oracle": "Chosen on the private rows, which no budget counts: hyper-parameters of {}.",
        "validated": "Chosen on private rows held out, which no budget counts: hyper-parameters of {}.",
    }
    named = {way: sorted(set(summary.loc[summary["tuned"] == way, "algo"])) for way in ways}
    sentences = [ways[way].format(", ".join(names)) for way, names in named.items() if names]
    return " ".join(sentences) or "All hyper-parameters are fixed."


def heading(panel: Panel) -> str:
    """The heading of a panel's table."""
    reading = {"authors": ", as the authors ran it", "paper": ", as in the text"}
    return f"{METRICS.get(panel.y, panel.y)}, {panel.title}{reading.get(str(panel.where.get('algo.variant')), '')}"


def undrawn(experiment: Experiment, summary: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The computed blocks that no panel shows, as tables."""
    drawn = {panel.block for panel in experiment.panels}
    blocks = [block.block for block in experiment.computed if block.block not in drawn]
    return {block: overview(summary[summary["block"] == block].dropna(axis=1, how="all")) for block in blocks}


def claims_page(manifests: Iterable[Mapping[str, Any]]) -> str:
    """The verdicts of all experiments, in the order of the papers' figures."""
    sections = [
        "# Claims\n",
        "Every verdict is computed from the rows of the experiment named above it, by the tests in dpml/papers: "
        "*significant* is a one-sided t-test at 5 % over seeds, of the means over their draws, Holm-corrected; capefm "
        "*reaches* nonpriv where 95 % of the way from its value at the smallest eps is done. *plotted* is the noisy "
        "objective at its own minimiser, in size, as the authors ran it; *true* is the loss of the released models.\n",
        "A difference matters when it is 0.01 of an accuracy or an error, or a tenth of the larger of two losses, "
        "gaps or distances. What is not significant counts as false only where the 95 % bound on the difference is "
        "less than that, and a loss or a step the wrong way counts only where it is significant and matters; otherwise "
        "the claim is undecided, and the verdict names the seeds that would show such a "
        "difference with a probability of 0.8, at the spread that was seen. *seeds* are those of the reading and the "
        "algorithm that has the fewest; a claim without any is about formulas, bytes or single numbers.\n",
    ]
    for manifest in sorted(manifests, key=lambda manifest: natural(manifest["experiment"])):
        if manifest["claims"]:
            sections.append(f"## {manifest['experiment']}: {manifest['title']}\n")
            sections.append(f"`{manifest['command']}`\n")
            sections.append(_claims_table(manifest["claims"]))
    return "\n".join(sections)


def _claims_table(verdicts: Iterable[Mapping[str, Any]]) -> str:
    columns = {"id": "claim", "text": "what it says", "criterion": "test", "decision": "verdict", "seeds": "seeds"}
    columns |= {"numbers": "numbers"}
    lines = [
        dict(verdict) | {"decision": _decision(verdict), "seeds": str(verdict.get("seeds") or "")}
        for verdict in verdicts
    ]
    return markdown(pd.DataFrame(lines)[list(columns)].rename(columns=columns))


def _decision(verdict: Mapping[str, Any]) -> str:
    """The decision, and the number of seeds that would decide an undecided claim."""
    needed = verdict.get("needed")
    return f"{verdict['decision']} ({needed} would decide)" if needed else str(verdict["decision"])
