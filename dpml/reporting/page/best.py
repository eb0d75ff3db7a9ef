"""The best algorithm at every eps, from the rankings of experiments that compare algorithms at equal guarantees."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from dpml.reporting.page.inputs import Experiment, Paper
from dpml.reporting.page.markup import Html, anchor, disclosure, html, inline, table, tag
from dpml.reporting.ranking import details, matrix, premises, tally, titled
from dpml.reporting.style import base_look


def ranked(papers: Sequence[Paper]) -> list[tuple[Paper, Experiment]]:
    """The experiments that rank algorithms."""
    return [(paper, experiment) for paper in papers for experiment in paper.experiments if _rankings(experiment)]


def _rankings(experiment: Experiment) -> list[Mapping[str, Any]]:
    return [ranking for ranking in experiment.about["rankings"] if isinstance(ranking, dict) and ranking.get("choices")]


def matrices(papers: Sequence[Paper]) -> Html:
    """For every such experiment the best algorithm of every panel at every eps."""
    return html(
        tag(
            "section",
            tag("h3", tag("a", experiment.title, href=f"{paper.page}#{anchor(experiment.short)}")),
            tag("p", inline(premises(_rankings(experiment)))),
            _matrix(experiment),
        )
        for paper, experiment in ranked(papers)
    )


def _matrix(experiment: Experiment) -> Html:
    frame = matrix(_rankings(experiment))
    rows = [[row[0], *map(_dotted, row[1:])] for row in frame.itertuples(index=False)]
    heads = [str(column) or "panel" for column in frame.columns]
    return table(heads, rows, f"Best at each ε: {experiment.title}", names=True)


def _dotted(name: str) -> Html:
    """An algorithm beside a dot in its colour, which is the same in all figures."""
    if not name:
        return Html("")
    colour, _ = base_look(name.strip("()").partition(" ")[0])
    algo, _, own = name.partition(" ")
    return html(tag("i", class_="dot", style=f"background:{colour}"), algo, tag("small", own) if own else "")


def full(experiment: Experiment) -> Html:
    """The best algorithm at every eps, how often each is best, and by how much: for the experiment's own page."""
    rankings = _rankings(experiment)
    if not rankings:
        return Html("")
    parts = [_framed(tally(rankings), "How often each algorithm is best", names=True)]
    parts += [
        disclosure(titled(ranking), _framed(details(ranking), titled(ranking)), class_="minor") for ranking in rankings
    ]
    return html(tag("h4", "Which algorithm is best"), parts)


def _framed(frame: pd.DataFrame, label: str, names: bool = False) -> Html:
    rows = [["" if pd.isna(cell) else str(cell) for cell in row] for row in frame.to_numpy()]
    return table([str(column) or "panel" for column in frame.columns], rows, label, names=names)
