"""What pages show of the tests of a claim: the cells of its matrix, and the comparison that decides."""

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpml.reporting.criteria import Comparison
from dpml.reporting.statistics import LEVEL

if TYPE_CHECKING:
    from dpml.reporting.claims import Check, Reading

Cell = dict[str, Any]
"""One outcome: ``reading``, ``metric``, ``outcome`` (of the whole reading), ``about`` (a block, or what is compared),
``holds`` (of a block or one comparison), ``won`` and ``of`` (comparisons), and ``why`` it does not count."""


def cells_of(reading: "Reading", check: "Check") -> list[Cell]:
    """Return the cells of a test under one reading: one per data set, or per subject of its comparisons."""
    about = {"reading": reading.name, "metric": reading.metric, "outcome": check.holds}
    if check.parts:
        return [
            about | {"about": block, "holds": one.holds, "why": why, **_won([*one.shown.values()])}
            for block, (one, why) in check.parts.items()
        ]
    groups: dict[str, list[Comparison]] = {}
    for key, one in check.shown.items():
        name = str(key[0] if isinstance(key, tuple) else key)
        groups.setdefault(re.split(r",? 1/eps = ", name)[0], []).append(one)
    if len(groups) < 2:
        return [about | {"about": "", "holds": check.holds, "why": "", **_won([*check.shown.values()])}]
    return [
        about | {"about": name, "holds": own[0].holds if len(own) == 1 else None, "why": "", **_won(own)}
        for name, own in groups.items()
    ]


def _won(comparisons: list[Comparison]) -> dict[str, int]:
    return {"won": sum(one.holds is True for one in comparisons), "of": len(comparisons)}


def deciding(checks: Mapping["Reading", "Check"]) -> dict[str, Any]:
    """Return the comparison that decides a claim: of readings that fail, otherwise of open ones, otherwise of all.

    It has ``effect`` (the number with its 95 % interval), ``needs`` (what it had to be), ``place``, ``reading`` and
    ``metric``. A claim without comparisons has none.
    """
    kind = next(kind for kind in (False, None, True) if kind in {check.holds for check in checks.values()})
    found = [(reading, *check.decisive) for reading, check in checks.items() if check.holds == kind and check.decisive]
    if not found:
        return {}
    reading, key, one = min(found, key=lambda each: each[2].slack)
    place = [part if isinstance(part, str) else f"{part:g}" for part in (key if isinstance(key, tuple) else (key,))]
    about = {"reading": reading.name if len(checks) > 1 else "", "metric": reading.metric, "place": place}
    return {"effect": effect_in_words(one), "needs": needed(one)} | about


def effect_in_words(one: Comparison) -> str:
    """Return the effect of a comparison and its 95 % interval: ``+0.063 [+0.025, +0.100]``, ``4.1× lower [2.9, 5.8]``.

    A factor says whether the first size is lower or higher than the second.
    """
    if one.share or one.effect is None or one.scale is None:
        return one.share
    estimate, (low, high) = one.effect.estimate, one.effect.interval(1 - LEVEL)
    if not one.scale.log:
        half = (high - low) / 2
        place = min(4, max(2, 1 - math.floor(math.log10(half)))) if 0 < half < math.inf else 3
        return f"{estimate:+.{place}f} [{low:+.{place}f}, {high:+.{place}f}]".replace("-", "−")
    if abs(estimate) < 0.05:
        return f"ratio {_factor(-estimate, 3)} [{_factor(-high, 3)}, {_factor(-low, 3)}]"
    if estimate > 0:
        return f"{_factor(estimate)}× lower [{_factor(low)}, {_factor(high)}]"
    return f"{_factor(-estimate)}× higher [{_factor(-high)}, {_factor(-low)}]"


def _factor(logarithm: float, digits: int = 2) -> str:
    factor = math.exp(min(700.0, logarithm))
    return f"{factor:.0f}" if 100 <= factor < 1e5 else f"{factor:.{digits}g}"


def needed(one: Comparison) -> str:
    """Return what the effect of a comparison had to be."""
    if one.effect is None or one.scale is None or math.isnan(one.slack):
        return ""
    estimate, on = one.effect.estimate, one.scale
    if math.isclose(estimate - one.slack, on.matters, abs_tol=1e-9):
        return f"needs {_factor(on.matters)}× lower" if on.log else f"needs +{on.matters:g}"
    if math.isclose(one.slack + abs(estimate), on.near, abs_tol=1e-9):
        return f"allowed {_factor(on.near)}×" if on.log else f"allowed ±{on.near:g}"
    if math.isclose(one.slack - estimate, on.near, abs_tol=1e-9):
        return f"allowed {_factor(on.near)}× higher" if on.log else f"allowed −{on.near:g}"
    limit = one.slack + abs(estimate)
    if limit > on.near:  # a bound, whose distance is the effect
        return ""
    return f"allowed {_factor(limit)}×" if on.log else f"allowed ±{limit:.2g}"
