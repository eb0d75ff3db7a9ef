"""Generate JSON Schemas of files, from the declarations with which dpml reads them."""

import inspect
import json
from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from dpml.config.docstrings import meaning
from dpml.data import Task
from dpml.data.csv import column_bounds
from dpml.federated import plan
from dpml.federated.agreed import Agreed
from dpml.privacy import Guarantee
from dpml.recipes import TrainingRecipe, frameworks
from dpml.release import verify
from dpml.reporting.cards import Card, _Reader
from dpml_docs import rst

Schema = dict[str, Any]
NUMBER: Schema = {"type": "number"}
TEXT: Schema = {"type": "string"}
WORDS: Schema = {"type": ["string", "number"]}
TYPED: Schema = {"anyOf": [{"type": ["number", "null"]}, TEXT | {"pattern": r"^[-+]?[0-9.]+([eE][-+]?[0-9]+)?$"}]}
"""A number in YAML 1.1, which reads 1e-5 as text."""
PLAIN = {NoneType: "null", bool: "boolean", int: "integer", float: "number", str: "string"}


def pages() -> dict[str, str]:
    """Return the page by its name below reference/."""
    from dpml_docs import docstrings  # needs Sphinx, which the tests of schemas do without

    rows = []
    for name, schema in FILES.items():
        about = (inspect.getdoc(schema) or "").removeprefix("Return the schema of ")
        rows.append([f":download:`{name} <schemas/{name}.json>`", docstrings.inline(f"The schema describes {about}")])
    return {
        "schemas": rst.page(
            rst.title("JSON Schemas"),
            "A schema describes the keys and types of one kind of file. dpml checks more, such as the order of bounds. "
            "With the first line ``# yaml-language-server: $schema=recipe.json``, many editors complete and check the "
            "keys of a YAML file.",
            rst.table(["Schema", "File"], rows, (1, 5)),
        )
    }


def contents() -> dict[str, str]:
    """Return every schema as JSON, by its path below reference/."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {f"schemas/{name}.json": json.dumps(head | schema(), indent=1) + "\n" for name, schema in FILES.items()}


def exactly(properties: Mapping[str, Schema], optional: Sequence[str] = ()) -> Schema:
    """Return the schema of an object with these keys and no others."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}


def listed(each: Schema, least: int = 0) -> Schema:
    """Return the schema of an array."""
    return {"type": "array", "items": each, "minItems": least}


def named(each: Schema) -> Schema:
    """Return the schema of an object with any keys."""
    return {"type": "object", "additionalProperties": each}


def of_hint(hint: Any) -> Schema:
    """Return the schema of a type annotation, with a description of the allowed values."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return {**of_hint(inner[0]), "description": f"It must be {hint.__metadata__[0].words}."}
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (Union, UnionType):
        return {"anyOf": [of_hint(each) for each in inner]}
    if origin in (tuple, Sequence):
        return listed(of_hint(inner[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return named(of_hint(inner[1]))
    return {"type": PLAIN[hint]} if hint in PLAIN else {}


def of_class(kind: Any, without: Sequence[str] = ()) -> dict[str, Schema]:
    """Return the schema of each field of a dataclass, with its description in the class's docstring."""
    hints = get_type_hints(kind, include_extras=True)
    found = {name: of_hint(hints[name]) for name in kind.__dataclass_fields__ if name not in without}
    for name, schema in found.items():
        schema["description"] = f"{meaning(kind, name)} {schema.get('description', '')}".strip()
    return found


def recipe() -> Schema:
    """Return the schema of a training recipe for `dpml check`, in the keys of dpml or of a framework."""
    keys = of_class(TrainingRecipe, without=["unproven"])
    for name, schema in keys.items():
        if {"number", "integer"} & {each.get("type") for each in [schema, *schema.get("anyOf", [])]}:
            keys[name] = TYPED | {"description": schema["description"]}
    flower = {name: exactly(dict.fromkeys(arguments, TYPED)) for name, arguments in frameworks._FLOWER.items()}
    arguments = (*frameworks._OPACUS, *frameworks._OPACUS_ALSO)
    opacus = exactly({key: {} for key in arguments}, optional=frameworks._OPACUS_ALSO)
    keys |= {
        "flower": {"oneOf": [exactly({name: each}) for name, each in flower.items()]},
        "opacus": opacus,
        "dp_event": TEXT,
    }
    enough = [{"required": ["rounds"]}, *({"required": [name]} for name in frameworks.FRAMEWORKS)]
    return exactly(keys, optional=list(keys)) | {"anyOf": enough}


