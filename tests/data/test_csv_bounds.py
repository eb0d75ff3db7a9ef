"""dataset.bounds=FILE.yaml: what is stated takes the place of what would be read from the rows."""

import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_csv_files import sentence

from dpml.data import Files
from dpml.data.csv import column_bounds
from dpml.data.csv.describe import bounds_text, describe
from dpml.data.partition import Equal, partition
from dpml.data.preprocess import norms, private_note
from dpml.data.sets.csv import CSV, read_rows
from dpml.errors import UserError

ROWS = "age,gain,job,member,income\n31,0,nurse,yes,low\n52,999,judge,no,high\n44,9,clerk,yes,high\n29,0,nurse,no,low\n"
STATED = """\
columns:
  age: {low: 0, high: 100}
  gain: {low: 0, high: 999, log: true}
  job: [nurse, judge, farmer]
  member: boolean
classes: [low, high]
"""


@pytest.fixture
def files(write):
    return lambda stated=STATED, rows=ROWS: {"path": write(rows), "bounds": write(stated, "b.yaml")}


def load(source, seed=0):
    return source.load(Files(), None, np.random.default_rng(seed))


def test_steps_take_the_stated_ranges(files):
    data = load(CSV(**files(), label="income", steps=("one_hot", "symmetric"), test_fraction=0))
    order = np.argsort(data.X[:, 0])
    expected = [  # age, log gain, member, then nurse, judge, farmer in the file's order; clerk is unknown
        [29 / 50 - 1, -1, -1, 1, 0, 0],
        [31 / 50 - 1, -1, 1, 1, 0, 0],
        [44 / 50 - 1, np.log(10) / np.log(1000) * 2 - 1, 1, 0, 0, 0],
        [52 / 50 - 1, 1, -1, 0, 1, 0],
    ]
    np.testing.assert_allclose(data.X[order], expected, atol=1e-15)
    np.testing.assert_array_equal(data.y[order], [-1, -1, 1, 1])
    assert private_note(data.provenance["preprocessing"]) == ""
    assert data.provenance["classes"] == {"-1": "low", "+1": "high"}


def test_a_class_that_is_stated_counts_whether_a_row_has_it_or_not(files):
    """A replaced row might have it: how many classes there are must not depend on the rows."""
    source = CSV(**files(STATED.replace("[low, high]", "[low, high, none]")), label="income", test_fraction=0)
    data = load(source)
    assert set(data.y) == {0, 1}
    assert data.classes == source.info.width == 3
    assert partition(data, Equal(), 1, np.random.default_rng(0)).problem.classes == 3


def test_nothing_of_a_row_moves_another(files):
    """The other rows stay bit for bit when one is replaced: no statistic of the rows is in them."""
    whole = load(CSV(**files(), label="income", test_fraction=0))
    replaced = files(rows=ROWS.replace("52,999,judge,no,high", "9e9,-9e9,king,yes,low"))
    other = load(CSV(**replaced, label="income", test_fraction=0))
    differs = np.any(whole.X != other.X, axis=1)
    assert differs.sum() == 1
    assert np.array_equal(whole.y != other.y, differs)
    assert norms(other.X).max() <= 1
    fitted = load(CSV(path=files()["path"], label="income", test_fraction=0))
    moved = load(CSV(path=files(rows=ROWS.replace("52,", "99,"))["path"], label="income", test_fraction=0))
    assert np.any(fitted.X != moved.X, axis=1).sum() > 1  # as it must be, or this test could not fail
    assert private_note(fitted.provenance["preprocessing"]).startswith("types,one_hot,symmetric fitted on")


def test_numbers_may_be_stated_as_categories_and_words_as_the_last_class(files):
    stated = "columns: {zone: [1, 2, 30], x: {low: 0, high: 1}}\nclasses: ['yes', 'no']\n"
    source = CSV(
        **files(stated, "zone,x,label\n1,0,yes\n30,1,no\n7,1,no\n"), label="label", steps=("one_hot",), test_fraction=0
    )
    data = load(source)
    assert source.size(None) == (3, 4)
    rows = {tuple(row) for row in data.X}
    assert rows == {(0, 1, 0, 0), (1, 0, 0, 1), (1, 0, 0, 0)}  # x, then 1, 2, 30 in the order of texts
    assert sorted(zip(data.X[:, 0], data.y, strict=True)) == [(0, -1), (1, 1), (1, 1)]


