"""Noisy gradient descent at one place (`wang`), inside an MPC (`jayaraman`), at M clients (`wddp`: Kang et al. 2019).

T rounds of ``w <- w - step (gradient + z)``, z Gaussian. One row moves a mean gradient over n rows by at most 2G/n, G
the loss's Lipschitz constant, and no less in general: a row nearly orthogonal to w may have any score. T Gaussian
queries, each of which may depend on the answers before, are sqrt(T) times one (Dong, Roth & Su 2019, Cor. 3.3), so
that whoever sees noise of standard deviation s on such a mean has

    mu = sqrt(T) 2G / (n s),

and every guarantee below is this formula with the n and the s of a view.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.random import Generator

from dpml.algorithms import Release, require_domain
from dpml.algorithms.exposure import DrawRounds, Exposure, Pair, model_exposure, round_exposure, turned_label
from dpml.algorithms.guarantees import gaussian_views
from dpml.algorithms.hyperparameters import check_choice, check_common, check_positive
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.optim import descent
from dpml.optim.descent import Rows, Single
from dpml.optim.losses import Loss, mean_loss
from dpml.privacy import Budget, Calibration, Guarantee, Problem, View, gdp, noise

_SOURCE = "Gaussian DP of T adaptive rounds (noisy_descent.{})"


@dataclass(frozen=True)
class NoisyDescent(ABC):
    """What the three have in common: hyper-parameters, accounting, and the runs themselves.

    Args:
        loss: logistic, or sigmoid, which is not convex.
        calibration: `published` noise, or `tight`: the least that is proven.
        variant: `paper`, as the text defines it.
        lam: coefficient of lam/2 ||w||^2, part of the objective; it depends on no row, so it changes no sensitivity.
        rounds: T.
        c: the constant of the published noise. The paper says "some constant"; its proof's inequalities need 16.
        tuned: `fixed`, one step size; `oracle`: for every budget the one of `steps` with the least training objective
            (on average over the draws). That reads the private rows, and no budget counts it.
        step: the fixed step size; None: 1/L, L = smoothness of the loss + lam.
        steps: the step sizes that `oracle` tries.
    """

    name: ClassVar[str]
    auxiliary: ClassVar[float] = 0.0
    claim: ClassVar[str]
    variants: ClassVar[tuple[str, ...]] = ("paper",)

    loss: Loss
    calibration: Calibration = "published"
    variant: str = "paper"
    lam: float = 0.0
    rounds: int = 1000
    c: float = 16.0
    tuned: Literal["fixed", "oracle"] = "fixed"
    step: float | None = None
    steps: tuple[float, ...] = (0.01, 0.05, 0.1, 0.5, 1.0)

    def __post_init__(self) -> None:
        check_common(self, descent.LOSSES, self.variants)
        check_choice("algo.tuned", self.tuned, ("fixed", "oracle"))
        if self.rounds < 1:
            raise UserError(f"algo.rounds must be at least 1, got {self.rounds}.")
        check_positive("algo.c", self.c)
        if self.step is not None:
            check_positive("algo.step", self.step)
        if not self.steps or not all(0 < step < math.inf for step in self.steps):
            raise UserError(f"algo.steps must be a list of positive numbers, got {list(self.steps)}.")

    # What each algorithm defines.

    @abstractmethod
    def mus(self, budget: Budget, problem: Problem) -> Mapping[View, float]:
        """The GDP parameter of every view, counted with the noise that `scales` draws."""

    @abstractmethod
    def groups(self, parties: Parties) -> tuple[list[Rows], Array]:
        """The rows of every group of runs that never meets another, and the weights of their models in the release."""

    @abstractmethod
    def scales(self, budget: Budget, parties: Parties) -> Array:
        """The noise in every group's gradient, (groups,)."""

    @abstractmethod
    def noise_source(self, parties: Parties, rng: Generator, draws: int) -> Callable[[], Single]:
        """Makes a round's unit noise, (groups, draws, d)."""

    # What all have in common.

    @property
    def lipschitz(self) -> float:
        """G, the loss's true Lipschitz constant: 1 for logistic, as in the paper, 1/4 for sigmoid."""
        assert self.loss.lipschitz is not None
        return self.loss.lipschitz

    @property
    def tried(self) -> Array:
        """The step sizes of a release."""
        if self.tuned == "oracle":
            return np.array(self.steps)
        return np.array([1 / (self.loss.smoothness + self.lam) if self.step is None else self.step])

    def per_row(self, budget: Budget) -> float:
        """The noise on a mean over n rows, times n: published ``G sqrt(c T ln(1/delta)) / eps``; tight, by GDP."""
        if math.isinf(budget.eps):
            return 0.0
        delta = budget.require_delta(f"algo={self.name}")
        if self.calibration == "tight":
            return 2 * self.lipschitz * math.sqrt(self.rounds) / gdp.mu_of(budget.eps, delta)
        return self.lipschitz * math.sqrt(self.c * self.rounds * math.log(1 / delta)) / budget.eps

    def one_round(self, n: float, scale: float) -> float:
        """The mu of one mean gradient over n rows with noise `scale`."""
        return 2 * self.lipschitz / (n * scale) if scale else math.inf

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """Claimed (when published) and proven guarantee of every view; one sample is the unit."""
        delta = budget.require_delta(f"algo={self.name}")
        source = _SOURCE.format(type(self).__name__)
        claim = self.claim if self.calibration == "published" else None
        return gaussian_views(self.mus(budget, problem), budget, delta, source, claim)

    @abstractmethod
    def seen(self, view: View, budget: Budget, parties: Parties) -> tuple[float, float, DrawRounds]:
        """What a view sees of a round: a row's weight in it, its noise's standard deviation, and how that is drawn."""

    def worst_case(self, budget: Budget, problem: Problem) -> Pair:
        """A row of the smallest party changes its label."""
        if self.loss.name != "logistic":
            raise UserError(f"dpml audit knows neighbours of algo={self.name} for loss=logistic only.")
        return turned_label(problem)

    def exposures(self, pair: Pair, budget: Budget) -> list[Exposure]:
        """The model; and who sees rounds sees the gradient move along the row, by half of what the proof allows for."""
        parties = pair[0]
        exposures = [model_exposure([self.prepare(p, np.random.default_rng(0)) for p in pair], budget)]
        for view in self.mus(budget, parties.problem):
            if view == "release":
                continue
            weight, scale, draw = self.seen(view, budget, parties)
            exposures.append(round_exposure(view, draw, weight, scale**2 * np.eye(self.rounds)))
        return exposures

    def prepare(self, parties: Parties, rng: Generator) -> "PreparedNoisyDescent":
        """Lay out the rows, and draw the random initial model, about as long as a row."""
        require_domain(parties, self.loss)
        d = parties.X.shape[1]
        return PreparedNoisyDescent(self, parties, rng.standard_normal((d,)) / math.sqrt(d))


