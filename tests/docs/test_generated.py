"""The generated pages have all that code and results know, and nothing in them was typed by hand."""

import argparse
import csv
import inspect
import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

pytest.importorskip("sphinx")

from dpml_docs import (
    commands,
    configuration,
    data_pages,
    docstrings,
    gallery,
    links,
    pages,
    python_api,
    tables,
    yaml_keys,
)

import dpml
from dpml import packs
from dpml.config import catalogue
from dpml.config.build import completed
from dpml.config.compose import compose
from dpml.config.docstrings import meaning
from dpml.data.sets.packaged import Packaged
from dpml.files import shipped_folder
from dpml.privacy import Guarantee
from dpml.reporting.cards import VOCABULARY, card_of
from dpml.running import rows

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

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
    """The lines of all tables of a page: cells without their indentation."""
    found = []
    for block in re.split(r"(?m)^   \* - ", page)[1:]:
        block = re.split(r"\n\n(?=\S)", block)[0]
        found.append([" ".join(cell.split()) for cell in re.split(r"(?m)^     - ?", block)])
    return found


def test_every_key_of_a_run_is_there_with_its_default_and_a_meaning():
    content = yaml.safe_load((CONF / "config.yaml").read_text("utf-8"))
    wanted = dict(flat({key: value for key, value in content.items() if key not in ("defaults", "hydra")}))
    lines = {line[0].strip("`"): line for line in cells(configuration.configuration())}
    assert wanted
    for key, default in wanted.items():
        assert yaml.safe_load(lines[key][1].strip("`")) == default
        assert len(lines[key][2]) > 3, key
    for entry in content["defaults"]:
        if isinstance(entry, dict) and not next(iter(entry)).startswith("override"):
            assert next(iter(entry)) in lines


@pytest.fixture(scope="module")
def every():
    """Every option as Hydra composes it, which takes as long for one."""
    every = compose([f"+{group}@every.{group}.{name}={name}" for group, name in OPTIONS]).every
    return {
        group: {name: OmegaConf.to_container(completed(every[group][name])) for name in every[group]} for group in every
    }


@pytest.mark.slow_cases("algo-adassp")
@pytest.mark.parametrize(("group", "name"), OPTIONS)
def test_every_key_of_an_option_is_there_with_its_default_kind_and_meaning(every, group, name):
    content = every[group][name]
    lines = {line[0].strip("`"): line for line in configuration.option_rows(group, name)}
    assert lines.keys() == {f"{group}.{key}" for key in content if key != "_target_"}
    for key, default in content.items():
        if key != "_target_":
            _, shown, kind, meaning = lines[f"{group}.{key}"]
            assert yaml.safe_load(shown.strip("`")) == default
            assert meaning, key
            assert kind or key == "positive", key  # a label may be anything


@pytest.mark.slow
def test_every_option_has_a_place():
    text = configuration.pages()
    for group, name in OPTIONS:
        page = f"algorithms/{name}" if group == "algo" else f"{group}s"
        assert re.search(rf"^``{name}``\n[=-]+$", text[page], flags=re.MULTILINE), name
    assert {line[0] for line in cells(text["algorithms/index"]) if line[0] != "Algorithm"} == {
        f":doc:`{name}`" for group, name in OPTIONS if group == "algo"
    }


def test_every_data_set_has_a_page_with_its_files_and_ranges():
    pages = data_pages.pages()
    sources = catalogue.sources()
    assert len(sources) > 25
    for name, source in sources.items():
        packaged = isinstance(source, Packaged)
        page = pages["packaged" if packaged else name]
        assert f"{source.info.rows:,}" in page
        assert source.info.citation in page
        if not packaged:
            assert source.info.differences in page
            assert source.info.bounds in page or "Public ranges: [as of" in page
            assert all(digest in page for raw in source.info.files[:1] for digest in raw.sha256)
    assert "| hours-per-week | 1 to 99, 9 edges |" in pages["adult"]
    assert "(16 values)" in pages["adult"]


def test_comments_are_read_with_what_goes_on_below(tmp_path):
    path = tmp_path / "some.yaml"
    path.write_text('# About it.\na: "x # y"  # one\n       # two\nb:  # of b\n  c: [1, 2] # three\nd: 4\n# five\n')
    assert [tuple(vars(key).values()) for key in yaml_keys.keys(path)] == [
        ("a", '"x # y"', "one two"),
        ("b", "", "of b"),
        ("b.c", "[1, 2]", "three"),
        ("d", "4", ""),
    ]
    assert yaml_keys.heading(path) == "About it."


def _described(page: str) -> set[str]:
    """The names in the first column of a page's tables."""
    text = (ROOT / "docs/howto" / page).read_text("utf-8")
    return {
        name for line in re.findall(r"^\| (`[^|]*) \|", text, flags=re.MULTILINE) for name in re.findall(r"\w+", line)
    }


def test_every_metric_of_the_results_is_described():
    used = set()
    for path in (ROOT / "results").glob("*/*.csv"):
        with path.open(encoding="utf-8") as file:
            used |= {line.get("metric") for line in csv.DictReader(file)} - {None}
    cards = filter(None, map(card_of, packs.known()))
    assert len(used) > 20
    assert used <= _described("algorithms.md").union(*(card.metrics for card in cards))


