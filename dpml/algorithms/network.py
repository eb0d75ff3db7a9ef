"""A small neural network trained on noisy sums of clipped gradients (Imtiaz, Mohammadi & Sarwate 2019, Sec. 5.1).

One hidden layer of ReLU units and one sigmoid output, so that the score of a row x is ``t = v'relu(U x + a) + c`` and
the loss of label y = +-1 is the cross-entropy log(1 + exp(-y t)). In every round the sites release the sum of their
rows' clipped gradients, and Adam takes a step; only that sum sees the data, so all rounds together cost

    mu^2 = sum over the rounds that a sample takes part in of mu_round^2 = epochs * mu_round^2

(Dong, Roth & Su 2019, Cor. 3.3; adaptively chosen rounds). The rows are dealt to minibatches anew in every epoch by a
permutation that does not look at the data, so a sample takes part in one round of each epoch and the other rounds are
the same for neighbours. What is *published* is one round's eps; what is proven is that of all rounds together.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dpml.algorithms import Release, require_domain
from dpml.algorithms.distributed_noise import CapeNoise, IndependentNoise, NoiseSharing, TrustedCurator, cape_spread
from dpml.algorithms.exposure import Exposure, Messages, Pair, message_exposure, turned_label
from dpml.algorithms.guarantees import gaussian_views, no_privacy
from dpml.algorithms.hyperparameters import VARIANTS, Variant, check_common, check_positive, check_published_only
from dpml.arrays import Array, Index
from dpml.data.partition import Parties
from dpml.optim.losses import Loss
from dpml.optim.network import Adam, Models, clipped_sum, score, sum_of_clipped_terms
from dpml.privacy import Budget, Calibration, Guarantee, Problem, gdp

_TOGETHER = 1 << 9  # networks that an attacked release trains side by side: their gradients stay in cache
_CHECKS = 10  # how often the training loss is looked at on the way


@dataclass(frozen=True)
class NonPrivateNetwork:
    """`nn_nonpriv`: the network trained on all rows, without noise and without clipping. No privacy.

    Args:
        loss: logistic.
        calibration: `published`: eps is that of one round; `tight`: of all rounds, in the worst view.
        variant: `paper`: clip each row's gradient, then average. `authors` is what the authors ran: minibatches at one
            place, each row's term divided by the number of rows once too often and clipped at 1 after that, noise as
            if that were a sensitivity of one over the number of rows in each of four blocks (M times as much for
            `nn_conv`, where sqrt M is meant), at most a tenth of the rows in a minibatch, and Adam without the
            correction of its second moment.
        hidden: units in the hidden layer.
        epochs: passes over the rows.
        batch: rows in a minibatch; None: all in `paper` (one round per epoch), 64 in `authors`.
        rate: Adam's step.
        clip: bound on the norm of a row's gradient, in `paper`.
    """

    name: ClassVar[str] = "nn_nonpriv"
    auxiliary: ClassVar[float] = 0.0
    private: ClassVar[bool] = False

    loss: Loss
    calibration: Calibration = "published"
    variant: Variant = "paper"
    hidden: int = 5
    epochs: int = 500
    batch: int | None = None
    rate: float = 0.01
    clip: float = 1.0

    def __post_init__(self) -> None:
        check_common(self, ("logistic",), VARIANTS)
        check_published_only(self)
        for key in ("hidden", "epochs", "batch", "rate", "clip"):
            value = getattr(self, key)
            if value is not None:
                check_positive(f"algo.{key} of {self.name}", value)

    @property
    def lam(self) -> float:
        """0: there is no regulariser."""
        return 0.0

    def rows_per_round(self, N: int) -> int:
        """Rows in a minibatch of N training rows; the last one of an epoch may have fewer."""
        if self.variant == "authors":
            return max(1, min(self.batch or 64, N // 10))
        return min(self.batch or N, N)

    @property
    def sharing(self) -> NoiseSharing:
        """Who draws the noise of a round's sum."""
        return TrustedCurator(("release", "aggregate"))

    def scale(self, budget: Budget, problem: Problem, rows: int) -> float:
        """Single source of the standard deviation of the noise on what a round of `rows` rows releases."""
        return 0.0

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """None: eps is infinite."""
        return no_privacy("sample", "no noise")

    def prepare(self, parties: Parties, rng: Generator) -> "PreparedNetwork":
        """Draw the initial weights (He et al. 2015: variance 2 over the width below) and the order of the rows."""
        require_domain(parties, self.loss)
        H, d = self.hidden, parties.problem.d
        start = Models.zeros(H, 1, d)
        start.inner[..., :-1] = rng.standard_normal((H, 1, d)) * math.sqrt(2 / d)
        start.outer[:-1] = rng.standard_normal((H, 1)) * math.sqrt(2 / H)
        return PreparedNetwork(self, parties, start, int(rng.integers(2**63)))


