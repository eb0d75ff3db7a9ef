"""The scores that attacks give to releases, and the lower bounds on eps that follow."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array, blocks
from dpml.audit.attacks import Attack, informed, uninformed
from dpml.audit.bounds import Rates, eps_by_gdp, eps_by_rates, mu_by_rates, mu_of_scores, trade_off
from dpml.audit.exposure import Exposure
from dpml.privacy import Guarantee, gdp
from dpml.privacy.sampled import SampledGaussian

CONFIDENCE = 0.95  # of the lower bound that is shown
ACCUSATION = 0.999  # of the bound that a verdict needs: a table has a hundred verdicts, and none should be wrong
SLACK = 1e-6  # relative tolerance on what the pair itself shows, because solvers return approximate minimisers

_ABOVE = 1e-3  # relative error of the eps of a mixture, which is never too small
_BLOCK = 1 << 21  # numbers seen at once: 16 MiB
_TOGETHER = 1 << 13  # releases at once
_LEARN = 25_000  # draws of each data set that a direction is learned from; at most a quarter of all


@dataclass(frozen=True)
class Scores:
    """The scores of every attack on a view, for releases of the first and of the second data set, (draws,) each.

    The pair itself shows at least the mu `shown` and the pure eps `loss` (`Exposure`), NaN where that is not known; and
    where a unit may be missing what is `sampled`.
    """

    attacks: Sequence[tuple[Attack, Array, Array]]
    shown: float
    loss: float
    sampled: Sequence[SampledGaussian] = ()

    @classmethod
    def of(cls, exposures: Sequence[Exposure], draws: int, rng: Generator) -> "Scores":
        """Attack all exposures of one view."""
        scored = [_scored(exposure, draws, rng) for exposure in exposures]
        mus = [shown for _, shown in scored if not isinstance(shown, SampledGaussian)]
        sampled = [shown for _, shown in scored if isinstance(shown, SampledGaussian)]
        losses = [exposure.loss for exposure in exposures]
        return cls([attack for attacks, _ in scored for attack in attacks], _largest(mus), _largest(losses), sampled)

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
        mixtures = [each.eps(delta) * (1 - _ABOVE) for each in self.sampled]
        return _largest([*mixtures, gdp.eps_of(self.shown, delta) if math.isfinite(self.shown) else self.shown])

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
        exact = self.exact(proven.delta) if self.sampled else math.nan
        shown = gdp.mu_of(exact, proven.delta) if exact > 0 else self.shown
        return float(np.fmax(shown, self.mu(CONFIDENCE))) / gdp.mu_of(proven.eps, proven.delta)


def _largest(values: Sequence[float]) -> float:
    return max((value for value in values if not math.isnan(value)), default=math.nan)


_NAMES: Mapping[Any, str] = {eps_by_rates: "error rates", eps_by_gdp: "Gaussian curve"}


def _scored(
    exposure: Exposure, draws: int, rng: Generator
) -> tuple[list[tuple[Attack, Array, Array]], float | SampledGaussian]:
    """Scores of every attack on `draws` releases of the first and of the second data set, and the pair's mu.

    The attacks of the exposure know everything but the noise. Attacks are trained on draws that are not scored.
    """
    sides = rng.spawn(2)
    own = np.random.default_rng(rng.bit_generator.random_raw())  # for the attacker, not the release
    learn = min(draws // 4, _LEARN)
    few = learn // 3  # enough for an attack that knows the noise's law
    seen = [_sampled(exposure, which, sides[which], learn) for which in (0, 1)]
    known, mu = informed(exposure, seen[0][:few], seen[1][:few], own)
    attacks = [uninformed(exposure, *seen), *known]
    scores: list[list[list[Array]]] = [[[], []], *([[attack.score(side[few:])] for side in seen] for attack in known)]
    most = min(_TOGETHER, _BLOCK // seen[0].shape[1])
    for which in (0, 1):
        for some in blocks(draws - learn, most=most):
            more = exposure.sample(which, sides[which], some.stop - some.start)
            for attack, lines in zip(attacks, scores, strict=True):
                lines[which].append(attack.score(more))
    scored = [
        (attack, np.concatenate(first), np.concatenate(second))
        for attack, (first, second) in zip(attacks, scores, strict=True)
    ]
    return scored, mu


def _sampled(exposure: Exposure, which: int, rng: Generator, draws: int) -> Array:
    return np.concatenate(
        [exposure.sample(which, rng, some.stop - some.start) for some in blocks(draws, most=_TOGETHER)]
    )
