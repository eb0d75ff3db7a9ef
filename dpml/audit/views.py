"""What every view shows of two neighbours; each family registers its own (`dpml.audit.perturbation`, ...)."""

from functools import singledispatch
from typing import Any

from dpml.audit import black_box
from dpml.audit.exposure import Exposure, Pair
from dpml.privacy import Budget


@singledispatch
def exposures(algorithm: Any, pair: Pair, budget: Budget) -> list[Exposure]:
    """What every view that has a guarantee shows of a pair.

    An algorithm that is not registered may have a method of this name; else its released models are what is seen.
    """
    own = getattr(algorithm, "exposures", None)
    return list(own(pair, budget)) if own else black_box.seen(algorithm, pair, budget)
