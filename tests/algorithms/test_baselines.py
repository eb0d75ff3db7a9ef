"""Models without noise."""

import numpy as np
import pytest
from examples import labelled_parties, loss_of, recipe_parties
from sklearn.linear_model import LogisticRegression

from dpml.algorithms.baselines import Batch, Individual, NonPrivate
from dpml.optim.losses import LOSSES
from dpml.running.metrics import evaluate

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
        assert found["accuracy"][i, j] == pytest.approx(correct.mean())
        assert found["err_w"][i, j] == pytest.approx(np.linalg.norm(w - parties.data.truth) / 6)
    assert (found["optimality_gap"] > 0).all()
