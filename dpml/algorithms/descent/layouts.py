"""The sums of a noisy descent: mean gradients, and who adds noise: one curator, an MPC, or M clients.

Everything is for noise of ``per_row = 1``, that on a mean over n rows times n, and G = `lipschitz`.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array
from dpml.mechanism.message import Statistic, Terms
from dpml.mechanism.sharing import Channel, Sampler, Sharing, TrustedCurator
from dpml.optim.gradients import Rows
from dpml.optim.slopes import Slopes
from dpml.privacy import Problem, View, noise
from dpml.sums import single_imprecision


@dataclass(frozen=True)
class GradientMeans(Terms["MeanGradients"]):
    """The gradients of some rows, in single precision."""

    def total(self, *at: Any) -> Array:
        models = np.split(at[0], len(self.groups), axis=1)
        return np.concatenate([rows.gradient(w) for rows, w in zip(self.groups, models, strict=True)], axis=1)

    @cached_property
    def groups(self) -> list[Rows]:
        """The rows that have a model of their own."""
        return [self.statistic.slopes.rows(*rows) for rows in self.weighted()]

    def weighted(self) -> Iterator[tuple[Array, Array, Array]]:
        """Yield the rows (n, d), labels (n,) and weights (n,) of every group."""
        X, y, sizes = self.parties.X, self.parties.y, self.parties.sizes
        if self.statistic.clients:
            for own in map(self.parties.of, range(len(sizes))):
                yield X[own], y[own], np.full(own.stop - own.start, 1 / (own.stop - own.start))
        elif self.statistic.by_party:
            yield X, y, np.repeat(1 / (len(sizes) * sizes), sizes)
        else:
            yield X, y, np.full(len(y), 1 / len(y))


@dataclass(frozen=True)
class MeanGradients(Statistic):
    """The mean gradient of all rows at models w (B, d), or of every client's rows at its own model, w (B, M d).

    Args:
        slopes: of the loss.
        by_party: whether it is the mean of the parties' means.
        clients: M, of local rounds; 0: all rows have one model.
    """

    terms = GradientMeans
    single = True

    slopes: Slopes
    by_party: bool = False
    clients: int = 0

    def lengths(self, d: int) -> tuple[int, ...]:
        return (d,) * max(self.clients, 1)

    def drawn(self, d: int) -> tuple[int, ...]:
        return self.lengths(d)

    def largest(self, problem: Problem) -> float:
        return self.slopes.lipschitz

    def imprecision(self, problem: Problem) -> float:
        return single_imprecision(problem.N, problem.d)

    def state(self, d: int) -> tuple[str, tuple[int, ...]]:
        return "<f8", (d * max(self.clients, 1),)


def moved(lipschitz: float, problem: Problem) -> float:
    """How far a row that is replaced moves a sum of gradients in floating point at most: by a little more than 2 G."""
    return 2 * lipschitz * (1 + single_imprecision(problem.N, problem.d))


@dataclass(frozen=True)
class ClientNoise(Sharing):
    """Every client adds noise of its own to its part of a sum.

    Args:
        weights: the standard deviations of the clients' noise in the sum, whose squares add up to 1.
        secure: whether single parts are hidden in secure sums.
    """

    weights: tuple[float, ...]
    secure: bool  # type: ignore[misc]

    def views(self, problem: Problem) -> dict[View, float]:
        weights = np.sort(self.weights)
        colluders = 1 / float(np.linalg.norm(weights[: problem.honest]))
        views: dict[View, float] = {"release": 1.0, "aggregate": 1.0, "colluders": colluders}
        return views if self.secure else views | {"client": 1 / float(weights[0])}

    def channel(self, view: View, problem: Problem) -> Channel:
        """The sum; the last client's message; or the sum and the noise of the colluders, who are the first clients."""
        weights = np.array(self.weights)
        each = np.diag(weights)
        known = problem.colluders if view == "colluders" else 0
        return Channel.of(each[-1:] if view == "client" else np.vstack([weights, each[:known]]), weights)

    def observed(self, rng: Generator, draws: int, M: int, size: int, law: Sampler = "gaussian") -> tuple[Array, Array]:
        draw: Any = noise.single_gaussian if law == "single_gaussian" else noise.gaussian
        parts = draw(rng, (M, draws, size))
        total: Array = np.tensordot(np.array(self.weights, parts.dtype), parts, axes=1)
        return total, parts