def test_a_target_is_clipped_to_its_range(files):
    stated = "columns: {x: {low: 0, high: 1}}\ntarget: {low: -10, high: 20}\n"
    source = CSV(**files(stated, "x,y\n0,5\n1,90\n0.5,-30\n"), label="y", test_fraction=0)
    assert source.info.task == "regression"
    np.testing.assert_array_equal(np.sort(load(source).y), [-0.5, 0.25, 1])
    assert private_note(load(source).provenance["preprocessing"]) == ""


AGE, JOB = "{low: 0, high: 100}", "[nurse, judge, farmer]"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (f"  age: {AGE}\n", "", "the column 'age' of DIR/f.csv: add"),
        ("columns:", "columns:\n  hight: boolean", "b.yaml describes 'hight'"),
        ("columns", "colums", "b.yaml: unknown key 'colums': did you mean 'columns'?"),
        ("columns:", "from_rows: true\ncolumns:", "b.yaml still says `from_rows: true`: its ranges"),
        ("classes: [low, high]", "", "b.yaml needs either `classes`, a list of"),
        ("[low, high]", "[low]", "b.yaml: classes must be a list of two or more labels."),
        ("[low, high]", "[low, low]", "b.yaml: classes: the value 'low'"),
        ("[low, high]", "[low, middle]", "f.csv, line 3, column 'income': 'high' is"),
        ("[low, high]", "[yes, no]", "b.yaml: classes: True is no"),
        ("high: 100", "high: 0", "b.yaml: columns.age: the ends of a range must be finite with low < high, got 0 and"),
        ("high: 100", "high: 1e6", "number (1e6 is a text in YAML: write 1.0e+6)."),
        ("low: 0, high: 100", "low: 0", "{low: NUMBER, high: NUMBER}"),
        ("boolean", "bool", "b.yaml: columns.member: the value must be a range {low: 0, high: 1}, a list of values"),
        ("boolean", "{low: 0, high: 1}", "f.csv, line 2, column 'member': 'yes' is not a number."),
        (JOB, "{low: 0, high: 1}", "line 2, column 'job': 'nurse' is not a number."),
        (AGE, "boolean", "f.csv, line 2, column 'age': 31 is not true or false, yes o"),
        (AGE, "{low: 0, high: 100, fill: 101}", "b.yaml: columns.age: fill must be within"),
        (JOB, "{values: [nurse, judge], fill: clerk}", "b.yaml: columns.job: fill must be one of"),
        (AGE, "{low: 0, high: 100, missing: mean}", "columns.age: the key `missing` must have the value `indicator`"),
        ("columns:", "drop: id\ncolumns:", "b.yaml: drop: the value must be a list of texts, got 'id'"),
        ("columns:", "label: [died]\ncolumns:", "b.yaml: label: ['died'] is no"),
        (STATED, "", "b.yaml must have lines KEY: VALUE"),
        (STATED, "classes: [a, b]", "b.yaml needs `columns`, with a range or a list of values for every feature."),
    ],
)
def test_files_that_state_something_else(files, old, new, said):
    assert old in STATED
    assert said in sentence(**files(STATED.replace(old, new)))


def test_what_is_asked_for_and_what_is_stated_agree(files):
    with pytest.raises(UserError, match=r"dataset\.task=regression needs `target` in"):
        _ = CSV(**files(), label="income", task="regression").info
    stated = STATED.replace("classes: [low, high]", "target: {low: 0, high: 1}")
    with pytest.raises(UserError, match=r"dataset.task=binary needs `classes` in .*b.yaml, but the file has `target`"):
        _ = CSV(**files(stated), label="income", task="binary").info
    assert CSV(**files(), label="income", task="multiclass").info.classes == {0: 2, 1: 2}
    assert load(CSV(**files(), label="income", positive="low")).provenance["classes"] == {"-1": "high", "+1": "low"}
    with pytest.raises(UserError, match=r"dataset\.steps must not have pca"):
        CSV(**files(), label="income", steps=("one_hot", "pca:2")).size(None)


def test_the_ranges_of_all_rows_make_the_arrays_that_are_fitted_to_all_rows(write):
    path = write(ROWS)
    text = bounds_text(describe(CSV(path, "income")))
    options = {"label": "income", "test_fraction": 0}
    from_file = load(CSV(path=path, bounds=write(text.replace("from_rows: true\n", ""), "b.yaml"), **options))
    np.testing.assert_allclose(from_file.X, load(CSV(path=path, **options)).X, atol=1e-15)


