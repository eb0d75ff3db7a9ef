"""Budgets, adversaries, and the facts that guarantees are counted from, against brute force."""

import itertools
import math
from dataclasses import asdict, replace

import numpy as np
import pytest

from dpml.errors import UserError
from dpml.privacy import Adversary, Budget, Guarantee, Problem, UnsizedProblem, worst

SIZED = Problem(5, 10_000, 2).of_sizes(np.full(5, 2000))


@pytest.mark.parametrize(
    "make",
    [
        *((lambda eps=eps: Budget(eps, 1e-5)) for eps in (0.0, -1.0, math.nan)),
        *((lambda delta=delta: Budget(1.0, delta)) for delta in (0.0, 1.0, 1.5, math.nan)),
        lambda: Budget(1.0).require_delta("somebody"),
        *((lambda sizes=sizes: Problem(*sizes)) for sizes in ((0, 5, 1), (1, 0, 1), (1, 5, 0), (6, 5, 1))),
        lambda: replace(SIZED, N=1000),  # the noise of a client goes by the smallest party
        *((lambda many=many: Adversary(many)) for many in (-1, 1.5, -0.1, math.inf, math.nan)),
        lambda: Adversary(3).count(3),
    ],
)
def test_values_that_are_refused(make) -> None:
    with pytest.raises(UserError):
        make()


@pytest.mark.parametrize(
    ("given", "M", "colluders"),
    [
        *((None, M, colluders) for M, colluders in enumerate((0, 0, 0, 1, 1, 1, 2, 2, 2, 3), 1)),
        (0, 5, 0), (1, 3, 1), (2, 3, 2), (4.0, 5, 4), (0.5, 5, 2), (0.4, 5, 2), (0.99, 100, 99), (0.1, 7, 0),
    ],
)  # fmt: skip
def test_colluders_are_a_number_a_share_or_the_papers(given, M, colluders) -> None:
    assert Adversary(given).count(M) == colluders
    assert Problem(M, 10 * M, 2, colluders=colluders).honest == M - colluders


@pytest.mark.parametrize(
    "sizes", [(1,), (3, 3), (4, 1, 2), (5, 1, 7, 2), (9, 1, 1, 8, 30, 2, 2), (1, 2, 3, 4, 50, 6, 7)]
)
def test_sizes_of_parties_are_counted_for_the_worst_coalition(sizes: tuple[int, ...]) -> None:
    """Shares N_k/N: the smallest party, the sum of squares, and its least sum over those outside a coalition."""
    N = sum(sizes)
    problem = Problem(len(sizes), N, 3, auxiliary=5, classes=4).of_sizes(np.array(sizes))
    assert (problem.M, problem.N, problem.d, problem.auxiliary, problem.classes) == (len(sizes), N, 3, 5, 4)
    assert problem.smallest == min(sizes)
    assert problem.squares(problem.M) == pytest.approx(sum((n / N) ** 2 for n in sizes))
    least = min(sum((n / N) ** 2 for n in rest) for rest in itertools.combinations(sizes, problem.honest))
    assert problem.squares(problem.honest) == pytest.approx(least)


@pytest.mark.parametrize("M", [1, 2, 4, 10, 31])
def test_parties_of_equal_size_need_not_be_told(M: int) -> None:
    equal, told = Problem(M, 6 * M, 2), Problem(M, 6 * M, 2).of_sizes(np.full(M, 6))
    assert equal.smallest == told.smallest == 6
    for parties in (M, equal.honest):
        assert equal.squares(parties) == pytest.approx(told.squares(parties))
    assert Problem(M, 6 * M + M - 1, 2).smallest == 6  # as equal as they can be


def test_sizes_that_are_not_known_cannot_be_asked_for() -> None:
    known = Problem(5, 100, 3, auxiliary=7, classes=2, colluders=2)
    unknown = UnsizedProblem(known, "nobody has counted them")
    for name in ("M", "N", "d", "auxiliary", "classes", "colluders", "honest"):
        assert getattr(unknown, name) == getattr(known, name)
    for ask in (
        lambda: unknown.smallest,
        lambda: unknown.squares(5),
        lambda: hash(unknown),
        lambda: replace(unknown, d=4),
        lambda: asdict(unknown),
        lambda: repr(unknown),
    ):
        with pytest.raises(UserError, match="nobody has counted them"):
            ask()


def test_the_weakest_guarantee_is_the_one_with_the_largest_eps_of_equal_ones_the_last() -> None:
    def given(*views: tuple[str, float]) -> Guarantee:
        return worst(Guarantee(view, "sample", eps, 1e-5, "proven", "test") for view, eps in views)  # type: ignore[arg-type]

    assert given(("release", 1.0), ("client", 3.0), ("colluders", 2.0)).view == "client"
    assert given(("release", 1.0), ("aggregate", 1.0)).view == "aggregate"
    assert given(("release", 1.0), ("client", math.inf)).eps == math.inf
