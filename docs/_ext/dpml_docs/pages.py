"""Write the generated pages before Sphinx reads them: reference/ (from code) and gallery/ (from results)."""

import os
import re
from pathlib import Path

from sphinx.application import Sphinx

from dpml_docs import commands, configuration, data_pages, gallery, python_api, rst, schemas, tables


def pages(folder: Path) -> dict[str, str]:
    """Return every generated page by its path below docs/, which is `folder`."""
    reference = {"index": reference_index(folder)}
    for part in (configuration, tables, commands, python_api, schemas):
        reference |= part.pages()
    return {
        **{f"reference/{name}.rst": text for name, text in reference.items()},
        **{f"reference/{name}": text for name, text in schemas.contents().items()},
        **{f"reference/data/{name}.md": text for name, text in data_pages.pages().items()},
        **{f"gallery/{name}.md": text for name, text in gallery.pages().items()},
    }


def reference_index(folder: Path) -> str:
    """Return the contents of the reference, and of the pages of docs/ that no other page lists."""
    generated = [
        "configuration",
        "algorithms/index",
        "datasets",
        "partitions",
        "tests",
        "commands",
        "python",
        "schemas",
    ]
    return rst.page(
        rst.title("Reference"),
        "These pages are generated at every build, from the configuration files, the docstrings and the commands.",
        rst.toctree([*generated, *(f"/{name}" for name in unlisted(folder))], hidden=False, depth=2),
    )


def unlisted(folder: Path) -> list[str]:
    """Return the pages at the top of docs/ that no page in Git lists in its contents."""
    listed = {folder / name for name in ("index", "api", "frontier")}  # listed by generated pages
    for path in (*folder.glob("*.md"), *folder.glob("*/index.md")):
        for contents in re.findall(r"```{toctree}\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL):
            entries = re.findall(r"^(?:.*<)?/?([\w./]+)>?$", contents, flags=re.MULTILINE)
            listed |= {Path(os.path.normpath(path.parent / entry)) for entry in entries}
    return sorted(path.stem for path in folder.glob("*.md") if path.with_suffix("") not in listed)


def write(folder: Path) -> None:
    """Write the pages that have changed, and remove pages that are no longer generated."""
    wanted = pages(folder)
    for name, text in wanted.items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for part in ("reference", "gallery"):
        for path in (folder / part).rglob("*.*"):
            if path.relative_to(folder).as_posix() not in wanted:
                path.unlink()


def _inited(app: Sphinx) -> None:
    write(Path(app.srcdir))


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the writing to Sphinx."""
    app.connect("builder-inited", _inited)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
