"""Write the report: HTML pages for the manifests and tables in a results folder. The report needs no server."""

import html
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from markdown_it import MarkdownIt
from markdown_it.token import Token

from dpml.errors import UserError
from dpml.files import write_atomically
from dpml.reporting.manifest import beside, changed, manifests
from dpml.reporting.pages import environment, overviews, page

START = "index.md"

# the only HTML that templates write; other tags come from the text of a manifest, and are shown as text
_OURS = re.compile(r'</?(?:details|summary|br|div)(?: class="\w+")?>|<a id="[\w-]*">|</a>')


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
                raise UserError(f"{parent} is a link to another folder: remove it (the link), and make a new report.")
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
    write_atomically(folder / "report.js", environment().get_template("script.js").render())
    return folder / _html(START)


def _experiments(results: Path) -> dict[str, str]:
    known = [{"claims": [], "figures": [], "files": {}, **about} for about in manifests(results)]
    try:
        pages = overviews(known) if known else {}
        for about in known:
            pages |= _figures(about, results)
    except (TemplateError, TypeError, AttributeError, LookupError, ValueError) as error:
        raise UserError(f"another dpml version wrote a manifest in {results} ({error}): run dpml-run again.") from None
    return {START if name == "claims.md" else name: text for name, text in pages.items()}


def _figures(about: Mapping[str, Any], results: Path) -> dict[str, str]:
    base, pages = results / about["experiment"], {}
    for name in (base.name, f"{base.name}_tight"):
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


def framed(text: str, link: Callable[[str], str | None], **frame: Any) -> str:
    """Return a page in Markdown as an HTML page.

    `link` returns the address of a relative link or picture, or None if its target is missing. `frame` has ``pages``
    (names and addresses for the navigation), ``here`` (the page's address), and ``root`` (the folder of report.js).
    """
    markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
    for kind in ("html_inline", "html_block"):
        markdown.add_render_rule(kind, _own_tags)
    tokens = markdown.parse(text)
    _relink(tokens, link)
    body = str(markdown.renderer.render(tokens, markdown.options, {}))
    body = body.replace("<table>", '<div class="scroll"><table>').replace("</table>", "</table></div>")
    return environment().get_template("base.html").render(title=html.escape(title(text)), body=body, **frame)


def title(text: str) -> str:
    """Return the first heading of a page in Markdown."""
    return text.partition("\n")[0].lstrip("# ")


def _own_tags(_: Any, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    """Keep the HTML tags that dpml's templates write, and show all other tags as text."""
    parts = re.split(r"(<[^<>]*>)", tokens[place].content)
    return "".join(part if _OURS.fullmatch(part) else html.escape(part) for part in parts)


def _relink(tokens: Sequence[Token], link: Callable[[str], str | None]) -> None:
    """Replace relative addresses. Remove links without a target and pictures on other hosts."""
    for token in tokens:
        _relink(token.children or (), link)
        key = {"link_open": "href", "image": "src"}.get(token.type, "")
        address = str(token.attrs.pop(key, "#"))
        stays = key == "href" and re.match(r"#|https?://|mailto:", address)
        if key and (found := address if stays else link(address)) is not None:
            token.attrs[key] = found
