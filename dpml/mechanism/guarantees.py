"""Compute the claimed and the proven privacy guarantee of a release against every observer."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from dpml import packs
from dpml.errors import UserError
from dpml.mechanism.algorithm import Algorithm, Unit
from dpml.privacy import Budget, Guarantee, Problem, View, gdp
from dpml.privacy.guarantee import DECLARED, HELD
from dpml.privacy.safe import round_up

_THEIRS = ("builtins", "abc", "typing")
"""Python's own modules, from which dpml's algorithms may derive."""


class Proof(NamedTuple):
    """A proven eps at some delta, the source of the proof, and the `mu` or `curve` of the guarantee."""

    eps: float
    source: str
    mu: float | None = None
    curve: tuple[float, float, float] | None = None


def gaussian_proof(mu: float, delta: float, source: str) -> Proof:
    """Return the proof of a mu-GDP release; the computed number mu is rounded up."""
    return Proof(gdp.eps_of(round_up(mu), delta), source, round_up(mu))


def stated(
    proofs: Mapping[View, Proof],
    claims: Mapping[View, str],
    unit: Unit,
    budget: Budget,
    delta: float,
    uncounted: str | None = None,
) -> list[Guarantee]:
    """Return a release's guarantees; all proven eps are inf if `uncounted` names a use of rows that no proof covers."""
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
    """Return the guarantee of a release without noise: eps is infinite."""
    return stated(
        {"release": Proof(math.inf, source)}, {"release": "no privacy is claimed"}, unit, Budget(math.inf), 0.0
    )


def author(algorithm: Algorithm) -> str | None:
    """Return the name of the class outside dpml on which an algorithm's guarantees rely, or None."""
    for part in (algorithm, getattr(algorithm, "loss", None)):  # a loss declares its Lipschitz constant
        for kind in type(part).__mro__:
            if kind.__module__ not in _THEIRS and not packs.is_ours(kind.__module__):
                return f"{kind.__module__}.{kind.__qualname__}"
    return None


def guaranteed(algorithm: Algorithm, budget: Budget, problem: Problem) -> list[Guarantee]:
    """Return an algorithm's guarantees, which dpml proves or which a class outside dpml declares."""
    given, who = algorithm.guarantees(budget, problem), author(algorithm)
    if who is None:
        return given
    held = {each.view for each in given if each.basis in HELD}
    if not held or any(each.view not in held for each in given):
        raise UserError(
            f"{who} must return a Guarantee with basis='proven' for every view; if nothing is proven for a view, write "
            "eps=inf."
        )
    for each in given:
        sigma, ridge, beside = each.curve or (1.0, 1.0, 0.0)
        curve = 0 < sigma < math.inf and 0 < ridge < math.inf and beside >= 0
        numbers = each.eps >= 0 and 0 <= each.delta < 1 and (each.mu is None or each.mu >= 0)
        if not (curve and numbers and (each.unit, each.delta) == (given[0].unit, given[0].delta)):
            raise UserError(
                f"{who} returns an invalid guarantee against the observer view={each.view}: eps={each.eps}, "
                f"delta={each.delta}, mu={each.mu}, curve={each.curve}, unit={each.unit}. Return numbers >= 0, a delta "
                "below 1, and the same delta and unit (of privacy) against all observers."
            )
    said = f"declared by {who}, which is not part of dpml"
    return [
        replace(each, basis=DECLARED, source=f"{said}: {each.source}") if each.basis in HELD else each for each in given
    ]
