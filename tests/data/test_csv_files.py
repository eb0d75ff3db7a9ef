"""Files that are no table, or from which nothing can be learned: one sentence, with file, line and column."""

import gzip
import sys
from pathlib import Path

import pytest

from dpml.data import Files, checksum
from dpml.data.sets.csv import CSV
from dpml.data.sources import cache
from dpml.errors import UserError

GOOD = "age,job,income\n31,nurse,low\n52,judge,high\n44,clerk,high\n29,nurse,low\n"
TABLE = "n,t,income\n" + "".join(f"{i},t{i % 3},{i % 2}\n" for i in range(30))


def sentence(path, **options):
    """What is said about a file; nothing of it may be kept."""
    with pytest.raises(UserError) as caught:
        _ = CSV(path=str(path), **({"label": "income"} | options)).info
    assert not list(cache.root().glob("processed/*"))
    said = str(caught.value)
    assert "\n" not in said
    return said.replace(str(Path(path).parent), "DIR")


AGES = "".join(f"{'4o' if i == 44 else i},{i % 2}\n" for i in range(60))
LATER = "1,clerk,low\n" * 70_000  # fills the first block that is read
PACKED = gzip.compress(TABLE.encode(), mtime=0)


BAD_TABLES = [
    ("", {}, "DIR/f.csv is empty"),
    ("age,job,income\n", {}, "DIR/f.csv has no rows below the column names"),
    (GOOD + "7\n", {}, "DIR/f.csv, line 6: there is 1 value"),
    (GOOD + "7,clerk,low,high\n", {"drop": ("job",)}, "DIR/f.csv, line 6: there are 4 values"),
    (GOOD + LATER + "44,clerk\n", {}, "DIR/f.csv, line 70006: there are 2 values"),
    ((GOOD + LATER + "44,Kürschner,high\n").encode("latin-1"), {}, "DIR/f.csv, line 70006 is not UTF-8 text"),
    # a quoted value may go over several lines, and blank lines do not count as rows
    ('age,job,income\n1,"a\nb",low\n\n2,c\n', {}, "DIR/f.csv, line 5: there are 2 values"),
    (GOOD + '7,"cl\n8,"clerk,low\ninf,clerk,low\n', {}, "DIR/f.csv, line 6 is not valid CSV: ',' expected after"),
    ("income\nlow\nhigh\n", {}, "DIR/f.csv, line 1: there is only one column, 'income'"),
    ("31,nurse,low\n52,judge,high\n", {}, "DIR/f.csv has no column 'income' (dataset.label): choose one of 31"),
    (GOOD.replace("44", "inf"), {}, "has an infinite value (DIR/f.csv, line 4)"),
    (GOOD.replace("44", "1e101"), {}, "has a value beyond 1e+100 (DIR/f.csv, line 4)"),
    ("age,x,income\n1,,low\n2,?,high\n", {}, "the column 'x' of DIR/f.csv has no values"),
    (GOOD.replace("low", "high"), {}, "the label 'income' of DIR/f.csv has 'high' in every row"),
    ("age,income\n1,\n2,NA\n", {}, "the label 'income' of DIR/f.csv has no values"),
    ("age,income\n1,low\n,high\n,low\n", {}, "a missing value"),
    ("age,income\n" + AGES, {}, "the column 'age' of DIR/f.csv has numbers, but '4o'"),
    ("age,income\n" + AGES.replace("4o", "1_0"), {}, "has numbers, but '1_0'"),  # Pandas knows no such number
    ("income,x\n" + AGES, {"task": "regression"}, "DIR/f.csv, line 46, column 'income': '4o' is not a number."),
    ("x,income\n" + "".join(f"0,{i}\n" for i in range(101)), {"task": "multiclass"}, "has 101 classes"),
    (TABLE, {"encoding": "cp12522"}, "unknown dataset.encoding=cp12522: did you mean 'cp1252'?"),
    (TABLE, {"encoding": "undefined"}, "unknown dataset.encoding=undefined"),
    (TABLE[:-1], {"encoding": "utf-16"}, "f.csv is not utf-16 text: set another dataset.encoding"),
    (TABLE, {"separator": "::"}, "dataset.separator must be one character or one of comma"),
    (TABLE, {"decimal": ";"}, "dataset.decimal must be point or comma, got ';'."),
    (TABLE, {"na": "-"}, "dataset.na must be a list of texts, got -: write dataset.na=[-]."),
    (PACKED[:-20], {}, "DIR/f.csv"),
    (PACKED[:12], {}, "DIR/f.csv cannot be read"),
    (TABLE, {"label": None}, "dataset.label is missing"),
    (TABLE, {"drop": ("m",)}, "DIR/f.csv has no column 'm' (dataset.drop)"),
    (TABLE, {"party": "tt"}, "DIR/f.csv has no column 'tt' (dataset.party): did you mean 't'?"),
    (TABLE, {"party": "income"}, "dataset.label and dataset.party both name the column 'income'."),
    (TABLE, {"drop": ("n",), "party": "t"}, "DIR/f.csv has no feature: every column is the label"),
    (TABLE, {"missing": "impute"}, "dataset.missing cannot be impute: choose one of drop, keep"),
    (TABLE, {"task": "regression", "label": "t"}, "DIR/f.csv, line 2, column 't': 't0' is not a number."),
    (TABLE, {"task": "binary", "label": "t"}, "the column 't' of DIR/f.csv has 3 classes"),
    (TABLE, {"positive": "t9", "label": "t"}, "dataset.positive=t9 is not in the column 't'"),
    (TABLE, {"positive": 1, "label": "n", "task": "regression"}, "=1 is for two classes"),
    (TABLE, {"positive": [1]}, "dataset.positive must be a label, got dataset.positive=[1]."),
    (TABLE, {"test_path": "nowhere.csv"}, "there is no file nowhere.csv"),
    (TABLE, {"bounds": "nowhere.yaml"}, "dataset.bounds=nowhere.yaml cannot be read"),
]


@pytest.mark.parametrize(("content", "options", "said"), BAD_TABLES, ids=[each[-1] for each in BAD_TABLES])
def test_bad_tables(write, content, options, said):
    assert said in sentence(write(content), **options)


def test_what_is_no_table(tmp_path, write, monkeypatch):
    assert "there is no file DIR/none.csv" in sentence(tmp_path / "none.csv")
    (tmp_path / "folder").mkdir()
    assert "DIR/folder is a folder, not a file" in sentence(tmp_path / "folder")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "DIR/f.parquet is Parquet: pip install pyarrow" in sentence(write(b"PAR1 and so on", "f.parquet"))


def test_too_many_categories(write):
    text = "zip,x,income\n" + "".join(f"z{i % 1001},{i},{i % 2}\n" for i in range(2100))
    assert "has 1,001 texts, such as 'z0'" in sentence(write(text))
    assert CSV(path=write(text.replace("z1000,", "z0,")), label="income").info.features == 1001


def test_parquet(write, tmp_path):
    pytest.importorskip("pyarrow")
    import pandas as pd

    plain, packed = write(TABLE), tmp_path / "f.parquet"
    pd.read_csv(plain).to_parquet(packed)
    first, second = (CSV(path=str(path), label="income") for path in (plain, packed))
    assert first.info.classes == second.info.classes
    assert first.size(None) == second.size(None)


def test_without_a_file():
    with pytest.raises(UserError, match=r"^dataset=csv needs a file: dataset.path=FILE.csv dataset.label=COLUMN.$"):
        checksum(CSV(), Files())
