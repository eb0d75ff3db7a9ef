"""Write the report: the pages of a results folder in HTML, made from manifests and tables. It needs no server."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from dpml.errors import UserError
from dpml.files import write_atomically
from dpml.reporting.artifacts import overviews
from dpml.reporting.manifest import beside, changed, manifests
from dpml.reporting.pages import figure_page
from dpml.reporting.render import framed, page, script

START = "index.md"
TABLE, PICTURE = "table.md", "figure.svg"
_EMPTY: dict[str, Any] = {"panels": [], "claims": [], "files": {}, "figures": [], "skipped": {}, "note": ""}
"""Defaults for keys that the manifest of another version may lack."""


def write_report(results: Path) -> Path:
    """Write ``results/report/index.html``, the other pages and their script; return the path of the start page."""
    pages = _experiments(results) | _runs(results)
    if not pages:
        raise UserError(
            f"there are no results in {results}: run something, such as dpml-run experiment=imtiaz2019/fig5."
        )
    pages.setdefault(START, page("runs.md", pages=[(_title(text), name) for name, text in pages.items()]))
    folder = results / "report"
    navigation = {
        name: _title(text) for name, text in pages.items() if Path(name).name in (START, "claims.md", "which.md")
    }
    for name, text in pages.items():
        target = folder / _html(name)
        root = os.path.relpath(folder, target.parent)
        for parent in (folder, *(one for one in target.parents if folder in one.parents)):
            if parent.is_symlink():  # results of others could link to any folder, whose files would be replaced
                raise UserError(f"{parent} is a link to another folder: remove it, then make the report again.")
        shown = [(title, f"{root}/{_html(one)}") for one, title in navigation.items()]

        def link(address: str, source: Path = Path(name).parent, root: str = root) -> str | None:
            path, _, part = address.partition("#")
            goal = os.path.normpath(source / path)
            goal = START if goal == "claims.md" else goal
            if goal in pages:
                return f"{root}/{_html(goal)}{f'#{part}' if part else ''}"
            inside = not goal.startswith(("..", "/")) and ":" not in goal
            return f"{root}/../{goal}" if inside and (results / goal).is_file() else None

        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, framed(text, link, pages=shown, here=f"{root}/{_html(name)}", root=f"{root}/"))
    write_atomically(folder / "report.js", script())
    return folder / _html(START)


def _experiments(results: Path) -> dict[str, str]:
    """Return the pages of experiments by their paths in the results folder."""
    known = [{**_EMPTY, **about} for about in manifests(results)]
    try:
        pages = overviews(known) if known else {}
        for about in known:
            paper = about["experiment"].rpartition("/")[0]
            for figure in about["figures"]:
                if _own(figure, about, results / paper):
                    pages[f"{paper}/{figure['name']}.md"] = figure_page(about, figure)
    except (TemplateError, TypeError, AttributeError, LookupError, ValueError) as error:
        raise UserError(f"a manifest in {results} is of another version ({error}): run dpml-run again.") from None
    return {START if name == "claims.md" else name: text for name, text in pages.items()}


def _own(figure: Mapping[str, Any], about: Mapping[str, Any], folder: Path) -> bool:
    """Return whether a figure belongs to its experiment, and its files are unchanged."""
    stem = about["experiment"].rpartition("/")[2]
    if figure["name"] not in (stem, f"{stem}_tight", f"{stem}_published"):
        return False  # a manifest may not name other files
    names = [f"{figure['name']}.{kind}" for kind in ("csv", "md", "svg")]
    damaged = [name for name in names if changed(folder / name, about["files"])]
    if damaged:
        print(f"note: {folder}: changed files: {', '.join(damaged)}; run {about['command']}", file=sys.stderr)
    return not damaged


def _runs(results: Path) -> dict[str, str]:
    found = {}
    for path in sorted(results.rglob(TABLE)):
        folder = path.parent
        about = beside(folder).read()
        if "report" in path.relative_to(results).parts or not about or changed(path, about.get("files")):
            continue
        content = {
            "title": str(folder.relative_to(results)) if folder != results else results.name,
            "command": str(about.get("command", "")),
            "picture": (folder / PICTURE).is_file() and not changed(folder / PICTURE, about.get("files")),
            "table": path.read_text("utf-8"),
        }
        found[str(path.relative_to(results))] = page("run.md", **content)
    return found


def _title(text: str) -> str:
    return text.partition("\n")[0].lstrip("# ")


def _html(name: str) -> str:
    return re.sub(r"\.md$", ".html", name)
