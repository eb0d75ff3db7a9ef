"""What every view shows of two neighbours; each family registers its own (`dpml.audit.perturbation`, ...)."""

from functools import singledispatch
from typing import Any

from dpml.audit.exposure import Exposure, Pair, method_of
from dpml.privacy import Budget


@singledispatch
def exposures(algorithm: Any, pair: Pair, budget: Budget) -> list[Exposure]:
    """What every view that has a guarantee shows of a pair.

    An algorithm that is not registered has a method of this name.

    Raises:
        UserError: it has none.
    """
    return list(method_of(algorithm, "exposures")(pair, budget))
