"""The worst known neighbours of every algorithm; each family registers its own (`dpml.audit.perturbation`, ...)."""

from functools import singledispatch
from typing import Any

from dpml.audit.exposure import Pair, method_of
from dpml.privacy import Budget, Problem


@singledispatch
def worst_case(algorithm: Any, budget: Budget, problem: Problem) -> Pair:
    """The neighbours with `problem`'s sizes that the proof of the guarantee says are worst.

    An algorithm that is not registered has a method of this name.

    Raises:
        UserError: it has none.
    """
    pair: Pair = method_of(algorithm, "worst_case")(budget, problem)
    return pair
