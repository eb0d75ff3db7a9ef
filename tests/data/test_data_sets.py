"""Every data set: published counts, the contract of `Source`, and the official file formats."""

from dataclasses import replace
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from dpml.api.jobs import ask, check
from dpml.api.settings import Settings
from dpml.config import catalogue
from dpml.data import Files, Raw, checksum
from dpml.data.preprocess import distinct, norms, private_note
from dpml.data.sets.authors import CrimeAuthors, TwitterAuthors
from dpml.data.sets.official import HAR, URL, CreditCard, TwitterBuzz
from dpml.data.sets.synthetic import RECIPES, Synthetic
from dpml.data.sets.wdbc import WDBC
from dpml.data.sources import cache
from dpml.errors import UserError
from dpml.seeds import generator

# training rows, test rows, features, labels and how many rows have each: as published, or as the papers use them
CANONICAL = {
    "adult": (30_162, 15_060, 104, {-1: 34_014, 1: 11_208}),
    "bank": (32_950, 8_238, 63, {-1: 36_548, 1: 4_640}),
    "breast_cancer": (559, 140, 9, {-1: 458, 1: 241}),
    "creditcard_subset": (787, 197, 30, {-1: 492, 1: 492}),
    "crime": (1_595, 399, 101, None),
    "crime_authors": (800, 0, 101, None),
    "har_73of561": (7_352, 2_947, 50, {0: 1_722, 1: 1_544, 2: 1_406, 3: 1_777, 4: 1_906, 5: 1_944}),
    "kddcup99": (494_021, 311_029, 118, {-1: 157_871, 1: 647_179}),
    "kddcup99_70k": (56_000, 14_000, 118, None),
    "synthetic": (5_000, 2_000, 20, None),
    "synthetic_authors": (5_000, 0, 20, None),
    "twitter_authors": (20_000, 0, 77, None),
    "wdbc": (455, 114, 30, {-1: 357, 1: 212}),
}
BIG = {"kddcup99"}
SMALL = [name for name in CANONICAL if name not in BIG and not name.startswith("kdd")]


def with_info(kind: Any, **changes: Any) -> Any:
    """A class like `kind`, of a data set with other metadata."""
    return type(kind.__name__, (kind,), {"info": replace(kind.info, **changes), "__module__": kind.__module__})


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    "name", [*SMALL, *(pytest.param(n, marks=pytest.mark.slow) for n in CANONICAL if n not in SMALL)]
)
def test_canonical_counts_and_the_unit_ball(name, files):
    source = catalogue.source(name)
    data = source.load(files, None, rng())
    n, m, d, labels = CANONICAL[name]
    assert data.X.shape == (n, d)
    assert data.X_test.shape == (m, d)
    assert source.size(None) == (n, d)
    assert data.y.shape == (n,)
    assert data.y_test.shape == (m,)
    assert norms(data.X).max() <= 1
    assert np.all(np.isfinite(data.X_test))
    values, counts = np.unique(np.concatenate([data.y, data.y_test]), return_counts=True)
    if labels:
        assert dict(zip(values, counts, strict=True)) == labels
    if data.task == "regression":
        assert np.abs(data.y).max() <= 1
    elif data.task == "binary":
        assert set(values) == {-1.0, 1.0}
    assert data.name == name
    assert data.provenance["rows"] >= n + m or name == "synthetic"
    if name == "synthetic_authors":
        np.testing.assert_allclose(data.X @ data.truth, data.y, atol=1e-9)
    assert checksum(source, files) == data.provenance["sha256"]


@pytest.mark.parametrize("name", SMALL)
def test_the_same_rng_gives_the_same_rows_and_fewer_are_among_them(name, files):
    source = catalogue.source(name)
    if hasattr(source, "steps"):  # without those that are fitted to the rows in use
        source = replace(source, steps=tuple(step for step in source.steps if step in ("one_hot", "impute")))
    whole = source.load(files, None, rng(5))
    again = source.load(files, None, rng(5))
    more = source.load(files, 90, rng(5))
    few = source.load(files, 60, rng(5))
    other = source.load(files, 60, rng(6))
    np.testing.assert_array_equal(whole.X, again.X)
    np.testing.assert_array_equal(whole.X_test, again.X_test)
    assert few.X.shape[0] == len(few.y) == 60
    np.testing.assert_array_equal(few.X, more.X[:60])
    np.testing.assert_array_equal(few.X_test, whole.X_test)
    rows = {row.tobytes() for row in np.column_stack([whole.X, whole.y])}
    if source.info.task != "regression" or "authors" in name:
        np.testing.assert_array_equal(few.y, more.y[:60])
        assert {row.tobytes() for row in np.column_stack([few.X, few.y])} <= rows
    assert not np.array_equal(few.X, other.X)


