"""Writes the generated pages before Sphinx reads: reference/ (conf, docstrings, parsers), gallery/ and verdicts/ (results)."""

from pathlib import Path

import claims
import commands
import configuration
import gallery
import python_api
import rst
import tables
from sphinx.application import Sphinx


def pages() -> dict[str, str]:
    """Every generated page by its path below docs/."""
    reference = {"index": reference_index()}
    for part in (configuration, tables, commands, python_api):
        reference |= part.pages()
    return {
        **{f"reference/{name}.rst": text for name, text in reference.items()},
        **{f"gallery/{name}.md": text for name, text in gallery.pages().items()},
        **{f"verdicts/{name}.md": text for name, text in claims.pages().items()},
    }


def reference_index() -> str:
    """The contents of the reference."""
    generated = ["configuration", "algorithms/index", "datasets", "partitions", "metrics", "columns", "commands", "python"]
    return rst.page(
        rst.title("Reference"),
        "Made from the configuration files, the docstrings and the commands themselves at every build of these pages.",
        rst.toctree([*generated, "/partitions", "/faults"], hidden=False, depth=2),
    )


def write(folder: Path) -> None:
    """Write what has changed, and remove what is no longer generated."""
    wanted = pages()
    for name, text in wanted.items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for part in ("reference", "gallery", "verdicts"):
        for path in (folder / part).rglob("*.*"):
            if path.relative_to(folder).as_posix() not in wanted:
                path.unlink()


def _inited(app: Sphinx) -> None:
    write(Path(app.srcdir))


def setup(app: Sphinx) -> dict[str, bool]:
    """Have them written."""
    app.connect("builder-inited", _inited)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