@dataclass(frozen=True)
class PreparedNoisyDescent:
    """Everything but the noise: rows and the initial model `start` (d,)."""

    algorithm: NoisyDescent
    parties: Parties
    start: Array

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """All budgets, step sizes and draws descend together; budgets and step sizes share their noise directions."""
        algorithm, parties = self.algorithm, self.parties
        groups, shares = algorithm.groups(parties)
        scales = np.stack([algorithm.scales(budget, parties) for budget in budgets], axis=1)
        draw = algorithm.noise_source(parties, rng, draws)
        steps = algorithm.tried
        last = descent.descend(groups, self.start, steps, scales, draw, algorithm.rounds, algorithm.lam)
        weights = np.einsum("g,gesij->esij", shares, last.astype(float))
        if algorithm.tuned == "fixed":
            return Release(weights[:, 0])
        best = np.argmin(self.objective(weights).mean(axis=2), axis=1)
        chosen = np.broadcast_to(steps[best][:, None], (len(budgets), draws))
        return Release(weights[np.arange(len(budgets)), best], {"step": chosen})

    def objective(self, weights: Array) -> Array:
        """Mean loss + lam/2 ||w||^2 on the private rows, (..., d) -> (...)."""
        flat = weights.reshape(-1, weights.shape[-1])
        X, y, counts = self.parties.folded
        value = mean_loss(self.algorithm.loss, X, y, flat, counts)
        return (value + self.algorithm.lam / 2 * np.einsum("ij,ij->i", flat, flat)).reshape(weights.shape[:-1])


