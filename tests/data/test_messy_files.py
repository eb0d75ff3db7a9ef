"""Forty files as offices write them: read rightly with the keys that `describe` prints, or one sentence."""

import gzip

import numpy as np
import pandas as pd
import pytest
from test_csv_files import sentence

from dpml.data import Files
from dpml.data.csv.describe import describe
from dpml.data.sets.csv import CSV
from dpml.errors import UserError

CITIES = ("Zürich", "Genève", "Köln")
TABLE = pd.DataFrame(
    {
        "city": [CITIES[i % 3] for i in range(60)],
        "bmi": [20 + (i * 7) % 13 + 0.5 for i in range(60)],
        "age": [30 + (i * 11) % 40 for i in range(60)],
        "died": [("no", "yes")[i % 5 == 0] for i in range(60)],
    }
)


def text(table=TABLE, sep=",", decimal=".", end="\n", **options):
    return table.to_csv(index=False, sep=sep, decimal=decimal, lineterminator=end, **options)


def column(name, values):
    return text(TABLE.assign(**{name: [values(i) for i in range(60)]}))


def cities(*names):
    return TABLE.assign(city=[names[i % 3] for i in range(60)])


TWO_WORDS = column("bmi", lambda i: ("unknown", "k.A.")[i % 2] if i % 7 == 3 else 20 + i / 2)
SEMICOLON = text(sep=";", decimal=",")
RIGHT = [
    # name, content, the keys that describe prints, the cities that are read
    ("as it should be", text().encode(), {}, CITIES),
    ("with a byte order mark", text().encode("utf-8-sig"), {}, CITIES),
    ("lines of Windows", text(end="\r\n").encode(), {}, CITIES),
    ("lines of an old Macintosh", text(end="\r").encode(), {}, CITIES),
    ("everything in quotes", text(quoting=1).encode(), {}, CITIES),
    ("quotes after blanks", text(quoting=1).replace('","', '", "').encode(), {}, CITIES),
    ("quotes in quotes", text().replace("Köln,", '"K""öln, a",').encode(), {}, ('K"öln, a', "Zürich")),
    ("blanks after commas", text().replace(",", ", ").encode(), {}, CITIES),
    ("blanks before commas", text().replace(",", "  ,").encode(), {}, CITIES),
    ("blanks after some texts", text().replace("Köln,20", "Köln ,20").encode(), {}, CITIES),
    ("empty lines at the end", (text() + "\n\n \n").encode(), {}, CITIES),
    ("compressed", gzip.compress(text().encode()), {}, CITIES),
    ("tabs", text(sep="\t").encode(), {}, CITIES),
    ("bars", text(sep="|").encode(), {}, CITIES),
    ("semicolons", text(sep=";").encode(), {}, CITIES),
    ("semicolons, with commas in names", text(sep=";").replace("city", "city, of, birth", 1).encode(), {}, CITIES),
    ("decimal commas", SEMICOLON.encode(), {"decimal": "comma"}, CITIES),
    ("decimal commas and tabs", text(sep="\t", decimal=",").encode(), {"decimal": "comma"}, CITIES),
    ("decimal commas in quotes", text(decimal=",").encode(), {"decimal": "comma"}, CITIES),
    ("Excel in Germany", SEMICOLON.encode("cp1252"), {"encoding": "cp1252", "decimal": "comma"}, CITIES),
    ("latin-1", text().encode("latin-1"), {"encoding": "cp1252"}, CITIES),
    ("Excel's Unicode text", text(sep="\t").encode("utf-16"), {"encoding": "utf-16"}, CITIES),
    ("UTF-16 without a mark", text().encode("utf-16-le"), {"encoding": "utf-16-le"}, CITIES),
    ("UTF-16, the other end first", text().encode("utf-16-be"), {"encoding": "utf-16-be"}, CITIES),
    ("Japan", text(cities("東京", "大阪", "京都")).encode("shift_jis"), {"encoding": "shift_jis"}, ("東京", "京都")),
    ("n/a among numbers", column("bmi", lambda i: "n/a" if i % 7 == 3 else 20 + i / 2).encode(), {}, CITIES),
    ("NA and a blank", column("bmi", lambda i: "NA " if i % 7 == 3 else 20 + i / 2).encode(), {}, CITIES),
    ("a dash", column("bmi", lambda i: "-" if i % 7 == 3 else 20 + i / 2).encode(), {"na": ("-",)}, CITIES),
    ("two words", TWO_WORDS.encode(), {"na": ("k.A.", "unknown")}, CITIES),
    (
        "all at once",
        SEMICOLON.replace(";20,5;", ";unknown;").encode("cp1252"),
        {"encoding": "cp1252", "decimal": "comma", "na": ("unknown",)},
        CITIES,
    ),
]


