"""The files of estimators: `dpml predict` predicts the same, and the file says what its guarantee rests on."""

import math
import os

import numpy as np
import pandas as pd
import pytest

import dpml
from dpml.release.model import read_model

pytestmark = pytest.mark.filterwarnings(
    "ignore:nothing is proven of this model, because the noise was made from a seed"
)


def rows(n=2000):
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.uniform(-1, 3, (n, 2)), columns=["length", "width"])


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_command_predicts_what_the_estimator_does(run_command, tmp_path, fit_intercept) -> None:
    X = rows()
    y = np.where(X["length"] + X["width"] > 2, "long", "short")
    model = dpml.PrivateClassifier(bounds=(-1, 3), fit_intercept=fit_intercept, random_state=0).fit(X, y)
    model.set_params(fit_intercept=not fit_intercept, bounds=(0, 1))  # which changes no fitted model
    model.save(tmp_path / "m.json", unsafe=True)
    X.to_csv(tmp_path / "rows.csv", index=False)
    done = run_command("dpml", "predict", str(tmp_path / "m.json"), str(tmp_path / "rows.csv"), "-o", "p.csv")
    assert done.code == 0, done.err
    table = pd.read_csv(tmp_path / "p.csv")
    np.testing.assert_array_equal(table["prediction"], model.predict(X))
    found = np.column_stack([table[f"probability_{name}"] for name in model.classes_])
    np.testing.assert_allclose(found, model.predict_proba(X), rtol=1e-5)
    with pytest.raises(dpml.UserError, match="is there already"):
        model.save(tmp_path / "m.json", unsafe=True)


def test_a_regressors_file_is_in_its_own_unit(tmp_path) -> None:
    X = rows()
    model = dpml.PrivateRegressor("ssp", bounds=(-1, 3), y_bounds=(0, 40), random_state=0).fit(X, 5 * X["length"] + 10)
    model.save(tmp_path / "m.json", unsafe=True)
    found = read_model(tmp_path / "m.json").predictions(X.to_numpy())["prediction"]
    np.testing.assert_allclose(found, model.predict(X))


@pytest.mark.parametrize("algo", ["ssp", "objpert", "nonpriv"])
def test_a_model_without_noise_is_saved_and_says_that_nothing_is_proven(tmp_path, algo) -> None:
    X = rows(200)
    model = dpml.PrivateClassifier(algo, eps=math.inf, bounds=(-1, 3)).fit(X, X["length"] > 1)
    model.save(tmp_path / "m.json", unsafe=True)
    saved = read_model(tmp_path / "m.json")
    assert all(math.isinf(guarantee.eps) for guarantee in saved.guarantees)
    assert saved.statement[1].startswith("Guarantee: nothing is proven")
    assert saved.statement[2] == "Noise: none."
    assert np.mean(saved.predictions(X.to_numpy())["prediction"].astype(str) == model.predict(X).astype(str)) == 1


def test_what_shows_private_rows_is_not_written(tmp_path) -> None:
    X = rows()
    with pytest.warns(dpml.PrivacyWarning):
        model = dpml.PrivateClassifier().fit(X, X["length"] > 1)
    with pytest.raises(dpml.UserError, match="fitted to the rows"):
        model.save(tmp_path / "m.json", unsafe=True)
    assert not (tmp_path / "m.json").exists()


def test_floating_point_noise_is_saved_only_where_that_is_said(tmp_path) -> None:
    X = rows(200)
    y = X["length"] > 1
    for k, options in enumerate(({"algo": "gop"}, {"algo": "ssp", "algo_options": {"noise": "continuous"}})):
        model = dpml.PrivateClassifier(**options, bounds=(-1, 3)).fit(X + k, y)
        assert {guarantee.basis for guarantee in model.guarantees_} == {"proven for real numbers"}
        path = tmp_path / f"{options['algo']}.json"
        with pytest.raises(dpml.UserError, match="floating=True"):
            model.save(path, unsafe=True)
        assert not path.exists()
        model.save(path, floating=True, unsafe=True)
        assert any("not for these bits" in sentence for sentence in read_model(path).statement)


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


def test_a_score_of_nothing_is_one_class_everywhere(tmp_path) -> None:
    """Runs and files say the second one (`dpml.optim.losses.correct`)."""
    X = rows()
    model = dpml.PrivateClassifier(bounds=(-1, 3), fit_intercept=False).fit(X, X["length"] > 1)
    middle = pd.DataFrame({"length": [1.0], "width": [1.0]})
    assert model.decision_function(middle) == 0
    model.save(tmp_path / "m.json", unsafe=True)
    assert model.predict(middle) == [True]
    assert list(read_model(tmp_path / "m.json").predictions(middle.to_numpy())["prediction"]) == ["True"]
