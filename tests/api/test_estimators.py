"""The estimators: scikit-learn's own checks, models without noise against scikit-learn's, and what privacy needs."""

import math
import pickle
import warnings

import joblib
import numpy as np
import pytest
import yaml
from scipy.stats import gamma
from sklearn import config_context
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import dpml
from dpml.algorithms.ensemble import LocalAggregation
from dpml.api.rows import into_ball
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget, Problem, gdp
from dpml.privacy.accountant import Accountant

UNIT = [-1.0, 1.0]
SEEDED = pytest.mark.filterwarnings("ignore:nothing is proven of this model, because the noise was made from a seed")


CHECKS = pytest.mark.filterwarnings("ignore::dpml.errors.PrivacyWarning", "ignore:sample_weight above 1 counts as 1")


def run_check(estimator, check):
    """A row of weight 2 is not two rows, as it moves no model farther."""
    name = getattr(check, "func", check).__name__
    if name.startswith(("check_sample_weight_equivalence", "check_sample_weights_invariance")):
        pytest.skip("the number of rows is public, and no weight is above 1")
    check(estimator)


@parametrize_with_checks([dpml.PrivateRegressor("ssp", fit_intercept=False)])
@CHECKS
def test_scikit_learn_takes_the_regressor_for_its_own(estimator, check):
    run_check(estimator, check)


@pytest.mark.slow
@parametrize_with_checks([dpml.PrivateClassifier(eps=10.0, bounds=[-10, 10], parties=2)])
@CHECKS
def test_scikit_learn_takes_the_classifier_for_its_own(estimator, check):
    run_check(estimator, check)


