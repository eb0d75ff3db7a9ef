"""What tests of planted bugs share: the default settings of `dpml audit`, and bugs that any algorithm may have."""

import math
from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, get_args

import numpy as np
import pytest

from dpml.algorithms.descent.noisy_descent import NoisyDescent
from dpml.audit import ROWS, Finding, audit, default_rows
from dpml.audit.exposure import Pair
from dpml.audit.views import exposures
from dpml.audit.worst_cases import worse_pair, worst_case
from dpml.mechanism import discrete
from dpml.mechanism.message import Sum
from dpml.packs.frontier.newton import NoisyNewton
from dpml.privacy import Budget, Guarantee, Problem, View, noise

BUDGET = Budget(1.0, 1e-5)
PROBLEM = Problem(5, 5 * ROWS, 2, auxiliary=10, classes=2)

ALL = frozenset(get_args(View))
BESIDE = ALL - {"release"}
"""The views that see more than the release: the last model alone says little about who sent what."""


def usual(algorithm) -> Problem:
    """What `dpml audit` has unless told otherwise: networks need few rows, and take long with many."""
    rows = 200 if isinstance(algorithm, NoisyDescent | NoisyNewton) else default_rows(algorithm)
    return Problem(5, 5 * rows, 2, auxiliary=10, classes=2)


@dataclass(frozen=True)
class Only:
    """An algorithm of which some views are audited."""

    algorithm: Any
    views: Set[str]
    pair: Pair | None = None
    """The neighbours that are attacked; None: the worst known."""

    def guarantees(self, *arguments) -> list[Guarantee]:
        return [guarantee for guarantee in self.algorithm.guarantees(*arguments) if guarantee.view in self.views]

    def worst_case(self, *arguments):
        return self.pair or worst_case(self.algorithm, *arguments)

    def exposures(self, *arguments):
        return exposures(self.algorithm, *arguments)

    def __getattr__(self, name: str):
        return getattr(self.algorithm, name)


Only.__module__ = "dpml"  # its guarantees are those of an algorithm of dpml, which are proven


def attacked(
    algorithm,
    draws: int,
    views: Set[str] = ALL,
    problem: Problem | None = None,
    self_test: bool = False,
    tries: int = 0,
    pair: Pair | None = None,
) -> dict[str, Finding]:
    """What the audit finds in some views, with so many tries of its search for worse neighbours.

    The self-test is for who asks whether a view is called `consistent`. The score's distance from what is proven, in
    mu, has the standard error ``sqrt(2 / draws)``, and an accusation takes 3.6 of them.
    """
    with pytest.MonkeyPatch.context() as patch:
        search = partial(worse_pair, tries=tries) if tries else lambda algorithm, pair, *others: pair
        patch.setattr("dpml.audit.worse_pair", search)
        if not self_test:
            patch.setattr("dpml.audit.POWER", math.inf)
        return {
            found.view: found
            for found in audit(Only(algorithm, views, pair), BUDGET, problem or usual(algorithm), draws)
        }


def bugs(algorithm, draws: int, views: Set[str] = BESIDE, problem: Problem | None = None) -> set[str]:
    """Those of some views that the audit calls a bug."""
    return {view for view, found in attacked(algorithm, draws, views, problem).items() if found.verdict == "BUG"}


Bug = Callable[[pytest.MonkeyPatch, Any], Any]
"""Plants a bug: a function of a patch and an algorithm that gives the algorithm with the bug."""

Change = Callable[[np.ndarray], np.ndarray]
"""Of the unit noise of parties, (parties, ..., size), real or whole numbers."""


def half(noises: np.ndarray) -> np.ndarray:
    return noises // 2 if noises.dtype.kind == "i" else noises / 2


def none(noises: np.ndarray) -> np.ndarray:
    return 0 * noises


def silent(*parties: int) -> Change:
    """Some parties add no noise."""

    def change(noises: np.ndarray) -> np.ndarray:
        noises = np.array(noises)
        noises[list(parties)] = 0
        return noises

    return change


def shared_seed(*parties: int) -> Change:
    """Some parties' noise is that of the first of them."""

    def change(noises: np.ndarray) -> np.ndarray:
        noises = np.array(noises)
        noises[[party for party in parties if party < len(noises)]] = noises[parties[0]]  # a curator is one source
        return noises

    return change


def one_number(noises: np.ndarray) -> np.ndarray:
    """All coordinates have the same noise."""
    return np.repeat(noises[..., :1], noises.shape[-1], axis=-1)


