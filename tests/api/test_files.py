"""Estimators written to a model's file and read back predict the same, as does the command."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpml
from dpml.data.csv.column_bounds import ColumnBounds
from dpml.data.info import Range
from dpml.release.model import Model, read_model


def rows(n=2000):
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.uniform(-1, 3, (n, 2)), columns=["length", "width"])


@pytest.mark.slow_cases("True")
@pytest.mark.filterwarnings("ignore:nothing is proven of this model, because the noise was made from a seed")
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_classifier_reads_back_and_the_command_says_the_same(run_command, tmp_path, fit_intercept) -> None:
    X = rows()
    y = np.where(X["length"] + X["width"] > 2, "long", "short")
    model = dpml.PrivateClassifier(bounds=(-1, 3), fit_intercept=fit_intercept, random_state=0).fit(X, y)
    model.save(tmp_path / "m.json", unsafe=True)
    again = dpml.PrivateClassifier.load(tmp_path / "m.json")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X))
    assert again.guarantees_ == model.guarantees_
    X.to_csv(tmp_path / "rows.csv", index=False)
    done = run_command("dpml", "predict", str(tmp_path / "m.json"), str(tmp_path / "rows.csv"), "-o", "p.csv")
    assert done.code == 0, done.err
    said = pd.read_csv(tmp_path / "p.csv")
    np.testing.assert_array_equal(said["prediction"], model.predict(X))
    found = np.column_stack([said[f"probability_{name}"] for name in model.classes_])
    np.testing.assert_allclose(found, model.predict_proba(X), rtol=1e-5)


@pytest.mark.filterwarnings("ignore:nothing is proven of this model, because the noise was made from a seed")
def test_a_regressor_reads_back_in_its_own_unit(tmp_path) -> None:
    X = rows()
    model = dpml.PrivateRegressor("ssp", bounds=(-1, 3), y_bounds=(0, 40), random_state=0).fit(X, 5 * X["length"] + 10)
    model.save(tmp_path / "m.json", unsafe=True)
    again = dpml.PrivateRegressor.load(tmp_path / "m.json")
    np.testing.assert_allclose(again.predict(X), model.predict(X))
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
    for k, options in enumerate(({"algo": "gop"}, {"algo": "ssp", "algo_options": {"noise": "continuous"}})):
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
    [(algo, "logistic") for algo in ("dpgd", "ssp", "ssp_descent", "fm", "dpfm")]
    + [(algo, "squared") for algo in ("dpgd", "ssp", "ssp_descent", "fm", "dpfm")],
)
def test_an_estimator_has_exact_noise_where_it_can(tmp_path, algo, loss) -> None:
    X = rows(200)
    if loss == "logistic":
        model = dpml.PrivateClassifier(algo, bounds=(-1, 3)).fit(X, X["length"] > 1)
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


def made_up(task, loss, target=None, classes=()):
    """A model of the columns of `rows`, of weights that are written down."""
    columns = {"length": Range(-1.0, 3.0), "width": Range(-1.0, 3.0)}
    stated = ColumnBounds.of_columns(Path("made up"), columns, classes, target)
    weights = np.array([[0.3, 0.1, 0.5]])
    said = ("Unit of privacy: one record.", "Guarantee: nothing is proven.")
    return Model(task, loss, "y", stated, ("symmetric", "bias", "sample_norm"), weights, (), said, "", {})


@pytest.mark.slow
def test_a_model_that_was_read_knows_its_columns_by_name(tmp_path) -> None:
    """Those in another order would be taken for one another."""
    X = rows()
    dpml.PrivateClassifier(bounds=(-1, 3)).fit(X, X["length"] > 1).save(tmp_path / "m.json", unsafe=True)
    again = dpml.PrivateClassifier.load(tmp_path / "m.json")
    assert list(again.feature_names_in_) == ["length", "width"]
    with pytest.raises(ValueError, match="feature names should match"):
        again.predict(X[["width", "length"]])
    unnamed = X.to_numpy() / 2  # other rows, of which no fit is counted
    dpml.PrivateClassifier(bounds=(-1, 3)).fit(unnamed, X["length"] > 1).save(tmp_path / "n.json", unsafe=True)
    assert not hasattr(dpml.PrivateClassifier.load(tmp_path / "n.json"), "feature_names_in_")


def test_an_estimator_reads_no_target_on_a_log_scale(tmp_path) -> None:
    """It would predict the logarithm as if it were the target."""
    model = replace(made_up("regression", "squared", Range(0.0, 999.0, log=True)), scale=float(np.log(1000)))
    (tmp_path / "m.json").write_text(model.text(), "utf-8")
    with pytest.raises(dpml.UserError, match="more than plain ranges"):
        dpml.PrivateRegressor.load(tmp_path / "m.json")


def test_an_estimator_reads_a_release_whose_columns_are_all_numbers(tmp_path) -> None:
    """`dpml release` has the step one_hot by default, which does nothing to them."""
    model = replace(made_up("regression", "squared", Range(-5.0, 70.0)), scale=70.0)
    (tmp_path / "m.json").write_text(replace(model, steps=("one_hot", *model.steps)).text(), "utf-8")
    again = dpml.PrivateRegressor.load(tmp_path / "m.json")
    expected = model.predictions(rows().to_numpy())["prediction"]
    np.testing.assert_allclose(again.predict(rows()), expected, rtol=1e-12)


def test_an_estimator_reads_a_softmax_of_two_classes(tmp_path) -> None:
    """As `dataset.task=multiclass` makes of two labels."""
    weights = np.array([[0.3, 0.1, 0.5], [1.0, -2.0, 0.4]])
    model = replace(made_up("multiclass", "softmax", classes=("no", "yes")), weights=weights)
    (tmp_path / "m.json").write_text(model.text(), "utf-8")
    again, expected = dpml.PrivateClassifier.load(tmp_path / "m.json"), model.predictions(rows().to_numpy())
    np.testing.assert_array_equal(again.predict(rows()), expected["prediction"])
    found = np.column_stack([expected["probability_no"], expected["probability_yes"]])
    np.testing.assert_allclose(again.predict_proba(rows()), found, rtol=1e-12)


@pytest.mark.parametrize("loss", ["squared", "sigmoid"])
def test_a_loss_of_no_probabilities_gives_an_estimator_none(tmp_path, loss) -> None:
    model = made_up("binary", loss, classes=("no", "yes"))
    (tmp_path / "m.json").write_text(model.text(), "utf-8")
    again = dpml.PrivateClassifier.load(tmp_path / "m.json")
    found = model.predictions(rows().to_numpy())
    assert list(found) == ["prediction"]
    np.testing.assert_array_equal(again.predict(rows()), found["prediction"])
    with pytest.raises(dpml.UserError, match=f"loss={loss} gives no probabilities"):
        again.predict_proba(rows())
    again.set_params(bounds=(-1, 3)).fit(rows(), rows()["length"] > 1).predict_proba(rows())


@pytest.mark.slow
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_parameter_that_is_set_later_changes_no_model(tmp_path, fit_intercept) -> None:
    X = rows()
    models = [
        dpml.PrivateClassifier(bounds=(-1, 3), fit_intercept=fit_intercept).fit(X, X["length"] > 2),
        dpml.PrivateRegressor(bounds=(-1, 3), y_bounds=(0, 4), fit_intercept=fit_intercept).fit(X / 2, X["length"] + 1),
    ]
    for number, model in enumerate(models):
        before = model.predict(X)
        model.set_params(fit_intercept=not fit_intercept, bounds=(0, 1))
        np.testing.assert_array_equal(model.predict(X), before)
        model.save(tmp_path / f"{number}.json", unsafe=True)
        again = type(model).load(tmp_path / f"{number}.json")  # whose classes are texts
        np.testing.assert_array_equal(again.predict(X).astype(str), before.astype(str))


def test_a_score_of_nothing_is_one_class_everywhere(tmp_path) -> None:
    """Runs and files say the second one (`dpml.optim.losses.correct`)."""
    X = rows()
    model = dpml.PrivateClassifier(bounds=(-1, 3), fit_intercept=False).fit(X, X["length"] > 1)
    middle = pd.DataFrame({"length": [1.0], "width": [1.0]})
    assert model.decision_function(middle) == 0
    model.save(tmp_path / "m.json", unsafe=True)
    assert model.predict(middle) == [True]
    assert list(read_model(tmp_path / "m.json").predictions(middle.to_numpy())["prediction"]) == ["True"]
