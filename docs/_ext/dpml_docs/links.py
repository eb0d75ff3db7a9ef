"""Links that lead out of docs/, in pages that are read in Git as well."""

import re

from sphinx.application import Sphinx

_RULES = (  # from the first that fits
    (re.compile(r"\]\((?:\.\./)+results/claims\.md"), "](/gallery/index.md"),
    (re.compile(r"\]\((?:\.\./)+results/([\w/]+)\.md"), r"](/gallery/\1.md"),
    (re.compile(r"\]\((?:\.\./)+experiments/?\)"), "](/gallery/index.md)"),
    (re.compile(r"\]\((?:\.\./)*examples/(\w+)\.py\)"), r"](/tour/\1.rst)"),
)


def inside(text: str) -> str:
    """A document whose links to results, experiments and examples lead to the site's own pages of them."""
    for pattern, page in _RULES:
        text = pattern.sub(page, text)
    return text


def _read(app: Sphinx, docname: str, content: list[str]) -> None:
    content[0] = inside(content[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Have every document read so."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
