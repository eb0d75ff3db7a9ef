"""A model that is trained without noise, as a statistic of all rows."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpml.arrays import Array
from dpml.data.partition import Parties, remembered
from dpml.mechanism.message import Statistic, Terms
from dpml.privacy import Problem


@dataclass(frozen=True)
class Minimiser(Statistic):
    """A model that one curator trains on all rows. Its sensitivity counts what the solver leaves.

    Args:
        fit: ``fit(parties)`` -> (D,); or where it is about something, ``fit(parties, at)`` -> (B, D), for distinct
            numbers `at` (B, about). A function of a module, or a frozen dataclass with ``__call__``.
        classes: D over the number of features.
        about: how many numbers it is about, in each run; 0: none but the rows.
    """

    fit: Callable[..., Array]
    classes: int = 1
    about: int = 0

    def lengths(self, d: int) -> tuple[int, ...]:
        return (self.classes * d,)

    def on(self, parties: Parties) -> "Minimised":
        return Minimised(self, parties)

    def largest(self, problem: Problem) -> float:
        return math.inf

    def imprecision(self, problem: Problem) -> float:
        return 0.0

    def state(self, d: int) -> tuple[str, tuple[int, ...]]:
        return "<f8", (self.about,) if self.about else ()


@dataclass(frozen=True)
class Minimised(Terms):
    """The models of some rows."""

    statistic: Minimiser
    parties: Parties

    def total(self, *at: Any) -> Array:
        if not at:
            return self._only
        first, where = np.unique(at[0], axis=0, return_index=True, return_inverse=True)[1:]
        order = np.argsort(first)
        models = self.statistic.fit(self.parties, at[0][first[order]])
        return models[np.argsort(order)[where.reshape(-1)]]

    @cached_property
    def _only(self) -> Array:
        return _fitted(self.parties, self.statistic.fit)


@remembered
def _fitted(parties: Parties, fit: Callable[..., Array]) -> Array:
    return fit(parties)