def test_any_text_survives_in_a_written_file(write):
    words = ("yes", "~", "1", "a: b", "#c", "'", '"', "é", "-", "a\\b", " x")
    path = write(pd.DataFrame({"x": range(11), "c": words, "y": [*"uvuvuvuvuvu"]}).to_csv(index=False, quoting=1))
    text = bounds_text(describe(CSV(path, "y"))).replace("from_rows: true\n", "")
    columns = column_bounds.load(Path(write(text, "b.yaml"))).columns
    assert columns["c"] == tuple(sorted(words))


def test_many_values_are_not_each_compared_with_all_others() -> None:
    """A plan of others may have a million, which took hours."""
    values, started = [f"v{k}" for k in range(200_000)], time.monotonic()
    column_bounds.bounds_from(Path("b"), {"columns": {"job": values}, "classes": ["low", "high"]})
    assert time.monotonic() - started < 30


CUT = STATED.replace("high: 100}", "high: 100, edges: [30, 50]}").replace("log: true}", "log: true, edges: 3}")


def test_edges_are_stated_beside_the_range(files):
    data = load(CSV(**files(CUT), label="income", steps=("one_hot", "bin"), test_fraction=0))
    parts = data.X[np.argsort(data.X[:, 0]), -6:]  # of age, then of gain: 0 to 9, to 99, to 999
    assert {tuple(row) for row in parts} == {
        (0, 1, 0, 1, 0, 0), (0, 0, 1, 0, 0, 1), (0, 1, 0, 0, 1, 0), (1, 0, 0, 1, 0, 0),
    }  # fmt: skip
    path = Path(files(CUT)["bounds"])
    stated = column_bounds.load(path)
    assert column_bounds.bounds_from(path, stated.content()) == stated


def test_edges_of_dates_are_dates(tmp_path):
    said = {"unit": "days", "low": "2020-01-01", "high": "2020-12-31", "edges": ["2020-04-01", "2020-07-01"]}

    def stated(**change):
        return column_bounds.bounds_from(tmp_path, {"columns": {"seen": said | change}, "classes": [0, 1]})

    assert len(stated().columns["seen"].edges) == 2
    assert column_bounds.bounds_from(tmp_path, stated().content()) == stated()
    wrong = {"edges": ["2019-04-01"], "fill": "2021-01-11", "unit": "weeks", "high": "2019-12-31", "format": "day"}
    for key, value in wrong.items():
        with pytest.raises(UserError, match=r"columns\.seen"):
            stated(**{key: value})


@pytest.mark.parametrize("edges", ["[5, 3]", "[0]", "[a]", "true", "2.5", "{a: 1}", "[.nan]", "1001", "[1e400]"])
def test_edges_that_cannot_be_are_refused_in_a_sentence(files, edges):
    with pytest.raises(UserError, match=r"b.yaml: columns.age"):
        column_bounds.load(Path(files(STATED.replace("high: 100}", f"high: 100, edges: {edges}}}"))["bounds"]))


NUMBERS = (  # some are no number, and stand where Pandas then reads texts
    "5", "5.0", "05", "+5", " 5", "5 ", "1e3", "0x10", "1_0", "1,000", "1.000,5", "inf", "-Infinity", "1e400", "NAN",
    "NA ", "", "?", "nan", "-999", "-999.0", "-999.00", "-0999", "-9.99e2", "18446744073709551615",
    "99999999999999999999999", "9007199254740993", "\u0661", "\xa05", "True", "word", "0.1", "-9.5", "5,5",
    "-9,50", "-9,5e0", "-0", "2.2250738585072011e-308", "8.41e21", "1e-400",
)  # fmt: skip
LABELS = ("1", "1.0", "01", "1e0", "001", "0", "0.0", "-0", "unknown", "True", "NAN", "inf", "-999.00", "2")
DATES = (
    "2020-01-01", "2020-01-01T12:00:00.5", "2020-06-01 12:00", "9999-12-31", "0001-01-01", "2020-01-01T00:00:00+02:00",
    "2020-01-01T00:00:00.123456789", "word", "20200101", "10000-01-01", "NA ", "2020-13-01",
)  # fmt: skip
BOOLEANS = ("yes", "No", "0", "1", "1.0", "true", "2", "word", "", "01", "NA ")
STATED_OF = {
    "number": "columns:\n  a: {low: -9999, high: 9999}\nclasses: [0, 1, unknown]\n",
    "category": "columns:\n  a: [5, '05', word, '-999.0']\nclasses: [0, 1, unknown]\n",
    "date": "columns:\n  a: {unit: days, low: 2019-01-01, high: 2024-12-31}\nclasses: [0, 1, unknown]\n",
    "boolean": "columns:\n  a: boolean\nclasses: [0, 1, unknown]\n",
    "label": "columns:\n  a: {low: -9999, high: 9999}\nclasses: [0, 1, '001', unknown]\n",
    "other label": "columns:\n  a: {low: -9999, high: 9999}\nclasses: [0, 1, '001', unknown]\n",
    "target": "columns:\n  a: {low: -9999, high: 9999}\ntarget: {low: -9999, high: 9999}\n",
}
CELLS = {"date": DATES, "boolean": BOOLEANS, "label": LABELS, "other label": LABELS}


