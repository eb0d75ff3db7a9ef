"""The sums that a release computes move no farther than is counted, and rounding that does otherwise is seen."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import rounding_bugs as bugs
from planted import BUDGET, PROBLEM, patched
from test_planted import DPGD, JAYARAMAN, SECURE, SSP, SSP_PARTY, STAGES, WDGD

from dpml.algorithms.quadratic.coefficients import CoefficientTerms
from dpml.audit import audit
from dpml.audit.exposure import Quiet
from dpml.audit.sensitivity import moved, rounding_pairs
from dpml.audit.views import Attacked
from dpml.audit.worst_cases import worst_case
from dpml.data.preprocess import distinct
from dpml.optim.gradients import Rows
from dpml.privacy import Problem

MANY = Problem(1, 100_000, 1)


def pairs(algorithm: Any, problem: Problem, tries: int = 2) -> list:
    pair = worst_case(algorithm, BUDGET, problem)
    return [pair, *rounding_pairs(pair, getattr(algorithm, "unit", "sample"), tries)]


def test_the_pairs_are_neighbours_of_rows_in_the_unit_ball() -> None:
    for algorithm, units in ((DPGD, 1), (SSP_PARTY, 2000)):
        for first, second in pairs(algorithm, PROBLEM)[1:]:
            differ = np.any(first.X != second.X, axis=1) | (first.y != second.y)
            assert differ.sum() == units
            assert len(set(np.repeat(range(5), first.sizes)[differ])) == 1
            assert np.linalg.norm(np.concatenate([first.X, second.X]), axis=1).max() <= 1
    first, second = pairs(DPGD, PROBLEM)[3]
    assert len(distinct(first.X, first.y)[0]) == 9_500 == len(distinct(second.X, second.y)[0]) - 1


class Messages:
    """An observer that keeps how far every message is from the sums that an audit compares."""

    def __init__(self, mechanism: Any) -> None:
        self.mechanism, self.off = mechanism, [0.0]

    def __call__(self, message: np.ndarray, parts: np.ndarray, exact: Any) -> None:
        own = np.asarray(exact(self.mechanism), dtype=float)
        self.off.append(float(np.max(np.linalg.norm(message - own, axis=-1) / np.linalg.norm(own, axis=-1))))


@pytest.mark.parametrize("algorithm", [DPGD, STAGES, WDGD, JAYARAMAN, SECURE, SSP], ids=lambda a: a.name)
def test_what_an_audit_compares_is_what_a_release_sums(algorithm) -> None:
    """All messages of a release without noise, to the last bits: also of rounds that run in `optim.gradients`."""
    first, _ = pairs(algorithm, Problem(3, 3_000, 2))[1]
    mechanism = algorithm.prepare(first, np.random.default_rng(0))
    seen = Messages(mechanism)
    mechanism.release([BUDGET], Quiet(np.random.PCG64(0)), 1, seen)
    assert len(seen.off) > 1
    assert max(seen.off) < 1e-9


@pytest.mark.parametrize("algorithm", [JAYARAMAN, SECURE], ids=lambda a: a.name)
def test_an_attacker_who_adds_up_equal_rows_once_has_the_sums_of_a_release(algorithm) -> None:
    """To the rounding of a release, with weights by party or not; a crowd is a few rows."""
    mechanism = algorithm.prepare(worst_case(algorithm, BUDGET, Problem(3, 3_000, 2))[0], np.random.default_rng(0))
    of = algorithm.messages(BUDGET, mechanism.problem)[0].of
    attacked = Attacked(algorithm, mechanism.parties).terms(of)
    assert attacked.groups[0].half.shape[:2] in [(1, 1), (1, 2)]
    w = np.random.default_rng(1).standard_normal((7, 2))
    np.testing.assert_allclose(attacked.total(w), mechanism.terms(of).total(w), rtol=1e-5)


CANCELLING = patched(Rows, "gradient", bugs.cancelling)
TOO_LOW = patched(Rows, "bend", bugs.cut_too_low)
OWN_GRID = patched(CoefficientTerms, "total", bugs.on_the_rows_own_grid)


def folded(patch: pytest.MonkeyPatch, algorithm: Any) -> Any:
    patch.setattr(Rows, "of", staticmethod(bugs.folded(Rows.of)))
    return patched(Rows, "gradient", bugs.in_single)(patch, algorithm)


CASES = [
    pytest.param(CANCELLING, replace(JAYARAMAN, clip=1e-4), id="cancellation, jayaraman"),
    pytest.param(CANCELLING, replace(STAGES, clip=1e-4), id="cancellation, ssp_descent"),
    pytest.param(TOO_LOW, replace(DPGD, clip=1e-6), id="a clip that is rounded outwards, dpgd"),
    pytest.param(folded, DPGD, id="equal rows as one, dpgd"),
    pytest.param(OWN_GRID, SSP, id="a grid made of the rows, ssp"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("bug", "algorithm"), CASES)
def test_planted_rounding_is_seen(monkeypatch, bug, algorithm) -> None:
    """No chance is in it: what moves farther than is counted is a bug."""
    neighbours = pairs(algorithm, MANY)
    assert moved(algorithm, BUDGET, neighbours) <= 1
    bug(monkeypatch, algorithm)
    assert moved(algorithm, BUDGET, neighbours) > 1.0005


def test_the_audit_calls_it_a_bug(monkeypatch) -> None:
    """By sums of so many rows as a release has, though no attack on so few draws shows anything."""
    monkeypatch.setattr("dpml.audit.worse_pair", lambda algorithm, pair, *others: pair)
    algorithm = replace(DPGD, clip=1e-4, rounds=2)
    for bug in (None, CANCELLING):
        if bug is not None:
            bug(monkeypatch, algorithm)
        for finding in audit(algorithm, BUDGET, Problem(1, 10_000, 1), 200):
            assert (finding.verdict == "BUG") == (finding.moved > 1) == (bug is not None)


def test_a_sum_that_is_no_number_for_one_of_two_neighbours_is_a_bug(monkeypatch) -> None:
    """It tells of the row for certain; such neighbours were left out, and the others called consistent, power 1."""

    def total(right):
        return lambda self, *at: right(self, *at) + (math.nan if self.parties.y[-1] * self.parties.X[-1, 0] < 0 else 0)

    (finding, *_) = audit(patched(CoefficientTerms, "total", total)(monkeypatch, SSP), BUDGET, Problem(1, 50, 2), 1_000)
    assert (finding.verdict, finding.moved) == ("BUG", math.inf)
