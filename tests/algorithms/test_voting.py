"""Votes: the parties' own classifiers, sensitivities by brute force, and Theorem 4."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from examples import LOGISTIC, SOFTMAX, ball, labelled_parties, loss_of, model_of
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from dpml.algorithms.baselines import Individual
from dpml.algorithms.ensemble import Soft, Vote, count_votes, vote_shares, voting_risk_bound
from dpml.errors import UserError
from dpml.optim.convex import TOLERANCE, fit
from dpml.optim.losses import hard_targets, longest_minimiser
from dpml.privacy import Budget, Problem


@pytest.mark.parametrize("lam", [1e-4, 0.1, 10.0, 1e-2, 1.0])
@pytest.mark.parametrize("K", [1, 3, 6])
@pytest.mark.parametrize("kind", [Vote, Soft])
def test_one_partys_votes_move_the_model_no_further_than_proven(kind, K, lam) -> None:
    """All its votes change in the worst way, on random and on built auxiliary rows; some pair comes close."""
    rng = np.random.default_rng(5)
    algorithm = kind(loss_of(K), lam=lam)
    largest = {}
    for M in (1, 3, 40):
        proven = algorithm.sensitivity(Problem(M, 10 * M, 2, auxiliary=10, classes=K))[1]
        pairs = []
        for _ in range(100):
            X = ball(rng, 10, 2) if rng.random() < 0.7 else ball(rng, 1, 2) * np.ones((10, 1))
            others = rng.multinomial(M - 1, rng.dirichlet(np.full(max(K, 2), 0.3)), 10).astype(float)
            if rng.random() < 0.5:  # a tie, or unanimity
                others = np.zeros((10, max(K, 2)))
                others[:, 0], others[:, 1] = rng.choice([((M - 1) // 2, M - 1 - (M - 1) // 2), (0, M - 1)])
            mine, other = rng.integers(0, max(K, 2), (2, 10))
            if rng.random() < 0.5:
                mine, other = np.zeros(10, dtype=int), np.ones(10, dtype=int)
            for vote in (mine, other):
                votes = others.copy()
                votes[np.arange(10), vote] += 1
                pairs.append((X, algorithm.voted.targets((votes / M)[:, 1:] if K == 1 else votes / M)))
        X, targets = (np.stack(part) for part in zip(*pairs, strict=True))
        w = fit(X, targets, lam)
        moved = np.linalg.norm(w[::2] - w[1::2], axis=1).max()
        assert moved <= proven
        largest[M] = moved / proven
    if lam >= 1 or K == 1:
        assert max(largest.values()) >= (0.75 if lam >= 1 or kind is Vote else 0.2)


def test_either_model_may_be_as_far_from_its_minimiser_as_the_solver_stops() -> None:
    """Labels swing by 1/M: over lam that is the exact distance, and TOLERANCE/lam is the solver's, twice."""
    problem, lam = Problem(10**6, 10**7, 2, auxiliary=10), 10.0
    exact = Fraction(1, 10**6) / Fraction(lam)
    more = Fraction(Soft(LOGISTIC, lam=lam).sensitivity(problem)[1]) - exact
    assert float(more) == pytest.approx(2 * TOLERANCE / lam, rel=1e-3)


@pytest.mark.parametrize("K", [1, 3])
def test_soft_reaches_its_bound_at_the_papers_lam(K) -> None:
    """A few rows hold w long, the rest have margins so large that nothing resists one party's change of vote."""
    lam, M, held = 1e-4, 100_000, 0.15
    proven = Soft(loss_of(K), lam=lam).sensitivity(Problem(M, M, 1, auxiliary=2, classes=K))[1]
    X = np.array([[0.0205], [1.0]])
    weights = np.array([[held, 1 - held]])
    shares = np.zeros((2, 1, 2, max(K, 2)))
    shares[:, ..., 1] = 1
    shares[1, ..., :2] += 1 / M, -1 / M
    pair = shares[..., 1:] if K == 1 else shares
    moved = np.linalg.norm(fit(X[None], pair[0], lam, weights) - fit(X[None], pair[1], lam, weights))
    assert 0.7 * proven <= moved <= proven + 3e-5


