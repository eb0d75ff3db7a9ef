"""Models without noise."""

from dataclasses import replace

import numpy as np
import pytest
from examples import labelled_parties, loss_of, recipe_parties
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import balanced_accuracy_score, log_loss, mean_squared_error, roc_auc_score
from sklearn.model_selection import PredefinedSplit, cross_val_predict

from dpml.algorithms.baselines import Batch, Constant, Individual, NonPrivate
from dpml.algorithms.cross_validated import RIDGES, CrossValidated
from dpml.errors import UserError
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget
from dpml.running.metrics import accuracies, auc, evaluate

LOGISTIC, SOFTMAX = LOSSES["logistic"], LOSSES["softmax"]


def test_batch_is_the_regularised_minimum_and_indiv_the_mean_accuracy() -> None:
    parties = labelled_parties(3, 12)
    batch = Batch(SOFTMAX, lam=1e-2).prepare(parties, np.random.default_rng(0))
    theirs = LogisticRegression(C=1 / (1e-2 * len(parties.y)), fit_intercept=False, tol=1e-10, max_iter=10_000)
    assert np.allclose(batch.weights, theirs.fit(parties.X, parties.y).coef_.ravel(), atol=1e-5)
    for K in (1, 3):
        parties = labelled_parties(K, 12)
        data = parties.data
        found = Individual(loss_of(K), lam=1e-2).prepare(parties, np.random.default_rng(0)).metrics["accuracy"]
        each = []
        for k in range(12):
            own = parties.of(k)
            model = LogisticRegression(C=1 / (1e-2 * len(parties.y[own])), fit_intercept=False, tol=1e-10)
            each.append(model.fit(parties.X[own], parties.y[own]).score(data.X_test, data.y_test))
        assert found == pytest.approx(np.mean(each), abs=1e-9)


def test_metrics_against_their_definitions() -> None:
    parties = recipe_parties("logistic", rows=300)
    weights = np.random.default_rng(0).standard_normal((2, 5, 6))
    found = evaluate(weights, parties, LOGISTIC, lam=0.1)
    best = NonPrivate(LOGISTIC, lam=0.1).prepare(parties, np.random.default_rng(0))
    for i, j in np.ndindex(2, 5):
        w = weights[i, j]
        loss = np.log1p(np.exp(-parties.y * (parties.X @ w))).mean()
        assert found["loss"][i, j] == pytest.approx(loss)
        assert found["optimality_gap"][i, j] == pytest.approx(loss + 0.05 * w @ w - best.metrics["noisy_objective"])
        correct = np.sign(parties.data.X_test @ w) == parties.data.y_test
        assert found["accuracy"][i, j] == correct.mean()
        each = balanced_accuracy_score(parties.data.y_test, np.sign(parties.data.X_test @ w))
        assert found["balanced_accuracy"][i, j] == pytest.approx(each)
        assert found["err_w"][i, j] == pytest.approx(np.linalg.norm(w - parties.data.truth) / 6)
    assert (found["optimality_gap"] > 0).all()


def test_the_area_under_the_curve_is_that_of_scikit_learn_with_ties() -> None:
    parties = recipe_parties("logistic", rows=300)
    data = parties.data
    parties = replace(parties, data=replace(data, X_test=np.round(8 * data.X_test) / 8))  # sums without rounding
    weights = np.round(np.random.default_rng(1).standard_normal((4, 6)))  # many equal scores
    weights[3] = 0
    areas = auc(weights, parties, LOGISTIC, 0.0)
    assert areas == pytest.approx([roc_auc_score(data.y_test, parties.data.X_test @ w) for w in weights])
    assert areas[3] == 0.5
    with pytest.raises(UserError, match="two classes"):
        auc(weights, recipe_parties("linear", rows=300), LOSSES["squared"], 0.0)


def test_weights_that_are_not_numbers_have_no_accuracy() -> None:
    parties = recipe_parties("logistic", rows=300)
    weights = np.full((2, 6), np.nan)
    weights[1] = 1
    for K, X, y in ((1, parties.data.X_test, parties.data.y_test), (3, np.eye(6), np.arange(6) % 3)):
        for found in accuracies(np.tile(weights, (1, K)), X, y):
            assert np.isnan(found[0])
            assert np.isfinite(found[1])


