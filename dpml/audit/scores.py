"""The scores that attacks give to releases, and the lower bounds on eps that follow."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array, blocks
from dpml.audit.attacks import (
    Rates,
    eps_by_gdp,
    eps_by_rates,
    learn_direction,
    mu_by_rates,
    mu_of_scores,
    trade_off,
)
from dpml.audit.exposure import Attack, Exposure, Together
from dpml.privacy import Guarantee, View, gdp

LEARNED = "learned direction"
CONFIDENCE = 0.95  # of the lower bound that is shown
ACCUSATION = 0.999  # of the bound that a verdict needs: a table has a hundred verdicts, and none should be wrong
SLACK = 1e-6  # relative tolerance on what the pair itself shows, because solvers return approximate minimisers

_BLOCK = 1 << 21  # numbers seen at once: 16 MiB
_KEPT = 1 << 27  # numbers to learn from that are held at once: 1 GiB
_LEARN = 25_000  # draws of each data set that a direction is learned from; at most a quarter of all


@dataclass(frozen=True)
class Scores:
    """The scores of every attack on a view, for releases of the first and of the second data set, (draws,) each.

    The pair itself shows at least the mu `shown` and the pure eps `loss` (`Exposure`), NaN where that is not known.
    """

    attacks: Sequence[tuple[Attack, Array, Array]]
    shown: float
    loss: float

    @classmethod
    def of(cls, exposures: Sequence[Exposure], draws: int, rng: Generator) -> "dict[View, Scores]":
        """Attack all exposures, view by view."""
        scored = [pair for group in _groups(exposures, draws) for pair in _scored(group, draws, rng)]
        found = {}
        for view in dict.fromkeys(exposure.view for exposure in exposures):
            own = [(exposure, *each) for exposure, each in zip(exposures, scored, strict=True) if exposure.view == view]
            shown = _largest([mu for *_, mu in own])
            loss = _largest([exposure.loss for exposure, *_ in own])
            found[view] = cls([attack for _, attacks, _ in own for attack in attacks], shown, loss)
        return found

    def lower(self, delta: float, confidence: float) -> tuple[float, str]:
        """The best bound on eps at one delta: every attack gets an equal part of the error probability."""
        error = (1 - confidence) / len(self.attacks)
        bounds = []
        for attack, first, second in self.attacks:
            bound = eps_by_gdp if attack.normal and delta > 0 else eps_by_rates
            bounds.append((bound(first, second, delta, error), f"{attack.name}, {_NAMES[bound]}"))
        return max(bounds)

    def exact(self, delta: float) -> float:
        """The eps of the pair itself at one delta; NaN where it is not known."""
        if delta == 0:
            return self.loss
        return gdp.eps_of(self.shown, delta) if math.isfinite(self.shown) else self.shown

    def mu(self, confidence: float) -> float:
        """The best lower bound on mu, if the view is mu-GDP."""
        error = (1 - confidence) / len(self.attacks)
        return max(
            (mu_of_scores if attack.normal else mu_by_rates)(first, second, error)
            for attack, first, second in self.attacks
        )

    def rates(self, delta: float) -> Rates:
        """The trade-off of the attack that shows the most, at false positive rates from 1e-4 to 1."""
        each = self.attacks
        if delta > 0:
            best = max(each, key=lambda attack: mu_by_rates(attack[1], attack[2], 0.05))
        else:
            best = max(each, key=lambda attack: eps_by_rates(attack[1], attack[2], 0.0, 0.05))
        return trade_off(best[1], best[2], 1 - CONFIDENCE)

    def accuse(self, proven: Guarantee) -> bool:
        """Whether more is shown than is proven: of eps, or of mu where that is proven, each with half of the error."""
        if self.exact(proven.delta) > proven.eps * (1 + SLACK):
            return True
        each = (1 + ACCUSATION) / 2
        if proven.mu is not None and self.mu(each) > proven.mu:
            return True
        return self.lower(proven.delta, each)[0] > proven.eps

    def power(self, proven: Guarantee) -> float:
        """The share of the proven mu (or eps, at delta = 0) that the pair shows."""
        if math.isinf(proven.eps):
            return 0.0
        if proven.delta == 0:
            return float(np.fmax(self.loss, self.lower(0.0, CONFIDENCE)[0])) / proven.eps
        return float(np.fmax(self.shown, self.mu(CONFIDENCE))) / gdp.mu_of(proven.eps, proven.delta)


def _largest(values: Sequence[float]) -> float:
    return max((value for value in values if not math.isnan(value)), default=math.nan)


_NAMES: Mapping[Any, str] = {eps_by_rates: "error rates", eps_by_gdp: "Gaussian curve"}


def _learned(draws: int) -> int:
    return min(draws // 4, _LEARN)


def _groups(exposures: Sequence[Exposure], draws: int) -> list[list[Exposure]]:
    """The exposures in order, so many together that what attacks learn from fits into memory."""
    groups: list[list[Exposure]] = []
    held = math.inf
    for exposure in exposures:
        width = exposure.sample(0, np.random.default_rng(0), 1).shape[1]
        held += 2 * width * _learned(draws)
        if held > _KEPT:
            groups.append([])
            held = 2 * width * _learned(draws)
        groups[-1].append(exposure)
    return groups


def _scored(
    exposures: Sequence[Exposure], draws: int, rng: Generator
) -> list[tuple[list[tuple[Attack, Array, Array]], float]]:
    """For each exposure, the scores of every attack on `draws` releases of either data set, and the pair's mu.

    The attacks of an exposure know everything but the noise. Attacks are trained on draws that are not scored.
    """
    sides = rng.spawn(2)
    own = np.random.default_rng(rng.bit_generator.random_raw())  # for the attacker, not the release
    learn = _learned(draws)
    few = learn // 3  # enough for an attack that knows the noise's law
    seen = [
        [np.concatenate(parts) for parts in zip(*_drawn(exposures, which, sides[which], learn), strict=True)]
        for which in (0, 1)
    ]
    found = []
    for exposure, first, second in zip(exposures, *seen, strict=True):
        known, mu = exposure.attacks(first[:few], second[:few], own)
        scores: list[list[list[Array]]] = [
            [[], []],
            *([[attack.score(side[few:])] for side in (first, second)] for attack in known),
        ]
        found.append(([_uninformed(exposure, first, second), *known], scores, mu))
    most = min(_BLOCK // each.shape[1] for each in seen[0])
    del seen
    for which in (0, 1):
        for block in _drawn(exposures, which, sides[which], draws - learn, most):
            for more, (attacks, scores, _) in zip(block, found, strict=True):
                for attack, lines in zip(attacks, scores, strict=True):
                    lines[which].append(attack.score(more))
    return [
        ([(attack, *map(np.concatenate, lines)) for attack, lines in zip(attacks, scores, strict=True)], mu)
        for attacks, scores, mu in found
    ]


def _uninformed(exposure: Exposure, first: Array, second: Array) -> Attack:
    """Return the direction that separates observations of the two data sets, (n, k), without knowing the mechanism."""
    project = learn_direction(exposure.numbers(first), exposure.numbers(second))
    return Attack(LEARNED, lambda seen: project(exposure.numbers(seen)))


def _drawn(
    exposures: Sequence[Exposure], which: int, rng: Generator, draws: int, most: int = _BLOCK
) -> Iterator[list[Array]]:
    """What every exposure sees of one block of releases after the other; those of views together are the same."""
    for some in blocks(draws, most=max(1, min(most, *(exposure.most for exposure in exposures)))):
        known: dict[Together, Mapping[View, Array]] = {}
        seen = []
        for exposure in exposures:
            together = exposure.together
            if together is None:
                seen.append(exposure.sample(which, rng, some.stop - some.start))
                continue
            if together not in known:
                views = [each.view for each in exposures if each.together is together]
                known[together] = together(which, rng, some.stop - some.start, views)
            seen.append(known[together][exposure.view])
        yield seen
