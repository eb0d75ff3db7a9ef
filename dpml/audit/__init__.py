"""Attack a release: what a distinguisher achieves on the worst neighbours, beside what is claimed and proven."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from dpml.algorithms.exposure import Exposure
from dpml.arrays import Array
from dpml.audit.bounds import eps_by_gdp, eps_by_rates
from dpml.audit.search import worse_pair
from dpml.errors import UserError
from dpml.privacy import Budget, Guarantee, Problem, View, gdp
from dpml.seeds import generator

Verdict = Literal["consistent", "claim violated", "BUG", "no privacy"]

CONFIDENCE = 0.95  # of the lower bound that is shown
ACCUSATION = 0.999  # of the one that a verdict needs: a table has a hundred of them, and none should be wrong
# of the data that an audit makes up, unless said otherwise
DRAWS = 100_000
ROWS = 5  # per party
ROUNDS = 10
SLACK = 1e-6  # relative, of what the pair itself shows: solvers stop short of exact minimisers

_BLOCK = 1 << 21  # numbers seen at once: 16 MiB
EXACT, LEARNED = "likelihood ratio", "learned direction"
_LEARN = 50_000  # draws of each data set that a direction is learned from; at most half of all


@dataclass(frozen=True)
class Finding:
    """One view of a release under attack. All eps hold at `delta`, except that a claim has its own.

    Attributes:
        claimed: The published eps; NaN where there is no claim about this view.
        exact: The eps of the attacked pair itself, known without a draw; NaN where it is not.
        attacked: The lower bound on eps, wrong with probability at most 1 - CONFIDENCE.
        attack: The attack that gave it.
        verdict: `BUG` or `claim violated` where a lower bound at the confidence ACCUSATION exceeds what is proven or
            claimed, or the pair itself does.
    """

    view: View
    unit: str
    delta: float
    claimed: float
    proven: float
    exact: float
    attacked: float
    attack: str
    verdict: Verdict


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
        _attack(
            [exposure for exposure in exposures if exposure.view == view],
            proven[view],
            claimed.get(view),
            draws,
            generator(seed, "audit", view),
        )
        for view in proven
    ]


def _nothing(proven: Guarantee) -> Finding:
    nan = math.nan
    return Finding(proven.view, proven.unit, proven.delta, nan, math.inf, nan, nan, "-", "no privacy")


def _attack(
    exposures: Sequence[Exposure], proven: Guarantee, claimed: Guarantee | None, draws: int, rng: Generator
) -> Finding:
    attempts: list[tuple[str, Bound, Array, Array]] = []
    exact = math.nan
    for exposure in exposures:
        for name, scores in attack_scores(exposure, draws, rng).items():
            bound = eps_by_gdp if name == EXACT and exposure.normal and proven.delta > 0 else eps_by_rates
            attempts.append((f"{name}, {_NAMES[bound]}", bound, *scores))
        exact = np.fmax(exact, _eps_of(exposure, proven.delta))

    def lower(delta: float, confidence: float) -> tuple[float, str]:
        """The best bound at one delta: every attack gets an equal part of the error probability."""
        error = (1 - confidence) / len(attempts)
        return max((bound(first, second, delta, error), name) for name, bound, first, second in attempts)

    attacked, attack = lower(proven.delta, CONFIDENCE)
    verdict: Verdict = "consistent"
    if claimed is not None and lower(claimed.delta, ACCUSATION)[0] > claimed.eps:
        verdict = "claim violated"
    if lower(proven.delta, ACCUSATION)[0] > proven.eps or exact > proven.eps * (1 + SLACK):
        verdict = "BUG"
    return Finding(
        view=proven.view,
        unit=proven.unit,
        delta=proven.delta,
        claimed=math.nan if claimed is None else claimed.eps,
        proven=proven.eps,
        exact=float(exact),
        attacked=attacked,
        attack=attack,
        verdict=verdict,
    )


def _eps_of(exposure: Exposure, delta: float) -> float:
    """What a pair's distance means as eps; NaN where it is not known."""
    far = exposure.distance
    if delta == 0 or not math.isfinite(far):
        return far
    return gdp.eps_of(far, delta)


Bound = Callable[[Array, Array, float, float], float]
_NAMES: dict[Bound, str] = {eps_by_rates: "error rates", eps_by_gdp: "Gaussian curve"}


def attack_scores(exposure: Exposure, draws: int, rng: Generator) -> Mapping[str, tuple[Array, Array]]:
    """Scores of every attack on `draws` releases of the first and of the second data set.

    `likelihood ratio` knows everything but the noise, where a closed form exists. `learned direction` sees only
    releases: it finds Fisher's discriminant of the first of them, standardised and clipped so that heavy tails do no
    harm, and scores the others.
    """
    sides = rng.spawn(2)
    width = exposure.sample(0, rng, 1).shape[1]
    block = max(1, _BLOCK // width)
    learn = min(draws // 2, _LEARN)
    seen = [exposure.sample(which, sides[which], learn) for which in (0, 1)]
    project = learn_direction(*seen)
    exact: list[list[Array]] = [[], []]
    learned: list[list[Array]] = [[], []]
    for which in (0, 1):
        if exposure.score:
            exact[which].append(exposure.score(seen[which]))
        for start in range(learn, draws, block):
            more = exposure.sample(which, sides[which], min(block, draws - start))
            learned[which].append(project(more))
            if exposure.score:
                exact[which].append(exposure.score(more))
    found = {LEARNED: (np.concatenate(learned[0]), np.concatenate(learned[1]))}
    if exposure.score:
        found[EXACT] = (np.concatenate(exact[0]), np.concatenate(exact[1]))
    return found


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