def test_every_column_is_described():
    guarantees = {field.name for field in fields(Guarantee) if field.name != "curve"}
    assert _described("commands.md") == {*rows.COLUMNS, *guarantees, "budget_eps", "budget_delta", "secure_sums"}


def test_every_test_of_claims_is_there_and_described():
    lines = {line[0].strip("`").partition(":")[0]: line[1] for line in cells(tables.tests())}
    assert lines.pop("Test")
    assert lines.keys() == set(VOCABULARY)
    assert all(lines.values())
    assert not any("Args:" in text for text in lines.values())


def test_arguments_of_tests_of_claims_are_a_list():
    described = {
        name: re.findall(r"(?m)^    (\w[\w, ]*): ", inspect.cleandoc(made.__doc__).partition("\nArgs:\n")[2])
        for name, made in VOCABULARY.items()
    }
    assert sum(map(bool, described.values())) > 1
    page = tables.tests()
    for name, arguments in described.items():
        cell = page.partition(f"* - ``{name}: ")[2].partition("\n   * - ")[0]
        for number, word in enumerate(arguments):
            before = "" if number else "\n"  # a list starts after an empty line
            assert f"\n{before}       - ``{word}``: " in cell, (name, word)


@pytest.mark.slow
def test_every_command_and_option_is_there(run_command, monkeypatch):
    monkeypatch.setattr(commands, "run_help", lambda: run_command("dpml-run", "--help").out)  # no process of its own
    page, helps = commands.commands(), dict(commands.helps())
    from dpml.cli.main import parser

    def walk(command):
        assert f"usage: {command.prog} " in page
        for action in command._actions:
            for option in action.option_strings:
                assert option in helps[command.prog]
            if isinstance(action, argparse._SubParsersAction):
                for inner in action.choices.values():
                    walk(inner)

    walk(parser())
    assert "dpml-run -m algo=capefm,conv,nonpriv" in page


def test_every_public_name_is_there():
    page = python_api.public()
    assert {re.sub(r".*\.", "", path) for path in re.findall(r"^.. auto\w+:: (.*)", page, re.MULTILINE)} == set(
        dpml.__all__
    )
    assert "dpml.algorithms" in page


@pytest.mark.slow
def test_every_figure_is_in_the_gallery_with_its_command_and_files():
    text = gallery.pages()
    pictures = list((ROOT / "results").glob("*/*.svg"))
    assert len(pictures) > 40
    for path in pictures:
        page = text[f"{path.parent.name}/{path.stem}"]
        about = json.loads(path.with_name(f"{path.stem.removesuffix('_tight')}.json").read_text("utf-8"))
        target = f"../../../results/{path.parent.name}/{path.name}"
        assert f"]({target})" in page
        assert (DOCS / "gallery" / path.parent.name / target).resolve() == path
        assert about["command"] in page
        assert f"<{target.removesuffix('svg')}csv>" in page


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("norm ||w*|| of `x_` and ``a*b``", r"norm \|\|w\*\|\| of ``x_`` and ``a*b``"),
        ("*published*: 2 * 3", r"*published*: 2 \* 3"),
        ("names in `parts` of\nlines", "names in ``parts`` of\nlines"),
        ("a\n\n    R^5 = N\n\nb", "a\n\n::\n\n   R^5 = N\n\nb"),
        ("Two:\n- one\n- two", "Two:\n\n- one\n- two"),
    ],
)
def test_docstrings_become_rst(text, expected):
    assert docstrings.rst(text) == expected


def test_arguments_are_found_in_bases():
    class Base:
        """B.

        Args:
            first, second: both
                of them.
            third: base.
        """

    class Derived(Base):
        """D.

        Attributes:
            third: own.
        """

    assert meaning(Derived, "second") == "both of them."
    assert meaning(Derived, "third") == "own."
    assert meaning(Derived, "fourth") == ""


def test_no_page_is_left_out(tmp_path):
    (tmp_path / "howto").mkdir()
    (tmp_path / "index.md").write_text("```{toctree}\n:hidden:\n\nStart <start>\nhowto/index\n```\n")
    (tmp_path / "howto" / "index.md").write_text("```{toctree}\n../own_data\nscale\n```\n")
    for name in ("start", "own_data", "scale"):
        (tmp_path / f"{name}.md").write_text(f"# {name}\n")
    assert pages.unlisted(tmp_path) == ["scale"]


@pytest.mark.parametrize(
    ("link", "page"),
    [
        ("](../results/frontier/which.md)", "](/gallery/frontier/which.md)"),
        ("](../../results/claims.md#x)", "](/gallery/index.md#x)"),
        ("](../../experiments)", "](/gallery/index.md)"),
        ("](examples/nine_steps.py)", "](/tour/nine_steps.rst)"),
        ("](own_data.md)", "](own_data.md)"),
    ],
)
def test_links_out_of_the_documents_stay_in_the_site(link, page):
    assert links.inside(f"[a{link}") == f"[a{page}"
