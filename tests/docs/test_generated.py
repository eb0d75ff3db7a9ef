"""The generated pages have every option, key, column, metric, test of claims, data set, public name and figure."""

import csv
import re
from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

pytest.importorskip("sphinx")

from dpml_docs import configuration, python_api, tables

import dpml
from dpml import packs
from dpml.config.build import completed
from dpml.config.compose import compose
from dpml.files import shipped_folder
from dpml.privacy import Guarantee
from dpml.reporting.cards import VOCABULARY, card_of
from dpml.running import rows

ROOT = Path(__file__).parents[2]
CONF = shipped_folder("conf")
OPTIONS = [(path.parent.name, path.stem) for path in sorted(CONF.glob("*/*.yaml"))]


def flat(content, prefix=""):
    """Every key of a mapping with dots, by a way of its own: PyYAML's loader."""
    for key, value in content.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def cells(page):
    found = []
    for block in re.split(r"(?m)^   \* - ", page)[1:]:
        block = re.split(r"\n\n(?=\S)", block)[0]
        found.append([" ".join(cell.split()) for cell in re.split(r"(?m)^     - ?", block)])
    return found


def test_every_key_of_a_run_is_there_with_its_default_and_a_meaning():
    content = yaml.safe_load((CONF / "config.yaml").read_text("utf-8"))
    lines = {line[0].strip("`"): line for line in cells(configuration.configuration())}
    for key, default in flat({key: value for key, value in content.items() if key not in ("defaults", "hydra")}):
        assert yaml.safe_load(lines[key][1].strip("`")) == default
        assert len(lines[key][2]) > 3, key


def test_every_key_of_an_option_is_there_with_its_default_kind_and_meaning():
    every = compose([f"+{group}@every.{group}.{name}={name}" for group, name in OPTIONS]).whole.every
    text = configuration.pages()
    for group, name in OPTIONS:
        page = f"algorithms/{name}" if group == "algo" else f"{group}s"
        assert re.search(rf"^``{name}``\n[=-]+$", text[page], flags=re.MULTILINE), name
        content = OmegaConf.to_container(completed(every[group][name]))
        content.pop("_target_", None)
        lines = {line[0].strip("`"): line for line in configuration.option_rows(group, name)}
        assert lines.keys() == {f"{group}.{key}" for key in content}
        for key, default in content.items():
            _, shown, kind, meaning = lines[f"{group}.{key}"]
            assert yaml.safe_load(shown.strip("`")) == default
            assert meaning, key
            assert kind or key == "positive", key  # a label may be anything


def described(text):
    return set(re.findall(r"\w+", " ".join(re.findall(r"^\| (`[^|]*) \|", text, flags=re.MULTILINE))))


COLUMNS, METRICS = map(described, (ROOT / "docs/howto/commands.md").read_text("utf-8").split("## Metrics"))


def test_every_metric_of_the_results_is_described():
    used = set()
    for path in (ROOT / "results").glob("*/*.csv"):
        with path.open(encoding="utf-8") as file:
            used |= {line.get("metric") for line in csv.DictReader(file)} - {None}
    cards = filter(None, map(card_of, packs.known()))
    assert used <= METRICS.union(*(card.metrics for card in cards))


def test_every_column_test_of_claims_and_public_name_is_described():
    guarantees = {field.name for field in fields(Guarantee) if field.name != "curve"}
    assert {*rows.COLUMNS, *guarantees, "budget_eps", "budget_delta", "secure_sums"} == COLUMNS
    lines = {line[0].strip("`").partition(":")[0]: line[1] for line in cells(tables.tests()) if line[0] != "Test"}
    assert lines.keys() == set(VOCABULARY)
    assert all(lines.values())
    names = re.findall(r"^.. auto\w+:: (.*)", python_api.public(), re.MULTILINE)
    assert {name.rpartition(".")[2] for name in names} == set(dpml.__all__)