def made_up(n=400, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    return X, X[:, 0] - 0.5 * X[:, 1] + 0.3 + 0.2 * rng.standard_normal(n)


def lifted(X, constant=True):
    """Rows of length 1, as documented: X in [-1, 1], a constant 1, over the length."""
    rows = np.array([[*row, 1.0] if constant else list(row) for row in X])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


# ---- without noise


@pytest.mark.parametrize("constant", [True, False])
def test_without_noise_a_classifier_is_the_minimiser(constant):
    """gop minimises mean logistic loss + lam/2 ||w||^2, scikit-learn C sum loss + 1/2 ||w||^2."""
    X, t = made_up()
    lam = 0.05
    model = dpml.PrivateClassifier("gop", eps=math.inf, bounds=UNIT, fit_intercept=constant,
                                   algo_options={"lam": lam}).fit(X, t > 0)  # fmt: skip
    theirs = LogisticRegression(C=1 / (lam * len(X)), fit_intercept=False, tol=1e-10).fit(lifted(X, constant), t > 0)
    found = np.append(model.coef_[0], model.intercept_ if constant else [])
    assert np.allclose(found, theirs.coef_[0], atol=1e-5)
    assert np.allclose(model.predict_proba(X), theirs.predict_proba(lifted(X, constant)), atol=1e-5)
    assert model.intercept_.shape == (1,)


@pytest.mark.parametrize("constant", [True, False])
def test_without_noise_a_regression_is_the_minimiser(constant):
    """ssp minimises the mean square + lam/2 ||w||^2, scikit-learn the sum of squares + alpha ||w||^2."""
    X, t = made_up()
    lam, low, high = 0.05, -1.0, 4.0
    model = dpml.PrivateRegressor("ssp", eps=math.inf, bounds=UNIT, y_bounds=(low, high), fit_intercept=constant,
                                  algo_options={"lam": lam}).fit(X, t)  # fmt: skip
    scaled = (np.clip(t, low, high) - 1.5) / 2.5
    theirs = Ridge(alpha=lam * len(X) / 2, fit_intercept=False).fit(lifted(X, constant), scaled)
    assert np.allclose(model.predict(X), 1.5 + 2.5 * theirs.predict(lifted(X, constant)), atol=1e-6)
    assert model.coef_.shape == (3,)
    assert isinstance(model.intercept_, float)


def test_without_noise_many_classes_are_the_minimiser():
    X, t = made_up()
    y = np.array(["low", "middle", "up"])[np.digitize(t, [0.0, 0.6])]
    model = dpml.PrivateClassifier("nonpriv", eps=math.inf, bounds=UNIT, algo_options={"lam": 0.01}).fit(X, y)
    theirs = LogisticRegression(C=1 / (0.01 * len(X)), fit_intercept=False, tol=1e-10, max_iter=1000)
    theirs.fit(lifted(X), y)
    assert list(model.classes_) == list(theirs.classes_)
    assert np.allclose(model.predict_proba(X), theirs.predict_proba(lifted(X)), atol=1e-4)
    assert (model.predict(X) == theirs.predict(lifted(X))).mean() > 0.99
    assert (model.coef_.shape, model.intercept_.shape) == ((3, 3), (3,))


# ---- rows


def test_public_ranges_map_every_row_on_its_own():
    X, _ = made_up()
    low, high = np.full(3, -1.0), np.full(3, 1.0)
    other = X.copy()
    other[7] = 1e6
    differ = np.any(into_ball(X, low, high, True) != into_ball(other, low, high, True), axis=1)
    assert list(np.flatnonzero(differ)) == [7]
    assert np.allclose(into_ball(X, low, high, True), lifted(X), atol=1e-11)
    assert np.allclose(into_ball(other, low, high, True)[7], lifted([[1, 1, 1]]))  # clipped


def test_an_unknown_parameter_has_a_nearest_one():
    with pytest.raises(TypeError, match="did you mean 'eps'"):
        dpml.PrivateClassifier(epsilon=1)


# ---- privacy


@pytest.mark.parametrize(
    ("algo", "parties", "colluders"), [("dpgd", 1, None), ("capefm", 5, 2), ("ssp_descent", 8, None)]
)
def test_guarantees_are_those_of_the_accountant(algo, parties, colluders):
    X, t = made_up(n=403)
    model = dpml.PrivateClassifier(algo, 0.5, 1e-6, parties, bounds=UNIT, colluders=colluders).fit(
        X, t > 0, np.arange(403) % parties
    )
    same = dpml.guarantee("dataset=wdbc", "adversary.colluders=null", algo=algo, eps=0.5, delta=1e-6, M=parties, N=403,
                          d=4, calibration="tight",
                          **{"adversary.colluders": colluders, "algo.noise": "discrete"})  # fmt: skip
    assert model.guarantees_ == same
    assert max(g.eps for g in model.guarantees_ if g.basis == "proven") <= 0.5 * (1 + 1e-9)


@SEEDED
def test_the_noise_of_a_model_is_that_which_is_counted():
    """The lengths of 13 coordinates over 100 fits: within the quantiles at 1e-6 of Gamma(1300) on either side."""
    X, t = made_up(n=100, d=12)
    models = [
        dpml.PrivateClassifier("la", eps, bounds=UNIT, random_state=seed).fit(X, t > 0)
        for eps, seed in [(np.inf, 0), *((1.0, seed) for seed in range(100))]
    ]
    exact, *draws = np.array([[*model.coef_[0], *model.intercept_] for model in models])
    (noisy,) = LocalAggregation(LOSSES["logistic"], "tight").messages(Budget(1.0), Problem(1, 100, 13))
    low, high = gamma.ppf([1e-6, 1 - 1e-6], 1300)
    assert low < np.linalg.norm(draws - exact, axis=1).sum() / noisy.noise < high


@SEEDED
def test_noise_is_new_every_time_unless_a_seed_is_given():
    X, t = made_up()
    models = [dpml.PrivateClassifier(bounds=UNIT, random_state=seed).fit(X, t > 0) for seed in (None, None, 1, 1, 2)]
    first, second, one, again, two = (model.coef_ for model in models)
    assert (first != second).all()
    assert np.array_equal(one, again)
    assert (one != two).all()


def test_parties_are_those_of_the_ids():
    """At party level every party's mean counts alike, so it matters whose a row is. eps = inf shows it."""
    X, t = made_up()
    y = np.where(t > 0, "yes", "no")
    ids = np.array(["c", "a", "b", "a"] * 100)
    ids[:3] = "d"
    options = {"unit": "party", "lam": 0.1}
    model = dpml.PrivateClassifier("ssp", math.inf, bounds=UNIT, algo_options=options).fit(X, y, party=ids)
    share = np.array([1 / (4 * (ids == name).sum()) for name in ids])
    rows, signs = lifted(X), np.where(y == "yes", 1.0, -1.0)
    moment = rows.T @ (share[:, None] * rows) / 4 + 0.1 * np.eye(4)
    expected = np.linalg.solve(moment, rows.T @ (share * signs) / 2)
    assert np.allclose(np.append(model.coef_, model.intercept_), expected, atol=1e-6)
    private = dpml.PrivateClassifier("ssp", 2.0, bounds=UNIT, algo_options=options).fit(X, y, party=ids)
    assert {g.unit for g in private.guarantees_} == {"party"}
    assert {g.view for g in private.guarantees_} == {"release", "aggregate", "colluders"}


def test_what_no_budget_counts_is_warned_of():
    X, t = made_up()
    fits = {
        "ranges were fitted": lambda: dpml.PrivateClassifier().fit(X, t > 0),
        "y_bounds": lambda: dpml.PrivateRegressor(bounds=UNIT).fit(X, t),
        "eps=1.17": lambda: dpml.PrivateRegressor("fm", bounds=UNIT, y_bounds=(-3, 3), calibration="published").fit(
            X, t
        ),
        "eps=inf": lambda: dpml.PrivateClassifier("nonpriv", bounds=UNIT).fit(X, t > 0),
        "1/N or more": lambda: dpml.PrivateClassifier(delta=1 / 400, bounds=UNIT).fit(X, t > 0),
    }
    for sentence, fit in fits.items():
        with pytest.warns(dpml.PrivacyWarning, match=sentence) as caught:
            fit()
        assert [each.filename for each in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dpml.PrivateClassifier("gop", eps=math.inf).fit(X, t > 0)
        dpml.PrivateClassifier(bounds=UNIT).fit(X, t > 0)
        dpml.PrivateRegressor(bounds=UNIT, y_bounds=(-3, 3)).fit(X, t)


# ---- scikit-learn around them


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
def test_what_a_block_has_fitted_elsewhere_is_entered_and_capped(workers, tmp_path, monkeypatch):
    """Workers of scikit-learn's `n_jobs` are in no block of their own, and processes may be in another folder."""
    X, t = made_up()
    monkeypatch.chdir(tmp_path)
    eight, enough = Accountant().gaussian(gdp.mu_of(1.0, 1e-5), times=8).eps(1e-5), 1 + 1e-6
    with joblib.parallel_config(workers), dpml.Ledger("people.ledger", cap=eight * enough) as ledger:
        search = GridSearchCV(make_pipeline(dpml.PrivateClassifier(bounds=UNIT)), {"privateclassifier__fit_intercept":
                              [True, False]}, cv=4, n_jobs=2, refit=False, error_score="raise")  # fmt: skip
        search.fit(X, t > 0)
        assert len(ledger.entries()) == 8
        with pytest.raises(ValueError, match="above its cap"):  # when both fits have ended, so none enters later
            cross_val_score(dpml.PrivateClassifier(bounds=UNIT), X, t > 0, cv=2, n_jobs=2)
    assert len(ledger.entries()) == 8


def test_a_copy_made_in_a_block_keeps_its_ledger_wherever_it_is_fitted(tmp_path):
    X, t = made_up()
    outer = dpml.Ledger(tmp_path / "outer")
    with dpml.Ledger(tmp_path / "inner") as inner:
        sent = pickle.dumps(dpml.PrivateClassifier(bounds=UNIT))
        own = pickle.dumps(dpml.PrivateClassifier(bounds=UNIT, ledger=outer))
    for state in (sent, own):
        pickle.loads(state).fit(X, t > 0)
    assert (len(outer.entries()), len(inner.entries())) == (1, 1)
    assert pickle.loads(pickle.dumps(dpml.PrivateClassifier())).ledger is None


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"bounds": None}, "ranges were fitted"),
        ({"random_state": 1}, "the noise was made from a seed"),
        ({"eps": math.inf}, "algo=wdgd"),
    ],
)
def test_a_ledger_takes_no_fit_of_which_nothing_is_proven(parameters, why, tmp_path):
    """Its total would not be that of all fits."""
    X, t = made_up()
    model = dpml.PrivateClassifier(**{"bounds": UNIT, **parameters})
    with dpml.Ledger(tmp_path / "ledger", cap=3) as ledger, pytest.raises(dpml.UserError, match=why):
        model.fit(X, t > 0)
    assert not hasattr(model, "coef_")
    assert ledger.entries() == []