@pytest.mark.slow_cases("number-comma", *(f"{kind}-point" for kind in STATED_OF if kind != "date"))
@pytest.mark.parametrize(("kind", "decimal"), [*((kind, "point") for kind in STATED_OF), ("number", "comma")])
def test_a_row_is_read_as_it_is_alone_whatever_the_others_are(files, kind, decimal):
    """Otherwise one row decides what all others are, and no budget covers that.

    Refused is a file with a row that is refused alone; all others are the rows alone, put together.
    """
    cells, rng = CELLS.get(kind, NUMBERS), np.random.default_rng(0)
    options = {"missing": "keep", "na": (-999, -9.5), "decimal": decimal, "separator": "semicolon", "label": "y"}
    options |= {"positive": "1"} if kind == "other label" else {}
    of_label = kind in ("label", "other label", "target")

    def read(chosen):
        lines = [f"7;{cell}" if of_label else f"{cell};1" for cell in chosen]
        try:
            found, _, _ = read_rows(CSV(**files(STATED_OF[kind], "a;y\n" + "\n".join(lines) + "\n"), **options))
        except UserError:
            return None
        return np.column_stack([found.X, found.y])

    alone = {cell: read([cell, cell]) for cell in cells}
    known = [cell for cell in cells if alone[cell] is not None]
    assert len(known) > len(cells) / 3
    for _ in range(30):
        chosen = [known[k] for k in rng.integers(len(known), size=rng.integers(2, 6))]
        np.testing.assert_array_equal(read(chosen), np.concatenate([alone[cell][:1] for cell in chosen]), str(chosen))
    for cell in set(cells) - set(known):
        assert read([known[0], cell]) is None


def test_a_missing_value_leaves_the_categories_of_other_rows(tmp_path):
    """Of whole numbers in a Parquet file: Pandas would make them 1.0, 2.0, of which none is stated."""
    pytest.importorskip("pyarrow")
    (tmp_path / "b.yaml").write_text("columns:\n  a: [1, 2, 3]\n  b: {low: 0, high: 9}\nclasses: [0, 1]\n")
    whole = {"a": [1, 2, 3, 1], "b": [5, 6, 7, 8], "y": [0, 1, 1, 0]}
    gaps = {"a": [None, 2, 3, 1], "b": [None, 6, 7, 8], "y": [0, 1, 1, 0]}
    found = []
    for name, values in (("whole", whole), ("gaps", gaps)):
        pd.DataFrame(values, dtype="Int64").to_parquet(tmp_path / name)
        options = {"path": str(tmp_path / name), "bounds": str(tmp_path / "b.yaml"), "label": "y", "missing": "keep"}
        found.append(read_rows(CSV(**options))[0])
    np.testing.assert_array_equal(found[0].X, [[0, 5], [1, 6], [2, 7], [0, 8]])
    np.testing.assert_array_equal(found[1].X, [[-1, np.nan], *found[0].X[1:]])
    np.testing.assert_array_equal(found[1].y, [-1, 1, 1, -1])


GAPS = "id;crp;care;seen;died\n1;<0,5;home;2.1.2020;no\n2;100,5;;3.1.2020;yes\n3;;ward;;no\n4;7;ward;1.1.2100;yes\n"
FILLED = """
columns:
  crp: {low: 0, high: 500, fill: 0.4, missing: indicator}
  care: {values: [home, ward], fill: ward}
  seen: {unit: days, low: 2020-01-01, high: 2020-12-31, fill: 2020-01-11, format: "%d.%m.%Y"}
classes: ["no", "yes"]
label: died
drop: [id]
na: ["<0,5"]
decimal: comma
missing: refuse
steps: [one_hot, min_max]
"""


