"""Generate the reference pages of a run's keys, algorithms, data sets and partitions, from conf/ and the classes."""

import inspect
import math
import re
import types
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pandas as pd
import yaml
from omegaconf import OmegaConf

import dpml
from dpml.algorithms.descent.noisy_descent import KINDS, NoisyDescent
from dpml.config.build import class_of, completed
from dpml.config.compose import options
from dpml.config.docstrings import meaning, parse
from dpml.config.experiments import natural
from dpml.data.preprocess import STEPS
from dpml.data.sets.packaged import PACKED
from dpml.errors import UserError
from dpml.files import shipped_folder
from dpml.privacy import Guarantee
from dpml.privacy.safe import written
from dpml_docs import docstrings, gallery, rst, yaml_keys

_HIDDEN = ("defaults", "hydra")  # Hydra's own keys in config.yaml
_CHOICES = {"variant": "variants", "calibrate_for": "targets"}  # fields, with the attributes that list their values
RECOMMENDED = ["wdgd", "dpgd", "ssp", "ssp_descent", "regression", "gop"]
"""The algorithms that docs/frontier.md recommends."""

BASELINES = ["nonpriv", "ceiling", "constant", "batch", "indiv", "nn_nonpriv"]

_PROOF = re.compile(r"docs/(privacy/\w+)\.md")
_KINDS = {bool: "true or false", int: "whole number", float: "number", str: "text", tuple: "list"}


def pages() -> dict[str, str]:
    """Return every page by its name below reference/, without the ending."""
    found = {"configuration": configuration(), "datasets": datasets(), "partitions": partitions()}
    names = options("algo")
    found["algorithms/index"] = algorithms(names)
    return found | {f"algorithms/{name}": algorithm(name) for name in names}


def configuration() -> str:
    """Return the page of the keys in conf/config.yaml."""
    path = shipped_folder("conf") / "config.yaml"
    known = [key for key in yaml_keys.keys(path) if key.name.partition(".")[0] not in _HIDDEN]
    groups = [
        [f"``{group}``", rst.literal(str(default)), link]
        for group, default, link in zip(
            ("dataset", "partition", "algo"),
            _defaults(path),
            (":doc:`datasets`", ":doc:`partitions`", ":doc:`algorithms/index`"),
            strict=True,
        )
    ]
    groups.append(["``experiment``", "``null``", ":doc:`/gallery/index`"])
    top = [key for key in known if "." not in key.name and key.value]
    blocks = [
        rst.title("Keys of a run"),
        docstrings.inline(yaml_keys.heading(path)),
        rst.title("Groups", "-"),
        "``algo=capefm`` chooses an option of the group ``algo``. Each option has its own keys, such as ``algo.lam``.",
        rst.table(["Group", "Default", "Options"], groups),
        rst.title("Keys", "-"),
        rst.table(["Key", "Default", "Meaning"], [_row(key) for key in top], (2, 2, 6)),
    ]
    for group in (key for key in known if not key.value):
        inner = [key for key in known if key.name.startswith(f"{group.name}.")]
        blocks += [rst.title(f"``{group.name}``", "-"), docstrings.inline(group.comment.capitalize())]
        blocks.append(rst.table(["Key", "Default", "Meaning"], [_row(key) for key in inner], (2, 2, 6)))
    return rst.page(*blocks)


def _defaults(path: Path) -> list[Any]:
    listed = {key: value for entry in yaml.safe_load(path.read_text("utf-8"))["defaults"] if isinstance(entry, dict)
              for key, value in entry.items()}  # fmt: skip
    return [listed[group] for group in ("dataset", "partition", "algo")]


def _row(key: yaml_keys.Key) -> list[str]:
    return [rst.literal(key.name), rst.literal(key.value), docstrings.inline(key.comment)]


def target(group: str, name: str) -> tuple[str, Any]:
    """Return the path and the class that an option's YAML file names."""
    path = yaml.safe_load(_file(group, name).read_text("utf-8"))["_target_"]
    return path, class_of(path, group)