def without(*numbers: int) -> Change:
    """Some coordinates have none."""

    def change(noises: np.ndarray) -> np.ndarray:
        noises = np.array(noises)
        noises[..., list(numbers)] = 0
        return noises

    return change


def drawn(change: Change, zero_sum: bool = True) -> Bug:
    """Noise is drawn wrongly, whoever draws it: a curator, parties, sites (their zero-sum noise, too), on a grid."""

    def plant(patch: pytest.MonkeyPatch, algorithm):
        gaussian, cape, whole = noise.gaussian, noise.cape_parties, discrete.parts

        def sites_last(noises):
            return np.ascontiguousarray(change(noises.swapaxes(0, 1)).swapaxes(0, 1))

        def of_cape(*arguments):
            ehat, g = cape(*arguments)
            return sites_last(ehat) if zero_sum else ehat, sites_last(g)

        def of_curator_or_parties(rng, shape):
            right = gaussian(rng, shape)
            return change(right[None])[0] if len(shape) == 2 else change(right)

        patch.setattr(noise, "gaussian", of_curator_or_parties)
        patch.setattr(noise, "gaussian_messages", lambda rng, *shape: sites_last(gaussian(rng, shape)))
        patch.setattr(noise, "cape_parties", of_cape)
        for name in ("single_gaussian", "laplace", "l2_laplace"):
            draw = getattr(noise, name)
            patch.setattr(noise, name, lambda *arguments, draw=draw: change(draw(*arguments)))
        patch.setattr(discrete, "parts", lambda *arguments: change(whole(*arguments)))
        return algorithm

    return plant


def wrong(algorithm, **changes: Callable[[Any], Any]):
    """The algorithm some of whose methods return something else, while its guarantees are still the right ones."""
    kind = type(algorithm)

    def method(name: str):
        return lambda self, *arguments: changes[name](getattr(kind, name)(self, *arguments))

    members = {name: method(name) for name in changes}
    members["guarantees"] = lambda self, *arguments: algorithm.guarantees(*arguments)
    options = {each.name: getattr(algorithm, each.name) for each in fields(algorithm) if each.init}
    return type(kind)(kind.__name__, (kind,), members)(**options)


def returning(**changes: Callable[[Any], Any]) -> Bug:
    """Some methods return something else."""
    return lambda patch, algorithm: wrong(algorithm, **changes)


def narrower(factor: float, number: int | None = None, blocks: Sequence[int] | None = None) -> Bug:
    """Messages have less noise than is counted: all, or one, or some blocks of it. A sensitivity that is too small."""

    def change(messages: Sequence[Sum]) -> tuple[Sum, ...]:
        return tuple(less(message) if number in (None, i) else message for i, message in enumerate(messages))

    def less(message: Sum) -> Sum:
        if blocks is None:
            constant = message.constant and factor * message.constant
            return replace(message, noise=factor * message.noise, constant=constant)
        units = np.array(message.units)
        units[list(blocks)] *= factor
        return replace(message, units=tuple(units.tolist()))

    return returning(messages=change)


class Timed:
    """The sharing of noise in which messages of one `key` have the same noise, times a factor that depends on time."""

    def __init__(self, right, key: Callable[[int], int], factor: Callable[[int], float]) -> None:
        self.right, self.key, self.factor = right, key, factor
        self.seeds: dict[tuple[int, int], int] = {}
        self.calls: Counter[int] = Counter()

    def parts(self, rng, draws: int, M: int, size: int, law="gaussian"):
        t = self.calls[size]
        self.calls[size] += 1
        seed = self.seeds.setdefault((size, self.key(t)), int(rng.integers(2**63)))
        return self.factor(t) * self.right.parts(type(rng)(np.random.PCG64(seed)), draws, M, size)

    def total(self, rng, draws: int, M: int, *arguments):
        return self.parts(rng, draws, M, *arguments)[:M].sum(axis=0)

    def __getattr__(self, name: str):
        return getattr(self.right, name)


def in_time(key: Callable[[int], int], factor: Callable[[int], float] = lambda t: 1.0) -> Bug:
    """A carrier has a sharing of its own: the seeds are those of one release."""
    return returning(sharing=lambda right: Timed(right, key, factor))


def patched(target: Any, name: str, change: Callable[[Any], Any]) -> Bug:
    """A function of the package is another one, made of the right one."""

    def plant(patch: pytest.MonkeyPatch, algorithm):
        patch.setattr(target, name, change(getattr(target, name)))
        return algorithm

    return plant
