"""The parties' own classifiers and their votes."""

import dataclasses

import numpy as np
import pytest
from examples import LOGISTIC, SOFTMAX, labelled_parties, loss_of, model_of
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from dpml.algorithms.baselines import Individual
from dpml.algorithms.ensemble import Soft, Vote, count_votes, vote_shares
from dpml.errors import UserError
from dpml.optim.logistic import fit, hard_targets


@pytest.mark.parametrize("K", [1, 4])
def test_votes_are_the_local_models_predictions(K) -> None:
    parties = labelled_parties(K, 11)
    X = parties.X_auxiliary
    classes = parties.problem.classes
    expected = np.zeros((len(X), classes))
    for k in range(11):
        own = parties.of(k)
        w = fit(parties.X[None, own], hard_targets(parties.y[None, own], classes), 1e-3)[0]
        t = X @ w.reshape(classes, -1).T
        expected += t >= 0 if K == 1 else np.eye(K)[np.argmax(t, axis=1)]
    shares = vote_shares(parties, X, 1e-3)
    assert np.allclose(shares, expected / 11)
    soft = model_of(Soft(loss_of(K), lam=1e-3).prepare(parties, np.random.default_rng(0)))
    assert np.allclose(soft, fit(X[None], shares[None], 1e-3)[0], atol=1e-5)
    # a majority of one party is that party
    alone = labelled_parties(K, 1)
    start = np.random.default_rng(0)
    vote, soft = (model_of(kind(loss_of(K), lam=1e-3).prepare(alone, start)) for kind in (Vote, Soft))
    assert np.allclose(vote, soft, atol=1e-9)


def test_ties_go_to_plus_one_and_to_the_lowest_class() -> None:
    assert Vote(LOGISTIC).fit().targets(np.array([[0.5], [0.49], [0.51]])).tolist() == [[1], [0], [1]]
    assert Vote(SOFTMAX).fit().targets(np.array([[0.4, 0.4, 0.2], [0.2, 0.4, 0.4]])).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert count_votes(np.zeros((1, 2))).tolist() == [[2]]
    assert count_votes(np.zeros((1, 2, 3))).tolist() == [[2, 0, 0]]


@pytest.mark.slow
def test_mixed_scikit_learn_classifiers_vote() -> None:
    """A tree, a logistic regression and naive Bayes in turn, by path, node and object; two parties have one label."""
    kinds = ["sklearn.tree.DecisionTreeClassifier", {"_target_": "sklearn.linear_model.LogisticRegression", "C": 10.0}]
    for K in (1, 3):
        parties = labelled_parties(K, 9)
        y = parties.y.copy()
        for k in (3, 4):
            y[parties.of(k)] = y[0]
        parties = dataclasses.replace(parties, y=y)
        X = parties.X_auxiliary
        seeds = np.random.default_rng(0).integers(2**31, size=9)
        shares = vote_shares(parties, X, 1e-2, False, [*kinds, GaussianNB()], seeds)
        expected = np.zeros_like(shares)
        for k in range(9):
            own = parties.of(k)
            if k in (3, 4):
                label = np.full(len(X), y[0])
            else:
                seed = int(seeds[k])
                model = (
                    DecisionTreeClassifier(random_state=seed),
                    LogisticRegression(C=10.0, random_state=seed),
                    GaussianNB(),
                )[k % 3]
                label = model.fit(parties.X[own], y[own]).predict(X)
            expected += hard_targets(label, parties.problem.classes) / 9
        assert np.allclose(shares, expected)
        for kind in (Soft, Vote, Individual):
            kind(loss_of(K), local=[*kinds, GaussianNB()]).prepare(parties, np.random.default_rng(0))


@pytest.mark.parametrize("kind", ["ExtraTreeClassifier", "DecisionTreeClassifier"])
def test_one_partys_rows_change_no_other_partys_vote(kind) -> None:
    """Also when its labels become all the same, so that it needs no random numbers any more."""
    parties = labelled_parties(3, 9)
    y = parties.y.copy()
    y[parties.of(2)] = y[0]
    X = parties.X_auxiliary
    before, after = (
        vote_shares(other, X, 1e-2, False, [f"sklearn.tree.{kind}"], np.arange(9))
        for other in (parties, dataclasses.replace(parties, y=y))
    )
    assert np.abs(before - after).max() <= 1 / 9 + 1e-12
    assert np.abs(before - after).max() > 0


@pytest.mark.parametrize(
    ("local", "sentence"),
    [
        ("sklearn.tree.DecisionTreeClassifier", "must be null or a list of scikit-learn classifiers"),
        ([], "must be null or a list"),
        (["sklearn.tree.DecisionTree"], "cannot build the classifier 'sklearn.tree.DecisionTree'"),
        (["nowhere.Classifier"], "cannot build the classifier 'nowhere.Classifier'"),
        ([{"_target_": "sklearn.naive_bayes.GaussianNB", "depth": 3}], "unexpected keyword argument 'depth'"),
        (["collections.OrderedDict"], "is not a scikit-learn classifier"),
    ],
)
def test_local_classifiers_that_cannot_be_built(local, sentence) -> None:
    with pytest.raises(UserError, match=sentence):
        Soft(LOGISTIC, local=local)