@dataclass(frozen=True)
class Pooled:
    """All rows in one place, and noise once on the mean gradient: nobody knows any of it.

    Attributes:
        lipschitz: G.
        visible: the views that have a guarantee.
        by_party: whether the mean is that of the parties' means, where a row of the smallest party weighs 1/(M n_min).
    """

    lipschitz: float
    visible: tuple[View, ...]
    by_party: bool
    synchronous: ClassVar[bool] = True
    """Whether all rows descend together, from one model in every round."""
    secure: ClassVar[bool] = False

    def round_mus(self, problem: Problem) -> Mapping[View, float]:
        """The mu of one round for every view that has a guarantee, if the view sees it."""
        return dict.fromkeys(self.visible, moved(self.lipschitz, problem))

    def last_iterates(self, problem: Problem) -> Mapping[View, tuple[float, float]]:
        """The views that see last models only: the mu of a round, and how much larger the last round's noise is."""
        return {"release": (moved(self.lipschitz, problem), 1.0)}

    def sum_std(self, problem: Problem) -> float:
        """The noise in the released mean gradient."""
        return 1 / (problem.M * problem.smallest if self.by_party else problem.N)

    def round(self, problem: Problem) -> tuple[tuple[float, ...], float, float]:
        """The units of a round's gradients, a row's weight; how far a row moves them, and their noise, in these."""
        return (self.sum_std(problem),), 2 * self.lipschitz, 1.0

    def model_weights(self, problem: Problem) -> Array:
        """The weights of the last models in the release."""
        return np.ones(1)

    def sharing(self, problem: Problem) -> Sharing:
        """How the noise of a round is shared."""
        return TrustedCurator(self.visible)


@dataclass(frozen=True)
class Clients:
    """M clients with noise of their own: local rounds, of which a server averages the last models; or sums of rounds.

    Attributes:
        lipschitz: G.
        published: whether every client's noise is what one curator with all rows would need; else the noise of
            `enough` clients together is, in a sum.
        enough: `client`, one; `aggregate`, all; `colluders`, those who do not collude.
        synchronous: whether all go on from the average of every round.
        secure: whether single messages are hidden in secure sums.
    """

    lipschitz: float
    published: bool
    enough: View
    synchronous: bool
    secure: bool

    def client_noise(self, problem: Problem, rows: Array) -> Array:
        """The noise that clients with these numbers of rows add to their mean gradient."""
        if self.published:
            return np.full(len(rows), 1 / problem.N)
        return 1 / (rows * math.sqrt(self.together(problem)))

    def together(self, problem: Problem) -> int:
        """How many clients' `tight` noise together is enough."""
        return {"client": 1, "aggregate": problem.M, "colluders": problem.honest}[self.enough]

    def sum_std(self, problem: Problem, honest: bool = False) -> float:
        """The noise in the weighted average: of all clients, or of those who do not collude."""
        if self.published:  # equal noise, weights N_k/N
            return math.sqrt(problem.squares(problem.honest if honest else problem.M)) / problem.N
        # noise proportional to 1/N_k: every share of the weighted sum is the same
        return math.sqrt((problem.honest if honest else problem.M) / self.together(problem)) / problem.N

    def round_mus(self, problem: Problem) -> Mapping[View, float]:
        """The worst client is the smallest: the noise times N_k is least there, or the same for all."""
        client = self.of_client(problem)
        summed, colluders = (
            moved(self.lipschitz, problem) / (problem.N * self.sum_std(problem, honest)) for honest in (False, True)
        )
        views: dict[View, float] = {"release": summed, "aggregate": summed}
        if not self.synchronous:
            return views | {"colluders": client, "client": client}
        return views | {"colluders": colluders} | ({} if self.secure else {"client": client})

    def of_client(self, problem: Problem) -> float:
        """The mu of one round of the smallest client's own."""
        smallest = problem.smallest
        return moved(self.lipschitz, problem) / (smallest * float(self.client_noise(problem, np.array([smallest]))[0]))

    def last_iterates(self, problem: Problem) -> Mapping[View, tuple[float, float]]:
        """Local rounds: the server gets last models only, and shows their average.

        A row influences one chain, that of its client, and moves the average by 2G/N a round, for every client; so the
        worst client is the one with the least noise there, the smallest. In the last round all clients' noise adds up
        in the average. Other clients' noise of earlier rounds goes through their own maps, and is not counted.
        """
        if self.synchronous:
            return {}
        client = self.of_client(problem)
        average = (client, client * problem.N * self.sum_std(problem) / moved(self.lipschitz, problem))
        return {"release": average, "aggregate": average, "colluders": (client, 1.0), "client": (client, 1.0)}

    def model_weights(self, problem: Problem) -> Array:
        return np.ones(1) if self.synchronous else sizes_of(problem) / problem.N

    def round(self, problem: Problem) -> tuple[tuple[float, ...], float, float]:
        """In units of a row's weight in the mean; in local rounds, of every client's noise: the smallest is worst."""
        if self.synchronous:
            return (1 / problem.N,), 2 * self.lipschitz, self.sum_std(problem) * problem.N
        noises, least = self.client_noise(problem, sizes_of(problem)), np.array([problem.smallest])
        apart = 2 * self.lipschitz / (problem.smallest * float(self.client_noise(problem, least)[0]))
        return tuple(noises.tolist()), apart, 1.0

    def sharing(self, problem: Problem) -> Sharing:
        if not self.synchronous:
            return TrustedCurator(tuple(self.round_mus(problem)))
        weights = self.client_noise(problem, sizes_of(problem)) * sizes_of(problem)
        return ClientNoise(tuple((weights / np.linalg.norm(weights)).tolist()), self.secure)


def sizes_of(problem: Problem) -> Array:
    """Return the parties' numbers of rows, (M,)."""
    return np.array(problem.sizes or [problem.N / problem.M] * problem.M, dtype=float)


Layout = Pooled | Clients
"""What accounting and runs need to know: what a method is for is said at `Pooled`, and at `Clients` what differs."""
