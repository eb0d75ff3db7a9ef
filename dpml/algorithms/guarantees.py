"""Guarantees in the forms that several algorithms share; one sample is the unit unless said otherwise."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

from dpml.algorithms import Hyperparameters
from dpml.mechanism.outputs import Message
from dpml.privacy import Budget, Guarantee, Problem, View, gdp


class Declared(Hyperparameters, Protocol):
    """An algorithm that says what it releases."""

    @property
    def claim(self) -> str | None:
        """Who publishes the noise; None: nobody."""
        ...

    def messages(self, budget: Budget, problem: Problem) -> Sequence[Message]:
        """What is released: the noise is drawn, and the guarantee proven, from these values."""
        ...


def guarantees_of(algorithm: Declared, budget: Budget, problem: Problem) -> list[Guarantee]:
    """What a release is claimed, when published, and proven to be.

    Raises:
        UserError: the noise is Gaussian, and the budget has no delta.
    """
    found = []
    for message in algorithm.messages(budget, problem):
        delta = budget.require_delta(f"algo={algorithm.name}") if message.law == "gaussian" else 0.0
        if algorithm.claim is not None and algorithm.calibration != "tight":
            found.append(Guarantee("release", message.unit, budget.eps, delta, "published", algorithm.claim))
        eps, source, mu = message.proven(delta)
        found.append(Guarantee("release", message.unit, eps, delta, "proven", source, mu))
    return found


def no_privacy(unit: Literal["sample", "party"], source: str) -> list[Guarantee]:
    """The guarantees of a release without noise: eps is infinite."""
    return [
        Guarantee("release", unit, math.inf, 0.0, "published", "no privacy is claimed"),
        Guarantee("release", unit, math.inf, 0.0, "proven", source),
    ]


def unprotected(
    unit: Literal["sample", "party"], source: str
) -> Callable[[Hyperparameters, Budget, Problem], list[Guarantee]]:
    """The method `guarantees` of an algorithm without noise."""
    return lambda algorithm, budget, problem: no_privacy(unit, source)


def gaussian_views(
    mus: Mapping[View, float], budget: Budget, delta: float, source: str, claim: str | None
) -> list[Guarantee]:
    """The guarantees of a Gaussian mechanism from the mu of every view: the claim, if there is one, and the proof."""
    guarantees = []
    for view, mu in mus.items():
        if claim is not None:
            guarantees.append(Guarantee(view, "sample", budget.eps, delta, "published", claim))
        guarantees.append(Guarantee(view, "sample", gdp.eps_of(mu, delta), delta, "proven", source, mu))
    return guarantees
