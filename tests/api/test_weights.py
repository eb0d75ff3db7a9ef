"""Weights of rows and classes: what they do to a model, and that no sum moves farther with them than is proven."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from test_estimators import UNIT, lifted, made_up

import dpml
from dpml.api.rows import class_weights, into_ball, thinned
from dpml.audit.neighbours import synthetic_parties
from dpml.audit.sensitivity import moved
from dpml.config.build import algorithm_of
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget
from dpml.release.facts import option_node

pytestmark = pytest.mark.filterwarnings(
    "ignore:nothing is proven of this model, because the noise was made from a seed"
)


def same(one, other) -> bool:
    return np.array_equal(one.coef_, other.coef_) and np.array_equal(one.intercept_, other.intercept_)


def test_rows_of_weight_0_count_for_nothing():
    X, t = made_up()
    weights = (np.arange(len(X)) % 3 > 0).astype(float)
    lam = 0.05
    model = dpml.PrivateClassifier("gop", eps=math.inf, bounds=UNIT, algo_options={"lam": lam})
    model.fit(X, t > 0, sample_weight=weights)
    theirs = LogisticRegression(C=1 / (lam * len(X)), fit_intercept=False, tol=1e-10)
    theirs.fit(lifted(X), t > 0, sample_weight=weights)
    assert np.allclose(np.append(model.coef_[0], model.intercept_), theirs.coef_[0], atol=1e-5)
    line = dpml.PrivateRegressor("ssp", eps=math.inf, bounds=UNIT, y_bounds=(-3, 3), algo_options={"lam": lam})
    line.fit(X, t, sample_weight=weights)
    ridge = Ridge(alpha=lam * len(X) / 2, fit_intercept=False).fit(lifted(X), t / 3, sample_weight=weights)
    assert np.allclose(np.append(line.coef_, line.intercept_), ridge.coef_, atol=1e-6)


def test_sums_are_weighted_in_the_mean():
    """Over 4,000 draws of coins, within 5 standard errors: a false alarm in 10^5 for the twelve numbers."""
    X, _ = made_up(30)
    weights = np.random.default_rng(1).uniform(0, 1, 30)
    draws = np.array([thinned(X, [weights], np.random.default_rng(seed)).sum(axis=0) for seed in range(4_000)])
    error = np.sqrt((weights * (1 - weights)) @ X**2 / len(draws))
    assert (np.abs(draws.mean(axis=0) - weights @ X) < 5 * error).all()
    half = [np.sqrt(weights), np.sqrt(weights)]  # several weights are multiplied
    assert np.array_equal(thinned(X, half, np.random.default_rng(3)), thinned(X, [weights], np.random.default_rng(3)))


def test_weights_of_1_change_nothing():
    X, t = made_up()
    make = lambda: dpml.PrivateRegressor("ssp", bounds=UNIT, y_bounds=(-3, 3), random_state=0)  # noqa: E731
    plain = make().fit(X, t)
    for ones in (1, np.ones(400), [1] * 400, 1.0):
        assert same(plain, make().fit(X, t, sample_weight=ones))
    assert not same(plain, make().fit(X, t, sample_weight=np.full(400, 0.5)))


def test_weights_of_classes_are_those_of_their_rows():
    X, t = made_up()
    y = np.array(["low", "up"])[(t > 0).astype(int)]
    make = lambda **more: dpml.PrivateClassifier(bounds=UNIT, random_state=0, **more)  # noqa: E731
    by_class = make(class_weight={"low": 1, "up": 5}).fit(X, y)
    assert same(by_class, make().fit(X, y, sample_weight=np.where(y == "up", 1, 0.2)))
    assert same(by_class, make(class_weight={"up": 5.0}).fit(X, y))  # the other has 1
    both = make(class_weight={"up": 5.0}).fit(X, y, sample_weight=0.5)
    assert same(both, make().fit(X, y, sample_weight=np.where(y == "up", 0.5, 0.1)))


def neighbours(kind, task, coins, n=60, d=3):
    rng = np.random.default_rng(coins)
    X = into_ball(rng.uniform(-1, 1, (n, d)), -np.ones(d), np.ones(d), False)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    weights = rng.uniform(0, 1, n)
    X_other, weights_other = X.copy(), weights.copy()
    place = int(rng.integers(n))
    X_other[place] = -X[place]
    weights[place], weights_other[place] = (1.0, 0.0) if kind == "from 1 to 0" else rng.uniform(0, 1, 2)
    kept = [
        thinned(rows, [own], np.random.default_rng(coins)) for rows, own in ((X, weights), (X_other, weights_other))
    ]
    assert (np.linalg.norm(kept[0], axis=1) <= 1 + 1e-12).all()
    differ = np.flatnonzero((kept[0] != kept[1]).any(axis=1))
    assert set(differ) <= {place}
    return tuple(synthetic_parties(task, rows, y, [n]) for rows in kept)


@pytest.mark.parametrize("kind", ["its weight", "from 1 to 0"])
@pytest.mark.parametrize(("algo", "loss"), [("capefm", "logistic"), ("ssp", "squared"), ("wdgd", "logistic")])
def test_no_sum_moves_farther_than_is_declared(algo, loss, kind):
    """By brute force: both data sets are summed by the code of a release, for 12 draws of coins."""
    task = "regression" if loss == "squared" else "binary"
    algorithm = algorithm_of(option_node(algo), LOSSES[loss], "tight")
    ratio = moved(algorithm, Budget(1.0, 1e-5), [neighbours(kind, task, coins) for coins in range(12)])
    assert 0 < ratio <= 1


@pytest.mark.parametrize("given", ["balanced", {"lo": 2}, {"low": 0}, {"low": math.inf}])
def test_mistakes_in_weights_of_classes(given):
    with pytest.raises(dpml.UserError, match="class_weight"):
        class_weights(given, np.array(["low", "up"]), np.array([0, 1]))


@pytest.mark.parametrize("given", [-1.0, math.nan, np.zeros(400), np.ones(399)])
def test_mistakes_in_weights_of_rows(given):
    X, t = made_up()
    with pytest.raises(ValueError):  # noqa: PT011
        dpml.PrivateRegressor(bounds=UNIT, y_bounds=(-3, 3)).fit(X, t, sample_weight=given)


def test_a_weight_above_1_counts_as_1():
    X, t = made_up()
    make = lambda: dpml.PrivateClassifier(bounds=UNIT, class_weight={True: 1, False: 0.2}, random_state=0)  # noqa: E731
    weights = np.linspace(0, 1.5, 400)
    with pytest.warns(UserWarning, match="sample_weight above 1"):
        model = make().fit(X, t > 0, sample_weight=weights)
    assert same(model, make().fit(X, t > 0, sample_weight=np.minimum(weights, 1)))
