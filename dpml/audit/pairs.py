"""The worst known neighbours of every algorithm; each family registers its own (`dpml.audit.perturbation`, ...)."""

from functools import singledispatch
from typing import Any

from dpml.audit import black_box
from dpml.audit.exposure import Pair
from dpml.privacy import Budget, Problem


@singledispatch
def worst_case(algorithm: Any, budget: Budget, problem: Problem) -> Pair:
    """The neighbours with `problem`'s sizes that the proof of the guarantee says are worst.

    An algorithm that is not registered may have a method of this name; else several are tried on its releases.
    """
    own = getattr(algorithm, "worst_case", None)
    pair: Pair = own(budget, problem) if own else black_box.farthest(algorithm, budget, problem)
    return pair
