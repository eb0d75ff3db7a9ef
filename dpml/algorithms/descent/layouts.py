"""Where the rows of a noisy descent are and who adds noise: at one curator, inside an MPC, or at M clients.

Everything is for noise of ``per_row = 1``, that on a mean over n rows times n, and G = `lipschitz`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.mechanism.observer import Channel, Observer
from dpml.optim.descent import Rows, Single
from dpml.optim.slopes import Slopes
from dpml.privacy import Problem, View, noise
from dpml.sums import single_imprecision


def moved(lipschitz: float, problem: Problem) -> float:
    """How far a row that is replaced moves a sum of gradients in floating point at most: by a little more than 2 G."""
    return 2 * lipschitz * (1 + single_imprecision(problem.N, problem.d))


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
    """Whether single messages are hidden in secure sums."""

    def round_mus(self, problem: Problem) -> Mapping[View, float]:
        """The mu of one round for every view that has a guarantee, if the view sees it."""
        return dict.fromkeys(self.visible, moved(self.lipschitz, problem))

    def last_iterates(self, problem: Problem) -> Mapping[View, tuple[float, float]]:
        """The views that see last models only: the mu of a round, and how much larger the last round's noise is."""
        return {"release": (moved(self.lipschitz, problem), 1.0)}

    def sum_std(self, problem: Problem) -> float:
        """The noise in the released mean gradient."""
        return 1 / (problem.M * problem.smallest if self.by_party else problem.N)

    def noise_weights(self, parties: Parties) -> Array:
        """How much of each independent source of noise reaches the released mean gradient, (sources,)."""
        return np.array([self.sum_std(parties.problem)])

    def row_weights(self, parties: Parties) -> Array:
        """Every row's weight in the released mean gradient, (N,)."""
        if self.by_party:
            return np.repeat(1 / (len(parties.sizes) * parties.sizes), parties.sizes)
        return np.full(len(parties.y), 1 / len(parties.y))

    def row_groups(self, parties: Parties, slopes: Slopes) -> list[Rows]:
        """The rows of every group of runs; groups do not interact."""
        return [slopes.rows(parties.X, parties.y, self.row_weights(parties))]

    def model_weights(self, parties: Parties) -> Array:
        """The weights of the groups' models in the release, (groups,)."""
        return np.ones(1)

    def group_stds(self, parties: Parties) -> Array:
        """The noise in every group's gradient, (groups,)."""
        return self.noise_weights(parties)

    def noise_source(
        self, parties: Parties, rng: Generator, draws: int, observer: Observer | None = None
    ) -> Callable[[], Single]:
        """Makes a round's unit noise, (groups, draws, d). `observer` records that of every source."""
        shape = (1, draws, parties.X.shape[1])

        def draw() -> Single:
            drawn = noise.single_gaussian(rng, shape)
            if observer is not None:
                observer.drawn(drawn)
            return drawn

        return draw

    def channel(self, view: View, parties: Parties) -> Channel:
        """One round as seen by a view of rounds, in units of `per_row`."""
        weights = self.noise_weights(parties)
        return Channel.of(weights[None], weights)


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
        return 1 / (rows * math.sqrt(self.sharing(problem)))

    def sharing(self, problem: Problem) -> int:
        """How many clients' `tight` noise together is enough."""
        return {"client": 1, "aggregate": problem.M, "colluders": problem.honest}[self.enough]

    def sum_std(self, problem: Problem, honest: bool = False) -> float:
        """The noise in the weighted average: of all clients, or of those who do not collude."""
        if self.published:  # equal noise, weights N_k/N
            return math.sqrt(problem.honest_squares if honest else problem.squares) / problem.N
        # noise proportional to 1/N_k: every share of the weighted sum is the same
        return math.sqrt((problem.honest if honest else problem.M) / self.sharing(problem)) / problem.N

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

    def row_weights(self, parties: Parties) -> Array:
        return np.full(len(parties.y), 1 / len(parties.y))

    def row_groups(self, parties: Parties, slopes: Slopes) -> list[Rows]:
        X, y = parties.X, parties.y
        if self.synchronous:
            return [slopes.rows(X, y, self.row_weights(parties))]
        own = [parties.of(k) for k in range(len(parties.sizes))]
        return [slopes.rows(X[k], y[k], np.full(k.stop - k.start, 1 / (k.stop - k.start))) for k in own]

    def model_weights(self, parties: Parties) -> Array:
        return np.ones(1) if self.synchronous else parties.sizes / len(parties.y)

    def noise_weights(self, parties: Parties) -> Array:
        return self.client_noise(parties.problem, parties.sizes.astype(float)) * parties.sizes / len(parties.y)

    def group_stds(self, parties: Parties) -> Array:
        if self.synchronous:
            return np.array([np.linalg.norm(self.noise_weights(parties))])
        return self.client_noise(parties.problem, parties.sizes.astype(float))

    def noise_source(
        self, parties: Parties, rng: Generator, draws: int, observer: Observer | None = None
    ) -> Callable[[], Single]:
        """Every client draws its own; in synchronous rounds what reaches the sum is added up."""
        weights = self.noise_weights(parties)
        shape = (len(weights), draws, parties.X.shape[1])
        if not self.synchronous:
            return lambda: noise.single_gaussian(rng, shape)
        weights = (weights / np.linalg.norm(weights)).astype(np.float32)

        def draw() -> Single:
            drawn = noise.single_gaussian(rng, shape)
            if observer is not None:
                observer.drawn(drawn)
            return np.tensordot(weights, drawn, axes=1)[None]

        return draw

    def channel(self, view: View, parties: Parties) -> Channel:
        """The sum; the last client's message; or the sum and the noise of the colluders, who are the first clients."""
        weights = self.noise_weights(parties)
        each = np.diag(weights)
        if view == "client":
            return Channel.of(each[-1:], weights)
        known = parties.problem.colluders if view == "colluders" else 0
        return Channel.of(np.vstack([weights, each[:known]]), weights)


Layout = Pooled | Clients
"""What accounting and runs need to know: what a method is for is said at `Pooled`, and at `Clients` what differs."""