def bounds() -> Schema:
    """Return the schema of a bounds file, which states the public ranges of a data file's columns."""
    more = {"fill": WORDS, "missing": {"const": "indicator"}}
    span = {"low": NUMBER, "high": NUMBER, "edges": {"anyOf": [NUMBER, listed(NUMBER)]}, "log": {"type": "boolean"}}
    edges = {"anyOf": [NUMBER, listed(TEXT)]}
    days = {"unit": {"const": "days"}, "format": TEXT, "low": TEXT, "high": TEXT, "edges": edges}
    values = {"anyOf": [{"const": "boolean"}, listed(WORDS, least=1)]}
    column = [
        *values["anyOf"],
        exactly({"values": values, **more}, optional=list(more)),
        exactly(span | more, optional=["edges", "log", *more]),
        exactly(days | more, optional=["edges", "format", *more]),
    ]
    usual = column_bounds.USUAL.items()
    reading = {key: listed(WORDS) if isinstance(value, tuple) else WORDS for key, value in usual}
    labels = {"classes": listed(WORDS, least=2), "target": exactly(span, optional=["edges", "log"])}
    columns = named({"anyOf": column}) | {"minProperties": 1}
    content = {"columns": columns, **labels, column_bounds.FROM_ROWS: {"const": False}, **reading}
    return exactly(content, optional=[key for key in content if key != "columns"]) | {
        "oneOf": [{"required": [key]} for key in labels]
    }


def card() -> Schema:
    """Return the schema of a paper's card.yaml, which lists the paper's claims and their tests."""
    keys: dict[str, Schema] = {key: {} for key in inspect.signature(_Reader.claim).parameters if key != "self"}
    claim = exactly({**keys, "for": listed({}), "claims": listed({})}, optional=[*keys, "for", "claims"])
    content = of_class(Card, without=["made_from", "claims"]) | {"claims": listed(claim), "readings": {}}
    return exactly(content, optional=list(content))


def party() -> Schema:
    """Return the schema of a party's card, which has its number of rows and its key for a federation."""
    return exactly({"rows": {"type": "integer", "minimum": 1}, "key": TEXT | {"pattern": "^[0-9a-f]{64}$"}})


def federation_plan() -> Schema:
    """Return the schema of a federation's plan, which all parties sign."""
    parts = {
        "format": {"const": plan.FORMAT},
        "terms": exactly(of_class(Agreed), optional=["count_errors"]),
        "stated": bounds(),
        "parties": named(party()),
        "signatures": named(TEXT),
    }
    return exactly({key: parts.get(key, {"type": "integer", "minimum": 0}) for key in plan._KEYS})


def certificate() -> Schema:
    """Return the schema of a certificate, from which `dpml verify` recomputes every ε."""
    number = {"anyOf": [NUMBER, TEXT | {"pattern": "^[0-9]+(/[0-9]+)?$"}]}
    block = exactly(dict.fromkeys(("numbers", "variance", "step"), number))
    laws = []
    for law, keys in verify.LAWS.items():
        said = {"law": {"const": law}, "times": number, "stated": {"const": True}}
        said |= {key: listed(block) if key == "blocks" else number for key in keys.split()}
        laws.append(exactly(said, optional=["stated", "rounding"]))
    noises = [exactly(dict.fromkeys(keys.split(), number) | {"by": {"const": by}}) for by, keys in verify.READ.items()]
    messages = listed({"oneOf": laws})
    view = exactly({"eps": number, "messages": messages}, optional=["messages"])
    content = {
        "format": {"const": verify.CERTIFICATE},
        "declared": TEXT,
        "unit": {"enum": list(verify.UNITS)},
        "neighbours": {"enum": list(verify.NEIGHBOURS)},
        "delta": number,
        "noise": {"oneOf": noises},
        "messages": messages,
        "views": exactly(dict.fromkeys(verify.VIEWS, view), optional=list(verify.VIEWS)),
        "checksum": TEXT,
    }
    return exactly(content, optional=["declared", "checksum"])


def model() -> Schema:
    """Return the schema of a model that `dpml release` writes."""
    guarantee = exactly({name: {} for name in of_class(Guarantee)})
    parts = {
        "format": {"const": verify.MODEL},
        "task": of_hint(Task),
        "stated": bounds(),
        "steps": listed(TEXT),
        "statement": listed(TEXT),
        "weights": listed(listed(NUMBER, least=1), least=1),
        "guarantees": listed(guarantee),
        "versions": named(TEXT),
        "certificate": {"anyOf": [certificate(), {"type": "null"}]},
        "offset": NUMBER,
        "scale": NUMBER,
        "errors": {"type": "object"},
        "moments": {"type": "object"},
        "checksum": TEXT,
    }
    keys = [*verify.KEYS.split(), "errors", "moments", "checksum"]
    return exactly({key: parts.get(key, TEXT) for key in keys}, optional=["errors", "moments"])


FILES = {
    "recipe": recipe,
    "bounds": bounds,
    "card": card,
    "party": party,
    "plan": federation_plan,
    "certificate": certificate,
    "model": model,
}
