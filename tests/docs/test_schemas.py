"""The JSON Schemas of the site accept and reject the same files as dpml."""

import json
from pathlib import Path

import pytest
import yaml
from dpml_docs import schemas
from jsonschema import Draft202012Validator
from pages import DOCS, blocks

import dpml
from dpml.data.csv.column_bounds import bounds_from
from dpml.errors import UserError

ROOT = Path(__file__).parents[2]
BOUNDS = {
    "columns": {
        "age": {"low": 0, "high": 60, "edges": [20, 40], "fill": 30, "missing": "indicator"},
        "gain": {"low": 0, "high": 9, "log": True, "edges": 3},
        "job": ["clerk", "farmer", 3],
        "care": {"values": ["home", "ward"], "fill": "home"},
        "member": "boolean",
        "seen": {"unit": "days", "low": "2019-01-01", "high": "2024-12-31", "format": "%d.%m.%Y"},
    },
    "classes": ["no", "yes"],
    "label": "y",
    "steps": ["impute", "one_hot"],
}
RECIPE = {"rounds": 5, "delta": 1e-5, "std": 1.5, "unit": "client", "clients": 4, "secure_sum": True}


def accepts(name: str, content: object) -> bool:
    schema = schemas.FILES[name]()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema).is_valid(json.loads(json.dumps(content, default=str)))  # a date becomes a text


def has_all(name: str, content: dict, optional: tuple[str, ...] = ()) -> bool:
    """Whether a schema accepts a file, but neither with another key nor without one that is not optional."""
    less = [{key: content[key] for key in content if key != left} for left in content if left not in optional]
    return accepts(name, content) and not any(accepts(name, each) for each in [content | {"odd": 1}, *less])


def read(content: object, kind: str) -> bool:
    """Whether dpml reads a bounds file or a recipe."""
    try:
        bounds_from(Path("b.yaml"), content) if kind == "bounds" else dpml.check(**content)
    except UserError:
        return False
    return True


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"odd": 1},
        {"columns": {}},
        {"columns": {"x": {"low": 0}}},
        {"columns": {"x": {"low": 0, "high": "9"}}},
        {"columns": {"x": {"low": 0, "high": 9, "odd": 1}}},
        {"columns": {"x": {"low": 0, "high": 9, "log": 1}}},
        {"columns": {"x": {"low": 0, "high": 9, "missing": "drop"}}},
        {"columns": {"x": {"unit": "days", "low": "2019-01-01"}}},
        {"columns": {"x": {"values": "boolean", "fill": 1}}},
        {"columns": {"x": []}},
        {"columns": {"x": "yes"}},
        {"classes": ["no"]},
        {"classes": "no, yes"},
        {"target": {"low": 0, "high": 1}},
        {"steps": "impute"},
        {"label": True},
        {"from_rows": True},
    ],
)
def test_bounds(change) -> None:
    content = BOUNDS | change
    assert accepts("bounds", content) == read(content, "bounds") == (not change or "boolean" in str(change))


@pytest.mark.parametrize(
    ("change", "right"),
    [
        ({}, True),
        ({"rounds": "5", "delta": "1e-5"}, True),
        ({"weight": None, "client_sampling": "poisson", "client_rate": 0.5}, True),
        ({"odd": 1}, False),
        ({"rounds": [5]}, False),
        ({"unit": "user"}, False),
        ({"secure_sum": "maybe"}, False),
        ({"opacus": {"noise_multiplier": 1}}, False),
        ({"flower": {"LocalDpMod": {"epsilon": 1}}}, False),
    ],
)
def test_recipes(change, right) -> None:
    assert accepts("recipe", RECIPE | change) == read(RECIPE | change, "recipe") == right


@pytest.mark.parametrize("page", ["howto/check.md", "own_data.md"])
def test_files_of_pages(page) -> None:
    found = [each for each in blocks((DOCS / page).read_text("utf-8")) if each.file.endswith(".yaml")]
    assert found
    for each in found:
        assert accepts("recipe" if "check" in page else "bounds", yaml.safe_load(each.body)), each.file


def test_cards_of_papers() -> None:
    for path in ROOT.glob("experiments/*/card.yaml"):
        content = yaml.safe_load(path.read_text("utf-8"))
        assert has_all("card", content, optional=tuple(content)), path


@pytest.mark.slow
def test_a_model_its_certificate_and_what_a_federation_writes(run_command, tmp_path) -> None:
    rows = [f"{number % 60},{'no' if number % 3 else 'yes'}" for number in range(90)]
    for party in ("a", "b", "c"):
        (tmp_path / f"{party}.csv").write_text("\n".join(["x,y", *rows]) + "\n")
    (tmp_path / "b.yaml").write_text("columns: {x: {low: 0, high: 60}}\nclasses: ['no', 'yes']\n")
    agreed = ["--bounds", "b.yaml", "--set", "eps=1", "delta=1e-4", "dataset.label=y"]
    for line in (
        "release a.csv --bounds b.yaml --label y eps=1 delta=1e-4 -o m.json",
        "check rounds=3 std=2 delta=1e-5 --certificate c.json",
        *(f"federate card {party}.csv --key {party}.key -o {party}.card" for party in "abc"),
        "federate plan a.card b.card c.card -o plan.json",
    ):
        done = run_command("dpml", *line.split(), *(agreed if "federate" in line else []))
        assert done.code == 0, (line, done.err)
    files = {"model": "m.json", "certificate": "c.json", "party": "a.card", "plan": "plan.json"}
    contents = {kind: json.loads((tmp_path / file).read_text()) for kind, file in files.items()}
    for kind, content in contents.items():
        assert has_all(kind, content, optional=("checksum",) if kind == "certificate" else ()), kind
    assert has_all("certificate", contents["model"]["certificate"])
    worse = contents["certificate"] | {"noise": {"by": "curator", "parties": 3}}
    assert not accepts("certificate", worse)
