"""Audit a release: compare the claimed and the proven eps with the result of an attack."""

import math
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from dpml.audit import black_box
from dpml.audit.attacks import Rates
from dpml.audit.exposure import HalfNoise
from dpml.audit.scores import ACCUSATION, CONFIDENCE, SLACK, Scores
from dpml.audit.sensitivity import moved, rounding_pairs
from dpml.audit.transcript import NoNumberError
from dpml.audit.views import exposures
from dpml.audit.worst_cases import worse_pair, worst_case
from dpml.errors import UserError
from dpml.mechanism.guarantees import author, guaranteed
from dpml.privacy import Budget, Guarantee, Problem, View
from dpml.privacy.guarantee import DECLARED, HELD
from dpml.seeds import generator

Verdict = Literal["consistent", "no violation seen", "claim violated", "BUG", "no privacy"]

POWER = 0.8  # the share of the proven mu that attacks must reach for the verdict "consistent"
# defaults for the synthetic data of an audit
DRAWS = 100_000
ROWS = 2000  # rows per party: many equal rows drive linear models far from 0
PARTY_ROWS = 100  # rows per party for unit=party, where more rows change little
ROUNDS = {"rounds": 20, "epochs": 10}  # fewer rounds test the same claims and run faster
_MOST_MU = 2.0**40  # with less noise, floating-point rounding, 2^-53 of the values, would matter


@dataclass(frozen=True)
class Finding:
    """The result of an audit for one observer (view) of a release.

    Attributes:
        delta: The delta of all eps.
        claimed: The published eps; NaN if there is no claim about this view.
        proven: The eps that dpml proves; NaN if the algorithm is a plug-in.
        declared: The eps that a plug-in declares; else NaN.
        exact: The eps of the attacked pair of data sets; NaN if it is not known.
        attacked: The lower bound on eps, wrong with probability at most 1 - CONFIDENCE.
        power: The share of the proven mu (of the proven eps if delta = 0) that the pair reaches.
        verdict: The conclusion (docs/audit.md).
        moved: The largest ratio of the measured to the proven sensitivity of a sum of the release.
        rates: The error rates of the best attack at many thresholds; None if nothing was attacked.
    """

    view: View
    unit: str
    delta: float
    power: float
    verdict: Verdict
    claimed: float = math.nan
    proven: float = math.nan
    exact: float = math.nan
    attacked: float = math.nan
    attack: str = "-"
    moved: float = math.nan
    mu: float | None = None
    rates: Rates | None = None
    declared: float = math.nan
    notes: tuple[str, ...] = ()

    @property
    def held(self) -> float:
        """The proven eps or, for a plug-in, the eps that its author declares."""
        return self.proven if math.isnan(self.declared) else self.declared

    @property
    def judgement(self) -> str:
        if self.verdict not in ("consistent", "no violation seen"):
            return self.verdict
        blind = self.verdict == "no violation seen" and self.power >= POWER
        shown = np.floor(100 * self.power * (1 + SLACK)) / 100  # rounded down, as a lower bound
        return f"{self.verdict} ({'too few draws' if blind else f'power {shown:.2f}'})"


def audit(algorithm: Any, budget: Budget, problem: Problem, draws: int, seed: int = 0) -> list[Finding]:
    """Attack every guarantee of an algorithm with `draws` releases of each of two neighbouring data sets."""
    if draws < 100:
        raise UserError(f"an audit needs at least 100 draws, got draws={draws}.")
    _load_neighbours(algorithm)
    guarantees = guaranteed(algorithm, budget, problem)
    proven = {g.view: g for g in guarantees if g.basis in HELD}
    claimed = {g.view: g for g in guarantees if g.basis == "published"}
    if all(math.isinf(g.eps) for g in proven.values()) and not any(math.isfinite(g.eps) for g in claimed.values()):
        return [_finding(g, "no privacy") for g in proven.values()]
    if any(math.isfinite(g.eps) and (g.eps if g.mu is None else g.mu) > _MOST_MU for g in proven.values()):
        raise UserError(
            "the noise is smaller than 2^-40 times the numbers that it is added to, and floating-point rounding would "
            "hide it: set a smaller eps."
        )
    pair = worse_pair(algorithm, worst_case(algorithm, budget, problem), budget, generator(seed, "audit", "search"))
    shown = exposures(algorithm, pair, budget)
    unit = next(iter(proven.values())).unit
    ratio = moved(algorithm, budget, [pair, *rounding_pairs(pair, unit)])
    seen = black_box.notes(algorithm, pair, budget) if author(algorithm) else ()
    shown = [exposure for exposure in shown if exposure.view in proven]
    try:
        if math.isinf(ratio):
            raise NoNumberError
        scores = Scores.of(shown, draws, generator(seed, "audit"))
    except NoNumberError:  # a sum is NaN for only one neighbour, and identifies it without an attack
        return [_finding(g, "BUG", power=math.inf, moved=math.inf) for g in proven.values()]
    found = {view: _judged(g, scores.get(view), claimed.get(view)) for view, g in proven.items()}
    silent = [view for view, each in found.items() if each.verdict == "no violation seen" and each.power >= POWER]
    halved = HalfNoise(generator(seed, "audit").bit_generator)
    for view, half in Scores.of([each for each in shown if each.view in silent], draws, halved).items():
        if half.accuse(proven[view]):
            found[view] = replace(found[view], verdict="consistent")
    bug = ratio > 1 + SLACK
    return [replace(each, moved=ratio, notes=seen, verdict="BUG" if bug else each.verdict) for each in found.values()]


def _load_neighbours(algorithm: Any) -> None:
    pack = type(algorithm).__module__.rpartition(".")[0]
    if pack.startswith("dpml.packs.") and find_spec(f"{pack}.audits"):
        import_module(f"{pack}.audits")


def default_rows(algorithm: Any) -> int:
    """Return the default number of rows of each party in the synthetic data of an audit."""
    usual = PARTY_ROWS if getattr(algorithm, "unit", "sample") == "party" else ROWS
    return int(getattr(algorithm, "audited_rows", usual))


def _finding(proven: Guarantee, verdict: Verdict, power: float = math.nan, **shown: Any) -> Finding:
    declared = proven.basis == DECLARED
    shown |= {"proven": math.nan if declared else proven.eps, "declared": proven.eps if declared else math.nan}
    return Finding(proven.view, proven.unit, proven.delta, power, verdict, **shown)


def _judged(proven: Guarantee, scores: Scores | None, claimed: Guarantee | None) -> Finding:
    if scores is None:
        return _finding(proven, "no violation seen", power=0.0)
    verdict: Verdict = "no violation seen"
    if claimed is not None and scores.lower(claimed.delta, ACCUSATION)[0] > claimed.eps:
        verdict = "claim violated"
    if scores.accuse(proven):
        verdict = "BUG"
    attacked, attack = scores.lower(proven.delta, CONFIDENCE)
    return _finding(
        proven,
        verdict,
        scores.power(proven),
        claimed=math.nan if claimed is None else claimed.eps,
        exact=scores.exact(proven.delta),
        attacked=attacked,
        attack=attack,
        mu=proven.mu,
        rates=scores.rates(proven.delta),
    )
