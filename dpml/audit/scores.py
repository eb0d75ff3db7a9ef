"""Apply attacks to releases, and compute lower bounds on eps and mu from the attacks' scores."""

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
from dpml.audit.exposure import Attack, Exposure, Source
from dpml.privacy import Guarantee, View, gdp

LEARNED = "learned direction"
CONFIDENCE = 0.95  # the confidence of the displayed lower bounds
ACCUSATION = 0.999  # the confidence for a verdict, as a table has a hundred verdicts and none should be wrong
SLACK = 1e-6  # relative tolerance of numbers computed without sampling, because solvers are approximate

_BLOCK = 1 << 21  # observed numbers at once: 16 MiB
_KEPT = 1 << 27  # observed numbers in memory for training attacks: 1 GiB
_LEARN, _FEWEST = 25_000, 100  # the most and the fewest training draws per data set; never above a quarter of all


@dataclass(frozen=True)
class Scores:
    """Attacks on what one observer (view) sees of releases, and their scores of the two data sets, (draws,) each.

    `shown` and `loss` are lower bounds on the data sets' mu and pure eps, computed without scores; NaN: unknown.
    """

    attacks: Sequence[tuple[Attack, Array, Array]]
    shown: float
    loss: float

    @classmethod
    def of(cls, exposures: Sequence[Exposure], draws: int, rng: Generator) -> "dict[View, Scores]":
        """Run all attacks on what each observer sees of two data sets, and return the scores by observer (view)."""
        found: dict[View, Scores] = {}
        scored = _scored(exposures, draws, rng) if exposures else []
        for exposure, (attacks, mu) in zip(exposures, scored, strict=True):
            before = found.get(exposure.view, cls([], math.nan, math.nan))
            shown, loss = float(np.fmax(before.shown, mu)), float(np.fmax(before.loss, exposure.loss))
            found[exposure.view] = cls([*before.attacks, *attacks], shown, loss)
        return found

    def lower(self, delta: float, confidence: float) -> tuple[float, str]:
        """Return the largest lower bound on eps at `delta`, and the attack that gives the bound."""
        error = (1 - confidence) / len(self.attacks)
        bounds = []
        for attack, first, second in self.attacks:
            bound = eps_by_gdp if attack.normal and delta > 0 else eps_by_rates
            bounds.append((bound(first, second, delta, error), f"{attack.name}, {_NAMES[bound]}"))
        return max(bounds)

    def exact(self, delta: float) -> float:
        """Return the eps at `delta` that the two data sets are known to reach; NaN if unknown."""
        if delta == 0:
            return self.loss
        return gdp.eps_of(self.shown, delta) if math.isfinite(self.shown) else self.shown

    def mu(self, confidence: float) -> float:
        """If the view is mu-GDP, return the largest lower bound on mu that the attacks give."""
        error = (1 - confidence) / len(self.attacks)
        return max(
            (mu_of_scores if attack.normal else mu_by_rates)(first, second, error)
            for attack, first, second in self.attacks
        )

    def rates(self, delta: float) -> Rates:
        """Return the trade-off curve of the best attack, at false positive rates from 1e-4 to 1."""
        each = self.attacks
        if delta > 0:
            best = max(each, key=lambda attack: mu_by_rates(attack[1], attack[2], 0.05))
        else:
            best = max(each, key=lambda attack: eps_by_rates(attack[1], attack[2], 0.0, 0.05))
        return trade_off(best[1], best[2], 1 - CONFIDENCE)

    def accuse(self, proven: Guarantee) -> bool:
        """Return True if an exact lower bound on eps or mu, or one from an attack, exceeds the proven eps or mu."""
        if self.exact(proven.delta) > proven.eps * (1 + SLACK):
            return True
        each = (1 + ACCUSATION) / 2
        if proven.mu is not None and self.mu(each) > proven.mu:
            return True
        return self.lower(proven.delta, each)[0] > proven.eps

    def power(self, proven: Guarantee) -> float:
        """Return the ratio of the best lower bound on mu to the proven mu or, if delta = 0, the same ratio of eps."""
        if math.isinf(proven.eps):
            return 0.0
        if proven.delta == 0:
            return float(np.fmax(self.loss, self.lower(0.0, CONFIDENCE)[0])) / proven.eps
        return float(np.fmax(self.shown, self.mu(CONFIDENCE))) / gdp.mu_of(proven.eps, proven.delta)


_NAMES: Mapping[Any, str] = {eps_by_rates: "error rates", eps_by_gdp: "Gaussian curve"}


def _scored(
    exposures: Sequence[Exposure], draws: int, rng: Generator
) -> list[tuple[list[tuple[Attack, Array, Array]], float]]:
    """Return for each observer the scores of all attacks on two data sets, and a lower bound on mu (NaN: unknown)."""
    sides = rng.spawn(2)
    own = np.random.default_rng(rng.bit_generator.random_raw())  # the attacker does not know the release's generator
    width = sum(exposure.sample(0, np.random.default_rng(0), 1).shape[1] for exposure in exposures)
    learn = min(draws // 4, _LEARN, max(_FEWEST, _KEPT // (2 * width)))
    few = learn // 3  # enough for attacks that know the distribution of the noise
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
    project = learn_direction(exposure.numbers(first), exposure.numbers(second))
    return Attack(LEARNED, lambda seen: project(exposure.numbers(seen)))


def _drawn(
    exposures: Sequence[Exposure], which: int, rng: Generator, draws: int, most: int = _BLOCK
) -> Iterator[list[Array]]:
    """Release data set `which` repeatedly, in blocks of draws; for each block, yield what every observer sees."""
    for some in blocks(draws, most=max(1, min(most, *(exposure.most for exposure in exposures)))):
        known: dict[Source, Mapping[View, Array]] = {}
        for exposure in exposures:
            if exposure.source not in known:
                views = [each.view for each in exposures if each.source is exposure.source]
                known[exposure.source] = exposure.source(which, rng, some.stop - some.start, views)
        yield [known[exposure.source][exposure.view] for exposure in exposures]
