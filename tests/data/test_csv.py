"""dataset=csv: the arrays that rows of a file become, types and tasks found, parties, test rows, and what is kept."""

import gzip
import lzma
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer

from dpml.data import Files, checksum
from dpml.data.csv import reading
from dpml.data.csv.columns import ColumnKind
from dpml.data.csv.profile import profile_of
from dpml.data.sets import csv as csv_rows
from dpml.data.sets.csv import CSV
from dpml.data.sets.wdbc import WDBC
from dpml.data.sources import cache
from dpml.errors import UserError
from dpml.running.cell import _plain

RAW = ()  # no steps: the numbers as they are in the file


def load(source, N=None, seed=0):
    return source.load(Files(), N, np.random.default_rng(seed))


@pytest.fixture
def wdbc(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    frame = pd.DataFrame(X)
    frame.columns = [f"x{j}" for j in range(30)]
    frame.insert(0, "kind", np.where(y == 0, "malignant", "benign"))
    frame.to_csv(tmp_path / "wdbc.csv", index=False)
    return str(tmp_path / "wdbc.csv")


@pytest.mark.parametrize("N", [None, 100])
def test_rows_of_a_known_set_are_the_same_from_a_file(wdbc, N):
    steps = ("min_max", "centre", "max_norm")
    own, known = load(CSV(path=wdbc, label="kind", steps=steps), N, 7), load(WDBC(steps=steps), N, 7)
    for part in ("X", "y", "X_test", "y_test"):
        np.testing.assert_array_equal(getattr(own, part), getattr(known, part))
    assert own.provenance["classes"] == {"-1": "benign", "+1": "malignant"}
    assert CSV(path=wdbc, label="kind").info.classes == WDBC.info.classes


MIXED = """\
job,age,member,city,income
nurse,31,yes,Rome,9.5
judge,52,No,Oslo,12
clerk,44,YES,Rome,7
nurse,29,no,Oslo,3.25
"""


def test_numbers_come_first_and_then_a_column_for_every_category(write):
    data = load(CSV(path=write(MIXED), label="income", steps=("one_hot",), test_fraction=0))
    assert data.task == "regression"
    rows = data.X[np.argsort(data.X[:, 0])]  # by age
    expected = [
        [29, 0, 0, 0, 1, 1, 0],  # age, member, clerk, judge, nurse, Oslo, Rome
        [31, 1, 0, 0, 1, 0, 1],
        [44, 1, 1, 0, 0, 0, 1],
        [52, 0, 0, 1, 0, 1, 0],
    ]
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_allclose(np.sort(data.y), np.array([3.25, 7, 9.5, 12]) / 12)
    notes = {entry["step"]: entry["fitted_on"] for entry in data.provenance["preprocessing"]}
    assert set(notes.values()) == {"training rows, no budget spent"}
    assert set(notes) == {"types", "one_hot", "scale_target"}


@pytest.mark.parametrize(
    ("labels", "options", "task", "classes", "y"),
    [
        ("b a b a", {}, "binary", {"-1": "a", "+1": "b"}, [1, -1, 1, -1]),
        ("b a b a", {"positive": "a"}, "binary", {"-1": "b", "+1": "a"}, [-1, 1, -1, 1]),
        ("0 1 1 0", {}, "binary", {"-1": "0", "+1": "1"}, [-1, 1, 1, -1]),
        ("0 1 1 0", {"positive": 0}, "binary", {"-1": "1", "+1": "0"}, [1, -1, -1, 1]),
        ("10 9 9 10", {}, "binary", {"-1": "9", "+1": "10"}, [1, -1, -1, 1]),  # numbers by size, not as texts
        ("1.5 2.5 2.5 1.5", {}, "binary", {"-1": "1.5", "+1": "2.5"}, [-1, 1, 1, -1]),
        ("True False False True", {}, "binary", {"-1": "False", "+1": "True"}, [1, -1, -1, 1]),
        ("c a b a", {}, "multiclass", {"0": "a", "1": "b", "2": "c"}, [2, 0, 1, 0]),
        ("3 1 2 3", {}, "multiclass", {"0": "1", "1": "2", "2": "3"}, [2, 0, 1, 2]),
        ("c a b a", {"positive": "a"}, "binary", {"-1": "not a", "+1": "a"}, [-1, 1, -1, 1]),
        ("3 1 2 3", {"positive": 3, "task": "binary"}, "binary", {"-1": "not 3", "+1": "3"}, [1, -1, -1, 1]),
        ("b a b a", {"task": "multiclass"}, "multiclass", {"0": "a", "1": "b"}, [1, 0, 1, 0]),
        ("3 1 2 4", {"task": "regression"}, "regression", {}, [0.75, 0.25, 0.5, 1]),
        ("-2 1 2 1.5", {}, "regression", {}, [-1, 0.5, 1, 0.75]),
    ],
)
def test_the_task_follows_from_the_labels_or_is_said(write, labels, options, task, classes, y):
    rows = "".join(f"{number},{label}\n" for number, label in enumerate(labels.split()))
    source = CSV(path=write(f"x,label\n{rows}"), label="label", steps=RAW, test_fraction=0, **options)
    data = load(source)
    assert source.info.task == data.task == task
    assert data.provenance["classes"] == classes
    np.testing.assert_array_equal(data.y[np.argsort(data.X[:, 0])], y)
    if classes:
        assert source.info.classes == {number: y.count(number) for number in sorted(set(y))}


def test_many_whole_numbers_are_a_regression(write):
    for count, task in ((20, "multiclass"), (21, "regression")):
        rows = "".join(f"{number},{number % count}\n" for number in range(50))
        assert CSV(path=write(f"x,label\n{rows}"), label="label").info.task == task


GAPS = "x,c,label\n1,a,u\n?,a,v\n3,,u\n4,b,v\n5,null,NA\n6,b,u\n"


def test_rows_with_a_missing_value_are_left_out_and_counted(write, capfd):
    data = load(CSV(path=write(GAPS), label="label", steps=("one_hot",), test_fraction=0))
    np.testing.assert_array_equal(np.sort(data.X[:, 0]), [1, 4, 6])
    assert data.provenance["rows"] == 3
    assert data.provenance["rows_left_out"] == 3
    assert "leaves out 3 of 6 rows" in capfd.readouterr().err
    for gap in reading.MISSING:
        text = f"x,c,label\n1,a,u\n{gap},a,v\n3,{gap},u\n4,b,v\n"
        assert CSV(path=write(text), label="label").info.rows == 2, gap


def test_or_kept_or_refused(write):
    text, steps = GAPS.replace("NA", "u"), ("impute", "one_hot")
    data = load(CSV(path=write(text), label="label", steps=steps, test_fraction=0, missing="keep"))
    rows = data.X[np.lexsort(data.X.T[::-1])]
    np.testing.assert_array_equal(
        rows,
        [[1, 1, 0], [3, 0, 0], [4, 0, 1], [4, 1, 0], [5, 0, 0], [6, 0, 1]],  # the median of 1 3 4 5 6 is 4
    )
    for content, missing, said in (
        (text, "keep", "must begin with impute"),
        (GAPS, "keep", "line 6: the label or the party is missing"),
        (GAPS, "refuse", "f.csv, line 3: a value is missing, as in 2 more rows"),
    ):
        with pytest.raises(UserError, match=said):
            load(CSV(path=write(content), label="label", missing=missing))


PARTIES = "x,where,label\n1,South,u\n2,North,v\n3,South,u\n4,East,v\n5,,v\n6,10,u\n7,9,v\n"


def test_a_column_says_whose_a_row_is(write):
    data = load(CSV(path=write(PARTIES), label="label", party="where", steps=RAW, test_fraction=0))
    assert data.X.shape == (6, 1)
    whose = {1: 4, 2: 3, 3: 4, 4: 2, 6: 0, 7: 1}  # numbered in the order of the texts
    assert dict(zip(data.X[:, 0].astype(int), data.party, strict=True)) == whose
    few = load(CSV(path=write(PARTIES), label="label", party="where", steps=RAW, test_fraction=0.5), 2, 3)
    assert [whose[int(x)] for x in few.X[:, 0]] == list(few.party)
    assert few.party.dtype.kind == "i"


def test_a_file_of_test_rows(write):
    train = write("x,c,who,label\n1,a,p,u\n2,b,q,v\n3,a,p,u\n4,b,q,v\n")
    test = write("label,extra,c,x\nv,9,z,8\nu,9,a,?\nu,9,b,7\n", "test.csv")  # other order, an unknown category
    source = CSV(path=train, test_path=test, label="label", party="who", steps=("one_hot",))
    assert source.size(None) == (4, 3)
    data = load(source, 3)
    assert len(data.X) == len(data.party) == 3
    np.testing.assert_array_equal(data.X_test, [[8, 0, 0], [7, 0, 1]])
    np.testing.assert_array_equal(data.y_test, [1, -1])
    assert data.provenance["rows_left_out"] == 1
    with pytest.raises(UserError, match="N=5 is too large: dataset=csv has 4"):
        load(source, 5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("c,label\na,u\n", "column 'x'"),
        ("x,c\n1,a\n", "column 'label'"),
        ("x,c,label\n1,a,u\nten,b,v\n", "test.csv, line 3, column 'x': 'ten' is not a number."),
        ("x,c,label\n1,a,u\n2,b,w\n", "test.csv, line 3, column 'label': 'w' is"),
        ("x,c,label\ninf,a,u\n", "test.csv, line 2, column 'x': inf is not a number."),
        ("x,c,label\n", "test.csv has no rows below the column names."),
        ("x,c,label\n?,a,u\n", "a missing value"),
    ],
)
def test_a_file_of_test_rows_that_does_not_suit(write, text, said):
    with pytest.raises(UserError) as caught:
        load(CSV(path=write("x,c,label\n1,a,u\n2,b,v\n"), test_path=write(text, "test.csv"), label="label"))
    assert said in str(caught.value)