class PrivateNetwork(NonPrivateNetwork):
    """What both ways to release a gradient have in common."""

    private = True

    def published_factor(self, M: int) -> float:
        """How much wider the published noise of the sum is than a trusted curator's."""
        return 1.0

    def sensitivity(self, rows: int) -> float:
        """How far a round's release moves at most, in L2 norm, when a sample is replaced: what we prove."""
        if self.variant == "authors":
            return 2 * math.sqrt(4)  # four blocks, in each a term of norm at most 1 gives way to another one
        return 2 * self.clip

    def scale(self, budget: Budget, problem: Problem, rows: int) -> float:
        if math.isinf(budget.eps):
            return 0.0
        delta = budget.require_delta(f"algo={self.name}")
        if self.calibration == "tight":
            worst = max(self.sharing.views(problem).values()) * math.sqrt(self.epochs)
            return self.sensitivity(rows) * worst / gdp.mu_of(budget.eps, delta)
        believed = 1 / rows if self.variant == "authors" else self.sensitivity(rows)
        return believed * self.published_factor(problem.M) / gdp.classical_mu(budget.eps, delta)

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """Claimed: eps of one round (when published). Proven: of all rounds of all epochs together, in every view."""
        delta = budget.require_delta(f"algo={self.name}")
        rows = self.rows_per_round(problem.N)
        # the last, smaller minibatch of an epoch has no less noise
        scale = self.scale(budget, problem, rows)
        mu = math.sqrt(self.epochs) * self.sensitivity(rows) / scale if scale else math.inf
        mus = {view: mu * factor for view, factor in self.sharing.views(problem).items()}
        return gaussian_views(mus, budget, delta, _PROOF, _CLAIM if self.calibration == "published" else None)

    def worst_case(self, budget: Budget, problem: Problem) -> Pair:
        """Any neighbours: what the exposures count with are gradients, not rows."""
        return turned_label(problem)

    def exposures(self, pair: Pair, budget: Budget) -> list[Exposure]:
        """The trained network; and all rounds, for rows whose clipped gradients are opposite in every round.

        Such rows can be crafted for any round, not as easily for all of them: that is as bad as it can be. Whatever
        direction they have, the noise is the same in it, so that a round counts as one coordinate.
        """
        problem = pair[0].problem
        both = [self.prepare(parties, np.random.default_rng(0)) for parties in pair]
        rows = self.rows_per_round(problem.N)
        shift = np.full(self.epochs, self.sensitivity(rows) / self.scale(budget, problem, rows))

        def network(which: int, rng: Generator, draws: int) -> Array:
            blocks = [min(_TOGETHER, draws - start) for start in range(0, draws, _TOGETHER)]
            return np.concatenate([both[which].train([budget], rng, block)[0].flat() for block in blocks])

        def summed(rng: Generator, draws: int, size: int) -> Array:
            return self.sharing.total(rng, draws, problem.M, size)[:, None]

        total = Messages(summed, np.eye(1), target=0)
        views = self.sharing.views(problem)
        seen = {view: self.sharing.messages(view, problem) or total for view in views if view != "release"}
        return [
            Exposure("release", network),
            *(message_exposure(view, messages, shift) for view, messages in seen.items()),
        ]


class CapeNetwork(PrivateNetwork):
    """`nn_cape`: every round's gradient by CAPE. The views are those of `capefm`, for every round.

    `authors` simulates no sites: it adds one noise to the gradient of pooled minibatches.
    """

    name = "nn_cape"

    @property
    def spread(self) -> float:
        """Standard deviation of the zero-sum noise before centring, when the sum's is 1."""
        return cape_spread(self.calibration)

    @property
    def sharing(self) -> NoiseSharing:
        return super().sharing if self.variant == "authors" else CapeNoise(self.spread)


class ConventionalNetwork(PrivateNetwork):
    """`nn_conv`: every site protects its own share of a round's gradient, the aggregator adds them up."""

    name = "nn_conv"

    def published_factor(self, M: int) -> float:
        # the authors multiply by M what only averaging M messages should make sqrt(M) as wide
        return float(M) if self.variant == "authors" else math.sqrt(M)

    @property
    def sharing(self) -> NoiseSharing:
        return super().sharing if self.variant == "authors" else IndependentNoise()