@pytest.mark.parametrize("lam", [0.3, 3.0])
@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("kind", [Vote, Soft])
def test_protect_auxiliary_covers_a_replaced_row_and_a_partys_votes(kind, K, lam) -> None:
    rng = np.random.default_rng(7)
    algorithm = kind(loss_of(K), lam=lam, protect_auxiliary=True)
    n = 3
    for M in (1, 9):
        problem = Problem(M, 90, 2, auxiliary=n, classes=K)
        proven = algorithm.sensitivity(problem)[1]
        X = ball(rng, 3000, n, 2)
        X_other = X.copy()
        X_other[:, 0] = np.where(rng.random((3000, 1)) < 0.5, -X[:, 0], ball(rng, 3000, 2))
        width = max(K, 2)
        votes = rng.multinomial(M - 1, rng.dirichlet(np.full(width, 0.2), 3000)[:, None], (3000, n)).astype(float)
        other = votes.copy()
        other[:, 0] = np.eye(width)[rng.integers(0, width, 3000)] * (M - 1)  # a new row, new votes of everybody
        for table, vote in ((votes, 0), (other, 1)):
            table[:, :, vote] += 1
        pair = []
        for rows, table in ((X, votes), (X_other, other)):
            shares = (table / M)[:, :, 1:] if K == 1 else table / M
            targets = algorithm.voted.targets(shares.reshape(3000 * n, -1)).reshape(3000, n, -1)
            pair.append(fit(rows, targets, lam))
        moved = np.linalg.norm(pair[0] - pair[1], axis=1).max()
        assert moved <= proven
        plain = dataclasses.replace(algorithm, protect_auxiliary=False).sensitivity(problem)[1]
        assert proven > plain or proven == pytest.approx(2 * longest_minimiser(algorithm.loss, lam, K), rel=1e-7)
    # the paper's factor
    problem = Problem(1000, 90_000, 2, auxiliary=500, classes=K)
    published = algorithm.sensitivity(problem)[0]
    factor = 1.0 if kind is Vote else (500 + 1000 - 1) / 500
    assert published == pytest.approx(
        factor * dataclasses.replace(algorithm, protect_auxiliary=False).sensitivity(problem)[0]
    )


def test_the_papers_factor_for_an_auxiliary_row_is_too_small_for_softmax() -> None:
    """A row turns to its opposite and keeps its class, and a party turns its votes on all others: both move w one way.

    Minimisers by Newton's method.
    """
    K, lam, n, M = 6, 10.0, 20, 1000

    def minimiser(first: float, shares: np.ndarray) -> np.ndarray:
        X, w = np.array([first] + [1.0] * (n - 1)), np.zeros(K)
        for _ in range(30):
            p = np.exp(np.outer(X, w))
            p /= p.sum(axis=1, keepdims=True)
            slope = X @ (p - shares) / n + lam * w
            curvature = np.einsum("i,ijk->jk", X**2, np.eye(K) * p[:, None] - p[:, :, None] * p[:, None]) / n
            w = w - np.linalg.solve(curvature + lam * np.eye(K), slope)
        return w

    before = np.zeros((n, K))
    before[0, 0], before[1:, :2] = 1, 0.5
    after = before + np.outer(np.arange(n) > 0, np.eye(K)[1] - np.eye(K)[0]) / M
    moved = np.linalg.norm(minimiser(1.0, before) - minimiser(-1.0, after))
    published, proven = Soft(SOFTMAX, lam=lam, protect_auxiliary=True).sensitivity(Problem(M, M, 1, n, K))
    assert moved / published == pytest.approx(1.26, abs=0.005)
    assert moved <= proven


