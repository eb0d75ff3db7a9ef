"""What tests of planted bugs share: the default settings of `dpml audit`, and bugs that samplers may have."""

import math
from collections.abc import Callable, Set
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

import numpy as np
import pytest

from dpml.audit import ROWS, Finding, audit
from dpml.audit.exposure import Pair
from dpml.audit.pairs import worst_case
from dpml.audit.search import worse_pair
from dpml.audit.views import exposures
from dpml.privacy import Budget, Guarantee, Problem, View

BUDGET = Budget(1.0, 1e-5)
PROBLEM = Problem(5, 5 * ROWS, 2, auxiliary=10, classes=2)

ALL = frozenset(get_args(View))
BESIDE = ALL - {"release"}
"""The views that see more than the release: the last model alone says little about who sent what."""


def verdicts(algorithm, draws: int, seed: int = 0) -> dict[str, str]:
    return {found.view: found.verdict for found in audit(algorithm, BUDGET, PROBLEM, draws, seed)}


@dataclass(frozen=True)
class Only:
    """An algorithm of which some views are audited.

    Every view is attacked with random numbers of its own, so what is found in one does not depend on the others.
    """

    algorithm: Any
    views: Set[str]
    pair: Pair | None = None
    """The neighbours that are attacked; None: the worst known."""

    def guarantees(self, *arguments) -> list[Guarantee]:
        return [guarantee for guarantee in self.algorithm.guarantees(*arguments) if guarantee.view in self.views]

    def worst_case(self, *arguments):
        return self.pair or worst_case(self.algorithm, *arguments)

    def exposures(self, *arguments):
        return exposures(self.algorithm, *arguments)

    def __getattr__(self, name: str):
        return getattr(self.algorithm, name)


def attacked(
    algorithm,
    draws: int,
    views: Set[str] = ALL,
    problem: Problem = PROBLEM,
    self_test: bool = False,
    tries: int = 0,
    pair: Pair | None = None,
) -> dict[str, Finding]:
    """What the audit finds in some views, with so many tries of its search for worse neighbours.

    The neighbours that an algorithm names are bad enough to show a planted bug. The self-test is for who asks whether a
    view is called `consistent`: no other verdict depends on it. How many draws a bug needs: the score's distance from
    what is proven, in mu, has the standard error ``sqrt(2 / draws)``, and an accusation takes 3.6 of them.
    """
    with pytest.MonkeyPatch.context() as patch:
        search = partial(worse_pair, tries=tries) if tries else lambda algorithm, pair, *others: pair
        patch.setattr("dpml.audit.worse_pair", search)
        if not self_test:
            patch.setattr("dpml.audit.POWER", math.inf)
        return {found.view: found for found in audit(Only(algorithm, views, pair), BUDGET, problem, draws)}


def bugs(algorithm, draws: int, views: Set[str] = BESIDE, problem: Problem = PROBLEM) -> set[str]:
    """Those of some views that the audit calls a bug."""
    return {view for view, found in attacked(algorithm, draws, views, problem).items() if found.verdict == "BUG"}


def times(factor: float) -> Callable:
    """A sampler whose noise is so many times as wide as it should be."""
    return lambda right: lambda *arguments, **keywords: factor * right(*arguments, **keywords)


def shared_seed(*parties: int) -> Callable:
    """A sampler of (parties, ...) noise that gives some of them the same."""

    def change(right: Callable) -> Callable:
        def draw(*arguments, **keywords):
            drawn = np.array(right(*arguments, **keywords))
            drawn[list(parties)] = drawn[parties[0]]
            return drawn

        return draw

    return change
