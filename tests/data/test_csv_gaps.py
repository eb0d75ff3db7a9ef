"""A bounds file that says what stands for a missing value, and how the file is read."""

import json
from pathlib import Path

import numpy as np
import pytest

from dpml.data import Files
from dpml.data.csv.column_bounds import load
from dpml.data.sets.csv import CSV
from dpml.seeds import generator

ROWS = (
    "id;crp;care;seen;died\n1;<0,5;home;2020-01-02;no\n2;100,5;;2020-01-03;yes\n3;;ward;;no\n4;7;ward;2020-01-04;yes\n"
)
STATED = """
columns:
  crp: {low: 0, high: 500, fill: 0.4, missing: indicator}
  care: {values: [home, ward], fill: ward}
  seen: {unit: days, low: 2020-01-01, high: 2020-12-31, fill: 2020-01-11}
classes: ["no", "yes"]
label: died
drop: [id]
na: ["<0,5"]
decimal: comma
missing: refuse
steps: [one_hot, min_max]
"""


@pytest.fixture
def files(write):
    return {"path": write(ROWS), "bounds": write(STATED, "b.yaml")}


def arrays(source: CSV) -> tuple[np.ndarray, np.ndarray]:
    data = source.load(Files(), None, generator(0, "data"))
    order = np.argsort(data.X[:, 2])
    return data.X[order], data.y[order]


def test_a_stated_value_stands_for_a_missing_one_and_a_feature_marks_it(files):
    X, y = arrays(CSV(**files, test_fraction=0))
    days = 365
    expected = [  # crp, whether it is missing, seen, home, ward
        [0.4 / 500, 1, 1 / days, 1, 0],
        [100.5 / 500, 0, 2 / days, 0, 1],
        [7 / 500, 0, 3 / days, 0, 1],
        [0.4 / 500, 1, 10 / days, 0, 1],
    ]
    np.testing.assert_allclose(X, expected, rtol=1e-12)
    assert list(y) == [-1, 1, 1, -1]


def test_the_file_says_how_rows_are_read_and_what_is_typed_comes_first(files):
    source = CSV(**files)
    assert (source.label, source.drop, source.na, source.steps) == ("died", ("id",), ("<0,5",), ("one_hot", "min_max"))
    assert (source.missing, source.written.decimal) == ("refuse", ",")
    assert CSV(**files, steps=("one_hot", "symmetric"), na=("7",)).steps == ("one_hot", "symmetric")
    usual = CSV(**files, missing="drop", decimal="point", drop=(), na=())  # the defaults, typed
    assert (usual.missing, usual.written.decimal, usual.drop, usual.na) == ("drop", ".", (), ())
    stated = STATED + "party: care\nseparator: semicolon\npositive: 'no'\n"
    Path(files["bounds"]).write_text(stated)
    assert (CSV(**files).party, CSV(**files).separator, CSV(**files).positive) == ("care", "semicolon", "no")
    null = CSV(**files, party=None, separator=None, positive=None)
    assert (null.party, null.separator, null.positive, null.label) == (None, None, None, "died")
    stated = load(Path(files["bounds"]))
    assert stated.gaps(False)[:2] == ["crp counts as 0.4", "care counts as ward"]
    assert stated.content()["columns"]["care"] == {"values": ["home", "ward"], "fill": "ward"}


def test_a_release_takes_one_file_and_says_what_stands_for_missing_values(files, run_command, tmp_path):
    Path(files["path"]).write_text(ROWS + "".join(f"{i};{i};home;2020-05-01;no\n" for i in range(5, 60)))
    Path(files["bounds"]).write_text(STATED.replace("min_max", "symmetric, sample_norm"))
    Path(files["bounds"]).write_text(Path(files["bounds"]).read_text().replace("label: died", "label: id"))
    words = [files["path"], "--bounds", files["bounds"], "eps=1", "delta=1e-5", "-o", "model.json"]
    assert "both name the column 'id'" in run_command("dpml", "release", *words).err
    done = run_command("dpml", "release", *words, "--label", "died")
    assert done.code == 0, done.err
    model = json.loads((tmp_path / "model.json").read_text())
    assert "crp counts as 0.4; care counts as ward; seen counts as 2020-01-11" in model["statement"][-1]
    assert {key: model["stated"][key] for key in ("decimal", "na")} == {"decimal": "comma", "na": ["<0,5"]}
    assert "label" not in model["stated"]
    predicted = run_command("dpml", "predict", "model.json", files["path"])  # <0,5 is read as the release read it
    assert len(predicted.out.splitlines()) == 60, predicted.err


def test_repeated_options_add_up(files, run_command):
    words = ["--label", "died", "--na", "<0,5", "--na", "7", "--drop", "id", "--drop", "seen", "--decimal", "comma"]
    done = run_command("dpml", "data", "describe", files["path"], *words)
    assert '\'dataset.na=["<0,5","7"]\'' in done.out
    stated = run_command("dpml", "data", "describe", files["path"], "--bounds", files["bounds"])
    assert "with the steps one_hot, min_max" in stated.out  # and the column that it drops is none that it must state
    assert "'dataset.drop=[id,seen]'" in done.out