def test_theorem_4_covers_the_noise_of_soft() -> None:
    """Its noise term bounds the regularised risk's rise (Lemma 6, doubled) in all but a share delta_p of releases.

    2000 releases, allowed share 0.05; the bound is loose, so that a false alarm is next to impossible.
    """
    parties = labelled_parties(1, 50)
    lam, eps, d = 0.1, 1.0, 4
    algorithm = Soft(LOGISTIC, lam=lam)
    X = parties.X_auxiliary
    shares = vote_shares(parties, X, lam)

    def risk(w):
        t = w @ X.T
        return (np.logaddexp(0, t) - t * shares[:, 0]).mean(axis=-1) + lam / 2 * np.sum(w * w, axis=-1)

    prepared = algorithm.prepare(parties, np.random.default_rng(0))
    rise = risk(prepared.release([Budget(eps)], np.random.default_rng(1), 2000).weights[0]) - risk(model_of(prepared))
    noise_term = voting_risk_bound(eps, 50, len(X), d, lam) - voting_risk_bound(math.inf, 50, len(X), d, lam)
    assert np.mean(rise > noise_term / 2) <= 0.05
    assert noise_term == pytest.approx(4 * d**2 * (0.25 + lam) * math.log(d / 0.05) ** 2 / (lam * 50 * eps) ** 2)
    vote = voting_risk_bound(eps, 1, 100, d, lam) - voting_risk_bound(math.inf, 1, 100, d, lam)
    assert vote == pytest.approx(2500 * noise_term)
    assert voting_risk_bound(math.inf, 9, 100, 5, 0.1, length=2.0) == pytest.approx(16 * (32 + math.log(20)) / 10 + 0.2)
    assert voting_risk_bound(1e-200, 9, 100, 5, 1e-300) == math.inf  # whose square, and product, are no numbers


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
    assert Vote(LOGISTIC).voted.targets(np.array([[0.5], [0.49], [0.51]])).tolist() == [[1], [0], [1]]
    assert Vote(SOFTMAX).voted.targets(np.array([[0.4, 0.4, 0.2], [0.2, 0.4, 0.4]])).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert count_votes(np.zeros((1, 2))).tolist() == [[2]]
    assert count_votes(np.zeros((1, 2, 3))).tolist() == [[2, 0, 0]]


def test_mixed_scikit_learn_classifiers_vote() -> None:
    """A tree, a logistic regression and naive Bayes in turn, by path, node and object; two parties have one label."""
    regression = {"_target_": "sklearn.linear_model.LogisticRegression", "C": 10.0}
    kinds = ["sklearn.tree.DecisionTreeClassifier", regression, GaussianNB()]
    for K in (1, 3):
        parties = labelled_parties(K, 9)
        y = parties.y.copy()
        for k in (3, 4):
            y[parties.of(k)] = y[0]
        parties = dataclasses.replace(parties, y=y)
        X = parties.X_auxiliary
        seeds = np.random.default_rng(0).integers(2**31, size=9)
        shares = vote_shares(parties, X, 1e-2, False, kinds, seeds)
        expected = np.zeros_like(shares)
        for k in range(9):
            own = parties.of(k)
            tree, line = DecisionTreeClassifier(random_state=seeds[k]), LogisticRegression(C=10, random_state=seeds[k])
            models = (tree, line, GaussianNB())
            label = np.full(len(X), y[0]) if k in (3, 4) else models[k % 3].fit(parties.X[own], y[own]).predict(X)
            expected += hard_targets(label, parties.problem.classes) / 9
        assert np.allclose(shares, expected)
        for kind in (Soft, Vote, Individual):
            kind(loss_of(K), local=kinds).prepare(parties, np.random.default_rng(0))


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


@pytest.mark.parametrize("local", ["sklearn.tree.DecisionTreeClassifier", [], ["sklearn.tree.DecisionTree"]])
def test_local_classifiers_that_cannot_be_built_are_refused(local) -> None:
    with pytest.raises(UserError, match=r"algo\.local"):
        Soft(LOGISTIC, local=local)