@pytest.fixture
def gaps(write):
    return {"path": write(GAPS), "bounds": write(FILLED, "b.yaml")}


def test_a_stated_value_stands_for_a_missing_one_and_a_feature_marks_it(gaps):
    data = load(CSV(**gaps, test_fraction=0))
    order = np.argsort(data.X[:, 2])
    days = 365
    expected = [  # crp, whether it is missing, seen, home, ward
        [0.4 / 500, 1, 1 / days, 1, 0],
        [100.5 / 500, 0, 2 / days, 0, 1],
        [0.4 / 500, 1, 10 / days, 0, 1],
        [7 / 500, 0, 1, 0, 1],
    ]
    np.testing.assert_allclose(data.X[order], expected, rtol=1e-12)
    assert list(data.y[order]) == [-1, 1, -1, 1]


def test_the_file_says_how_rows_are_read_and_what_is_typed_comes_first(gaps):
    source = CSV(**gaps)
    assert (source.label, source.drop, source.na, source.steps) == ("died", ("id",), ("<0,5",), ("one_hot", "min_max"))
    assert (source.missing, source.written.decimal) == ("refuse", ",")
    assert CSV(**gaps, steps=("one_hot", "symmetric"), na=("7",)).steps == ("one_hot", "symmetric")
    usual = CSV(**gaps, missing="drop", decimal="point", drop=(), na=())  # the defaults, typed
    assert (usual.missing, usual.written.decimal, usual.drop, usual.na) == ("drop", ".", (), ())
    stated = FILLED + "party: care\nseparator: semicolon\npositive: 'no'\n"
    Path(gaps["bounds"]).write_text(stated)
    assert (CSV(**gaps).party, CSV(**gaps).separator, CSV(**gaps).positive) == ("care", "semicolon", "no")
    null = CSV(**gaps, party=None, separator=None, positive=None)
    assert (null.party, null.separator, null.positive, null.label) == (None, None, None, "died")
    stated = column_bounds.load(Path(gaps["bounds"]))
    assert stated.gaps(False)[:2] == ["crp counts as 0.4", "care counts as ward"]
    assert stated.content()["columns"]["care"] == {"values": ["home", "ward"], "fill": "ward"}


def test_a_release_takes_one_file_and_says_what_stands_for_missing_values(gaps, run_command, tmp_path):
    Path(gaps["path"]).write_text(GAPS + "".join(f"{i};{i};home;1.5.2020;no\n" for i in range(5, 60)))
    Path(gaps["bounds"]).write_text(FILLED.replace("min_max", "symmetric, sample_norm"))
    Path(gaps["bounds"]).write_text(Path(gaps["bounds"]).read_text().replace("label: died", "label: id"))
    words = [gaps["path"], "--bounds", gaps["bounds"], "eps=1", "delta=1e-5", "-o", "model.json"]
    assert "both name the column 'id'" in run_command("dpml", "release", *words).err
    done = run_command("dpml", "release", *words, "--label", "died")
    assert done.code == 0, done.err
    model = json.loads((tmp_path / "model.json").read_text())
    assert "crp counts as 0.4; care counts as ward; seen counts as 2020-01-11" in model["statement"][-1]
    assert {key: model["stated"][key] for key in ("decimal", "na")} == {"decimal": "comma", "na": ["<0,5"]}
    assert "label" not in model["stated"]
    predicted = run_command("dpml", "predict", "model.json", gaps["path"])  # <0,5 is read as the release read it
    assert len(predicted.out.splitlines()) == 60, predicted.err


def test_repeated_options_add_up(gaps, run_command):
    words = ["--label", "died", "--na", "<0,5", "--na", "7", "--drop", "id", "--drop", "seen", "--decimal", "comma"]
    done = run_command("dpml", "data", "describe", gaps["path"], *words)
    assert '\'dataset.na=["<0,5","7"]\'' in done.out
    stated = run_command("dpml", "data", "describe", gaps["path"], "--bounds", gaps["bounds"])
    assert "with the steps one_hot, min_max" in stated.out  # and the column that it drops is none that it must state
    assert "'dataset.drop=[id,seen]'" in done.out
