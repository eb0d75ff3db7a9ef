"""Redirect links that lead out of docs/, in pages that people also read in Git."""

import re

from sphinx.application import Sphinx

_RULES = (  # the first rule that matches applies
    (re.compile(r"\]\((?:\.\./)+results/claims\.md"), "](/gallery/index.md"),
    (re.compile(r"\]\((?:\.\./)+results/([\w/]+)\.md"), r"](/gallery/\1.md"),
    (re.compile(r"\]\((?:\.\./)+experiments/?\)"), "](/gallery/index.md)"),
    (re.compile(r"\]\((?:\.\./)*examples/(\w+)\.py\)"), r"](/tour/\1.rst)"),
)


def inside(text: str) -> str:
    """Return a document whose links to results, experiments and examples lead to pages of the site."""
    for pattern, page in _RULES:
        text = pattern.sub(page, text)
    return text


def _read(app: Sphinx, docname: str, content: list[str]) -> None:
    content[0] = inside(content[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the redirection to Sphinx."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