@pytest.mark.parametrize("name", ["adult", "crime", "har_73of561", "wdbc"])
def test_steps_are_fitted_to_the_rows_in_use(name, files):
    source = catalogue.source(name)
    few, whole = source.load(files, 100, rng()), source.load(files, None, rng())
    assert norms(few.X).max() == pytest.approx(1, abs=1e-9)
    assert norms(whole.X[:100]).max() < 1 - 1e-6  # the longest row is another one


def test_nothing_is_written_into_data_dir(files, raw):
    before = sorted(raw.rglob("*"))
    catalogue.source("crime").load(files, None, rng())
    assert sorted(raw.rglob("*")) == before


@pytest.mark.slow
def test_distinct_rows_of_kdd(files):
    """145,586 different lines, as the literature counts; two of them differ only in the kind of attack."""
    data = catalogue.source("kddcup99").load(files, None, rng())
    first, _, counts = distinct(data.X, data.y)
    assert counts.sum() == 494_021
    assert len(first) == 145_585


# ---- official formats that are not at hand, on generated files


def test_har_reads_the_official_format(tmp_path):
    counts, numbers, files = {"train": 40, "test": 24}, rng(), Files(str(tmp_path))
    for part, n in counts.items():
        folder = tmp_path / "har" / part
        folder.mkdir(parents=True)
        X = numbers.uniform(-1, 1, (n, 561))
        np.savetxt(folder / f"X_{part}.txt", X, fmt=" % .7e")
        np.savetxt(folder / f"y_{part}.txt", 1 + np.arange(n) % 6, fmt="%d")
    people = numbers.choice([1, 3, 28], 40)
    np.savetxt(tmp_path / "har" / "train" / "subject_train.txt", people, fmt="%d")
    known = tuple(replace(raw, sha256=(), lines=counts[raw.name.partition("/")[0]]) for raw in HAR.info.files)
    Small = with_info(HAR, files=known, rows=64, train_rows=40, classes={})
    data = Small(steps=()).load(files, None, rng(1))
    assert checksum(Small(), files) == data.provenance["sha256"]
    np.testing.assert_allclose(data.X_test, X, atol=1e-7)
    np.testing.assert_array_equal(data.y_test, np.arange(24) % 6)
    reduced = Small(steps=("pca:7", "max_norm"))
    assert reduced.load(files, None, rng(1)).X.shape == reduced.size(None) == (40, 7)
    np.testing.assert_array_equal(np.array([1, 3, 28])[data.party], people)
    few = Small(steps=()).load(files, 15, rng(1))
    places = [int(np.flatnonzero((row == data.X).all(axis=1))[0]) for row in few.X]
    np.testing.assert_array_equal(few.party, data.party[places])


def test_creditcard_reads_the_official_format_and_draws_normals(tmp_path):
    header = ",".join(f'"{name}"' for name in ["Time", *(f"V{i}" for i in range(1, 29)), "Amount", "Class"])
    lines = ([*map(str, row), f'"{int(i % 4 == 0)}"'] for i, row in enumerate(rng().normal(size=(4 * 492, 30))))
    (tmp_path / "creditcard.csv").write_text("\n".join([header, *map(",".join, lines)]) + "\n")
    raw = replace(CreditCard.info.files[0], sha256=())
    Small = with_info(CreditCard, files=(raw,), rows=4 * 492, classes={-1: 3 * 492, 1: 492})
    data = Small(normals=400).load(Files(str(tmp_path)), None, rng(1))
    assert checksum(Small(), Files(str(tmp_path))) == data.provenance["sha256"]
    y = np.concatenate([data.y, data.y_test])
    assert (np.sum(y > 0), np.sum(y < 0), data.provenance["rows"]) == (492, 400, 892)
    assert len(np.unique(np.concatenate([data.X, data.X_test]), axis=0)) == 892  # without replacement


