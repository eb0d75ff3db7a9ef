"""Verdicts and tables follow from the rows that are published; files that were cut or edited give one sentence."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from harness import without_pictures

from dpml.cli import dpml, dpml_run
from dpml.errors import UserError
from dpml.reporting.evidence import packed, read_rows, unpacked, verify
from dpml.reporting.manifest import Manifest


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    for name in ("kang2019/table1", "imtiaz2019/remark3"):
        with without_pictures(), pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.argv", ["dpml-run", f"results_dir={folder}", f"experiment={name}"])
            dpml_run()
    return folder


@pytest.fixture
def copy(results, tmp_path) -> Path:
    for path in results.glob("*2019/*"):
        target = tmp_path / path.relative_to(results)
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(path.read_bytes())
    return tmp_path


def test_everything_that_was_written_follows_from_the_rows(results):
    remark, table = verify(results)
    assert (table.experiment, table.verdicts, table.wrong) == ("kang2019/table1", 3, ())
    assert (remark.experiment, remark.verdicts, remark.wrong) == ("imtiaz2019/remark3", 1, ())
    assert table.values > 1000


def test_the_same_rows_are_the_same_bytes(results):
    plain = results / "kang2019" / "table1_rows.csv"
    packed_too = plain.with_name("table1_rows.csv.xz").read_bytes()
    rows = pd.read_csv(plain)
    assert packed(rows) == packed_too
    pd.testing.assert_frame_equal(unpacked(packed_too), rows)
    odd = pd.DataFrame({"a": [np.nan, 1.0], "b": ["x,y", None], "c": [1, 2]})
    pd.testing.assert_frame_equal(unpacked(packed(odd)), odd)


def test_a_verdict_that_does_not_follow_or_was_left_out_is_named(copy):
    """Whoever edits a verdict and seals the manifest again still has the rows against himself."""
    manifest = Manifest(copy / "kang2019" / "table1.json")
    content = manifest.read()
    content["claims"][0]["decision"] = "reproduced"
    left_out = content["claims"].pop()["id"]
    manifest.keep(content)
    _, table = verify(copy)
    unjudged, wrong = table.wrong
    assert unjudged.startswith(f"{left_out}: ")
    assert wrong.startswith("K5.R: ")
    assert re.findall("'(.*?)'", wrong) == ["reproduced", "depends on an unstated choice"]


def test_a_table_that_does_not_follow_is_named(copy):
    manifest, path = Manifest(copy / "kang2019" / "table1.json"), copy / "kang2019" / "table1.csv"
    table = pd.read_csv(path)
    table.loc[0, "mean"] = 1.2345
    table.to_csv(path, index=False)
    content = manifest.read()
    manifest.keep(content, [path.with_name(name) for name in content["files"]])
    _, found = verify(copy)
    assert found.wrong == ("table1.csv: some values do not follow from the rows",)


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-20], lambda b: b"", lambda b: b[:50] + b"x" + b[51:], lambda _: b"a,b\n"]
)
@pytest.mark.parametrize("sealed", [False, True])
def test_rows_that_were_cut_or_edited_give_one_sentence_and_no_verdict(copy, damage, sealed):
    path = copy / "kang2019" / "table1_rows.csv.xz"
    path.write_bytes(damage(path.read_bytes()))
    if sealed:  # with checksums that fit
        manifest = Manifest(path.with_name("table1.json"))
        content = manifest.read()
        manifest.keep(content, [path.with_name(name) for name in content["files"]])
    with pytest.raises(UserError, match=r"table1_rows.csv.xz (was changed|does not contain rows)"):
        list(verify(copy))


def test_what_is_missing_is_named(copy, tmp_path):
    (copy / "kang2019" / "table1.csv").write_text("a\n1\n")
    with pytest.raises(UserError, match=r"table1.csv was changed"):
        list(verify(copy))
    path = copy / "kang2019" / "table1.json"
    path.write_text(path.read_text().replace("K5.T", "K5.E", 1))
    with pytest.raises(UserError, match=r"table1.json was changed"):
        list(verify(copy))
    with pytest.raises(UserError, match=r"table1_rows.csv.xz is missing"):
        read_rows(tmp_path / "mine" / "table1", {})
    with pytest.raises(UserError, match=r"fig99 has no stored rows"):
        list(verify(copy / "kang2019" / "fig99"))


def test_a_paper_or_a_figure_is_verified_alone(copy):
    for path in ("kang2019", "kang2019/table1", "kang2019/table1.json", "kang2019/table1.csv"):
        (one,) = verify(copy / path)
        assert (one.experiment, one.wrong) == ("kang2019/table1", ())


def test_the_command(copy, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["dpml", "verify", str(copy)])
    dpml()
    assert "of 2 experiments. All agree" in capsys.readouterr().out
    (copy / "kang2019" / "table1_rows.csv.xz").write_bytes(b"")
    with pytest.raises(SystemExit, match="2"):
        dpml()
    assert "table1_rows.csv.xz was changed" in capsys.readouterr().err