def _file(group: str, name: str) -> Path:
    return shipped_folder("conf") / group / f"{name}.yaml"


def option_rows(group: str, name: str) -> list[list[str]]:
    """Return key, default, type and meaning of every key of an option, from its YAML file, class and docstring."""
    _, cls = target(group, name)
    hints = get_type_hints(cls)
    rows = []
    content = completed(OmegaConf.create(yaml.safe_load(_file(group, name).read_text("utf-8"))))
    for key, value in OmegaConf.to_container(content).items():
        if key != "_target_":
            # a class may allow fewer values than its annotation, also because of its sites
            owner = KINDS[content["sites"]] if cls is NoisyDescent else cls
            values = getattr(owner, _CHOICES[key], ()) if key in _CHOICES else ()
            kind = docstrings.inline(_choice(values) if values else ", ".join(_kinds(hints.get(key))))
            shown = yaml.safe_dump(value, default_flow_style=True, width=math.inf).splitlines()[0]
            words = docstrings.inline(meaning(cls, key))
            rows.append([rst.literal(f"{group}.{key}"), rst.literal(shown), kind, words[:1].upper() + words[1:]])
    return rows


def _choice(values: Sequence[Any]) -> str:
    return " | ".join(f"``{value}``" for value in values)


def _kinds(hint: Any) -> Iterator[str]:
    """Yield the types of an annotation, in the words of the command line."""
    if get_origin(hint) is Literal:
        yield _choice(get_args(hint))
    elif get_origin(hint) in (types.UnionType,) or str(get_origin(hint)) == "typing.Union":
        yield from (kind for part in get_args(hint) if part is not type(None) for kind in _kinds(part))
        if type(None) in get_args(hint):
            yield "or null"
    else:
        yield _KINDS.get(get_origin(hint) or hint, "")


def _options(group: str, name: str) -> str:
    rows = option_rows(group, name)
    if not rows:
        return "This option has no keys."
    return rst.table(["Key", "Default", "Value", "Meaning"], rows, (3, 2, 2, 6))


def algorithm(name: str) -> str:
    """Return the page of an algorithm."""
    path, cls = target("algo", name)
    return rst.page(
        rst.title(f"``{name}``"),
        docstrings.inline(yaml_keys.heading(_file("algo", name))),
        rst.code(f"dpml-run algo={name}", "sh"),
        docstrings.rst(parse(inspect.getdoc(cls))[0]),
        rst.title("Keys", "-"),
        _options("algo", name),
        rst.title("Guarantees", "-"),
        _guarantees(name),
        _results(name),
        f"The algorithm is the class ``{path}``.",
    )


def _guarantees(name: str) -> str:
    """Return the claimed and proven eps of every view at one setting."""
    setting, found = _found(name)
    if all(math.isinf(each.eps) for each in found):
        return "This algorithm has no privacy, so nothing is claimed or proven."
    rows = []
    for view in dict.fromkeys(each.view for each in found):
        of = {each.basis: each for each in found if each.view == view}
        claimed, proven = of.get("published"), of["proven"]
        page = _PROOF.sub(r":doc:`/\1`", proven.source)
        rows.append([view, f"{claimed.eps:.3g}" if claimed else "", written(proven.eps, 3), page])
    claims = dict.fromkeys(each.source for each in found if each.basis == "published")
    words = " ".join(f"{key}={value}" for key, value in setting.items())
    lines = [f"``dpml guarantee algo={name} {words} --why`` explains these numbers."]
    lines += [f"The claimed ε is from {source}." for source in claims]
    head = ["View", "Claimed ε", "Proven ε", "Proof"]
    return "\n\n".join([rst.table(head, rows, (1, 1, 1, 4)), " ".join(lines)])


