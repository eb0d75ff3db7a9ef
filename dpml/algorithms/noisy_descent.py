"""Noisy gradient descent at one curator (`wang`), inside an MPC (`jayaraman`), at M clients (`wddp`: Kang et al. 2019).

The base class is in `noisy_rounds`; this module defines the views and their noise.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dpml.algorithms.noisy_rounds import NoisyDescent
from dpml.algorithms.transcript import Channel, Watch
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.optim.descent import Rows, Single
from dpml.privacy import Problem, View, noise


@dataclass(frozen=True)
class Central(NoisyDescent):
    """`wang` (Wang, Ye & Xu 2017): all rows at one trusted curator, noise on the mean gradient of every round.

    With c = 16 the published noise is proven to give much less than eps: mu = eps / (2 sqrt(ln(1/delta))).

    Args:
        protects: the view that `tight` noise is calibrated to. `release`: the last model, all that the curator
            publishes; `aggregate`: every round.
    """

    name: ClassVar[str] = "wang"
    claim: ClassVar[str] = "Wang, Ye & Xu 2017, as in Kang et al. 2019, Table 1"
    visible: ClassVar[tuple[View, ...]] = ("release", "aggregate")
    protectable: ClassVar[tuple[View, ...]] = ("release", "aggregate")

    protects: View = "release"

    def counted(self, problem: Problem) -> int:
        """The n of a sensitivity 2G/n: a row's weight in the mean gradient is at most 1/n."""
        return problem.N

    def weights(self, parties: Parties) -> Array:
        return np.full(len(parties.y), 1 / len(parties.y))

    def single(self, problem: Problem) -> Mapping[View, float]:
        shown = self.calibration == "published" or self.protects == "aggregate"
        return dict.fromkeys(self.visible if shown else ("release",), 2 * self.lipschitz)

    def hidden(self, problem: Problem) -> Mapping[View, tuple[float, float]]:
        return {"release": (2 * self.lipschitz, 1.0)}

    def reaching(self, problem: Problem) -> float:
        return 1 / self.counted(problem)

    def sources(self, parties: Parties) -> Array:
        return np.array([self.reaching(parties.problem)])

    def unit_scales(self, parties: Parties) -> Array:
        return self.sources(parties)

    def groups(self, parties: Parties) -> list[Rows]:
        return [self.slopes.rows(parties.X, parties.y, self.weights(parties))]

    def shares(self, parties: Parties) -> Array:
        return np.ones(1)

    def noise_source(
        self, parties: Parties, rng: Generator, draws: int, watch: Watch | None = None
    ) -> Callable[[], Single]:
        shape = (1, draws, parties.X.shape[1])

        def draw() -> Single:
            drawn = noise.single_gaussian(rng, shape)
            if watch is not None:
                watch.drawn(drawn)
            return drawn

        return draw

    def channel(self, view: View, parties: Parties) -> Channel:
        """The mean gradient and its noise, which no party knows."""
        reaching = self.sources(parties)
        return Channel.of(reaching[None], reaching)


@dataclass(frozen=True)
class Jayaraman(Central):
    """`jayaraman` (Jayaraman et al. 2018): the plain mean of the parties' mean gradients, noise once, inside an MPC.

    A row of the smallest party weighs 1/(M n_min). The MPC makes the noise, so that colluders know none of it.

    Args:
        protects: as for `wang`; the paper's MPC opens every round, `aggregate`.
    """

    name: ClassVar[str] = "jayaraman"
    claim: ClassVar[str] = "Jayaraman et al. 2018, as in Kang et al. 2019, Table 1"
    visible: ClassVar[tuple[View, ...]] = ("release", "aggregate", "colluders")

    protects: View = "aggregate"

    def counted(self, problem: Problem) -> int:
        return problem.M * problem.smallest

    def weights(self, parties: Parties) -> Array:
        return np.repeat(1 / (len(parties.sizes) * parties.sizes), parties.sizes)


