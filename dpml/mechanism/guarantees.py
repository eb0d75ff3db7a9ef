"""What is claimed and proven of every view, as `Guarantee` values, and whose word it is.

What code outside dpml says of itself is declared; only dpml's own is proven.
"""

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
"""Modules of Python with base classes of dpml's algorithms."""


class Proof(NamedTuple):
    """The eps that is proven at some delta, by what, and the `mu` or the `curve` of `Guarantee`."""

    eps: float
    source: str
    mu: float | None = None
    curve: tuple[float, float, float] | None = None


def gaussian_proof(mu: float, delta: float, source: str) -> Proof:
    """What a Gaussian release of this mu guarantees; it comes from a short formula (`dpml.privacy.safe`)."""
    return Proof(gdp.eps_of(round_up(mu), delta), source, round_up(mu))


def stated(
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


def author(algorithm: Algorithm) -> str | None:
    """The class outside dpml whose word an algorithm's guarantees are, MODULE.NAME; None: all its code is dpml's.

    A class that derives from one of dpml's, or is a program of its messages, is outside: its sensitivity is its word.
    """
    for part in (algorithm, getattr(algorithm, "loss", None)):  # how steep a loss is, is what it says itself
        for kind in type(part).__mro__:
            if kind.__module__ not in _THEIRS and not packs.is_ours(kind.__module__):
                return f"{kind.__module__}.{kind.__qualname__}"
    return None


def guaranteed(algorithm: Algorithm, budget: Budget, problem: Problem) -> list[Guarantee]:
    """What an algorithm guarantees. Of code outside dpml nothing is *proven*: it is declared.

    All that tables, statements, models and ledgers say comes through here.
    """
    given, who = algorithm.guarantees(budget, problem), author(algorithm)
    if who is None:
        return given
    held = {each.view for each in given if each.basis in HELD}
    if not held or any(each.view not in held for each in given):
        raise UserError(
            f"{who} does not say what holds for every view that it names: return a Guarantee with basis='proven' for "
            "each, with eps=inf where nothing does."
        )
    for each in given:
        sigma, ridge, beside = each.curve or (1.0, 1.0, 0.0)
        curve = 0 < sigma < math.inf and 0 < ridge < math.inf and beside >= 0
        numbers = each.eps >= 0 and 0 <= each.delta < 1 and (each.mu is None or each.mu >= 0)
        if not (curve and numbers and (each.unit, each.delta) == (given[0].unit, given[0].delta)):
            raise UserError(
                f"{who} says of its view {each.view} eps={each.eps}, delta={each.delta}, mu={each.mu}, "
                f"curve={each.curve} and unit={each.unit}: a number is out of its range (delta lies in [0, 1), "
                "others are not below 0), or views have different units or deltas."
            )
    said = f"declared by {who}, which is not part of dpml"
    return [
        replace(each, basis=DECLARED, source=f"{said}: {each.source}") if each.basis in HELD else each for each in given
    ]