@cache
def _found(name: str) -> tuple[dict[str, Any], list[Guarantee]]:
    """Return a setting and the algorithm's guarantees there."""
    setting = {"eps": 1, "delta": 1e-5, "M": 10, "N": 10_000, "d": 20}
    try:
        return setting, dpml.guarantee(algo=name, **setting)
    except UserError:  # the algorithm is for regression only
        return setting | {"loss": "squared"}, dpml.guarantee(algo=name, loss="squared", **setting)


def _results(name: str) -> str:
    """Return links to the published figures with the algorithm; none for a baseline: nearly all figures have it."""
    paths = (path for path in gallery.RESULTS.glob("*/*.csv") if name in _algorithms(path))
    names = sorted((f"{path.parent.name}/{path.stem}" for path in paths), key=natural)
    links = ", ".join(f":doc:`{each} </gallery/{each}>`" for each in names)
    return f"Figures with this algorithm: {links}." if links and name not in BASELINES else ""


@cache
def _algorithms(path: Path) -> frozenset[str]:
    """Return the algorithms in a published table."""
    table = pd.read_csv(path, usecols=lambda column: column == "algo")
    return frozenset(table["algo"]) if "algo" in table else frozenset()


def algorithms(names: list[str]) -> str:
    """Return the page that lists all algorithms."""
    others = [name for name in names if name not in RECOMMENDED + BASELINES]
    blocks = [
        rst.title("Algorithms"),
        "``algo=NAME`` chooses an algorithm. The pages of :doc:`/privacy` prove the guarantees.",
    ]
    for title, group in (
        ("Recommended", RECOMMENDED),
        ("From papers, and others", others),
        ("Without privacy", BASELINES),
    ):
        rows = [[f":doc:`{name}`", yaml_keys.heading(_file("algo", name)), _proofs(name)] for name in group]
        blocks += [rst.title(title, "-"), rst.table(["Algorithm", "What it is", "Proof"], rows, (1, 3, 2))]
    return rst.page(*blocks, rst.toctree([*RECOMMENDED, *others, *BASELINES]))


def _proofs(name: str) -> str:
    """Return links to the pages that prove an algorithm's guarantees."""
    pages = dict.fromkeys(page for each in _found(name)[1] for page in _PROOF.findall(each.source))
    return ", ".join(f":doc:`/{page}`" for page in pages)


def _first(doc: str | None) -> str:
    """Return the first paragraph of a docstring."""
    return " ".join(parse(doc)[0].split("\n\n")[0].split())


def datasets() -> str:
    """Return the page of all data sets with their keys, and of the preprocessing steps."""
    blocks = [
        rst.title("Data sets"),
        "``dataset=NAME`` chooses a data set. :doc:`/data/README` explains files and public ranges.",
    ]
    for name in options("dataset"):
        _, cls = target("dataset", name)
        place = {"csv": "/own_data"}.get(name, "data/packaged" if name in PACKED else f"data/{name}")
        page = f"More: :doc:`{place}`."
        blocks += [rst.title(f"``{name}``", "-"), docstrings.inline(yaml_keys.heading(_file("dataset", name)))]
        blocks += [docstrings.rst(parse(inspect.getdoc(cls))[0]), page, _options("dataset", name)]
    steps = [[rst.literal(step), docstrings.inline(_first(inspect.getdoc(STEPS[step])))] for step in STEPS]
    blocks += [rst.title("Preprocessing steps", "-"), "The steps that ``dataset.steps`` can list:"]
    blocks += [rst.table(["Step", "What it does"], steps, (1, 5)), rst.toctree(["/data/README", "data/*"], glob=True)]
    return rst.page(*blocks)


def partitions() -> str:
    """Return the page of all partitions with their keys."""
    blocks = [
        rst.title("Partitions"),
        "``partition=NAME`` divides the rows among the parties: see :doc:`/partitions`.",
    ]
    for name in options("partition"):
        _, cls = target("partition", name)
        blocks += [rst.title(f"``{name}``", "-"), docstrings.inline(yaml_keys.heading(_file("partition", name)))]
        blocks += [docstrings.rst(parse(inspect.getdoc(cls))[0]), _options("partition", name)]
    return rst.page(*blocks)
