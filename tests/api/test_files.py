"""Estimators written to a model's file and read back predict the same, as does the command."""

import os

import numpy as np
import pandas as pd
import pytest

import dpml
from dpml.release.model import read_model


def rows(n=2000):
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.uniform(-1, 3, (n, 2)), columns=["length", "width"])


@pytest.mark.filterwarnings("ignore:nothing is proven of this model, because the noise was made from a seed")
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_classifier_reads_back_and_the_command_says_the_same(run_command, tmp_path, fit_intercept) -> None:
    X = rows()
    y = np.where(X["length"] + X["width"] > 2, "long", "short")
    model = dpml.PrivateClassifier(bounds=(-1, 3), fit_intercept=fit_intercept, random_state=0).fit(X, y)
    model.save(tmp_path / "m.json", unsafe=True)
    again = dpml.PrivateClassifier.load(tmp_path / "m.json")
    np.testing.assert_array_equal(again.predict(X.to_numpy()), model.predict(X))
    np.testing.assert_allclose(again.predict_proba(X.to_numpy()), model.predict_proba(X))
    assert again.guarantees_ == model.guarantees_
    X.to_csv(tmp_path / "rows.csv", index=False)
    done = run_command("dpml", "predict", str(tmp_path / "m.json"), str(tmp_path / "rows.csv"), "-o", "p.csv")
    assert done.code == 0, done.err
    said = pd.read_csv(tmp_path / "p.csv")
    np.testing.assert_array_equal(said["prediction"], model.predict(X))
    found = np.column_stack([said[f"probability_{name}"] for name in model.classes_])
    np.testing.assert_allclose(found, model.predict_proba(X), atol=1e-12)


@pytest.mark.filterwarnings("ignore:nothing is proven of this model, because the noise was made from a seed")
def test_a_regressor_reads_back_in_its_own_unit(tmp_path) -> None:
    X = rows()
    model = dpml.PrivateRegressor("ssp", bounds=(-1, 3), y_bounds=(0, 40), random_state=0).fit(X, 5 * X["length"] + 10)
    model.save(tmp_path / "m.json", unsafe=True)
    again = dpml.PrivateRegressor.load(tmp_path / "m.json")
    np.testing.assert_allclose(again.predict(X.to_numpy()), model.predict(X))
    found = read_model(tmp_path / "m.json").predictions(X.to_numpy())["prediction"]
    np.testing.assert_allclose(found, model.predict(X))


def test_what_shows_private_rows_is_not_written(tmp_path) -> None:
    X = rows()
    with pytest.warns(dpml.PrivacyWarning):
        model = dpml.PrivateClassifier().fit(X, X["length"] > 1)
    with pytest.raises(dpml.UserError, match="bounds were fitted"):
        model.save(tmp_path / "m.json", unsafe=True)
    assert not (tmp_path / "m.json").exists()


def test_an_estimator_is_of_the_files_task(tmp_path) -> None:
    X = rows()
    dpml.PrivateClassifier(bounds=(-1, 3)).fit(X, X["length"] > 1).save(tmp_path / "m.json", unsafe=True)
    with pytest.raises(dpml.UserError, match="a model for binary"):
        dpml.PrivateRegressor.load(tmp_path / "m.json")
    with pytest.raises(dpml.UserError, match="is there already"):
        dpml.PrivateClassifier(bounds=(-1, 3)).fit(-X, X["length"] > 1).save(tmp_path / "m.json", unsafe=True)


def test_floating_point_noise_is_saved_only_where_that_is_said(tmp_path) -> None:
    X = rows(200)
    y = X["length"] > 1
    for k, options in enumerate(({"algo": "gop"}, {"algo": "outpert", "algo_options": {"noise": "continuous"}})):
        model = dpml.PrivateClassifier(**options, bounds=(-1, 3)).fit(X + k, y)
        assert {guarantee.basis for guarantee in model.guarantees_} == {"proven for real numbers"}
        path = tmp_path / f"{options['algo']}.json"
        with pytest.raises(dpml.UserError, match=r"or save\(path, floating=True\)"):
            model.save(path, unsafe=True)
        assert not path.exists()
        model.save(path, floating=True, unsafe=True)
        again = dpml.PrivateClassifier.load(path)
        assert again.guarantees_ == model.guarantees_
        assert any("proven for real numbers, not for these bits" in sentence for sentence in again.statement_)
        with pytest.raises(dpml.UserError, match="loaded from a file"):
            again.save(tmp_path / "again.json")


@pytest.mark.parametrize(
    ("algo", "loss"),
    [(algo, "logistic") for algo in ("dpgd", "ssp", "ssp_descent", "fm", "dpfm", "outpert", "amp", "la", "avg")]
    + [(algo, "squared") for algo in ("dpgd", "ssp", "ssp_descent", "fm", "dpfm", "outpert")],
)
def test_an_estimator_has_exact_noise_where_it_can(tmp_path, algo, loss) -> None:
    X = rows(200)
    lam = {"algo_options": {"lam": 0.1}} if algo in ("la", "avg") else {}
    if loss == "logistic":
        model = dpml.PrivateClassifier(algo, bounds=(-1, 3), **lam).fit(X, X["length"] > 1)
    else:
        model = dpml.PrivateRegressor(algo, bounds=(-1, 3), y_bounds=(-1, 3)).fit(X, X["length"])
    assert {guarantee.basis for guarantee in model.guarantees_} == {"proven"}
    assert max(guarantee.eps for guarantee in model.guarantees_) <= 1
    model.save(tmp_path / "m.json", unsafe=True)


@pytest.mark.filterwarnings("ignore:nothing is proven of this model, because the noise was made from a seed")
def test_exact_noise_of_an_estimator_comes_from_the_system(monkeypatch) -> None:
    drawn, urandom = [], os.urandom
    monkeypatch.setattr(os, "urandom", lambda length: drawn.append(length) or urandom(length))
    X = rows(200)
    options = {"algo_options": {"noise": "discrete"}, "bounds": (-1, 3)}
    model = dpml.PrivateClassifier("ssp", **options, random_state=0).fit(X, X["length"] > 1)
    assert not drawn
    model = dpml.PrivateClassifier("ssp", **options).fit(X, X["length"] > 1)
    assert drawn
    assert any("exact integers" in sentence for sentence in model.statement_)
