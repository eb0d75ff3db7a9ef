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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from dpml.algorithms import Release, require_domain
from dpml.algorithms.distributed_noise import CapeNoise, IndependentNoise, NoiseSharing, TrustedCurator, cape_spread
from dpml.algorithms.guarantees import gaussian_views, no_privacy
from dpml.algorithms.hyperparameters import VARIANTS, Variant, check_common, check_positive, check_published_only
from dpml.algorithms.transcript import Recorder, Transcript, Watch, transcript
from dpml.arrays import Array, Index
from dpml.audit.exposure import Exposure, Pair, Sample
from dpml.audit.neighbours import undecided
from dpml.data.partition import Parties
from dpml.data.preprocess import distinct
from dpml.optim.descent import Single
from dpml.optim.losses import Loss
from dpml.optim.network import Adam, Models, clipped_sum, score, sum_of_clipped_terms
from dpml.privacy import Budget, Calibration, Guarantee, Problem, View, gdp

_TOGETHER = 1 << 9  # networks that an attacked release trains side by side: their gradients stay in cache
_CHECKS = 10  # how often the training loss is evaluated on the way


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
        """How the noise of a round's sum is shared."""
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
        start = initial_weights(rng, self.hidden, parties.problem.d)
        return PreparedNetwork(self, parties, start, int(rng.integers(2**63)))


def initial_weights(rng: Generator, hidden: int, d: int) -> Models:
    """One network as it is before the first round."""
    start = Models.zeros(hidden, 1, d)
    start.inner[..., :-1] = rng.standard_normal((hidden, 1, d)) * math.sqrt(2 / d)
    start.outer[:-1] = rng.standard_normal((hidden, 1)) * math.sqrt(2 / hidden)
    return start


class PrivateNetwork(NonPrivateNetwork):
    """The base class of both ways to release a gradient."""

    private = True

    def published_factor(self, M: int) -> float:
        """How much wider the published noise of the sum is than a trusted curator's."""
        return 1.0

    def sensitivity(self, rows: int) -> float:
        """The proven L2 sensitivity of a round's release: how far it moves at most when a sample is replaced."""
        if self.variant == "authors":
            return 2 * math.sqrt(4)  # four blocks, in each a term of norm at most 1 is replaced by another
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
        """A row turns its label, where the network is steep: both gradients are longer than the clip, and opposite."""
        return undecided(problem)

    def exposures(self, pair: Pair, budget: Budget) -> list[Exposure]:
        """The trained network, and all rounds that the replaced row takes part in, as a view sees them."""
        problem = pair[0].problem
        both = [self.prepare(parties, steep_start(self.loss, self.hidden, problem.d)) for parties in pair]
        views = [view for view in self.sharing.views(problem) if view != "release"]
        return [_trained(both, budget), *(_rounds(view, both, budget) for view in views)]


_SEEDS = 1000


def steep_start(loss: Loss, hidden: int, d: int) -> Generator:
    """Of a thousand seeds the one whose network has the longest gradients at the first axis, for both labels.

    Initial weights are public, and the guarantee holds for any.
    """
    return np.random.default_rng(_steep_seed(loss, hidden, d))


@lru_cache
def _steep_seed(loss: Loss, hidden: int, d: int) -> int:
    row = np.eye(d + 1)[[0]]
    row[0, -1] = 1.0
    starts = [initial_weights(np.random.default_rng(seed), hidden, d) for seed in range(_SEEDS)]
    models = Models.of(np.concatenate([start.flat() for start in starts]), hidden)
    lengths = [
        np.linalg.norm(clipped_sum(models, row, np.array([label]), loss, math.inf).flat(), axis=1)
        for label in (1.0, -1.0)
    ]
    return int(np.argmax(np.min(lengths, axis=0)))


def _trained(both: "Sequence[PreparedNetwork]", budget: Budget) -> Exposure:
    """What is released: all parameters."""

    def network(which: int, rng: Generator, draws: int) -> Array:
        return both[which].train([budget], rng, draws)[0].flat()

    return Exposure("release", _in_blocks(network))


def _rounds(view: View, both: "Sequence[PreparedNetwork]", budget: Budget) -> Transcript:
    """The rounds that a replaced row takes part in: in all others both data sets send the same."""
    algorithm, parties = both[0].algorithm, both[0].parties
    problem = parties.problem
    other = both[1].parties
    replaced = np.any(parties.X != other.X, axis=1) | (parties.y != other.y)
    rounds = list(both[0].minibatches())
    telling = [rows is None or bool(replaced[rows].any()) for rows in rounds]
    sizes = [problem.N if rows is None else len(rows) for rows, tells in zip(rounds, telling, strict=True) if tells]
    scales = [algorithm.scale(budget, problem, n) for n in sizes]
    channel = algorithm.sharing.channel(view, problem)

    def release(which: int, rng: Generator, draws: int, watch: Watch) -> None:
        both[which].train([budget], rng, draws, _Telling(watch, telling))

    seen = transcript(view, release, lambda: Recorder(both, channel, scales), len(scales))
    return replace(seen, sample=_in_blocks(seen.sample))


