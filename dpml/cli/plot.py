"""`dpml plot`: a figure for a paper, of a run, a sweep or a figure."""

import re
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dpml.cli.files import refuse_overwriting
from dpml.errors import UserError
from dpml.plain import read_mapping
from dpml.reporting.chosen import chosen
from dpml.reporting.figures import paper_figure, save_for_paper

_INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72.27}
_KINDS = ("pdf", "png", "svg")


def run(arguments: Namespace) -> None:
    """Draw the figure, and print its path and what its caption should say."""
    output, width = arguments.output, _width(arguments.width)
    refuse_overwriting(output, arguments.force, _KINDS)
    names = _names(arguments.labels) if arguments.labels else {}
    charts = chosen(arguments.path).where(arguments.where).charts(arguments.x, arguments.metric)
    if arguments.log is not None:
        xscale, yscale = ("log" if axis in arguments.log else "linear" for axis in "xy")
        charts = [replace(chart, panel=replace(chart.panel, xscale=xscale, yscale=yscale)) for chart in charts]
    figure, caption = paper_figure(charts, width, names)
    save_for_paper(figure, output)
    print(output)
    print(caption)


def _width(text: str) -> float:
    """A length in inches."""
    found = re.fullmatch(r"([\d.]+) ?(in|cm|mm|pt)", text)
    try:
        inches = float(found[1]) * _INCHES[found[2]] if found else 0.0
    except ValueError:
        inches = 0.0
    if not 1.5 <= inches <= 20:
        raise UserError(f"--width must be 1.5in to 20in, such as 3.3in, 84mm, 8.4cm or 240pt, got {text}.")
    return inches


def _names(path: Path) -> Mapping[str, str]:
    """The names that a YAML file gives to what a figure shows."""
    try:
        content = read_mapping(path, "names", deepest=1)
    except OSError as error:
        raise UserError(f"--labels {path} cannot be read: {error.strerror}.") from None
    if not all(isinstance(text, str) for text in (*content, *content.values())):
        raise UserError(f"--labels {path} must have a line NAME: TEXT for each name, such as capefm: CAPE-FM.")
    return content
