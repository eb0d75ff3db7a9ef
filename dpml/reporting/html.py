"""The report: a start page, one of all claims, and one per paper about everything under a results folder, to be read
without a server.

The pages are Jinja templates over the manifests (`dpml.reporting.outputs`). They show what was written and compute
nothing except counts. Pictures and CSV files stay where they are, in the folders beside the report.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, TemplateError
from markdown_it import MarkdownIt
from markupsafe import Markup

from dpml.atomic import write_atomically
from dpml.errors import UserError
from dpml.reporting import ranking
from dpml.reporting.audit_table import Audit, LogScale, audit_of, worst_by_paper
from dpml.reporting.claims import Decision, Verdict
from dpml.reporting.outputs import FigureFiles, Outputs, Paper, read
from dpml.reporting.pages import CLAIMS
from dpml.reporting.style import LABELS, METRICS, base_look
from dpml.reporting.tables import short
from dpml.reporting.whole_table import WholeTable, whole_table

START, LEDGER = "index.html", "claims.html"

DECISIONS: Mapping[Decision, tuple[str, str]] = {
    "reproduced": ("reproduced", "good"),
    "depends on an unstated choice": ("depends on a choice", "depends"),
    "undecided with these seeds": ("undecided", "maybe"),
    "not reproduced": ("not reproduced", "bad"),
    "on a substitute": ("on a substitute", "open"),
    "cannot be tested here": ("cannot be tested", "open"),
}
"""The order of the decisions; each in the fewest words, and the class of its colour."""

_AUDIT = {"consistent": "good", "claim violated": "bad", "BUG": "bad", "no violation seen": "maybe"}
_SIZE = re.compile(r'<svg[^>]* viewBox="0 0 ([\d.]+) ([\d.]+)"')


def write_report(results: Path, own: Sequence[Path] = ()) -> Path:
    """Write ``results/report/index.html``, the other pages and their script from the experiments under `results`.

    Args:
        results: the folder with the outputs.
        own: the user's own folders of experiments, whose published points are shown beside the results.

    Returns:
        The start page.
    """
    papers = read(results, own)
    audit = audit_of(figure for paper in papers for _, figure in paper.figures)
    folder = results / "report"
    if folder.is_symlink():  # in results of others it could lead to any folder, whose files would be replaced
        raise UserError(f"{folder} is a link to another folder: remove it, then make the report again.")
    folder.mkdir(exist_ok=True)
    environment = _environment()
    pages = {START: _start(papers, audit)} | ({LEDGER: {}} if any(paper.verdicts for paper in papers) else {})
    pages |= {page_name(paper): {"paper": paper, "packed": {}} for paper in papers}
    for page, content in pages.items():
        template = environment.get_template({START: "start.html", LEDGER: "claims.html"}.get(page, "paper.html"))
        try:
            text = template.render(page=page, papers=papers, audit=audit, **content)
        except (TemplateError, TypeError, AttributeError, LookupError) as error:
            raise UserError(
                f"a manifest in {results} is none that dpml wrote, so that {page} cannot be made: {error}."
            ) from None
        write_atomically(folder / page, text)
    script = "\n".join(environment.get_template(name).render() for name in ("script.js", "chart.js"))
    write_atomically(folder / "report.js", script)
    return folder / START


def _start(papers: Sequence[Paper], audit: Audit) -> dict[str, Any]:
    """The content of the start page."""
    attacked = worst_by_paper(papers, audit)
    verdicts = [verdict for paper in papers for verdict in paper.verdicts]
    experiments = [(paper, experiment) for paper in papers for experiment in paper.experiments]
    audited = (pair for pair in experiments if any(figure is audit.figure for figure in pair[1].figures))
    audit_paper, audit_experiment = next(audited, (None, None))
    facts = {
        "papers": sum(bool(paper.verdicts) for paper in papers),
        "experiments": sum(bool(experiment.figures) for _, experiment in experiments),
        "figures": sum(len(paper.drawn) for paper in papers),
        "verdicts": len(verdicts),
    }
    return {
        "facts": facts,
        "verdicts": verdicts,
        "attacked": attacked,
        "scale": LogScale(line for _, _, line in attacked),
        "audit_paper": audit_paper,
        "audit_experiment": audit_experiment,
    }


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("dpml.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (address, anchor, block, counted, described, inline, page_name, picture_size, short)
    environment.filters |= {function.__name__: function for function in filters}
    environment.globals |= {
        "CLAIMS": CLAIMS, "DECISIONS": DECISIONS, "AUDIT": _AUDIT, "START": START,
        "LEDGER": LEDGER, "ranking": ranking,
        "colour": lambda algo: base_look(algo)[0], "whole_table": _whole_table,
    }  # fmt: skip
    return environment


# ---- filters of the templates


def anchor(name: str) -> str:
    """A name as part of a URL."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name)


def page_name(paper: Paper) -> str:
    """The name of a paper's page, which is none of the pages about all papers."""
    name = f"{anchor(paper.name)}.html"
    return f"paper-{name}" if name in (START, LEDGER) else name


def address(figure: FigureFiles, kind: str) -> str:
    """One of a figure's files as the report, a folder beside the papers', refers to it."""
    return f"../{figure.folder.name}/{figure.name}.{kind}"


def picture_size(figure: FigureFiles) -> Sequence[int]:
    """The width and height of a figure's picture in pixels, which keep its place on the page until it is loaded."""
    with figure.file("svg").open(encoding="utf-8") as file:
        found = _SIZE.search(file.read(2000))
    return [round(float(points) * 4 / 3) for points in found.groups()] if found else []


def described(experiment: Outputs) -> str:
    """The content of an experiment's pictures, in words."""
    axes = (f"{METRICS.get(panel.y, panel.y)} against {LABELS.get(panel.x, panel.x)}" for panel in experiment.panels)
    return ", ".join(dict.fromkeys(axes))


def counted(verdicts: Sequence[Verdict]) -> Counter[Decision]:
    """How many verdicts there are of every kind."""
    return Counter(verdict.kind for verdict in verdicts)


def _whole_table(experiment: Outputs, figure: FigureFiles) -> WholeTable | str:
    """A figure's whole table, or why there is none."""
    try:
        return whole_table(experiment, figure)
    except UserError as error:
        return str(error)


@cache
def _markdown() -> MarkdownIt:
    """CommonMark, without HTML and pictures."""
    return MarkdownIt("commonmark", {"html": False}).disable("image")


def inline(text: str) -> Markup:
    """A sentence in Markdown, as people write notes and claims."""
    return Markup(_markdown().renderInline(text))


def block(text: str) -> Markup:
    """Paragraphs in Markdown."""
    return Markup(_markdown().render(text))