@dataclass(frozen=True)
class PreparedNetwork:
    """Initial weights, and the seed of the order of the rows: the same for all budgets and draws."""

    algorithm: NonPrivateNetwork
    parties: Parties
    start: Models
    order: int

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """Train all budgets' and draws' networks side by side, and score them, for they are not linear models.

        `loss` and `train_accuracy` are those of the private rows, `accuracy` of the test rows; `path_loss` is the mean
        training loss at ten moments evenly spread over the rounds: less means sooner there.
        """
        algorithm = self.algorithm
        if not algorithm.private:  # nothing differs between budgets and draws
            budgets_here, draws_here = [Budget(math.inf)], 1
        else:
            budgets_here, draws_here = list(budgets), draws
        trained, path = self.train(budgets_here, rng, draws_here)
        loss, train_accuracy = score(trained, self.inputs, self.parties.y, algorithm.loss)
        metrics = {"loss": loss, "train_accuracy": train_accuracy, "path_loss": path}
        data = self.parties.data
        if len(data.y_test):
            X_test = np.column_stack([data.X_test, np.ones(len(data.y_test))])
            metrics["accuracy"] = score(trained, X_test, data.y_test, algorithm.loss)[1]
        shape = (len(budgets_here), draws_here)
        wanted = (len(budgets), draws)
        return Release(None, {key: np.broadcast_to(v.reshape(shape), wanted).copy() for key, v in metrics.items()})

    @property
    def inputs(self) -> Array:
        """The training rows with a one at their ends: (N, d+1)."""
        return np.column_stack([self.parties.X, np.ones(self.parties.problem.N)])

    def train(self, budgets: Sequence[Budget], rng: Generator, draws: int) -> tuple[Models, Array]:
        """The trained models, B = budgets x draws, and the mean of their training losses on the way (B,)."""
        algorithm, problem = self.algorithm, self.parties.problem
        X, y = self.inputs, self.parties.y
        repeats = len(budgets) * draws
        models = Models(np.repeat(self.start.inner, repeats, axis=1), np.repeat(self.start.outer, repeats, axis=1))
        adam = Adam(models, algorithm.rate, corrected=algorithm.variant == "paper")
        size = models.inner.shape[0] * models.inner.shape[2] + len(models.outer)
        scales: dict[int, Array] = {}
        rounds = -(-problem.N // algorithm.rows_per_round(problem.N)) * algorithm.epochs
        checks = set(np.linspace(0, rounds - 1, min(_CHECKS, rounds)).round().astype(int).tolist())
        path = []
        for step, rows in enumerate(self._minibatches()):
            n = problem.N if rows is None else len(rows)
            inputs, labels = (X, y) if rows is None else (X[rows], y[rows])
            if algorithm.variant == "authors":
                gradient, divisor = sum_of_clipped_terms(models, inputs, labels, algorithm.loss), 1.0
            else:
                clip = algorithm.clip if algorithm.private else math.inf
                gradient, divisor = clipped_sum(models, inputs, labels, algorithm.loss, clip), float(n)
            if n not in scales:
                scales[n] = np.array([algorithm.scale(budget, problem, n) for budget in budgets])
            if scales[n].any():
                z = Models.of(algorithm.sharing.total(rng, draws, problem.M, size), algorithm.hidden)
                _add_noise(gradient, z, scales[n])
            adam.step(gradient, divisor)
            if step in checks:
                path.append(score(models, X, y, algorithm.loss)[0])
        return models, np.mean(path, axis=0)

    def _minibatches(self) -> Iterator[Index | None]:
        """The rows of every round; None stands for all of them."""
        N = self.parties.problem.N
        size = self.algorithm.rows_per_round(N)
        rng = np.random.default_rng(self.order)
        for _ in range(self.algorithm.epochs):
            if size == N:
                yield None
                continue
            order = rng.permutation(N)
            for first in range(0, N, size):
                yield order[first : first + size]


def _add_noise(gradient: Models, z: Models, scales: Array) -> None:
    """Add ``scale * z`` to the gradients of models that run over budgets, then draws."""
    budgets, draws = len(scales), z.outer.shape[1]
    H, _, width = gradient.inner.shape
    inner = gradient.inner.reshape(H, budgets, draws, width)
    inner += scales[:, None, None] * z.inner[:, None]
    outer = gradient.outer.reshape(H + 1, budgets, draws)
    outer += scales[:, None] * z.outer[:, None]


_CLAIM = "Imtiaz et al. 2019, Sec. 5.1: for one round"
_PROOF = "Gaussian DP of all rounds (network)"