@pytest.mark.parametrize("K", [1, 3])
def test_the_floor_of_a_classification_uses_no_feature(K) -> None:
    parties = labelled_parties(K, 12)
    data, rng = parties.data, np.random.default_rng(0)
    floor = Constant(loss_of(K), lam=1e-2).prepare(parties, rng)
    blank, blank_test = np.zeros((len(parties.y), 1)), np.zeros((len(data.y_test), 1))
    dummy = DummyClassifier(strategy="prior").fit(blank, parties.y)
    assert floor.metrics["accuracy"] == pytest.approx(dummy.score(blank_test, data.y_test))
    guessed = balanced_accuracy_score(data.y_test, dummy.predict(blank_test))
    assert floor.metrics["balanced_accuracy"] == pytest.approx(guessed)
    assert floor.metrics["loss"] == pytest.approx(log_loss(parties.y, dummy.predict_proba(blank)))
    best = evaluate(Batch(loss_of(K), lam=1e-2).prepare(parties, rng).weights[None, None], parties, loss_of(K), 1e-2)
    objective = best["loss"][0, 0] + 1e-2 / 2 * np.sum(Batch(loss_of(K), lam=1e-2).prepare(parties, rng).weights ** 2)
    assert floor.metrics["optimality_gap"] == pytest.approx(floor.metrics["loss"] - objective)
    assert Constant(loss_of(K)).guarantees(Budget(1.0, 1e-5), parties.problem)[0].eps == np.inf


def test_the_floor_of_a_regression_is_the_mean_target() -> None:
    parties = recipe_parties("linear", rows=300)
    data = parties.data
    floor = Constant(LOSSES["squared"]).prepare(parties, np.random.default_rng(0)).metrics
    dummy = DummyRegressor().fit(parties.X, parties.y)
    assert floor["loss"] == pytest.approx(mean_squared_error(parties.y, dummy.predict(parties.X)))
    assert floor["rmse"] == pytest.approx(np.sqrt(mean_squared_error(data.y_test, dummy.predict(data.X_test))))
    assert floor["err_w"] == pytest.approx(np.linalg.norm(data.truth) / len(data.truth))


def test_the_floor_of_a_bounded_loss_is_the_share_of_the_rarer_class() -> None:
    parties = recipe_parties("logistic", rows=300)
    floor = Constant(LOSSES["sigmoid"]).prepare(parties, np.random.default_rng(0)).metrics
    rarer = min(np.mean(parties.y > 0), np.mean(parties.y < 0))
    assert floor["loss"] == pytest.approx(rarer)
    assert "optimality_gap" not in floor


@pytest.mark.parametrize("recipe", ["linear", "logistic"])
def test_the_ceiling_has_the_ridge_that_cross_validation_by_scikit_learn_chooses(recipe) -> None:
    parties = recipe_parties(recipe, rows=60)
    loss = LOSSES["squared" if recipe == "linear" else "logistic"]
    n = len(parties.y)
    folds = np.random.default_rng(3).permutation(n) % 5
    losses = []
    for ridge in RIDGES:
        train = n * 4 / 5  # 60 rows: all folds have as many
        model, method = Ridge(ridge * train / 2, fit_intercept=False), "predict"
        if loss.name == "logistic":
            model = LogisticRegression(C=1 / (ridge * train), fit_intercept=False, tol=1e-10, max_iter=10_000)
            method = "decision_function"
        held_out = cross_val_predict(model, parties.X, parties.y, cv=PredefinedSplit(folds), method=method)
        losses.append(loss.value(held_out[:, None], parties.y)[:, 0])
    least = min(losses, key=np.mean)
    within = [np.mean(own) <= np.mean(least) + np.std(least, ddof=1) / np.sqrt(n) for own in losses]
    found = CrossValidated(loss).prepare(parties, np.random.default_rng(3))
    assert found.metrics["ridge"] == max(np.array(RIDGES)[within])
    theirs = NonPrivate(loss, lam=found.metrics["ridge"]).prepare(parties, np.random.default_rng(0))
    assert np.array_equal(found.weights, theirs.weights)
    with pytest.raises(UserError, match="needs 5 private rows"):
        CrossValidated(loss).prepare(recipe_parties(recipe, rows=4), np.random.default_rng(0))
