"""With dataset.bounds=public no preprocessing step reads a row: stated ranges and lists take the place of fits."""

import gzip
import itertools
import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from test_data_sets import with_info

from dpml.config import catalogue
from dpml.data import Files, Info, Range, Raw, checksum
from dpml.data.preprocess import (
    EACH_ROW,
    STATED,
    apply_steps,
    check_bounds,
    coded_width,
    hats,
    indicators,
    levels_of,
    norms,
    private_note,
    width,
)
from dpml.data.sets.official import Adult, KDDCup99
from dpml.data.table import RandomSplit, Table, encode
from dpml.errors import UserError


def values(text: str) -> tuple[str, ...]:
    return tuple(text.split())


COLUMNS = {
    "age": Range(0, 100, edges=(18, 40, 65)),
    "colour": values("red green blue"),
    "income": Range(0, 99_999, log=True, edges=(1, 1000)),
    "change": Range(-4, 2),
    "answer": values("yes no"),
}
STEPS_IN_USE = [
    ("one_hot", "max_abs", "max_norm"),
    ("impute", "one_hot", "min_max", "centre", "max_norm", "bias"),
    ("one_hot", "min_max", "clip", "bias"),
    ("one_hot", "symmetric", "sample_norm"),
    ("one_hot", "min_max", "sample_norm", "max_abs", "max_norm"),
    ("one_hot", "centre", "bias", "max_abs", "clip"),
    ("one_hot", "bin", "max_norm", "bias"),
    ("impute", "one_hot", "spline", "min_max", "centre", "max_norm"),
]
PUBLIC = ["adult", "bank", "breast_cancer", "crime", "har", "har_73of561", "kddcup99", "kddcup99_70k"]
REFUSED = ["creditcard", "creditcard_subset", "twitter_buzz", "url", "wdbc"]


