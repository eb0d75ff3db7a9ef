"""Generate the reference page of the tests of claims, from docstrings."""

import inspect

from dpml.config import docstrings as config_docstrings
from dpml.reporting.cards import VOCABULARY
from dpml_docs import docstrings, rst


def pages() -> dict[str, str]:
    """Return the page by its name below reference/."""
    return {"tests": tests()}


def tests() -> str:
    """Return the page of the tests that a paper's card can use for its claims."""
    rows = [
        [
            rst.literal(f"{name}: {{{', '.join([*inspect.signature(made).parameters][1:])}}}"),
            _with_arguments(*config_docstrings.parse(inspect.getdoc(made))),
        ]
        for name, made in VOCABULARY.items()
    ]
    about = "A claim names a test under ``test`` in a paper's ``card.yaml`` (:doc:`/howto/add_a_paper`)."
    return rst.page(rst.title("Tests of claims"), about, rst.table(["Test", "Holds if"], rows, (2, 5)))


def _with_arguments(text: str, arguments: dict[str, str]) -> str:
    """Return the text of a docstring, with its arguments as a list."""
    about = [f"- {rst.literal(name)}: {docstrings.inline(words)}" for name, words in arguments.items()]
    return rst.page(docstrings.rst(text), "\n".join(about)).rstrip()
