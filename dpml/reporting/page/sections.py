"""An experiment on the page of its paper: its figures, each with its command, and with tables and points on a click."""

import re

import pandas as pd

from dpml.reporting.page.best import full
from dpml.reporting.page.inputs import Experiment, Figure
from dpml.reporting.page.markup import Html, anchor, block, disclosure, html, inline, tag
from dpml.reporting.page.rows import data
from dpml.reporting.page.vector import Picture
from dpml.reporting.style import LABELS, METRICS

_SHOWN = ("Claims", "Not computed")
"""The sections of a figure's Markdown page that this page shows elsewhere."""


def section(experiment: Experiment, picture: Picture) -> Html:
    """Everything about an experiment except its verdicts."""
    about = experiment.about
    parts = [tag("h3", experiment.title)]
    if about["source"]:
        parts.append(tag("p", about["source"], class_="source"))
    if about["note"]:
        parts.append(tag("div", block(about["note"]), class_="note"))
    if not experiment.figures:
        parts.append(command(experiment))
    parts += [_figure(experiment, figure, picture) for figure in experiment.figures]
    parts += [full(experiment), _skipped(experiment), _environment(experiment)]
    return tag("section", parts, id=anchor(experiment.short), class_="experiment")


def figure_id(figure: Figure) -> str:
    """The anchor of a figure on its page."""
    return f"figure-{anchor(figure.name)}"


def caption(figure: Figure) -> str:
    """Its name, and its noise unless that is the published one."""
    name = figure.name
    for calibration in figure.calibrations if figure.twin else ():
        name = f"{name.removesuffix(f'_{calibration}')}, {calibration} noise"
    return name


def described(experiment: Experiment) -> str:
    """The content of an experiment's pictures, in words."""
    axes = (f"{METRICS.get(panel.y, panel.y)} against {LABELS.get(panel.x, panel.x)}" for panel in experiment.panels)
    return ", ".join(dict.fromkeys(axes))


def command(experiment: Experiment) -> Html:
    """How to run the experiment again."""
    text = experiment.about["command"]
    return disclosure("Command", tag("pre", tag("code", text), tabindex="0")) if text else Html("")


def _figure(experiment: Experiment, figure: Figure, picture: Picture) -> Html:
    if figure.wrong:
        return html(
            tag("p", f"Not as written: {figure.wrong}. The command makes it again.", class_="wrong"),
            command(experiment),
        )
    drawn = (
        picture.html(figure.text("svg"), f"{experiment.title} ({caption(figure)}): {described(experiment)}")
        if figure.drawn
        else Html("")
    )
    named = tag("h4", caption(figure)) if len(experiment.figures) > 1 else Html("")
    shown = tag(
        "figure",
        tag("div", drawn, class_="picture", tabindex="0", role="region", aria_label=f"Picture of {caption(figure)}"),
    )
    behind = [command(experiment), *_tables(figure), data(experiment, figure)]
    return tag("div", named, shown if drawn else "", tag("div", behind, class_="behind"), id=figure_id(figure))


def _tables(figure: Figure) -> list[Html]:
    """The tables of the figure's Markdown page, each behind its own click."""
    sections = re.split(r"^## (.+)\n", figure.text("md"), flags=re.MULTILINE)
    return [
        disclosure(name, block(content, 1))
        for name, content in zip(sections[1::2], sections[2::2], strict=True)
        if name not in _SHOWN
    ]


def _skipped(experiment: Experiment) -> Html:
    skipped = experiment.about["skipped"]
    items = html(tag("li", f"{number} cells: ", inline(str(why))) for why, number in skipped.items())
    return disclosure("Not computed", tag("ul", items)) if skipped else Html("")


def _environment(experiment: Experiment) -> Html:
    """The commit and the versions that made it, in one line."""
    known = pd.json_normalize(experiment.about["environment"]).to_dict("records")
    said = (
        ", ".join(f"{str(key).rpartition('.')[2]} {value}" for key, value in known[0].items() if value is not False)
        if known
        else ""
    )
    return tag("p", tag("small", f"Made by {said}.")) if said else Html("")