@dataclass(frozen=True)
class WeightedDescent(NoisyDescent):
    """`wddp` (Alg. 1): M clients descend alone, each with its own noise; a server averages their last models.

    The published noise is what one curator with all rows would need, and every client adds that to a mean over its own
    N_k rows. So the rounds of one client have mu = sqrt(T) 2G/(N_k sigma), N/N_k times what is counted. Theorem 1 is
    about another algorithm, in which only a weighted average is seen and all go on from it: `variant=synchronous`. Even
    there the average has noise sigma sqrt(sum (N_k/N)^2), where the proof has sigma. Eq. (4) as printed, one N(0,
    sigma^2) on the weighted average of gradients at one model, is `variant=once`: it has the guarantees of `wang`,
    however the rows are distributed. No gradient may be seen without noise, so the noise has to be drawn inside an MPC,
    as `jayaraman`'s is.

    Args:
        variant: `paper`, local rounds; `synchronous`: a secure sum in every round, which all go on from; `once`: the
            same with noise once on the sum, which no client knows.
        protects: the view that `tight` noise is calibrated to. `aggregate`: synchronous rounds and secure sums, in
            which every client adds an equal share of the noise that one curator with all rows would add. `colluders`:
            the shares of the honest clients are enough. `client`: even a client's own messages may be seen; the
            variant's rounds.
    """

    name: ClassVar[str] = "wddp"
    claim: ClassVar[str] = "Kang et al. 2019, Thm 1"
    variants: ClassVar[tuple[str, ...]] = ("paper", "synchronous", "once")
    protectable: ClassVar[tuple[View, ...]] = ("aggregate", "colluders", "client")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.once and self.calibration == "tight" and self.protects == "client":
            raise UserError("algo.protects=client needs noise of the clients' own, which algo.variant=once has not.")

    @property
    def once(self) -> bool:
        """Whether noise is added once to the sum of a round, instead of by every client."""
        return self.variant == "once"

    @property
    def secure(self) -> bool:
        """Whether single messages are hidden in secure sums."""
        return self.once or (self.calibration == "tight" and self.protects != "client")

    @property
    def synchronous(self) -> bool:
        """Whether all clients go on from the average of every round."""
        return self.secure or self.variant == "synchronous"

    @property
    def secure_sums(self) -> int:
        """How many vectors are summed in a release by secure aggregation."""
        return self.rounds if self.secure and not self.once else 0

    def client_noise(self, problem: Problem, rows: Array) -> Array:
        """The noise that clients with these numbers of rows add to their mean gradient, at per_row = 1."""
        if self.calibration == "published":
            return np.full(len(rows), 1 / problem.N)
        return 1 / (rows * math.sqrt(self.sharing(problem)))

    def sharing(self, problem: Problem) -> int:
        """How many clients' `tight` noise together is enough."""
        return {"client": 1, "aggregate": problem.M, "colluders": problem.honest}[self.protects]

    def reaching(self, problem: Problem, honest: bool = False) -> float:
        """The noise in the weighted average: of all clients, or of those who do not collude."""
        if self.once:
            return 1 / problem.N
        if self.calibration == "published":  # equal noise, weights N_k/N
            return math.sqrt(problem.honest_squares if honest else problem.squares) / problem.N
        # noise proportional to 1/N_k: every share of the weighted sum is the same
        return math.sqrt((problem.honest if honest else problem.M) / self.sharing(problem)) / problem.N

    def single(self, problem: Problem) -> Mapping[View, float]:
        """The worst client is the smallest: the noise times N_k is least there, or the same for all.

        Noise once on the sum: a row of any client moves the weighted average by 2G/N, and colluders know no noise.
        """
        if self.once:
            return dict.fromkeys(("release", "aggregate", "colluders"), 2 * self.lipschitz)
        client = self.of_client(problem)
        summed, colluders = (
            2 * self.lipschitz / (problem.N * self.reaching(problem, honest)) for honest in (False, True)
        )
        views: dict[View, float] = {"release": summed, "aggregate": summed}
        if not self.synchronous:
            return views | {"colluders": client, "client": client}
        return views | {"colluders": colluders} | ({} if self.secure else {"client": client})

    def of_client(self, problem: Problem) -> float:
        """The mu of one round of the smallest client's own."""
        smallest = problem.smallest
        return 2 * self.lipschitz / (smallest * float(self.client_noise(problem, np.array([smallest]))[0]))

    def hidden(self, problem: Problem) -> Mapping[View, tuple[float, float]]:
        """Local rounds: the server gets last models only, and shows their average.

        A row influences one chain, that of its client, and moves the average by 2G/N a round, for every client; so the
        worst client is the one with the least noise there, the smallest. In the last round all clients' noise adds up
        in the average. Other clients' noise of earlier rounds goes through their own maps, and is not counted. Noise
        once: the clients learn every round; the view of the last model alone is that of `wang`.
        """
        if self.once:
            return {"release": (2 * self.lipschitz, 1.0)}
        if self.synchronous:
            return {}
        client = self.of_client(problem)
        average = (client, client * problem.N * self.reaching(problem) / (2 * self.lipschitz))
        return {"release": average, "aggregate": average, "colluders": (client, 1.0), "client": (client, 1.0)}

    def weights(self, parties: Parties) -> Array:
        return np.full(len(parties.y), 1 / len(parties.y))

    def groups(self, parties: Parties) -> list[Rows]:
        X, y = parties.X, parties.y
        if self.synchronous:
            return [self.slopes.rows(X, y, self.weights(parties))]
        own = [parties.of(k) for k in range(len(parties.sizes))]
        return [self.slopes.rows(X[k], y[k], np.full(k.stop - k.start, 1 / (k.stop - k.start))) for k in own]

    def shares(self, parties: Parties) -> Array:
        return np.ones(1) if self.synchronous else parties.sizes / len(parties.y)

    def sources(self, parties: Parties) -> Array:
        if self.once:
            return np.array([self.reaching(parties.problem)])
        return self.client_noise(parties.problem, parties.sizes.astype(float)) * parties.sizes / len(parties.y)

    def unit_scales(self, parties: Parties) -> Array:
        if self.synchronous:
            return np.array([np.linalg.norm(self.sources(parties))])
        return self.client_noise(parties.problem, parties.sizes.astype(float))

    def noise_source(
        self, parties: Parties, rng: Generator, draws: int, watch: Watch | None = None
    ) -> Callable[[], Single]:
        """Every source, a client or the sum, draws its own; in synchronous rounds what reaches the sum is added up."""
        reaches = self.sources(parties)
        shape = (len(reaches), draws, parties.X.shape[1])
        if not self.synchronous:
            return lambda: noise.single_gaussian(rng, shape)
        reaches = (reaches / np.linalg.norm(reaches)).astype(np.float32)

        def draw() -> Single:
            drawn = noise.single_gaussian(rng, shape)
            if watch is not None:
                watch.drawn(drawn)
            return np.tensordot(reaches, drawn, axes=1)[None]

        return draw

    def channel(self, view: View, parties: Parties) -> Channel:
        """The sum; the last client's message; or the sum and the noise of the colluders, who are the first clients."""
        reaching = self.sources(parties)
        each = np.diag(reaching)
        if view == "client":
            return Channel.of(each[-1:], reaching)
        known = parties.problem.colluders if view == "colluders" and not self.once else 0
        return Channel.of(np.vstack([reaching, each[:known]]), reaching)
