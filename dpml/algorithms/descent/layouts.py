"""Describe who has the rows of a noisy gradient descent and who adds noise: one curator, an MPC, or M clients.

All numbers are for ``per_row = 1``, that is, a mean over n rows gets noise of standard deviation 1/n.
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
from dpml.mechanism.sharing import Sampler, Sharing, TrustedCurator
from dpml.optim.gradients import Rows
from dpml.optim.losses import Slopes
from dpml.privacy import Problem, View, noise
from dpml.sums import single_imprecision


@dataclass(frozen=True)
class GradientMeans(Terms["MeanGradients"]):
    """Compute mean gradients of the parties' rows in single precision."""

    def total(self, *at: Any) -> Array:
        models = np.split(at[0], len(self.groups), axis=1)
        return np.concatenate([rows.gradient(w) for rows, w in zip(self.groups, models, strict=True)], axis=1)

    @cached_property
    def groups(self) -> list[Rows]:
        slopes = self.statistic.slopes
        return [Rows.of(slopes.loss, *rows, clip=slopes.clip) for rows in self.weighted()]

    def weighted(self) -> Iterator[tuple[Array, Array, Array]]:
        """Yield rows (n, d), labels and row weights (n,): by client if each trains its own model, else all at once."""
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
    """The mean gradient of all rows at a model, or the mean gradient of each of M clients at its own model.

    Args:
        by_party: Whether the parties' mean gradients are averaged instead of all rows' gradients.
        clients: The number M of clients if each trains its own model, w (B, M d); 0: all rows share a model, w (B, d).
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


def sensitivity(lipschitz: float, problem: Problem) -> float:
    """Return the sensitivity of a sum of gradients to a replaced row: 2 times `lipschitz`, plus a rounding margin."""
    return 2 * lipschitz * (1 + single_imprecision(problem.N, problem.d))


@dataclass(frozen=True)
class ClientNoise(Sharing):
    """Every client adds independent noise to its contribution to a sum.

    `weights` are the standard deviations of the clients' noise; the squares of these weights sum to 1.
    """

    weights: tuple[float, ...]
    secure: bool  # type: ignore[misc]

    def views(self, problem: Problem) -> dict[View, float]:
        weights = np.sort(self.weights)
        colluders = 1 / float(np.linalg.norm(weights[: problem.honest]))
        views: dict[View, float] = {"release": 1.0, "aggregate": 1.0, "colluders": colluders}
        return views if self.secure else views | {"client": 1 / float(weights[0])}

    def sources(self, M: int) -> Array:
        return np.diag(self.weights)

    def parts(self, rng: Generator, draws: int, M: int, size: int, law: Sampler = "gaussian") -> Array:
        draw: Any = noise.single_gaussian if law == "single_gaussian" else noise.gaussian
        parts: Array = draw(rng, (M, draws, size))
        parts *= np.array(self.weights)[:, None, None]
        return parts


@dataclass(frozen=True)
class Pooled:
    """One curator, or an MPC on all parties' rows, adds secret noise to the mean gradient.

    Attributes:
        visible: The observers against whom a guarantee is computed.
        by_party: Whether the parties' mean gradients are averaged instead of all rows' gradients. A row of the
            smallest of M parties then has the weight 1/(M n_min), where n_min is that party's number of rows.
    """

    lipschitz: float
    visible: tuple[View, ...]
    by_party: bool
    synchronous: ClassVar[bool] = True
    """Whether all rows share one model in every round."""
    secure: ClassVar[bool] = False

    def round_mus(self, problem: Problem) -> Mapping[View, float]:
        """Return the Gaussian-DP mu of one round for every observer who sees the noisy gradient of that round."""
        return dict.fromkeys(self.visible, sensitivity(self.lipschitz, problem))

    def last_iterates(self, problem: Problem) -> Mapping[View, tuple[float, float]]:
        """Return a round's Gaussian-DP mu, and the last round's noise_std divided by an earlier round's noise_std.

        There is a pair of these two numbers for every observer who sees only the last model.
        """
        return {"release": (sensitivity(self.lipschitz, problem), 1.0)}

    def sum_std(self, problem: Problem) -> float:
        return 1 / (problem.M * problem.smallest if self.by_party else problem.N)

    def round(self, problem: Problem) -> tuple[tuple[float, ...], float, float]:
        """Return `units` (a noise factor for each block), `sensitivity` and `noise` of the noisy `Sum` of a round."""
        return (self.sum_std(problem),), 2 * self.lipschitz, 1.0

    def model_weights(self, problem: Problem) -> Array:
        """Return the weight of each client's last model in the average; a model that all rows share has weight 1."""
        return np.ones(1)

    def sharing(self, problem: Problem) -> Sharing:
        return TrustedCurator(self.visible)