def test_twitter_reads_the_official_format_and_what_is_not_canonical_is_refused_and_not_cached(tmp_path):
    table = rng().integers(0, 100, (300, 78))
    np.savetxt(tmp_path / "Twitter.data", table, fmt="%d", delimiter=",")
    raw = replace(TwitterBuzz.info.files[0], lines=300)
    with pytest.raises(UserError, match="dataset=twitter_buzz has 300 rows instead of 583,250"):
        with_info(TwitterBuzz, files=(raw,))().load(Files(str(tmp_path)), None, rng(1))
    assert not [path for path in cache.root().glob("processed/*") if path.is_dir()]
    source = with_info(TwitterBuzz, files=(raw,), rows=300)()
    data = source.load(Files(str(tmp_path)), None, rng(1))
    assert checksum(source, Files(str(tmp_path))) == data.provenance["sha256"]
    assert data.X.shape == (240, 77)
    assert data.y.max() == 1


def test_url_days_stay_sparse(tmp_path):
    """Of sparse 0/1 features, as in the official files, most are rare."""
    (tmp_path / "url").mkdir()
    for day in range(4):
        ids = [np.unique(1 + (3_231_961 * rng(50 * day + row).random(40) ** 4).astype(int)) for row in range(50)]
        lines = [f"{(-1) ** row:+d} " + " ".join(f"{i}:1" for i in each) for row, each in enumerate(ids)]
        (tmp_path / "url" / f"Day{day}.svm").write_text("\n".join([*lines, ""]))
    files = tuple(replace(raw, lines=50) for raw in URL.info.files[:4])
    source = with_info(URL, files=files, rows=200, train_rows=100)(steps=("pca:5", "max_norm"))
    table, _ = source.table(Files(str(tmp_path)))
    assert table.X.shape == (200, 3_231_961)
    assert table.X.nnz < 200 * 40
    first = source.load(Files(str(tmp_path)), None, rng(1))
    assert first.X.shape == first.X_test.shape == (100, 5)
    np.testing.assert_array_equal(first.X[:20], source.load(Files(str(tmp_path)), None, rng(1)).X[:20])
    assert source.load(Files(str(tmp_path)), 60, rng(1)).X.shape == (60, 5)
    assert checksum(source, Files(str(tmp_path))) == first.provenance["sha256"]
    assert set(np.unique(first.y)) == {-1.0, 1.0}


def test_url_reads_an_official_day(raw, tmp_path):
    (tmp_path / "url").mkdir()
    (tmp_path / "url" / "Day45.svm").write_bytes((raw / "url" / "Day45.svm").read_bytes())
    day = replace(URL.info.files[0], name="Day45.svm", lines=130)
    table, _ = with_info(URL, files=(day,), rows=130, train_rows=100)().table(Files(str(tmp_path)))
    assert table.X.shape == (130, 3_231_961)
    assert np.sum(table.y > 0) == 41
    assert np.sum(table.y < 0) == 89


# ---- checksums


def test_every_sample_of_the_authors_real_data_is_pinned():
    for kind in (CrimeAuthors, TwitterAuthors):
        assert all(kind(rows=rows).info.files[0].sha256 for rows in get_args(get_type_hints(kind)["rows"]))


def test_a_checksum_changes_with_any_file(tmp_path):
    source = with_info(HAR, files=tuple(Raw(name) for name in "abc"))()
    seen = set()
    for changed in (None, *"abc"):  # in folders of their own: a file without a known checksum may not change
        folder = tmp_path / f"{changed}"
        folder.mkdir()
        for name in "abc":
            (folder / name).write_text("something else" if name == changed else name)
        seen.add(checksum(source, Files(str(folder))))
    assert len(seen) == 4
    assert all(len(digest) == 64 for digest in seen)
    (folder / "b").unlink()
    with pytest.raises(UserError, match="dataset=har needs the file b"):
        checksum(source, Files(str(folder)))


