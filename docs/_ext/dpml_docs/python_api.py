"""Generate the reference pages of the Python API: the names in `dpml`, and the modules for extensions."""

import inspect
from importlib import import_module

import dpml
from dpml_docs import docstrings, rst

MODULES = [  # plug-ins implement or call these
    "dpml.algorithms",
    "dpml.mechanism.program",
    "dpml.mechanism.message",
    "dpml.privacy.guarantee",
    "dpml.privacy.noise",
    "dpml.privacy.accountant",
    "dpml.optim.losses",
    "dpml.data.dataset",
    "dpml.data.info",
    "dpml.data.partition",
    "dpml.data.preprocess",
    "dpml.running.metrics",
    "dpml.protocols",
]


def pages() -> dict[str, str]:
    """Return every page by its name below reference/."""
    return {"python": public(), **{f"modules/{name}": module(name) for name in MODULES}}


def public() -> str:
    """Return the page of the names in `dpml`."""
    blocks = [
        rst.title("Python"),
        "``import dpml`` provides these names. :doc:`/api` and :doc:`/tour/index` have examples.",
    ]
    for name in dpml.__all__:
        blocks += [rst.title(f"``{name}``", "-"), _directive(getattr(dpml, name), f"dpml.{name}")]
    rows = [[f":doc:`modules/{name}`", docstrings.inline(_first(name))] for name in MODULES]
    blocks += [rst.title("To extend dpml", "-"), "Modules for your own algorithms, data sets, partitions and metrics:"]
    blocks.append(rst.table(["Module", "Content"], rows, (2, 5)))
    blocks.append(rst.toctree(["/tour/index", *(f"modules/{name}" for name in MODULES)]))
    return rst.page(*blocks)


def _directive(thing: object, path: str) -> str:
    kind = "class" if inspect.isclass(thing) else "function"
    members = "   :members:\n" if kind == "class" else ""
    return f".. auto{kind}:: {path}\n{members}"


def module(name: str) -> str:
    """Return the page of a module with all of its public names."""
    return rst.page(rst.title(f"``{name}``"), f".. automodule:: {name}\n   :members:\n")


def _first(name: str) -> str:
    doc = import_module(name).__doc__ or ""
    return " ".join(doc.split("\n\n")[0].split())
