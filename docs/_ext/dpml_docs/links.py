"""What pages have that are read in Git as well: links that lead out of docs/, and blocks in formats of their own."""

import re

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

_PAGES = {"claims": "/verdicts/index"}  # of results, those that are not in the gallery
_RESULT = re.compile(r"\]\((?:\.\./)+results/([\w/]+)\.md")


def inside(text: str) -> str:
    """A document whose links to pages in results/ lead to the site's own."""
    return _RESULT.sub(lambda link: f"]({_PAGES.get(link[1], f'/gallery/{link[1]}')}.md", text)


def _read(app: Sphinx, docname: str, content: list[str]) -> None:
    content[0] = inside(content[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Have every document read so."""
    app.add_lexer("vectors", TextLexer)  # known answers, which tests read
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