def test_a_data_set_without_a_checksum_method_is_loaded_for_it():
    class Own:
        info, size = WDBC.info, None

        def load(self, files, N, rng):
            return WDBC().load(files, N, rng)

    assert checksum(Own(), Files()) == WDBC().checksum(Files())


# ---- synthetic recipes


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipes_keep_the_contract(recipe):
    source = Synthetic(recipe=recipe, d=10, rows=1000, test_rows=1000)
    data, few = source.load(Files(), None, rng(3)), source.load(Files(), 100, rng(3))
    assert data.X.shape == data.X_test.shape == (1000, 10)
    assert norms(data.X).max() <= 1
    scale = np.linalg.norm(data.X[0]) / np.linalg.norm(few.X[0])
    np.testing.assert_allclose(few.X * scale, data.X[:100], rtol=1e-9)
    np.testing.assert_array_equal(few.y, data.y[:100])


def test_ball_sign_labels_are_the_signs():
    data = Synthetic(recipe="ball_sign", d=10).load(Files(), None, rng())
    np.testing.assert_array_equal(data.y, np.where(data.X @ data.truth >= 0, 1.0, -1.0))
    # uniform in the ball: the norm to the power d is uniform on [0, 1]
    assert np.mean(norms(data.X) ** 10) == pytest.approx(0.5, abs=0.02)


def test_two_gaussians_have_the_authors_means():
    data = Synthetic(recipe="two_gaussians", d=50, rows=20_000).load(Files(), None, rng())
    scale = data.X[data.y == 1].std()
    for label in (-1, 1):
        part = data.X[data.y == label] / scale
        np.testing.assert_allclose(part.mean(axis=0), label / 4, atol=0.05)
        np.testing.assert_allclose(part.std(axis=0), 1, atol=0.05)
    assert data.truth is None
    assert private_note(data.provenance["preprocessing"]) == "max_norm fitted on training rows"


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["dataset=crime_authors", "dataset.rows=801"], "dataset.rows cannot be 801"),
        (["dataset=synthetic_authors", "dataset.d=21"], "dataset.d cannot be 21: choose one of 20, 50"),
        (["dataset=creditcard", "dataset.normals=0"], "dataset.normals must be from 1 to 284315"),
        (["dataset=kddcup99_70k", "dataset.sample=500000"], "dataset.sample must be from 1 to 494021"),
        (["dataset=crime", "dataset.test_fraction=1"], r"must be in \[0, 1\)"),
        (["dataset=wdbc", "dataset.bounds=publik"], "did you mean 'public'?"),
        (["dataset=har", "dataset.bounds=public"], "must not have pca"),
    ],
)
def test_mistakes_in_options_are_told_before_any_file_is_read(overrides, told):
    with pytest.raises(UserError, match=told):
        check(ask(Settings(overrides)).plans[0])


def test_seeds_are_the_rounds_of_a_cross_validation(files):
    source = WDBC(folds=5, steps=())
    tests, trains = [], []
    for seed in range(10):
        data = source.load(files, None, generator(seed, "data"))
        assert len(data.y) + len(data.y_test) == 569
        assert len(data.y) - source.size(None)[0] in (0, 1)
        tests.append({row.tobytes() for row in data.X_test})
        trains.append({row.tobytes() for row in data.X})
        assert not tests[-1] & trains[-1]
    for first in (0, 5):  # every row is tested once in five seeds
        assert len(set.union(*tests[first : first + 5])) == sum(map(len, tests[first : first + 5])) == 569
    assert tests[0] not in tests[5:]  # and the next five have another split
    fewer = source.load(files, 100, generator(3, "data"))
    assert {row.tobytes() for row in fewer.X} < trains[3]
    with pytest.raises(UserError, match=r"dataset.folds must be from 2 to 569"):
        WDBC(folds=1)


def test_wdbc_is_what_scikit_learn_loads():
    table, _ = WDBC().table(Files())
    rows, target = load_breast_cancer(return_X_y=True)
    assert (table.X.tobytes(), table.X.dtype) == (rows.tobytes(), rows.dtype)
    assert table.X.flags.c_contiguous
    assert np.array_equal(table.y, np.where(target == 0, 1, -1))
