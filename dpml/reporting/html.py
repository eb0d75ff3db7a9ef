"""The report: the pages of a results folder in HTML, to be read without a server.

`dpml report FOLDER` shows experiments, with their papers' claims, and the tables of runs and sweeps. Everything is made
from manifests and tables. Pictures and CSV files stay where they are, beside the report's folder.
"""

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

START = "index.html"
TABLE, PICTURE = "table.md", "figure.svg"
_EMPTY: dict[str, Any] = {"panels": [], "claims": [], "files": {}, "figures": [], "skipped": {}, "note": ""}
"""Keys that a manifest of another version may lack."""


def write_report(results: Path) -> Path:
    """Write ``results/report/index.html``, the other pages and their script; return the start page."""
    pages = _experiments(results) | _runs(results)
    if not pages:
        raise UserError(
            f"there are no results in {results}: run something, such as dpml-run experiment=imtiaz2019/fig5."
        )
    folder = results / "report"
    _refuse_link(folder)
    pages.setdefault("index.md", _index(pages))
    places = {name: _place(name) for name in pages}
    for name, text in pages.items():
        target = folder / places[name]
        root = os.path.relpath(folder, target.parent)
        shown = [(_title(pages[one]), f"{root}/{places[one]}") for one in pages if _in_navigation(one)]
        frame = {"pages": shown, "here": f"{root}/{places[name]}", "root": f"{root}/"}
        source = Path(name).parent

        def link(address: str, source: Path = source, root: str = root) -> str | None:
            return _link(address, source, root, results, places)

        for parent in (one for one in target.parents if folder in one.parents):
            _refuse_link(parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, framed(text, link, **frame))
    write_atomically(folder / "report.js", script())
    return folder / START


def _refuse_link(folder: Path) -> None:
    """Refuse a link: in results of others it could lead to any folder, whose files would be replaced."""
    if folder.is_symlink():
        raise UserError(f"{folder} is a link to another folder: remove it, then make the report again.")


def _experiments(results: Path) -> dict[str, str]:
    """The pages of experiments by their names in the results folder."""
    known = [{**_EMPTY, **about} for about in manifests(results)]
    try:
        pages = overviews(known) if known else {}
        for about in known:
            paper = about["experiment"].rpartition("/")[0]
            for figure in about["figures"]:
                if _own(figure, about, results / paper):
                    pages[f"{paper}/{figure['name']}.md"] = figure_page(about, figure)
    except (TemplateError, TypeError, AttributeError, LookupError, ValueError) as error:
        raise UserError(f"a manifest in {results} is none that this version wrote ({error}): run it again.") from None
    if "claims.md" in pages:
        pages = {"index.md": pages.pop("claims.md")} | pages
    return pages


def _own(figure: Mapping[str, Any], about: Mapping[str, Any], folder: Path) -> bool:
    """Whether a figure is one of its experiment, and its files are as they were written."""
    stem = about["experiment"].rpartition("/")[2]
    if figure["name"] not in (stem, f"{stem}_tight", f"{stem}_published"):
        return False  # a manifest chooses no other file
    names = [f"{figure['name']}.{kind}" for kind in ("csv", "md", "svg")]
    damaged = [name for name in names if changed(folder / name, about["files"])]
    if damaged:
        print(f"note: {folder}: not as written: {', '.join(damaged)}; run {about['command']}", file=sys.stderr)
    return not damaged


def _runs(results: Path) -> dict[str, str]:
    """The pages of runs and sweeps: their command, picture and table."""
    found = {}
    for path in sorted(results.rglob(TABLE)):
        folder = path.parent
        about = beside(folder).read()
        if "report" in path.relative_to(results).parts or not about or changed(path, about.get("files")):
            continue
        picture = (folder / PICTURE).is_file() and not changed(folder / PICTURE, about.get("files"))
        command = str(about.get("command", ""))
        name = str(path.relative_to(results).parent)
        text = page("run.md", title=name if name != "." else results.name, command=command, picture=picture,
                    table=path.read_text("utf-8"))  # fmt: skip
        found[str(path.relative_to(results))] = text
    return found


def _index(pages: Mapping[str, str]) -> str:
    """The start page of runs and sweeps alone."""
    return page("runs.md", pages=[(_title(text), name) for name, text in pages.items()])


def _title(text: str) -> str:
    return text.partition("\n")[0].lstrip("# ")


def _in_navigation(name: str) -> bool:
    return name == "index.md" or name.endswith(("/claims.md", "/which.md"))


def _place(name: str) -> str:
    """The place of a page in the report."""
    return re.sub(r"\.md$", ".html", name)


def _link(address: str, source: Path, root: str, results: Path, places: Mapping[str, str]) -> str | None:
    """The address of a page, or of a file beside the report, from the page of `source`; None if it is neither."""
    path, _, part = address.partition("#")
    target = os.path.normpath(source / path)
    if target == "claims.md":
        target = "index.md"
    if target in places:
        return f"{root}/{places[target]}{f'#{part}' if part else ''}"
    inside = not target.startswith(("..", "/")) and ":" not in target
    return f"{root}/../{target}" if inside and (results / target).is_file() else None