def test_parties_go_through_a_pipeline_and_a_search(tmp_path):
    """By scikit-learn's metadata routing, without a request by the user."""
    X, t = made_up()
    ids = np.repeat(["a", "b", "c"], [100, 100, 200])
    model = make_pipeline(FunctionTransformer(), dpml.PrivateClassifier("ssp", bounds=UNIT))
    with config_context(enable_metadata_routing=True):
        model.fit(X, t > 0, party=ids)
        search = GridSearchCV(model, {"privateclassifier__eps": [1.0, 2.0]}, cv=2).fit(X, t > 0, party=ids)
    for fitted in (model, search.best_estimator_):
        assert fitted[-1].facts_.problem.M == 3
        assert fitted[-1].facts_.dealt == "natural"


# ---- parameters


@pytest.mark.parametrize("estimator", [dpml.PrivateClassifier, dpml.PrivateRegressor])
def test_parameters_are_plain_values(tmp_path, estimator):
    ranges = {"y_bounds": [-3, 3]} if estimator is dpml.PrivateRegressor else {"class_weight": {True: 2.0}}
    model = estimator("ssp", bounds=UNIT, ledger=str(tmp_path / "people.ledger"), algo_options={"lam": 0.1}, **ranges)
    again = estimator(**yaml.safe_load(yaml.safe_dump(model.get_params())))
    assert again.get_params() == model.get_params()
    X, t = made_up()
    again.fit(X, t > 0)
    assert again.entry_ == dpml.Ledger(tmp_path / "people.ledger").entries()[0]


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"algo": 1.0}, "eps=1.0"),
        ({"algo": "soft"}, "algo=soft"),
        ({"algo": "constant"}, "algo=constant"),
        ({"algo": "newton"}, "algo=newton"),
        ({"eps": None}, "eps"),
        ({"delta": None}, "delta"),
        ({"parties": 4, "colluders": 4}, "adversary.colluders=4"),
        ({"bounds": 3}, "bounds"),
        ({"bounds": (0, math.inf)}, "bounds"),
    ],
)
def test_a_mistake_is_named(parameters, named):
    X, t = made_up()
    with pytest.raises(dpml.UserError, match=named):
        dpml.PrivateClassifier(**{"bounds": UNIT, **parameters}).fit(X, t > 0)