class Central(NoisyDescent):
    """`wang` (Wang, Ye & Xu 2017): all rows at one place that is trusted, noise on the mean gradient of every round.

    With c = 16 the published noise is proven to give much less than eps: mu = eps / (2 sqrt(ln(1/delta))).
    """

    name = "wang"
    claim = "Wang, Ye & Xu 2017, as in Kang et al. 2019, Table 1"
    visible: ClassVar[tuple[View, ...]] = ("release", "aggregate")

    def counted(self, problem: Problem) -> int:
        """The n of a sensitivity 2G/n: a row's weight in the mean gradient is at most 1/n."""
        return problem.N

    def weights(self, parties: Parties) -> Array:
        """Every row's weight in the mean gradient, (N,)."""
        return np.full(len(parties.y), 1 / len(parties.y))

    def noise_scale(self, budget: Budget, problem: Problem) -> float:
        """Single source of the noise's standard deviation in a round's mean gradient, for sampling and accounting."""
        return self.per_row(budget) / self.counted(problem)

    def mus(self, budget: Budget, problem: Problem) -> Mapping[View, float]:
        mu = math.sqrt(self.rounds) * self.one_round(self.counted(problem), self.noise_scale(budget, problem))
        return dict.fromkeys(self.visible, mu)

    def groups(self, parties: Parties) -> tuple[list[Rows], Array]:
        return [Rows.of(self.loss, parties.X, parties.y, self.weights(parties))], np.ones(1)

    def scales(self, budget: Budget, parties: Parties) -> Array:
        return np.array([self.noise_scale(budget, parties.problem)])

    def noise_source(self, parties: Parties, rng: Generator, draws: int) -> Callable[[], Single]:
        shape = (1, draws, parties.X.shape[1])
        return lambda: noise.single_gaussian(rng, shape)

    def seen(self, view: View, budget: Budget, parties: Parties) -> tuple[float, float, DrawRounds]:
        scale = self.noise_scale(budget, parties.problem)

        def draw(rng: Generator, draws: int) -> Iterator[Array]:
            make = self.noise_source(parties, rng, draws)
            while True:
                yield scale * make()[0, :, 0].astype(float)

        return float(self.weights(parties)[-1]), scale, draw


class Jayaraman(Central):
    """`jayaraman` (Jayaraman et al. 2018): the plain mean of the parties' mean gradients, noise once, inside an MPC.

    A row of the smallest party weighs 1/(M n_min). The MPC makes the noise, so that colluders know none of it.
    """

    name = "jayaraman"
    claim = "Jayaraman et al. 2018, as in Kang et al. 2019, Table 1"
    visible = ("release", "aggregate", "colluders")

    def counted(self, problem: Problem) -> int:
        return problem.M * problem.smallest

    def weights(self, parties: Parties) -> Array:
        return np.repeat(1 / (len(parties.sizes) * parties.sizes), parties.sizes)


