"""The parts that all pages share: the head, the navigation, the colour switch. Each page is one file."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from dpml.reporting.page.inputs import Paper
from dpml.reporting.page.markup import Content, Html, html, tag

START = "index.html"


@dataclass(frozen=True)
class Page:
    """A file of the report.

    Args:
        name: the file's name.
        title: the page's title.
        main: the page's content.
        style: CSS rules that only this page needs.
    """

    name: str
    title: str
    main: Html
    style: str = ""


@cache
def _part(name: str) -> str:
    return files("dpml.reporting").joinpath("page", name).read_text("utf-8")


def written(page: Page, papers: Sequence[Paper]) -> str:
    """The whole file. Its dark colours are a separate style sheet, whose medium the switch sets."""
    head = html(
        Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'),
        tag("title", page.title if page.name == START else f"{page.title} · dpml results"),
        tag("style", Html(_part("style.css") + page.style)),
        tag("style", Html(_part("dark.css")), media="screen and (prefers-color-scheme: dark)", id="dark"),
        tag("script", Html(_part("theme.js"))),
    )
    skip = tag("a", "Skip to the content", href="#main", class_="skip")
    body = html(skip, _header(page, papers), tag("main", page.main, id="main", tabindex="-1"), _foot())
    script = tag("script", Html(_part("script.js")))
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}\n{script}</body></html>\n'


def _header(page: Page, papers: Sequence[Paper]) -> Html:
    pages = [(START, "Overview"), *((paper.page, paper.title) for paper in papers)]
    links = html(
        tag("li", tag("a", title, href=name, aria_current="page" if name == page.name else None))
        for name, title in pages
    )
    switch = tag("button", "Dark colours", type="button", id="theme", aria_pressed="false", hidden=True)
    return tag("header", tag("nav", tag("ul", links), aria_label="Pages"), switch)


def _foot() -> Html:
    return tag(
        "footer",
        tag("p", "Written by ", tag("code", "dpml report"), " from the rows of the experiments. Needs no network."),
    )


def part(title: Content, *content: Content, id_: str) -> Html:
    """A part of a page, under its heading."""
    return tag("section", tag("h2", title, id=f"{id_}-h"), *content, id=id_, aria_labelledby=f"{id_}-h")
