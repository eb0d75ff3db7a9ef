"""The report: a start page and a page per paper about everything under a results folder, to be read without a server.

The report only reads existing files (manifests, tables, pictures and Markdown pages) and shows them as they were
written. It computes nothing except counts.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from dpml.atomic import write_atomically
from dpml.reporting.page.attack import Audit, audit_of, audit_table, claimed_table, story
from dpml.reporting.page.best import matrices, ranked
from dpml.reporting.page.inputs import Experiment, Figure, Paper, read
from dpml.reporting.page.layout import START, Page, part, written
from dpml.reporting.page.markup import Html, anchor, block, disclosure, html, inline, tag
from dpml.reporting.page.sections import caption, described, figure_id, section
from dpml.reporting.page.thumbnails import thumbnail
from dpml.reporting.page.vector import Picture
from dpml.reporting.page.verdicts import brief, counts, listed
from dpml.reporting.ranking import READING


def write_report(results: Path, own: Sequence[Path] = ()) -> Path:
    """Write ``results/report/index.html`` and the pages beside it from the experiments that lie under `results`.

    Args:
        results: the folder with the outputs.
        own: the user's own folders of experiments, whose published points are shown beside the results.

    Returns:
        The start page.

    Raises:
        UserError: there are no experiments.
    """
    papers = read(results, own)
    audit = audit_of(figure for _, _, figure in _figures(papers))
    pages = [_start(papers, audit), *(_page(paper, audit) for paper in papers)]
    folder = results / "report"
    folder.mkdir(exist_ok=True)
    for page in pages:
        write_atomically(folder / page.name, written(page, papers))
    return folder / START


def _figures(papers: Sequence[Paper]) -> list[tuple[Paper, Experiment, Figure]]:
    return [
        (paper, experiment, figure)
        for paper in papers
        for experiment in paper.experiments
        for figure in experiment.figures
    ]


# ---- the start page


def _start(papers: Sequence[Paper], audit: Audit) -> Page:
    lead = "Published figures computed anew, with what was claimed and what is proven about their privacy."
    parts = [tag("h1", "dpml results"), tag("p", lead, class_="lead"), _facts(papers)]
    told, verdicts, best = story(papers, audit), counts(papers), matrices(papers)
    if told:
        parts.append(part("Claimed, proven, attacked", _reading(papers, audit), told, id_="privacy"))
    links = tag("p", "A number leads to its verdicts. Each is computed from the rows, by a test that stands beside it.")
    if verdicts:
        parts.append(part("Verdicts on what the papers say", links, verdicts, id_="verdicts"))
    if best:
        reading = tag("p", inline("A best in (parentheses) is not significantly above what uses no feature."))
        parts.append(part("The best algorithm at each ε", reading, best, id_="best"))
    parts.append(part("Figures", _gallery(papers), id_="figures"))
    return Page(START, "dpml results", html(parts))


def _facts(papers: Sequence[Paper]) -> Html:
    """The counts of figures, claims and so on."""
    drawn = sum(figure.drawn for _, _, figure in _figures(papers))
    claims = [claim for paper in papers for claim in paper.claims]
    facts = [
        (sum(bool(paper.claims) for paper in papers), "papers"),
        (sum(bool(experiment.figures) for paper in papers for experiment in paper.experiments), "experiments"),
        (drawn, "figures"),
        (len(claims), "verdicts"),
    ]
    return tag("ul", (tag("li", tag("b", str(number)), f" {what}") for number, what in facts if number), class_="facts")


def _reading(papers: Sequence[Paper], audit: Audit) -> Html:
    at, experiment = next((paper, one) for paper, one, figure in _figures(papers) if figure is audit.figure)
    said = (
        f"At {audit.same}: of the noise that each paper publishes, the claim that is furthest from what is proven. "
        "What an attack reached is a lower bound on ε; 0 says that it saw nothing. "
    )
    return html(
        tag("p", said, tag("a", "All attacks", href=f"{at.page}#attacks"), "."),
        disclosure("How the attacks were made", block(experiment.about["note"])),
    )


def _gallery(papers: Sequence[Paper]) -> Html:
    """Every figure as a small picture, in the order of its paper; a script adds a search field."""
    groups = []
    for paper in papers:
        cards = [_card(paper, experiment, figure) for _, experiment, figure in _figures([paper]) if figure.drawn]
        if cards:
            groups += [tag("h3", tag("a", paper.title, href=paper.page)), tag("ul", cards, class_="cards")]
    return tag("div", groups, class_="filtered", data_what="figures")


def _card(paper: Paper, experiment: Experiment, figure: Figure) -> Html:
    found = thumbnail(figure.file("png"))
    picture = Html("")
    if found:
        address, width, height = found
        sizes = {"width": str(width), "height": str(height)}
        picture = tag("img", src=address, alt=described(experiment), loading="lazy", decoding="async", **sizes)
    kinds = Counter(brief(claim.decision) for claim in experiment.claims if not figure.twin)
    verdicts = ", ".join(f"{number} {kind}" for kind, number in kinds.items())
    words = " ".join(claim.text for claim in experiment.claims if not figure.twin)
    link = tag("a", tag("span", picture, class_="thumb"), tag("b", caption(figure)), tag("span", experiment.title),
               href=f"{paper.page}#{figure_id(figure)}")  # fmt: skip
    return tag("li", link, tag("small", verdicts) if verdicts else "", data_words=words or None)


# ---- a page per paper


def _page(paper: Paper, audit: Audit) -> Page:
    picture = Picture()
    parts = [tag("h1", paper.title), _contents(paper)]
    lines = audit.claims_of(paper)
    if lines:
        parts.append(part("Claimed, proven, attacked", tag("p", f"At {audit.same}, for the published noise."),
                          _filtered(claimed_table(lines), "lines"), id_="privacy"))  # fmt: skip
    if paper.claims:
        parts.append(part("Verdicts", listed(paper.experiments), id_="verdicts"))
    if ranked([paper]):
        parts.append(part("How to read the rankings", tag("p", inline(READING)), id_="reading"))
    sections = [section(experiment, picture) for experiment in paper.experiments]
    parts.append(part("Figures and tables", picture.shared, sections, id_="figures"))
    if any(figure is audit.figure for _, _, figure in _figures([paper])):
        parts.append(part("All attacks", _filtered(audit_table(audit), "lines"), id_="attacks"))
    return Page(paper.page, paper.title, html(parts), picture.style)


def _filtered(table: Html, what: str) -> Html:
    return tag("div", table, class_="filtered", data_what=what)


def _contents(paper: Paper) -> Html:
    links = [
        tag("li", tag("a", experiment.short, href=f"#{anchor(experiment.short)}", title=experiment.title))
        for experiment in paper.experiments
    ]
    return tag("nav", tag("ul", links), aria_label="Experiments on this page", class_="contents") if links else Html("")