@dataclass(frozen=True)
class WeightedDescent(NoisyDescent):
    """`wddp` (Alg. 1): M clients descend alone, each with its own noise; a server averages their last models.

    The published noise is what one place with all rows would need, and every client adds that to a mean over its own
    N_k rows. So whoever sees a client's models has mu = sqrt(T) 2G/(N_k sigma), N/N_k times what is counted. Theorem 1
    treats another algorithm, in which only a weighted average is seen and all go on from it: `variant=synchronous`.
    Even there the average has noise sigma sqrt(sum (N_k/N)^2), where the proof has sigma.

    Args:
        variant: `paper`, local rounds, or `synchronous`: a secure sum in every round, which all go on from.
        protects: the view that `tight` noise is for. `aggregate`: synchronous rounds and secure sums, in which every
            client adds an equal share of the noise that one place with all rows would add. `colluders`: the shares of
            those who do not collude are enough. `client`: even a client's own messages may be seen; the variant's
            rounds.
    """

    name: ClassVar[str] = "wddp"
    claim: ClassVar[str] = "Kang et al. 2019, Thm 1"
    variants: ClassVar[tuple[str, ...]] = ("paper", "synchronous")

    protects: Literal["aggregate", "colluders", "client"] = "aggregate"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("algo.protects", self.protects, ("aggregate", "colluders", "client"))

    @property
    def secure(self) -> bool:
        """Whether single messages are hidden in secure sums."""
        return self.calibration == "tight" and self.protects != "client"

    @property
    def synchronous(self) -> bool:
        """Whether all clients go on from the average of every round."""
        return self.secure or self.variant == "synchronous"

    def client_noise(self, budget: Budget, problem: Problem, rows: Array) -> Array:
        """Single source of the noise that clients with these numbers of rows add to their mean gradient."""
        if self.calibration == "published":
            return np.full(len(rows), self.per_row(budget) / problem.N)
        shared = {"client": 1, "aggregate": problem.M, "colluders": problem.honest}[self.protects]
        return self.per_row(budget) / (rows * math.sqrt(shared))

    def mus(self, budget: Budget, problem: Problem) -> Mapping[View, float]:
        """The worst client is the smallest: the noise times N_k is least there, or the same for all.

        Local rounds: what is released is made of chains, of which a row touches one, that client's. All but the last of
        its rounds may be seen in full (they are, by the server); in the last, the others' noise joins its own.
        """
        T, N, M, smallest = self.rounds, problem.N, problem.M, problem.smallest
        scale = float(self.client_noise(budget, problem, np.array([smallest]))[0])
        client = self.one_round(smallest, scale)
        if self.calibration == "published":  # equal noise, weights N_k/N
            everyone, honest = scale * math.sqrt(problem.squares), scale * math.sqrt(problem.honest_squares)
        else:  # noise proportional to 1/N_k: every share of the weighted sum is the same
            share = scale * smallest / N
            everyone, honest = share * math.sqrt(M), share * math.sqrt(problem.honest)
        summed = self.one_round(N, everyone)
        chain = math.sqrt(T) * client
        if not self.synchronous:
            last = math.sqrt((T - 1) * client**2 + summed**2)
            return {"release": last, "aggregate": chain, "colluders": chain, "client": chain}
        sums = {"release": summed, "aggregate": summed, "colluders": self.one_round(N, honest)}
        seen: dict[View, float] = {view: math.sqrt(T) * mu for view, mu in sums.items()}  # type: ignore[misc]
        return seen if self.secure else seen | {"client": chain}

    def groups(self, parties: Parties) -> tuple[list[Rows], Array]:
        X, y, N = parties.X, parties.y, len(parties.y)
        if self.synchronous:
            return [Rows.of(self.loss, X, y, np.full(N, 1 / N))], np.ones(1)
        own = [parties.of(k) for k in range(len(parties.sizes))]
        rows = [Rows.of(self.loss, X[k], y[k], np.full(k.stop - k.start, 1 / (k.stop - k.start))) for k in own]
        return rows, parties.sizes / N

    def scales(self, budget: Budget, parties: Parties) -> Array:
        scales = self.client_noise(budget, parties.problem, parties.sizes.astype(float))
        if not self.synchronous:
            return scales
        return np.array([np.linalg.norm(scales * parties.sizes / len(parties.y))])

    def noise_source(self, parties: Parties, rng: Generator, draws: int) -> Callable[[], Single]:
        """Every client draws its own noise; in synchronous rounds what reaches the weighted sum is added up."""
        shape = (len(parties.sizes), draws, parties.X.shape[1])
        if not self.synchronous:
            return lambda: noise.single_gaussian(rng, shape)
        reaches = self.client_noise(Budget(1.0, 1e-3), parties.problem, parties.sizes.astype(float)) * parties.sizes
        reaches = (reaches / np.linalg.norm(reaches)).astype(np.float32)
        return lambda: np.tensordot(reaches, noise.single_gaussian(rng, shape), axes=1)[None]

    def seen(self, view: View, budget: Budget, parties: Parties) -> tuple[float, float, DrawRounds]:
        """The last client's rounds, or the sums; `colluders` take their own noise out of those."""
        problem, sizes = parties.problem, parties.sizes
        own = self.client_noise(budget, problem, sizes.astype(float))
        if view == "client" or not self.synchronous:
            reaches = np.where(np.arange(len(sizes)) == len(sizes) - 1, own, 0.0)
            weight = 1 / float(sizes[-1])
        else:
            honest = len(sizes) if view in ("release", "aggregate") else problem.honest
            reaches = np.where(np.arange(len(sizes)) >= len(sizes) - honest, own * sizes / len(parties.y), 0.0)
            weight = 1 / len(parties.y)

        def draw(rng: Generator, draws: int) -> Iterator[Array]:
            while True:
                drawn = noise.single_gaussian(rng, (len(sizes), draws, problem.d))[..., 0]
                yield reaches @ drawn.astype(float)

        return weight, float(np.linalg.norm(reaches)), draw
