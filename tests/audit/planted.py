"""What tests of planted bugs share: the default settings of `dpml audit`, and bugs that samplers may have."""

from collections.abc import Callable

import numpy as np
import pytest

from dpml.audit import ROWS, audit
from dpml.privacy import Budget, Problem

BUDGET = Budget(1.0, 1e-5)
PROBLEM = Problem(5, 5 * ROWS, 2, auxiliary=10, classes=2)


def verdicts(algorithm, draws: int = 100_000, seed: int = 0) -> dict[str, str]:
    return {found.view: found.verdict for found in audit(algorithm, BUDGET, PROBLEM, draws, seed)}


def unsearched(algorithm, pair, *others):
    """In the place of `worse_pair`: the neighbours that an algorithm names are bad enough to show a planted bug."""
    return pair


def seen_beside_the_release(algorithm, draws: int = 100_000) -> set[str]:
    """The views other than `release` that the audit calls a bug, without a search for worse neighbours."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpml.audit.worse_pair", unsearched)
        found = verdicts(algorithm, draws)
    return {view for view, verdict in found.items() if verdict == "BUG" and view != "release"}


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
