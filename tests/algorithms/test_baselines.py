"""Models without noise."""

from dataclasses import replace

import numpy as np
import pytest
from examples import LOGISTIC, labelled_parties, loss_of, recipe_parties
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import balanced_accuracy_score, log_loss, mean_squared_error, roc_auc_score

from dpml.algorithms.baselines import Ceiling, Constant, NonPrivate
from dpml.data import Dataset
from dpml.data.partition import Equal, partition
from dpml.optim.convex import optimum
from dpml.optim.losses import LOSSES, mean_loss
from dpml.privacy import Adversary, Budget
from dpml.running.metrics import accuracies, auc, evaluate


def test_metrics_against_their_definitions() -> None:
    parties = recipe_parties("logistic", rows=300)
    weights = np.random.default_rng(0).standard_normal((2, 5, 6))
    found = evaluate(weights, parties, LOGISTIC, lam=0.1)
    best = NonPrivate(LOGISTIC, lam=0.1).prepare(parties, np.random.default_rng(0))
    for i, j in np.ndindex(2, 5):
        w = weights[i, j]
        loss = np.log1p(np.exp(-parties.y * (parties.X @ w))).mean()
        assert found["loss"][i, j] == pytest.approx(loss)
        assert found["optimality_gap"][i, j] == pytest.approx(loss + 0.05 * w @ w - best.start[1]["noisy_objective"])
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
    assert floor.start[1]["accuracy"] == pytest.approx(dummy.score(blank_test, data.y_test))
    guessed = balanced_accuracy_score(data.y_test, dummy.predict(blank_test))
    assert floor.start[1]["balanced_accuracy"] == pytest.approx(guessed)
    assert floor.start[1]["loss"] == pytest.approx(log_loss(parties.y, dummy.predict_proba(blank)))
    assert Constant(loss_of(K)).guarantees(Budget(1.0, 1e-5), parties.problem)[0].eps == np.inf


def test_the_floor_of_a_regression_is_the_mean_target_and_of_a_bounded_loss_the_rarer_class() -> None:
    parties = recipe_parties("linear", rows=300)
    data = parties.data
    floor = Constant(LOSSES["squared"]).prepare(parties, np.random.default_rng(0)).start[1]
    dummy = DummyRegressor().fit(parties.X, parties.y)
    assert floor["loss"] == pytest.approx(mean_squared_error(parties.y, dummy.predict(parties.X)))
    assert floor["rmse"] == pytest.approx(np.sqrt(mean_squared_error(data.y_test, dummy.predict(data.X_test))))
    assert floor["err_w"] == pytest.approx(np.linalg.norm(data.truth) / len(data.truth))
    parties = recipe_parties("logistic", rows=300)
    floor = Constant(LOSSES["sigmoid"]).prepare(parties, np.random.default_rng(0)).start[1]
    assert floor["loss"] == pytest.approx(min(np.mean(parties.y > 0), np.mean(parties.y < 0)))


def test_the_ceiling_is_the_ridge_that_is_best_on_rows_held_out() -> None:
    """Few noisy rows of many features: the minimiser of the training loss is far from the best."""
    rng = np.random.default_rng(3)
    X, w = rng.normal(size=(400, 30)), np.append(3.0, np.zeros(29))
    X /= np.linalg.norm(X, axis=1).max()
    y = np.where(X @ w + rng.logistic(size=400) / 2 > 0, 1.0, -1.0)
    data = Dataset("d", "binary", X[:60], y[:60], X[60:], y[60:])
    parties = partition(data, Equal(), 1, rng, Adversary(None))
    found = Ceiling(LOSSES["logistic"]).prepare(parties, np.random.default_rng(0)).start[0]
    fits = [optimum(LOSSES["logistic"], parties.X, parties.y, lam) for lam in Ceiling.RIDGES]
    chosen = [np.array_equal(found, w) for w in fits]
    assert sum(chosen) == 1
    losses = [mean_loss(LOSSES["logistic"], X[60:], y[60:], w[None])[0] for w in fits]
    assert losses[chosen.index(True)] < 0.9 * losses[0]