def test_compressed_files_are_the_same_rows_and_the_same_cell(wdbc, tmp_path):
    content = Path(wdbc).read_bytes()
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(content))
    (tmp_path / "a.csv.xz").write_bytes(lzma.compress(content))
    shutil.copy(wdbc, tmp_path / "b.csv")
    plain = CSV(path=wdbc, label="kind")
    for name in ("a.csv.gz", "a.csv.xz", "b.csv"):
        other = replace(plain, path=str(tmp_path / name))
        np.testing.assert_array_equal(load(plain).X, load(other).X)
        assert checksum(plain, Files()) == checksum(other, Files()) == load(other).provenance["sha256"]
        assert _plain(plain) == _plain(other)  # what stands of a data set in a cell's identity
    assert _plain(plain) != _plain(replace(plain, party="x1"))


def test_a_second_file_and_a_bounds_file_are_in_the_checksum(write):
    train = write("x,label\n1,u\n2,v\n")
    test, bounds = write("x,label\n3,u\n", "t.csv"), write("columns: {x: {low: 0, high: 5}}\nclasses: [u, v]\n", "b")
    sources = [CSV(path=train, label="label"), CSV(path=train, label="label", test_path=test)]
    sources += [replace(source, bounds=bounds) for source in sources]
    before = [checksum(source, Files()) for source in sources]
    assert len(set(before)) == 4
    write("columns: {x: {low: 0, high: 6}}\nclasses: [u, v]\n", "b")
    os.utime(bounds, ns=(1, 1))
    after = [checksum(replace(source), Files()) for source in sources]
    assert [a == b for a, b in zip(after, before, strict=True)] == [True, True, False, False]


