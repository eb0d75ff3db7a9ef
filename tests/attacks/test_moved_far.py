"""What is summed moves no farther than is counted: order, duplicates, cancellation, and a million rows."""

import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from games import requested, write_files

from dpml.algorithms.descent.network import Network
from dpml.audit.exposure import Pair
from dpml.audit.neighbours import one_replaced, with_rows
from dpml.audit.sensitivity import ratio, rounding_pairs
from dpml.config.compose import options
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.mechanism.objectives import PerturbedObjective
from dpml.mechanism.program import Program
from dpml.privacy import Budget, Problem, worst

BUDGET = Budget(1.0, 1e-5)
SOME, MILLION = Problem(1, 3_000, 3), Problem(1, 1_000_000, 3)


@pytest.fixture(scope="module", autouse=True)
def files(tmp_path_factory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder := tmp_path_factory.mktemp("files"))
        write_files(folder)
        yield


@cache
def private(algo: str, *words: str) -> list[Any]:
    """The algorithm, for every task that it takes, if a release of it has noise."""
    found = []
    for names in ("AB", "RS"):
        try:
            algorithm = requested(algo, names[0], *words, floating=True).algorithm
        except UserError:
            continue
        if algorithm.auxiliary or isinstance(algorithm, Network):  # a release says that it has no place for these
            continue
        proven = [each for each in algorithm.guarantees(BUDGET, SOME) if each.basis == "proven"]
        if proven and math.isfinite(worst(proven).eps):
            found.append(algorithm)
    return found


def neighbours(algorithm: Any, problem: Problem, tries: int = 1) -> list[Pair]:
    task = "regression" if algorithm.loss.name == "squared" else "binary"
    plain = one_replaced(task, problem, [1.0], [1.0])
    return [plain, *rounding_pairs(plain, getattr(algorithm, "unit", "sample"), tries)]


def ratios(algorithm: Any, pairs: list[Pair]) -> list[float]:
    """Of what moves to what is counted; none where it is no sum and no model, but what moves a minimiser."""
    found = [ratio(algorithm, pair, BUDGET) for pair in pairs]
    if all(map(math.isnan, found)):
        (sent,) = algorithm.messages(BUDGET, SOME)
        assert isinstance(sent, PerturbedObjective)
        return []
    return found


# of many rounds: in tests/audit/test_moved_sums.py on fewer rows, and with fewer rounds
ALGORITHMS = [pytest.param(algo, marks=[pytest.mark.slow] if algo == "wdgd" else []) for algo in options("algo")]


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_rows_that_round_otherwise_are_in_another_order_or_cancel(algo) -> None:
    for algorithm in private(algo):
        for problem in (SOME, Problem(3, SOME.N, 3), Problem(1, 1, 1), Problem(3, 90, 5)):
            assert all(moved <= 1 for moved in ratios(algorithm, neighbours(algorithm, problem)))


def shuffled(parties: Parties) -> Parties:
    order = np.random.default_rng(0).permutation(len(parties.y))
    return with_rows(parties, parties.X[order], parties.y[order])


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_the_order_of_rows_says_nothing(algo) -> None:
    """A sum in another order moves by less than what is counted for rounding; integers do not move at all."""
    for algorithm in private(algo):
        same = [(first, shuffled(first)) for first, _ in neighbours(algorithm, SOME)]
        for moved in ratios(algorithm, same):
            assert moved <= (0 if isinstance(algorithm, Program) and algorithm.noise == "discrete" else 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("algo", options("algo"))
def test_neighbours_of_a_million_rows(algo) -> None:
    few = ["algo.rounds=3"] if algo == "wdgd" else []  # its 200 take a quarter of an hour
    for algorithm in private(algo, *few):
        assert all(moved <= 1 for moved in ratios(algorithm, neighbours(algorithm, MILLION)))