@dataclass(frozen=True)
class Clients:
    """M clients who add independent noise; they train alone, or start every round from the average of their models.

    Attributes:
        published: Whether each client adds the noise that one curator with all rows would need.
        enough: For `tight` noise, whose noise is enough for the guarantee: one client's (`client`), all clients'
            together (`aggregate`), or the honest clients' together (`colluders`).
        synchronous: Whether all clients continue from the average of every round; otherwise their last models are
            averaged.
        secure: Whether secure sums hide the clients' messages.
    """

    lipschitz: float
    published: bool
    enough: View
    synchronous: bool
    secure: bool

    def client_noise(self, problem: Problem, rows: Array) -> Array:
        """Return the noise_std that each client adds to its mean gradient, given each client's number of rows."""
        if self.published:
            return np.full(len(rows), 1 / problem.N)
        return 1 / (rows * math.sqrt(self.together(problem)))

    def together(self, problem: Problem) -> int:
        return {"client": 1, "aggregate": problem.M, "colluders": problem.honest}[self.enough]

    def sum_std(self, problem: Problem, honest: bool = False) -> float:
        """Return the noise_std of the clients' average gradient; if `honest`, count only the honest clients' noise."""
        if self.published:  # equal noise, with weights N_k/N
            return math.sqrt(problem.squares(problem.honest if honest else problem.M)) / problem.N
        # the noise is proportional to 1/N_k, so all clients contribute equal noise to the weighted sum
        return math.sqrt((problem.honest if honest else problem.M) / self.together(problem)) / problem.N

    def round_mus(self, problem: Problem) -> Mapping[View, float]:
        """Return every observer's Gaussian-DP mu of one round, for a row of the smallest client (the worst case)."""
        client = self.of_client(problem)
        summed, colluders = (
            sensitivity(self.lipschitz, problem) / (problem.N * self.sum_std(problem, honest))
            for honest in (False, True)
        )
        views: dict[View, float] = {"release": summed, "aggregate": summed}
        if not self.synchronous:
            return views | {"colluders": client, "client": client}
        return views | {"colluders": colluders} | ({} if self.secure else {"client": client})

    def of_client(self, problem: Problem) -> float:
        (noise_std,) = self.client_noise(problem, np.array([problem.smallest])).tolist()
        return sensitivity(self.lipschitz, problem) / (problem.smallest * noise_std)

    def last_iterates(self, problem: Problem) -> Mapping[View, tuple[float, float]]:
        if self.synchronous:  # else: docs/privacy/kang2019.md, Theorem 3, for rows of the smallest client
            return {}
        client = self.of_client(problem)
        average = (client, client * problem.N * self.sum_std(problem) / sensitivity(self.lipschitz, problem))
        return {"release": average, "aggregate": average, "colluders": (client, 1.0), "client": (client, 1.0)}

    def model_weights(self, problem: Problem) -> Array:
        return np.ones(1) if self.synchronous else sizes_of(problem) / problem.N

    def round(self, problem: Problem) -> tuple[tuple[float, ...], float, float]:
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
    """Return the numbers of rows of all parties, (M,)."""
    return np.array(problem.sizes or [problem.N / problem.M] * problem.M, dtype=float)


Layout = Pooled | Clients
"""A description of where the rows are and who adds noise."""