def test_rows_are_kept_for_the_next_run_only_if_the_user_asks(wdbc, monkeypatch):
    load(CSV(path=wdbc, label="kind"))
    assert not cache.root().exists()
    first = load(CSV(path=wdbc, label="kind", cache=True))
    csv_rows.read_rows.cache_clear()  # as in another process
    monkeypatch.setattr(csv_rows, "read", None)
    again = load(CSV(path=wdbc, label="kind", test_fraction=0.2, cache=True))
    np.testing.assert_array_equal(first.X, again.X)
    (entry,) = (path for path in cache.root().glob("processed/csv-*") if path.is_dir())
    assert entry.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in entry.iterdir()} == {0o600}


WORDS = st.one_of(
    st.none(),
    st.integers(-(10**6), 10**6).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["True", "false", "YES", "no", "a", "b c", 'd"e', "f,g", "é"]),
)


def is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(WORDS, min_size=2, max_size=12))
def test_types_and_values_come_back(tmp_path, cells):
    """Written with quotes by Pandas, read again: numbers as the same bits, texts as the same texts."""
    pd.DataFrame({"x": pd.Series(cells, dtype=object), "y": 1}).to_csv(tmp_path / "h.csv", index=False)
    column = reading.read(reading.open_file(tmp_path / "h.csv", reading.Dialect()), ["x"])["x"]
    found = profile_of(column)
    present = [cell for cell in cells if cell is not None]
    assert found.missing == len(cells) - len(present)
    if all(map(is_number, present)):
        assert found.kind.name == "number"
        values = [np.nan if cell is None else float(cell) for cell in cells]
        np.testing.assert_array_equal(ColumnKind("number").cells(column), values)
        return
    assert [None if code < 0 else column.texts[code] for code in column.codes] == cells
    words = {cell.lower() for cell in present}
    assert found.kind.name == ("boolean" if words <= {"true", "false"} or words <= {"yes", "no"} else "category")
