"""What algorithms refuse, in one sentence."""

import math

import numpy as np
import pytest
from examples import capefm

from dpml.algorithms.baselines import NonPrivate
from dpml.algorithms.descent.private_sgd import PrivateSGD
from dpml.algorithms.ensemble.averages import LocalAggregation
from dpml.algorithms.perturbation.objective import GaussianObjectivePerturbation, ObjectivePerturbation
from dpml.data import Dataset
from dpml.data.partition import Equal, partition
from dpml.errors import UserError
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget, Problem

SQUARED, LOGISTIC = LOSSES["squared"], LOSSES["logistic"]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: GaussianObjectivePerturbation(LOSSES["squared"]), "algo=gop needs loss=logistic or loss=softmax, not"),
        (lambda: PrivateSGD(LOGISTIC, lam=0.0), "algo.lam of psgd must be a positive number"),
        (lambda: PrivateSGD(LOGISTIC, rounds=0), "algo.rounds of psgd must be at least 1"),
        (lambda: PrivateSGD(LOGISTIC, tolerance=math.nan), "algo.tolerance of psgd must be"),
        (lambda: LocalAggregation(LOGISTIC, variant="authors"), "algo.variant of la must be one of paper, per_"),
        (lambda: NonPrivate(LOGISTIC, variant="author"), "must be one of paper, authors, got 'author': did you mean"),
        (lambda: NonPrivate(LOGISTIC, variant=3), "must be one of paper, authors, got 3: choose"),
        (lambda: NonPrivate(LOGISTIC, lam=math.nan), "algo.lam of nonpriv must be a number >= 0, got nan"),
        (lambda: LocalAggregation(LOGISTIC, calibration="best"), "calibration must be one of published, tight"),
        (
            lambda: PrivateSGD(LOGISTIC).guarantees(Budget(1.0), Problem(2, 9, 2)),
            "algo=psgd adds Gaussian noise and needs",
        ),
        (
            lambda: GaussianObjectivePerturbation(LOGISTIC).guarantees(Budget(1.0), Problem(2, 9, 2)),
            "algo=gop adds Gaussian",
        ),
    ],
)
def test_mistakes(make, said: str) -> None:
    with pytest.raises(UserError, match=said):
        make()


def test_rows_outside_the_unit_ball_are_refused_by_name() -> None:
    X = np.array([[0.1, 0.2], [0.9, 0.9], [0.0, 0.1]])
    data = Dataset("mine", "regression", X, X[:, 0], X[:0], X[:0, 0])
    parties = partition(data, Equal(), 1, np.random.default_rng(0))
    for algorithm in (capefm(SQUARED), ObjectivePerturbation(SQUARED)):
        with pytest.raises(UserError, match=r"training row 1 of dataset=mine has norm 1\.273"):
            algorithm.prepare(parties, np.random.default_rng(0))
    X[1] = np.nan
    parties = partition(data, Equal(), 1, np.random.default_rng(0))
    with pytest.raises(UserError, match="training row 1 of dataset=mine has norm nan"):
        capefm(SQUARED).prepare(parties, np.random.default_rng(0))