@pytest.mark.parametrize(("content", "keys", "names"), [each[1:] for each in RIGHT], ids=[each[0] for each in RIGHT])
def test_files_that_are_read_with_the_keys_that_describe_prints(write, content, keys, names):
    """An encoding is not guessed: the user is asked for it."""
    path = write(content)
    keys = dict(keys)
    encoding = keys.pop("encoding", None)
    if encoding is not None:
        with pytest.raises(UserError, match=r"not UTF-8 text.*set dataset\.encoding"):
            describe(CSV(path, "died"))
    found = describe(CSV(path, "died", encoding=encoding or "utf-8"))
    said = {key: getattr(found.options, key) for key in ("encoding", "separator", "decimal", "na")}
    usual = CSV()
    noticed = {key: value for key, value in said.items() if value != getattr(usual, key) and key != "encoding"}
    assert noticed == keys
    assert len(found.noticed) == len(keys)
    texts = next(each.values for each in found.features if each.name.startswith("city"))
    assert set(names) <= set(texts)
    assert [each.kind.name for each in found.features] == ["category", "number", "number"]
    assert not found.problems
    data = CSV(path=path, label="died", steps=("impute", "one_hot"), test_fraction=0, missing="keep", **said)
    rows = data.load(Files(), None, np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(rows.X[:, 1]), np.sort(TABLE["age"]))
    if "na" not in keys and not any(mark in content for mark in (b"n/a", b"NA ")):
        np.testing.assert_array_equal(np.sort(rows.X[:, 0]), np.sort(TABLE["bmi"]))
    assert rows.X.shape == (60, 5)
    assert np.sum(rows.y == 1) == 12


REFUSED = [
    ("a title above", "Export of 2 March\n" + text(), "above the names"),
    ("no names", text(header=False), "f.csv, line 1: 20.5 is a number where the name of a column is"),
    ("a semicolon at the end", text(sep=";").replace("\n", ";\n"), "line 1: column 5 has no name"),
    ("names twice", text().replace("age", "bmi", 1), "two columns are called 'bmi'"),
    ("an open quote", text().replace("Genève", '"Genève', 1), "a quote is opened and never closed"),
    ("ids", column("city", lambda i: f"P{i:05d}"), "text in every row"),
    ("units", column("bmi", lambda i: f"{20 + i} kg"), "has numbers with a unit, such as '20 kg'"),
    ("decimal commas", SEMICOLON, "has numbers with a decimal comma, such as '20,5' (dataset.decimal=comma"),
    ("a word for nothing", column("bmi", lambda i: "unknown" if i == 3 else i / 2), "(dataset.na=[unknown] makes it"),
    ("either day or month", column("city", lambda i: f"0{i % 9 + 1}/0{i % 7 + 1}/2020"), "set format"),
]


@pytest.mark.parametrize(("content", "said"), [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED])
def test_files_that_are_refused_in_a_sentence(write, content, said):
    assert said in sentence(write(content), label="died")


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("dead", lambda i: int(i % 5 == 0), "predicts the label exactly"),
        ("score", lambda i: i + 1000 * (i % 5 == 0), "predicts the label exactly"),
        ("row", lambda i: i + 7, "row numbers? dataset.drop=[row]"),
        ("patient_id", lambda i: 1000 + (i * 37) % 61, "an identifier? dataset.drop=[patient_id]"),
        ("lab", lambda i: -999 if i % 7 == 3 else i % 9, "is -999 a missing value? dataset.na=[-999]"),
        ("lab", lambda i: 999 if i % 7 == 3 else i % 9, "is 999 a missing value? dataset.na=[999]"),
        ("lab", lambda i: i % 9 - 4, ""),
        ("sex", lambda i: ("m", "f", "M")[i % 3], "values that differ in capitals only are different categories"),
        ("job", lambda i: ("nurse", "unknown")[i % 2], "'unknown' is a category; dataset.na=[unknown] makes"),
        ("cost", lambda i: ("1,000", "2,500", "3,100")[i % 3], "numbers with grouped digits?"),
        ("seen", lambda i: f"2020-03-{i % 28 + 1:02d}", "format: 'iso'"),
        ("seen", lambda i: f"{i % 28 + 1}.3.2020", "format: '%d.%m.%Y'"),
    ],
)
def test_what_describe_notes_of_a_column(write, name, values, said):
    found = describe(CSV(write(column(name, values)), "died"))
    (hint,) = (each.hint for each in found.features if each.name == name)
    assert said in hint if said else hint == ""