@SEEDED
def test_numbers_may_be_of_numpy():
    X, t = made_up()
    model = dpml.PrivateClassifier("wdgd", np.float32(0.5), np.float64(1e-6), np.int64(4), colluders=np.int64(1),
                                   bounds=UNIT, algo_options={"rounds": np.int64(10)}, random_state=3)  # fmt: skip
    plain = dpml.PrivateClassifier(eps=0.5, delta=1e-6, parties=4, colluders=1, bounds=UNIT, random_state=np.int64(3),
                                   algo_options={"rounds": 10})  # fmt: skip
    assert np.array_equal(model.fit(X, t > 0).coef_, plain.fit(X, t > 0).coef_)
    assert model.guarantees_ == plain.guarantees_


def test_targets_that_cannot_be_are_value_errors():
    X, t = made_up()
    model = dpml.PrivateClassifier("objpert", bounds=UNIT)
    for labels, party in ((np.digitize(t, [0, 1]), None), (t > -100, None), (t > 0, [1, 2])):
        with pytest.raises(ValueError, match=r"algo=objpert|one class|inconsistent numbers"):
            model.fit(X, labels, party)


def test_only_a_classifiers_statement_says_that_its_classes_are_of_the_rows() -> None:
    """A row of a class of its own adds weights, so that no list of classes was stated; a target's range was."""
    X, t = made_up()
    classifier = dpml.PrivateClassifier(bounds=UNIT).fit(X, t > 0)
    regressor = dpml.PrivateRegressor(bounds=UNIT, y_bounds=(-3, 3)).fit(X, t)
    said = ["which classes the records have" in " ".join(model.statement_) for model in (classifier, regressor)]
    assert said == [True, False]
