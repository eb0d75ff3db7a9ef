"""Attack a release: what a distinguisher achieves on the worst neighbours, beside what is claimed and proven."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from dpml.algorithms.exposure import Attack, Exposure
from dpml.arrays import Array
from dpml.audit.bounds import eps_by_gdp, eps_by_rates, mu_by_rates, mu_of_scores
from dpml.audit.quieter import HalfNoise
from dpml.audit.search import worse_pair
from dpml.errors import UserError
from dpml.privacy import Budget, Guarantee, Problem, View, gdp
from dpml.seeds import generator

Verdict = Literal["consistent", "no violation seen", "claim violated", "BUG", "no privacy"]

CONFIDENCE = 0.95  # of the lower bound that is shown
ACCUSATION = 0.999  # of the one that a verdict needs: a table has a hundred of them, and none should be wrong
POWER = 0.8  # of what is proven must a pair show before "consistent" means something
# of the data that an audit makes up, unless said otherwise
DRAWS = 100_000
ROWS = 500  # per party
ROUNDS = 10
SLACK = 1e-6  # relative, of what the pair itself shows: solvers stop short of exact minimisers

_BLOCK = 1 << 21  # numbers seen at once: 16 MiB
_TOGETHER = 1 << 13  # releases at once
LEARNED = "learned direction"
_LEARN = 50_000  # draws of each data set that a direction is learned from; at most half of all


@dataclass(frozen=True)
class Finding:
    """One view of a release under attack. All eps hold at `delta`, except that a claim has its own.

    Attributes:
        claimed: The published eps; NaN where there is no claim about this view.
        exact: The eps of the attacked pair itself, known without a draw; NaN where it is not.
        attacked: The lower bound on eps, wrong with probability at most 1 - CONFIDENCE.
        attack: The attack that gave it.
        power: How much of what is proven the pair shows, as known or else as a lower bound at CONFIDENCE: a ratio of mu
            where delta > 0, and else of eps. What is shown of a proof that allows for much more says little about it.
        verdict: `BUG` or `claim violated` where a lower bound at the confidence ACCUSATION exceeds what is proven or
            claimed, or the pair itself does. `consistent` where it does not, although `power` is at least POWER and
            the same attack on a release with half of the noise would have been a BUG; else `no violation seen`.
    """

    view: View
    unit: str
    delta: float
    claimed: float
    proven: float
    exact: float
    attacked: float
    attack: str
    power: float
    verdict: Verdict

    @property
    def judgement(self) -> str:
        """The verdict, with the reason why it is not worth more."""
        if self.verdict != "no violation seen":
            return self.verdict
        if self.power < POWER:
            return f"{self.verdict} (power {self.power:.2f})"
        return f"{self.verdict} (too few draws to see half the noise)"


def audit(algorithm: Any, budget: Budget, problem: Problem, draws: int, seed: int = 0) -> list[Finding]:
    """Attack every view of a release that has a guarantee, with `draws` releases of either of two neighbours.

    Raises:
        UserError: the algorithm does not say what it exposes, or there are too few draws.
    """
    if draws < 100:
        raise UserError(f"an audit needs at least 100 draws, got draws={draws}.")
    guarantees = algorithm.guarantees(budget, problem)
    proven = {g.view: g for g in guarantees if g.basis == "proven"}
    claimed = {g.view: g for g in guarantees if g.basis == "published"}
    if all(math.isinf(g.eps) for g in proven.values()) and not any(math.isfinite(g.eps) for g in claimed.values()):
        return [_nothing(g) for g in proven.values()]
    if not (hasattr(algorithm, "exposures") and hasattr(algorithm, "worst_case")):
        raise UserError(f"algo={algorithm.name} cannot be audited: it has no `worst_case` and `exposures`.")
    pair = worse_pair(algorithm, algorithm.worst_case(budget, problem), budget, generator(seed, "audit", "search"))
    exposures = algorithm.exposures(pair, budget)
    return [
        _find(
            [exposure for exposure in exposures if exposure.view == view],
            proven[view],
            claimed.get(view),
            draws,
            lambda kind, view=view: kind(generator(seed, "audit", view).bit_generator),  # type: ignore[misc]
        )
        for view in proven
    ]


def _nothing(proven: Guarantee) -> Finding:
    nan = math.nan
    return Finding(proven.view, proven.unit, proven.delta, nan, math.inf, nan, nan, "-", nan, "no privacy")


def _find(
    exposures: Sequence[Exposure],
    proven: Guarantee,
    claimed: Guarantee | None,
    draws: int,
    rng: Callable[[type[Generator]], Generator],
) -> Finding:
    """Attack one view, and where nothing is found, find out whether anything would have been."""
    scores = Scores.of(exposures, draws, rng(Generator))
    verdict: Verdict = "no violation seen"
    power = scores.power(proven)
    if claimed is not None and scores.lower(claimed.delta, ACCUSATION)[0] > claimed.eps:
        verdict = "claim violated"
    if scores.accuse(proven):
        verdict = "BUG"
    silent = verdict == "no violation seen" and power >= POWER
    if silent and Scores.of(exposures, draws, rng(HalfNoise)).accuse(proven):
        verdict = "consistent"
    attacked, attack = scores.lower(proven.delta, CONFIDENCE)
    return Finding(
        view=proven.view,
        unit=proven.unit,
        delta=proven.delta,
        claimed=math.nan if claimed is None else claimed.eps,
        proven=proven.eps,
        exact=scores.exact(proven.delta),
        attacked=attacked,
        attack=attack,
        power=power,
        verdict=verdict,
    )


@dataclass(frozen=True)
class Scores:
    """What every attack on a view gave for releases of the first and of the second data set, (draws,) each.

    `mu` and `loss` are those of the pair (`Exposure`), NaN where they are not known.
    """

    attacks: Sequence[tuple[Attack, Array, Array]]
    mu: float
    loss: float

    @classmethod
    def of(cls, exposures: Sequence[Exposure], draws: int, rng: Generator) -> "Scores":
        """Attack all exposures of one view."""
        found = [_scored(exposure, draws, rng) for exposure in exposures]
        mus, losses = [mu for _, mu in found], [exposure.loss for exposure in exposures]
        return cls([line for lines, _ in found for line in lines], _largest(mus), _largest(losses))

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
        return gdp.eps_of(self.mu, delta) if math.isfinite(self.mu) else self.mu

    def accuse(self, proven: Guarantee) -> bool:
        """Whether more is shown than is proven."""
        if self.exact(proven.delta) > proven.eps * (1 + SLACK):
            return True
        return self.lower(proven.delta, ACCUSATION)[0] > proven.eps

    def power(self, proven: Guarantee) -> float:
        """How much of what is proven the pair shows."""
        if math.isinf(proven.eps):
            return 0.0
        if proven.delta == 0:
            return float(np.fmax(self.loss, self.lower(0.0, CONFIDENCE)[0])) / proven.eps
        error = (1 - CONFIDENCE) / len(self.attacks)
        shown = [
            (mu_of_scores if attack.normal else mu_by_rates)(first, second, error)
            for attack, first, second in self.attacks
        ]
        return float(np.fmax(self.mu, max(shown))) / gdp.mu_of(proven.eps, proven.delta)


def _largest(values: Sequence[float]) -> float:
    return max((value for value in values if not math.isnan(value)), default=math.nan)


_NAMES: Mapping[Any, str] = {eps_by_rates: "error rates", eps_by_gdp: "Gaussian curve"}


def _scored(exposure: Exposure, draws: int, rng: Generator) -> tuple[list[tuple[Attack, Array, Array]], float]:
    """Scores of every attack on `draws` releases of the first and of the second data set, and the pair's mu.

    The attacks of the exposure know everything but the noise. `learned direction` sees only releases: it finds Fisher's
    discriminant of the first of them, standardised and clipped so that heavy tails do no harm, and scores the others.
    Whatever is learned is learned from draws that are not scored.
    """
    sides = rng.spawn(2)
    own = np.random.default_rng(rng.bit_generator.random_raw())  # for the attacker, not the release
    learn = min(draws // 2, _LEARN)
    few = learn // 5  # enough for an attack that knows the noise's law
    seen = [_sampled(exposure, which, sides[which], learn) for which in (0, 1)]
    project = learn_direction(*(exposure.visible(side) for side in seen))
    known, mu = exposure.attacks(seen[0][:few], seen[1][:few], own)
    attacks = [Attack(LEARNED, lambda seen: project(exposure.visible(seen))), *known]
    scores = [[[attack.score(side[few:])] for side in seen] for attack in attacks]
    scores[0] = [[], []]
    block = max(1, min(_TOGETHER, _BLOCK // seen[0].shape[1]))
    for which in (0, 1):
        for start in range(learn, draws, block):
            more = exposure.sample(which, sides[which], min(block, draws - start))
            for attack, lines in zip(attacks, scores, strict=True):
                lines[which].append(attack.score(more))
    found = [
        (attack, np.concatenate(first), np.concatenate(second))
        for attack, (first, second) in zip(attacks, scores, strict=True)
    ]
    return found, mu


def _sampled(exposure: Exposure, which: int, rng: Generator, draws: int) -> Array:
    return np.concatenate(
        [exposure.sample(which, rng, min(_TOGETHER, draws - start)) for start in range(0, draws, _TOGETHER)]
    )


def learn_direction(first: Array, second: Array) -> Callable[[Array], Array]:
    """The projection of what is seen, (n, k) -> (n,), that separates two samples best: Fisher's discriminant."""
    both = np.concatenate([first, second])
    low, centre, high = np.quantile(both, [0.25, 0.5, 0.75], axis=0)
    spread = np.where(high > low, high - low, np.where(both.std(axis=0) > 0, both.std(axis=0), 1.0))

    def standard(seen: Array) -> Array:
        return np.clip((seen - centre) / spread, -4, 4)

    a, b = standard(first), standard(second)
    within = np.cov(a, rowvar=False) + np.cov(b, rowvar=False)
    k = first.shape[1]
    within = np.reshape(within, (k, k)) + 1e-9 * np.eye(k)
    direction = np.linalg.solve(within, b.mean(axis=0) - a.mean(axis=0))

    def project(seen: Array) -> Array:
        projected: Array = standard(seen) @ direction
        return projected

    return project
