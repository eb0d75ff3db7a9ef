"""Write the report: HTML pages for the manifests and tables in a results folder. The report needs no server."""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from dpml.errors import UserError
from dpml.files import write_atomically
from dpml.reporting.manifest import beside, changed, manifests
from dpml.reporting.pages import overviews
from dpml.reporting.render import framed, page, script, title

START = "index.md"


def write_report(results: Path) -> Path:
    """Write the HTML pages of a results folder to ``results/report``, and return the path of the start page."""
    pages = {**_experiments(results), **dict(_runs(results))}
    if not pages:
        raise UserError(
            f"there are no results in {results}: run something, such as dpml-run experiment=imtiaz2019/fig5."
        )
    pages.setdefault(START, page("runs.md", pages=[(title(text), name) for name, text in pages.items()]))
    folder = results / "report"
    overview = {name: text for name, text in pages.items() if Path(name).name in (START, "claims.md", "which.md")}
    for name, text in pages.items():
        target = folder / _html(name)
        root = os.path.relpath(folder, target.parent)
        for parent in (folder, *(one for one in target.parents if folder in one.parents)):
            if parent.is_symlink():  # results of others could link to any folder, whose files would be replaced
                raise UserError(f"{parent} is a link to another folder: remove it, then make the report again.")
        navigation = [(title(content), f"{root}/{_html(one)}") for one, content in overview.items()]

        def link(address: str, source: Path = Path(name).parent, root: str = root) -> str | None:
            path, _, part = address.partition("#")
            goal = os.path.normpath(source / path)
            goal = START if goal == "claims.md" else goal
            if goal in pages:
                return f"{root}/{_html(goal)}{f'#{part}' if part else ''}"
            inside = not goal.startswith(("..", "/")) and ":" not in goal
            return f"{root}/../{goal}" if inside and (results / goal).is_file() else None

        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, framed(text, link, pages=navigation, here=f"{root}/{_html(name)}", root=f"{root}/"))
    write_atomically(folder / "report.js", script())
    return folder / _html(START)


def _experiments(results: Path) -> dict[str, str]:
    known = [{"claims": [], "figures": [], "files": {}, **about} for about in manifests(results)]
    try:
        pages = overviews(known) if known else {}
        for about in known:
            pages |= _figures(about, results)
    except (TemplateError, TypeError, AttributeError, LookupError, ValueError) as error:
        raise UserError(f"a manifest in {results} is from another version ({error}): run dpml-run again.") from None
    return {START if name == "claims.md" else name: text for name, text in pages.items()}


def _figures(about: Mapping[str, Any], results: Path) -> dict[str, str]:
    base, pages = results / about["experiment"], {}
    for name in (base.name, f"{base.name}_tight", f"{base.name}_published"):
        paths = [base.with_name(f"{name}.{kind}") for kind in ("md", "csv", "svg")]
        damaged = [path.name for path in paths if changed(path, about["files"])]
        if damaged:
            print(f"note: {base.parent}: changed files: {', '.join(damaged)}; run {about['command']}", file=sys.stderr)
        elif about["files"].get(paths[0].name):
            pages[str(paths[0].relative_to(results))] = paths[0].read_text("utf-8")
    return pages


def _runs(results: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(results.rglob("table.md")):
        folder = path.parent
        about = beside(folder).read()
        if "report" in path.relative_to(results).parts or not about or changed(path, about.get("files")):
            continue
        picture = folder / "figure.svg"
        name = str(folder.relative_to(results)) if folder != results else results.name
        shown = picture.is_file() and not changed(picture, about.get("files"))
        content = {"title": name, "command": str(about.get("command", "")), "picture": shown}
        yield str(path.relative_to(results)), page("run.md", table=path.read_text("utf-8"), **content)


def _html(name: str) -> str:
    return re.sub(r"\.md$", ".html", name)
