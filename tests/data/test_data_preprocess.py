"""Steps are fitted to the training rows, applied to both parts, and leave a record."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, OneHotEncoder, StandardScaler

from dpml.data.info import Range
from dpml.data.preprocess import STEPS, apply_steps, distinct, norms, private_note, width
from dpml.errors import UserError

SCALING = [
    ("min_max", "max_norm"), ("symmetric", "sample_norm"), ("max_abs", "max_norm"), ("centre", "sample_norm"),
    ("clip",), ("max_norm", "bias"), ("pca:3", "max_norm"),
]  # fmt: skip


def rows(n: int, d: int = 5, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d)) * np.arange(1, d + 1)


@pytest.mark.parametrize("steps", SCALING)
def test_training_rows_end_in_the_unit_ball_whatever_test_rows_are_and_inputs_are_untouched(steps):
    train, test = rows(40), rows(20, seed=1)
    before = train.copy(), test.copy()
    train.flags.writeable = test.flags.writeable = False
    X, X_test, record = apply_steps(steps, train, test)
    assert norms(X).max() <= 1
    assert X.shape[1] == X_test.shape[1] == width(steps, 5)
    assert [entry["step"] for entry in record] == [step.partition(":")[0] for step in steps]
    np.testing.assert_array_equal(train, before[0])
    np.testing.assert_array_equal(test, before[1])
    for other in (1e3 * rows(7, seed=2), train[::-1]):
        again, X_test, record_again = apply_steps(steps, train, other)
        np.testing.assert_array_equal(X, again)
        assert record == record_again
    np.testing.assert_allclose(X_test, X[::-1], atol=1e-14)  # the same map for both parts


CODED = OneHotEncoder(categories=[range(3)], handle_unknown="ignore", sparse_output=False), [3]
ONE_HOT = make_column_transformer(("passthrough", [0, 1, 2]), CODED)
ORACLES = {
    "min_max": MinMaxScaler(),
    "symmetric": MinMaxScaler((-1, 1)),
    "max_abs": MaxAbsScaler(),
    "centre": StandardScaler(with_std=False),
    "sample_norm": Normalizer(),
    "impute": SimpleImputer(strategy="median"),
    "pca:3": PCA(3),
    "one_hot": ONE_HOT,
    "one_hot symmetric": make_column_transformer((MinMaxScaler((-1, 1)), [0, 1, 2]), CODED),
    "one_hot pca:4 symmetric": make_pipeline(ONE_HOT, PCA(4), MinMaxScaler((-1, 1))),
}


@pytest.mark.parametrize("words", ORACLES)
def test_steps_are_those_of_scikit_learn(words):
    steps, numbers = words.split(), np.random.default_rng(2)
    train, test = (np.column_stack([rows(n, 3, n), numbers.integers(-1, 3, n)]) for n in (40, 20))
    if words == "impute":
        train[train > 2] = test[test > 2] = np.nan
    X, X_test, record = apply_steps(steps, train, test, (0, 0, 0, 3) if "one_hot" in steps else ())
    value = np.abs if "pca" in words else np.asarray  # the sign of a direction is arbitrary
    np.testing.assert_allclose(value(X), value(ORACLES[words].fit_transform(train)), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(value(X_test), value(ORACLES[words].transform(test)), rtol=1e-9, atol=1e-11)
    fitted = [step.partition(":")[0] for step in steps if step not in ("one_hot", "sample_norm")]
    assert private_note(record) == (f"{','.join(fitted)} fitted on training rows" if fitted else "")


def test_large_arrays_are_transformed_in_blocks_to_the_same_result():
    X = rows(40_000, 3)
    whole, _, _ = apply_steps(["min_max", "centre", "max_norm", "bias"], X, X[:0])
    low, high = X.min(axis=0), X.max(axis=0)
    scaled = (X - low) / (high - low)
    scaled -= scaled.mean(axis=0)
    scaled /= np.linalg.norm(scaled, axis=1).max()
    np.testing.assert_allclose(whole, np.column_stack([scaled, np.ones(len(X))]) / np.sqrt(2), atol=1e-11)


def test_constant_features_and_zero_rows_do_no_harm():
    X = np.zeros((5, 2))
    for step in set(STEPS) - {"one_hot", "treatment", "pca", "bin", "spline"}:
        assert np.all(np.isfinite(apply_steps([step], X, X)[0]))


@pytest.mark.parametrize("n", [300, 40])
def test_sparse_and_dense_principal_components_are_those_of_scikit_learn(n):
    """Of more rows than features, and of fewer."""
    rng = np.random.default_rng(3)
    # correlated columns, so that the leading directions are well apart
    X = (rng.normal(size=(n, 4)) * [8, 4, 2, 1]) @ rng.normal(size=(4, 60)) + 0.1 * rng.normal(size=(n, 60))
    X[np.abs(X) < 2] = 0
    X[:, 7] = 0  # a feature that only the test part has
    test = X[:20].copy()
    test[:, 7] = 5
    oracle = PCA(4).fit(X)
    for kind in (np.asarray, sparse.csr_matrix):
        found, found_test, _ = apply_steps(["pca:4"], kind(X), kind(test))
        np.testing.assert_allclose(np.abs(found), np.abs(oracle.transform(X)), atol=1e-8)
        np.testing.assert_allclose(np.abs(found_test), np.abs(oracle.transform(test)), atol=1e-8)


HOLES = np.array([[1.0, 2.0], [np.nan, 4.0], [3.0, 6.0], [5.0, 1.0]])
RANGES = {"a": Range(0, 6, edges=(2, 4)), "b": Range(0, 6)}


@pytest.mark.parametrize(
    ("steps", "train", "columns", "told"),
    [
        (["min_mx"], rows(9), (), "did you mean 'min_max'"),
        (["pca"], rows(9), (), "write pca:D"),
        (["clip:3"], rows(9), (), "other steps"),
        (["pca:5"], rows(9), (), r"choose pca:D with D in 1\.\.4"),
        (["max_norm"], rows(9), (0, 0, 3, 0, 0), "must have one_hot"),
        (["bin", "spline"], rows(9, 2), RANGES, "before it"),
        (["spline", "bin"], rows(9, 2), RANGES, "before it"),
        (["symmetric", "bin"], rows(9, 2), RANGES, "bin needs the original columns"),
        (["min_max", "one_hot"], rows(9, 2), RANGES | {"b": ("x", "y")}, "one_hot needs the original columns"),
        (["spline"], rows(9, 2), RANGES | {"a": Range(0, 6)}, "no column has edges"),
        (["max_norm"], rows(9, 3), RANGES, "2 bounds are given for 3 columns"),
        (["bin"], rows(9), (), "must not have bin with dataset.bounds=fitted"),
        (["max_norm"], sparse.csr_matrix(rows(9)), (), "must begin with pca:D"),
    ],
)
def test_mistakes_are_told(steps, train, columns, told):
    with pytest.raises(UserError, match=told):
        apply_steps(steps, train, train[:2], columns)


FITTED = ["min_max", "symmetric", "max_abs", "centre", "pca:1", "max_norm", "clip", "bias"]


@pytest.mark.parametrize(("step", "columns"), [*((step, ()) for step in FITTED), ("bin", RANGES), ("spline", RANGES)])
def test_nothing_is_fitted_before_missing_values_are_filled_in(step, columns):
    """The scale of a column with a missing value would be NaN: all of the column, or of the table, became 0.

    In test rows, too: scores of such rows would be NaN, and count as the class -1.
    """
    for steps, train, test in (([step, "impute"], HOLES, HOLES[:1]), ([step], HOLES[:1], HOLES)):
        with pytest.raises(UserError, match=rf"must begin with impute, .* missing: \[impute, {step[:3]}"):
            apply_steps(steps, train, test, columns)
    assert np.isfinite(apply_steps(["impute", step], HOLES, HOLES, columns)[0]).all()
    assert apply_steps(["one_hot", "impute"], HOLES, HOLES[:1])[0][1, 0] == 3


@pytest.mark.parametrize("step", ["pca:3", "bias", "max_norm"])
def test_one_hot_leaves_numbers_as_they_are(step):
    X = rows(20)
    np.testing.assert_array_equal(apply_steps([step, "one_hot"], X, X)[0], apply_steps([step], X, X)[0])


@given(arrays(np.float64, st.tuples(st.integers(1, 40), st.just(3)), elements=st.sampled_from([0.0, -0.0, 1.0, 2.5])))
def test_every_row_is_a_copy_of_its_first_appearance(X):
    first, where, counts = distinct(X)
    np.testing.assert_array_equal(X[first][where], X)
    assert len(np.unique(X[first], axis=0)) == len(first)
    np.testing.assert_array_equal(first, sorted(first))
    np.testing.assert_array_equal(counts, np.bincount(where))
    assert all(np.flatnonzero(where == place)[0] == row for place, row in enumerate(first))
