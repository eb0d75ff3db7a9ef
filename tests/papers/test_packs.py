"""Packs: a paper in a folder anywhere, its card, its Python, and what can be wrong with one."""

import math
import os
import re

import pandas as pd
import pytest

from dpml import code, packs
from dpml.errors import UserError
from dpml.files import shipped_folder
from dpml.reporting.cards import card_of
from dpml.reporting.claims import Evidence

CARD = """
title: Tiny 2026
readings: {loss: {a: {metric: loss, x: p}, b: {metric: loss, x: q}}, ends: {first: {end: 1}, last: {end: 2}}}
claims:
  - {id: T1, figure: f, text: t, criterion: c, test: {improves: {blocks: ["{x}_eps"], algorithms: [fm]}}}
"""


@pytest.fixture(autouse=True)
def no_other_packs(monkeypatch):
    monkeypatch.setenv(packs.ENVIRONMENT, "")
    yield
    monkeypatch.undo()
    packs.known()


def pack(tmp_path, card=CARD, name="tiny2026", **modules):
    where = tmp_path / name
    where.mkdir(exist_ok=True)
    (where / "card.yaml").write_text(card)
    for module, text in modules.items():
        (where / f"{module}.py").write_text(text)
    packs.add([where])
    return where


def test_the_package_names_none_of_the_packs():
    for path in shipped_folder("experiments").parent.glob("dpml/**/*.py"):
        assert not re.search(rf"packs\.({'|'.join(packs.known())})\b", path.read_text("utf-8")), path


def test_groups_readings_and_placeholders(tmp_path):
    group = """
  - for: [{n: 2, how: [{.own.make: {least: 1}}]}, {n: 3, how: .own.plain}]
    figure: "f{n}"
    readings: [loss, ends]
    claims:
      - {id: "T{n}", text: "{n} of {unknown}", criterion: c, test: "{how}"}
"""
    own = "def make(e, least):\n    return least\n\n\ndef plain(e):\n    return e.reading\n"
    pack(tmp_path, CARD + group, own=own)
    card = card_of("tiny2026")
    assert {name: one.figure for name, one in card.claims.items()} == {
        "T1": "tiny2026/f", "T2": "tiny2026/f2", "T3": "tiny2026/f3"
    }  # fmt: skip
    assert card.claims["T2"].text == "2 of {unknown}"
    assert [reading.name for reading in card.claims["T3"].readings] == ["a, first", "a, last", "b, first", "b, last"]
    last = card.claims["T3"].readings[-1]
    assert (last.variant, last.metric, last.more) == ("paper", "loss", {"x": "q", "end": 2})
    assert [reading.name for reading in card.claims["T1"].readings] == ["as stated"]
    evidence = Evidence(pd.DataFrame(), pd.DataFrame()).under(last)
    assert card.claims["T3"].test(evidence) == last


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (("improves", "improve"), "'improve' .*'improves'"),
        (('{improves: {blocks: ["{x}_eps"], algorithms: [fm]}}', "improves"), "'blocks'"),
        (("improves", ".own.none"), r"\.own\.none"),
        (("blocks:", "block:"), "'block' .*'blocks'"),
        ((", algorithms: [fm]", ""), "'algorithms'"),
        (("figure: f, ", ""), "'figure'"),
        (("text: t", "text: t, txt: u"), "'txt'"),
        (("figure: f", "figure: f, readings: los"), "'los' .*'loss'"),
        (("claims:", "claims: {}\nclams:"), "'clams' .*'claims'"),
        (("title: Tiny", "title: &a Tiny\nreadings: *a"), "alias"),
    ],
)
def test_a_wrong_card_is_refused_by_the_name_of_the_key(tmp_path, change, names):
    pack(tmp_path, CARD.replace(*change), own="")
    with pytest.raises(UserError, match=names):
        card_of("tiny2026")


def test_a_folder_that_is_not_a_pack_is_refused(tmp_path, run_command):
    (tmp_path / "empty2026").mkdir()
    done = run_command("dpml-run", "--pack", "empty2026", "experiment=empty2026")
    assert (done.code, done.err.count("\n")) == (2, 1)
    for name in ("Tiny-2026", "hamm2016", "audit"):
        with pytest.raises(UserError, match=name):
            pack(tmp_path, name=name)
    pack(tmp_path)
    packs.add([tmp_path / "tiny2026"])  # twice is once
    assert os.environ[packs.ENVIRONMENT] == str(tmp_path / "tiny2026")


def test_the_python_of_a_pack_counts_by_its_content(tmp_path, monkeypatch):
    """As a plug-in's: a changed formula is other code, and so is what it imports in the pack."""
    monkeypatch.setattr(code, "_BEGUN", math.inf)  # this process has written the files itself
    card = CARD.replace('{improves: {blocks: ["{x}_eps"], algorithms: [fm]}}', ".bounds.two")
    where = pack(tmp_path, card, bounds="from .more import TWO\n\n\ndef two(e):\n    return TWO\n", more="TWO = 2\n")
    assert card_of("tiny2026").claims["T1"].test(Evidence(pd.DataFrame(), pd.DataFrame())) == 2
    digests = [code.digest([], ["dpml.packs.tiny2026.bounds"])]
    (where / "more.py").write_text("TWO = 3\n")
    code._checksum.cache_clear()
    digests.append(code.digest([], ["dpml.packs.tiny2026.bounds"]))
    (where / "card.yaml").write_text("")
    digests.append(code.digest([], ["dpml.packs.tiny2026.bounds"]))
    assert digests[0] != digests[1] == digests[2]


def test_a_pack_of_the_user_is_not_ours(tmp_path):
    pack(tmp_path)
    assert not packs.is_ours("dpml.packs.tiny2026.bounds")
    assert packs.is_ours("dpml.packs.hamm2016.tests")
    assert packs.is_ours("dpml.privacy.gdp")
    assert not packs.is_ours("numpy")