def rows(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    wild = rng.standard_cauchy((n, 3)) * [40, 1e5, 3]
    return np.column_stack([wild[:, 0], rng.integers(-1, 3, n), wild[:, 1], wild[:, 2], rng.integers(-1, 2, n)])


def extremes(columns: dict[str, Range | tuple[str, ...]]) -> np.ndarray:
    choices = [
        (column.low, column.high) if isinstance(column, Range) else range(-1, len(column))
        for column in columns.values()
    ]
    return np.array(list(itertools.product(*choices)), dtype=float)


@pytest.mark.parametrize("steps", STEPS_IN_USE)
def test_rows_end_in_the_unit_ball_and_none_has_a_share_in_what_becomes_of_another(steps):
    train, test = rows(2000), rows(500, seed=1)
    before = train.copy(), test.copy()
    train.flags.writeable = test.flags.writeable = False
    X, X_test, record = apply_steps(steps, train, test, COLUMNS)
    assert norms(X).max() <= 1
    assert norms(X_test).max() <= 1  # which fitted scales cannot promise
    cut = 4 - 1 + 3 - 1 if "bin" in steps else 5 - 1 + 4 - 1 if "spline" in steps else 0
    assert X.shape[1] == X_test.shape[1] == coded_width(levels_of(COLUMNS)) + ("bias" in steps) + cut
    assert X.shape[1] == width(steps, COLUMNS)
    assert [entry["step"] for entry in record] == ["ranges", *steps]
    assert norms(apply_steps(steps, extremes(COLUMNS), test, COLUMNS)[0]).max() <= 1
    np.testing.assert_array_equal(train, before[0])
    np.testing.assert_array_equal(test, before[1])
    alone = np.concatenate([apply_steps(steps, row[None], train[:7], COLUMNS)[0] for row in train[:50]])
    np.testing.assert_allclose(X[:50], alone, rtol=1e-13)
    _, first, other = apply_steps(steps, rows(3, seed=4), train[:7], COLUMNS)
    np.testing.assert_allclose(first, X[:7], rtol=1e-13)
    assert record == other
    assert {entry["fitted_on"] for entry in record} <= {STATED, EACH_ROW}
    assert private_note(record) == ""


def test_numbers_by_hand():
    X = np.array([[50, 2, 99, -1, 0], [120, -1, -5, 7, 1], [-3, 0, 1e9, -9, -1]], dtype=float)
    scaled, _, _ = apply_steps(["one_hot", "min_max"], X, X[:0], COLUMNS)
    # age, income, change; then three colours and two answers
    expected = [[0.5, math.log(100) / math.log(100_000), 0.5, 0, 0, 1, 1, 0], [1, 0, 1, 0, 0, 0, 0, 1], [0, 1, 0]]
    expected[2] += [1, 0, 0, 0, 0]
    np.testing.assert_allclose(scaled, expected, rtol=1e-12)
    largest, _, _ = apply_steps(["one_hot", "max_abs"], X, X[:0], COLUMNS)
    np.testing.assert_allclose(largest[:, 0], [0.5, 1, 0])
    np.testing.assert_allclose(largest[:, 2], [-0.25, 0.5, -1])
    centred, _, _ = apply_steps(["one_hot", "centre"], X, X[:0], COLUMNS)
    np.testing.assert_allclose(centred[:, 0], [0, 50, -50])
    np.testing.assert_allclose(centred[:, 2], [0, 3, -3])
    np.testing.assert_allclose(centred[:, 3:], scaled[:, 3:] - 0.5)


def test_a_missing_value_becomes_the_middle_of_its_range():
    columns = {"grade": Range(1, 10), "income": Range(0, 99_999, log=True)}
    X, X_test, _ = apply_steps(["impute", "min_max"], np.full((1, 2), np.nan), np.full((1, 2), np.nan), columns)
    np.testing.assert_allclose(X, [[0.5, 0.5]])
    np.testing.assert_allclose(X_test, [[0.5, 0.5]])


def test_a_value_that_is_filled_in_after_rows_were_clipped_counts_in_the_largest_norm():
    columns = {f"column {number}": Range(0, 1) for number in range(9)}
    row = np.append(np.ones(8), np.nan)[None]  # clipping divides by its norm, NaN: then all values are filled in
    for steps in (["clip", "impute", "max_norm"], ["sample_norm", "impute", "bias", "max_norm"]):
        X, _, _ = apply_steps(steps, row, row, columns)
        assert norms(X).max() <= 1


@pytest.mark.parametrize(
    ("steps", "norm"),
    [
        (("one_hot", "min_max"), math.sqrt(5)),  # the columns before one-hot coding
        (("one_hot", "max_abs"), math.sqrt(5)),
        (("one_hot", "min_max", "centre"), math.sqrt(8 / 4)),  # all eight after it are at half or minus half
        (("one_hot", "min_max", "max_norm", "bias"), 1.0),
        (("one_hot", "min_max", "clip"), 1.0),
    ],
)
def test_max_norm_divides_by_the_largest_norm_that_the_ranges_allow(steps, norm):
    """Ends of ranges are where a norm is largest, so that trying all of them finds it."""
    before = norms(apply_steps(steps, extremes(COLUMNS), rows(1), COLUMNS)[0]).max()
    assert before == pytest.approx(norm, rel=1e-9)
    after = norms(apply_steps((*steps, "max_norm"), extremes(COLUMNS), rows(1), COLUMNS)[0]).max()
    assert 1 - 1e-9 <= after <= 1


SHOP = {"rows": 9, "features": 3, "columns": {"price": Range(0, 10), "kind": values("c b a")}, "target": Range(0, 20)}


@dataclass(frozen=True)
class Shop(RandomSplit):
    info: ClassVar[Info] = Info("shop", "Shop", "regression", "nobody", files=(Raw("s.csv", lines=9),), **SHOP)
    test_fraction: float = 1 / 3
    steps: tuple[str, ...] = ("one_hot", "min_max", "sample_norm")

    def parse(self, paths):
        table = pd.read_csv(paths["s.csv"], header=None)
        X, levels = encode([table.iloc[:, :2]], [1], self.stated)
        return Table(X, table[2].to_numpy(float), levels)


@pytest.fixture
def shop(tmp_path) -> Files:
    """Its file has two of the three kinds only, and then `features` is 3."""
    (tmp_path / "s.csv").write_text("".join(f"{i},{'ab'[i % 2]},{2 * i}\n" for i in range(9)))
    return Files(str(tmp_path), offline=True)


def test_bounds_change_the_columns_and_the_scales_but_not_the_rows(shop):
    seen = {}
    for bounds in ("fitted", "public", "fitted", "public"):  # what is kept of one is not taken for the other
        source = Shop(bounds=bounds)
        data = source.load(shop, None, np.random.default_rng(3))
        assert data.X.shape == source.size(None) == (6, 3 if bounds == "fitted" else 4)
        first = seen.setdefault(bounds, data)
        np.testing.assert_array_equal(first.X, data.X)
        np.testing.assert_array_equal(first.y_test, data.y_test)
    fitted, public = seen["fitted"], seen["public"]
    np.testing.assert_allclose(fitted.y / fitted.y.max(), public.y / public.y.max())  # the same rows in the same order
    assert private_note(fitted.provenance["preprocessing"]) == "min_max,scale_target fitted on training rows"
    assert private_note(public.provenance["preprocessing"]) == ""
    raw = np.round(public.y * 10)  # the target is 2 i, of at most 20
    x = np.column_stack([raw / 10, raw % 2 == 0, raw % 2 == 1, np.zeros(6)])
    np.testing.assert_allclose(public.X, x / np.linalg.norm(x, axis=1, keepdims=True))


def test_a_set_without_a_range_of_every_column_and_of_its_target_refuses():
    for name in REFUSED:
        with pytest.raises(UserError, match=f"dataset={name} has no public ranges.*: set dataset.bounds=fitted.$"):
            replace(catalogue.source(name), bounds="public")
    info = replace(Shop.info, target=None, bounds="nothing caps its target")
    with pytest.raises(UserError, match="dataset=shop has no public ranges"):
        check_bounds(info, "public", ())
    check_bounds(info, "fitted", ())


@pytest.mark.parametrize("name", PUBLIC)
def test_every_column_has_a_range_or_its_values(name):
    info = catalogue.source(name).info
    listed = [column for column in info.columns.values() if not isinstance(column, Range)]
    assert all(len(set(column)) == len(column) for column in listed)
    added = {"adult": 1, "bank": 2, "kddcup99": 4, "kddcup99_70k": 4}.get(name, 0)  # values that no row has
    assert coded_width(levels_of(info.columns)) == info.features + added
    assert info.bounds.endswith(".")
    assert (info.target is not None) == (info.task == "regression")


def adult_line(age: int, work: str, gain: int, hours: int, country: str, label: str) -> str:
    middle = "150000, Masters, 14, Divorced, Sales, Wife, White, Female"
    return f"{age}, {work}, {middle}, {gain}, 0, {hours}, {country}, {label}\n"


def test_adult_on_generated_files(tmp_path):
    (tmp_path / "train").write_text(
        adult_line(17, "Private", 99_999, 40, "Peru", "<=50K") + adult_line(120, "?", 0, 40, "Peru", ">50K")
        + adult_line(90, "Local-gov", 0, 99, "Hong", ">50K")
    )  # fmt: skip
    (tmp_path / "test").write_text("|1x3\n" + adult_line(120, "Private", 999, 1, "Atlantis", ">50K."))
    files = tuple(
        replace(raw, name=name, sha256=()) for raw, name in zip(Adult.info.files, ("train", "test"), strict=True)
    )
    Small = with_info(Adult, files=files, rows=3, train_rows=2, classes={-1: 1, 1: 2})
    source = Small(bounds="public", steps=("one_hot", "min_max"))
    data = source.load(Files(str(tmp_path)), None, np.random.default_rng(0))
    assert data.X.shape == source.size(None) == (2, 105)
    # age, fnlwgt, education-num, capital-gain, capital-loss, hours-per-week
    np.testing.assert_allclose(data.X[:, :6], [[0, 0.15, 13 / 15, 1, 0, 39 / 98], [1, 0.15, 13 / 15, 0, 0, 1]])
    np.testing.assert_allclose(data.X_test[0, :6], [1, 0.15, 13 / 15, 0.6, 0, 0], atol=1e-6)
    np.testing.assert_array_equal(data.X[:, 6:].sum(axis=1), [8, 8])
    np.testing.assert_array_equal(data.X_test[:, 6:].sum(axis=1), [7])  # nobody lists Atlantis
    assert private_note(data.provenance["preprocessing"]) == ""
    assert source.load(Files(str(tmp_path)), None, np.random.default_rng(0)).provenance["rows_left_out"] == 1  # kept


@pytest.mark.slow
def test_no_release_is_proven_of_adult_whose_incomplete_rows_are_left_out(tmp_path, monkeypatch, run_command):
    """Replaced by an incomplete row, a person changes the number of all rows: its ranges alone prove nothing."""
    (tmp_path / "adult").mkdir()
    for name in ("adult.data", "adult.test"):
        lines = [adult_line(40 + k, "Private", 0, 40, "Peru", "<=50K" if k % 2 else ">50K") for k in range(40)]
        (tmp_path / "adult" / name).write_text("".join(lines) + adult_line(17, "?", 99_999, 40, "Peru", ">50K"))
    files = tuple(replace(raw, sha256=()) for raw in Adult.info.files)
    small = replace(Adult.info, files=files, rows=80, train_rows=40, classes={-1: 40, 1: 40})
    monkeypatch.setattr(Adult, "info", small)
    place = (f"data_dir={tmp_path}", "-o", str(tmp_path / "model.json"), "--ledger", str(tmp_path / "ledger"))
    words = ("dataset=adult", "dataset.bounds=public", "algo=ssp", "eps=1", "delta=1e-5")
    done = run_command("dpml", "release", *words, *place)
    assert (done.code, "because rows were left out because of their content" in done.err) == (2, True), done.err
    assert not [name for name in ("model.json", "ledger") if (tmp_path / name).exists()]
    assert run_command("dpml-run", *words, "draws=1", "M=1", place[0], f"hydra.run.dir={tmp_path / 'out'}").code == 0
    rows = pd.read_csv(tmp_path / "out" / "rows.csv")
    assert set(rows["private_preprocessing"]) == {"rows with a missing value left out"}


def test_kdd_on_generated_files(tmp_path):
    """Symbols are coded by the values of the training file, or by those of the lists."""

    def line(service: str, su: int, label: str) -> str:
        numbers = ["0"] * 41
        numbers[1:6] = "tcp", service, "SF", str(2**32), "0"
        numbers[14], numbers[22], numbers[31] = str(su), "511", "51"
        return ",".join([*numbers, label]) + "\n"

    (tmp_path / "train").write_text(line("aol", 2, "normal.") + line("http", 1, "smurf."))
    (tmp_path / "test.gz").write_bytes(gzip.compress((line("icmp", 0, "nmap.") + line("http", 1, "normal.")).encode()))
    files = [
        replace(raw, name=name, sha256=()) for raw, name in zip(KDDCup99.info.files, ("train", "test"), strict=True)
    ]
    Small = with_info(KDDCup99, files=tuple(files), rows=4, train_rows=2, features=42, classes={-1: 2, 1: 2})
    fitted, source = Small(steps=("one_hot",)), Small(bounds="public", steps=("one_hot", "min_max"))
    data = fitted.load(Files(str(tmp_path)), None, np.random.default_rng(0))
    assert data.X.shape == fitted.size(None) == (2, 42)
    np.testing.assert_array_equal(data.X_test[:, 38:], [[1, 0, 0, 1], [1, 0, 1, 1]])  # tcp, aol, http, SF
    np.testing.assert_array_equal(data.y_test, [1, -1])
    assert checksum(fitted, Files(str(tmp_path))) == data.provenance["sha256"]
    data = source.load(Files(str(tmp_path)), None, np.random.default_rng(0))
    assert data.X.shape == source.size(None) == (2, 122)
    np.testing.assert_array_equal(data.X[:, 38:].sum(axis=1), [3, 3])
    np.testing.assert_array_equal(data.X_test[:, 38:].sum(axis=1), [2, 3])  # no list has the service icmp
    numeric = [name for name, column in Small.info.columns.items() if isinstance(column, Range)]
    first = dict(zip(numeric, data.X[0], strict=False))
    seen = [first[name] for name in ("src_bytes", "su_attempted", "count", "dst_host_count")]
    np.testing.assert_allclose(seen, [1, 1, 1, 0.2])


@pytest.mark.slow_cases("har_73of561")
@pytest.mark.parametrize("name", ["adult", "bank", "breast_cancer", "crime", "har_73of561"])
def test_public_bounds_on_real_rows(name, files):
    source = catalogue.source(name)
    steps = ("sample_norm",) if name.startswith("har") else source.steps
    source = replace(source, bounds="public", steps=steps)
    data = source.load(files, None, np.random.default_rng(0))
    fitted = replace(source, bounds="fitted").load(files, None, np.random.default_rng(0))
    assert data.X.shape == source.size(None)
    assert max(norms(data.X).max(), norms(data.X_test).max()) <= 1
    assert private_note(data.provenance["preprocessing"]) == ""
    table, symbolic = source.table(files)[0], [isinstance(column, tuple) for column in source.info.columns.values()]
    assert not any(symbolic) or (table.X[:, symbolic] >= 0).all()  # all values of the rows are listed
    if source.info.task == "regression":
        np.testing.assert_allclose(data.y, fitted.y)  # its largest target is 1
    else:
        np.testing.assert_array_equal(data.y, fitted.y)
        np.testing.assert_array_equal(data.y_test, fitted.y_test)


def test_the_lists_of_adult_are_those_of_its_documentation(raw):
    path = raw / "adult" / "adult.names"
    if not path.is_file():
        pytest.skip("adult.names is not at hand")
    listed = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, colon, text = line.partition(": ")
        if colon and not line.startswith("|") and not text.startswith("continuous"):
            listed[name] = tuple(text.rstrip(".").split(", "))
    assert listed == {name: column for name, column in Adult.info.columns.items() if not isinstance(column, Range)}


def test_parts_count_as_a_histogram_does_and_their_weights_are_a_step_function():
    edges = np.array([0.0, 1, 2.5, 4])
    x = np.concatenate([np.random.default_rng(0).uniform(0, 4, 500), edges])
    np.testing.assert_array_equal(indicators(x, edges).sum(axis=0), np.histogram(x, edges)[0])
    assert (indicators(x, edges).sum(axis=1) == 1).all()


def test_a_linear_model_of_a_spline_is_the_linear_interpolation():
    edges, w = np.array([0.0, 1, 2.5, 4]), np.array([3.0, -1, 2, 0.5])
    x = np.append(np.random.default_rng(1).uniform(0, 4, 500), edges)
    np.testing.assert_allclose(hats(x, edges) @ w, np.interp(x, edges, w), atol=1e-12)


def test_parts_are_of_the_columns_own_unit_and_scale():
    columns = {"pay": Range(0, 999, log=True, edges=(1, 99)), "age": Range(0, 100)}
    table = np.array([[0.0, 7], [0.5, 8], [1, 9], [98, 9], [99, 9], [5000, 9]])
    X, _, _ = apply_steps(("bin",), table, table[:0], columns)
    np.testing.assert_array_equal(X[:, 0], table[:, 1])
    np.testing.assert_array_equal(X[:, 1:].argmax(axis=1), [0, 0, 1, 1, 2, 2])
    X, _, _ = apply_steps(("spline",), table, table[:0], columns)
    np.testing.assert_allclose(X[1, 1:], [1 - np.log2(1.5), np.log2(1.5), 0, 0], atol=1e-15)
    assert Range(0, 999, log=True).parts(3) == pytest.approx((9, 99))
    assert Range(-1, 1).parts(4) == pytest.approx((-0.5, 0, 0.5))


@pytest.mark.parametrize("log", [False, True])
def test_rows_of_parts_are_finite_and_in_the_ball_at_and_between_all_edges(log):
    rng = np.random.default_rng(5)
    edges = np.unique(rng.uniform(0, 50, 30))
    columns = {"a": Range(0, 50, log=log, edges=tuple(edges))}
    x = np.concatenate([[0.0, 50.0], edges, np.nextafter(edges, 0), np.nextafter(edges, 99), rng.uniform(0, 50, 999)])
    for step in ("bin", "spline"):
        X, _, _ = apply_steps((step, "max_norm"), x[:, None], x[:0, None], columns)
        assert np.isfinite(X).all()
        assert norms(X).max() <= 1