def _in_blocks(sample: Sample) -> Sample:
    """The same, for as many networks side by side as is fast."""

    def blocks(which: int, rng: Generator, draws: int) -> Array:
        sizes = [min(_TOGETHER, draws - start) for start in range(0, draws, _TOGETHER)]
        return np.concatenate([sample(which, rng, size) for size in sizes])

    return blocks


class _Telling:
    """Reports some of the rounds to another watch."""

    def __init__(self, watch: Watch, rounds: Sequence[bool]) -> None:
        self.watch, self.rounds, self.round = watch, rounds, 0

    def drawn(self, parts: Array | Single) -> None:
        if self.rounds[self.round]:
            self.watch.drawn(parts)

    def sent(self, message: Array | Single, exact: Callable[[Any], Array]) -> None:
        if self.rounds[self.round]:
            self.watch.sent(message, exact)
        self.round += 1


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
        X, y, counts = self.folded
        loss, train_accuracy = score(trained, X, y, algorithm.loss, counts)
        metrics = {"loss": loss, "train_accuracy": train_accuracy, "path_loss": path}
        data = self.parties.data
        if len(data.y_test):
            metrics["accuracy"] = score(trained, _with_ones(data.X_test), data.y_test, algorithm.loss)[1]
        shape = (len(budgets_here), draws_here)
        wanted = (len(budgets), draws)
        return Release(None, {key: np.broadcast_to(v.reshape(shape), wanted).copy() for key, v in metrics.items()})

    @cached_property
    def folded(self) -> tuple[Array, Array, Array | None]:
        """The training rows with a one at their ends, their labels, and how often each is there; None: once."""
        X, y, counts = self.parties.folded
        return _with_ones(X), y, counts

    def train(
        self, budgets: Sequence[Budget], rng: Generator, draws: int, watch: Watch | None = None
    ) -> tuple[Models, Array]:
        """The trained models, B = budgets x draws, and the mean of their training losses on the way (B,).

        `watch` records every round of a release under one budget: the noisy sum of gradients, before Adam.
        """
        algorithm, problem = self.algorithm, self.parties.problem
        repeats = len(budgets) * draws
        models = Models(np.repeat(self.start.inner, repeats, axis=1), np.repeat(self.start.outer, repeats, axis=1))
        adam = Adam(models, algorithm.rate, corrected=algorithm.variant == "paper")
        size = models.inner.shape[0] * models.inner.shape[2] + len(models.outer)
        scales: dict[int, Array] = {}
        rounds = -(-problem.N // algorithm.rows_per_round(problem.N)) * algorithm.epochs
        checks = set(np.linspace(0, rounds - 1, min(_CHECKS, rounds)).round().astype(int).tolist())
        path = []
        X, y, counts = self.folded
        for step, rows in enumerate(self.minibatches()):
            n = problem.N if rows is None else len(rows)
            gradient = self.gradient(models, rows)
            if n not in scales:
                scales[n] = np.array([algorithm.scale(budget, problem, n) for budget in budgets])
            if scales[n].any():
                z = Models.of(algorithm.sharing.total(rng, draws, problem.M, size, watch), algorithm.hidden)
                _add_noise(gradient, z, scales[n])
            if watch is not None:
                watch.sent(gradient.flat(), partial(_exact_gradient, models, rows))
            adam.step(gradient, 1.0 if algorithm.variant == "authors" else float(n))
            if step in checks:
                path.append(score(models, X, y, algorithm.loss, counts)[0])
        return models, np.mean(path, axis=0)

    def gradient(self, models: Models, rows: Index | None) -> Models:
        """What a round of these rows releases, without noise; None: all rows."""
        algorithm = self.algorithm
        X, y, counts = self.folded if rows is None else self.minibatch(rows)
        if algorithm.variant == "authors":
            return sum_of_clipped_terms(models, X, y, algorithm.loss, counts)
        return clipped_sum(models, X, y, algorithm.loss, algorithm.clip if algorithm.private else math.inf, counts)

    def minibatch(self, rows: Index) -> tuple[Array, Array, Array | None]:
        """Some of the rows, as `folded` has all of them."""
        X, y, counts = self.folded
        if counts is None:
            return X[rows], y[rows], None
        kinds, times = np.unique(self.kinds[rows], return_counts=True)
        return X[kinds], y[kinds], times.astype(float)

    @cached_property
    def kinds(self) -> Index:
        """Of which of the rows in `folded` each row is a copy."""
        return distinct(self.parties.X, self.parties.y)[1]

    def minibatches(self) -> Iterator[Index | None]:
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


def _with_ones(X: Array) -> Array:
    return np.column_stack([X, np.ones(len(X))])


def _exact_gradient(models: Models, rows: Index | None, mechanism: PreparedNetwork) -> Array:
    """(B, size), for the models as they are before Adam's step."""
    return mechanism.gradient(models, rows).flat()


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
