"""What is claimed and proven of every view, as `Guarantee` values: one function for all algorithms."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

from dpml.mechanism.algorithm import Hyperparameters
from dpml.mechanism.outputs import NoisyModel, Proof
from dpml.privacy import Budget, Guarantee, Problem, View

Unit = Literal["sample", "party"]


def stated(  # many parameters: what a guarantee says
    proofs: Mapping[View, Proof],
    claims: Mapping[View, str],
    unit: Unit,
    budget: Budget,
    delta: float,
    uncounted: str | None = None,
) -> list[Guarantee]:
    """The claimed guarantee of every view that has a claim, and the proven one.

    `uncounted` says what the proof leaves out: then nothing is proven, and what the noise guarantees is conditional.
    """
    guarantees = []
    for view, (eps, source, mu, curve) in proofs.items():
        if view in claims:
            guarantees.append(Guarantee(view, unit, budget.eps, delta, "published", claims[view]))
        if uncounted is None:
            guarantees.append(Guarantee(view, unit, eps, delta, "proven", source, mu, curve))
        else:
            guarantees.append(Guarantee(view, unit, math.inf, delta, "proven", uncounted))
            guarantees.append(Guarantee(view, unit, eps, delta, "conditional", source, mu, curve))
    return guarantees


class Announced(Hyperparameters, Protocol):
    """An algorithm that says what it releases."""

    @property
    def claim(self) -> str | None:
        """Who publishes the noise; None: nobody."""
        ...

    def messages(self, budget: Budget, problem: Problem) -> Sequence[NoisyModel]:
        """What is released: the noise is drawn, and the guarantee proven, from these values."""
        ...


def guarantees_of(algorithm: Announced, budget: Budget, problem: Problem) -> list[Guarantee]:
    """What a release is claimed, when published, and proven to be.

    Raises:
        UserError: the noise is Gaussian, and the budget has no delta.
    """
    (message,) = algorithm.messages(budget, problem)
    delta = budget.require_delta(f"algo={algorithm.name}") if message.law == "gaussian" else 0.0
    claimed = algorithm.claim is not None and algorithm.calibration != "tight"
    claims: Mapping[View, str] = {"release": str(algorithm.claim)} if claimed else {}
    return stated({"release": message.proven(delta)}, claims, message.unit, budget, delta)


def no_privacy(unit: Unit, source: str) -> list[Guarantee]:
    """The guarantees of a release without noise: eps is infinite."""
    claims: Mapping[View, str] = {"release": "no privacy is claimed"}
    return stated({"release": Proof(math.inf, source)}, claims, unit, Budget(math.inf), 0.0)


def unprotected(unit: Unit, source: str) -> Callable[[Hyperparameters, Budget, Problem], list[Guarantee]]:
    """The method `guarantees` of an algorithm without noise."""
    return lambda algorithm, budget, problem: no_privacy(unit, source)
