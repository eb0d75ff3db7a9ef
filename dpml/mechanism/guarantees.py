"""What is claimed and proven of every view, as `Guarantee` values: one function for all algorithms."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from dpml.mechanism.options import Unit
from dpml.privacy import Budget, Guarantee, View, gdp
from dpml.privacy.safe import round_up


class Proof(NamedTuple):
    """The eps that is proven at some delta, by what, and the `mu` or the `curve` of `Guarantee`."""

    eps: float
    source: str
    mu: float | None = None
    curve: tuple[float, float, float] | None = None


def gaussian_proof(mu: float, delta: float, source: str) -> Proof:
    """What a Gaussian release of this mu guarantees; it comes from a short formula (`dpml.privacy.safe`)."""
    return Proof(gdp.eps_of(round_up(mu), delta), source, round_up(mu))


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


def no_privacy(unit: Unit, source: str) -> list[Guarantee]:
    """The guarantees of a release without noise: eps is infinite."""
    return stated(
        {"release": Proof(math.inf, source)}, {"release": "no privacy is claimed"}, unit, Budget(math.inf), 0.0
    )
