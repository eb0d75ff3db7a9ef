"""Guarantees in the forms that several algorithms share; one sample is the unit unless said otherwise."""

import math
from collections.abc import Mapping
from typing import Literal

from dpml.privacy import Budget, Guarantee, View, gdp


def no_privacy(unit: Literal["sample", "party"], source: str) -> list[Guarantee]:
    """The guarantees of a release without noise: eps is infinite."""
    return [
        Guarantee("release", unit, math.inf, 0.0, "published", "no privacy is claimed"),
        Guarantee("release", unit, math.inf, 0.0, "proven", source),
    ]


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
