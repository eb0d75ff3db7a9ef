"""Imtiaz, Mohammadi & Sarwate 2019, Sec. 5.1: a small neural network whose gradients are released by CAPE.

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
from dpml.algorithms.exposure import Exposure, Messages, Pair, gaussian_messages, turned_label
from dpml.algorithms.imtiaz import MASK, Variant, cape_seen, cape_views, conventional_seen, conventional_views
from dpml.arrays import Array, Index
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.optim.losses import Loss
from dpml.privacy import CALIBRATIONS, Budget, Calibration, Guarantee, Problem, View, gdp, noise

_BLOCK = 1 << 21  # numbers of the hidden layer held at once in an evaluation: 16 MiB
_CACHE = 1 << 17  # and in a gradient: 1 MiB, twice as fast as all rows at once
_TOGETHER = 1 << 9  # networks that an attacked release trains side by side: their gradients stay in cache
_CHECKS = 10  # how often the training loss is looked at on the way

# Adam (Kingma & Ba 2015, Alg. 1) with its usual constants
_FIRST, _SECOND, _TINY = 0.9, 0.999, 1e-8


@dataclass
class Models:
    """B networks side by side: `inner` (H, B, d+1), each unit's bias last, and `outer` (H+1, B), its bias last."""

    inner: Array
    outer: Array

    @classmethod
    def zeros(cls, hidden: int, models: int, d: int) -> "Models":
        """All parameters zero."""
        return cls(np.zeros((hidden, models, d + 1)), np.zeros((hidden + 1, models)))

    @classmethod
    def of(cls, flat: Array, hidden: int) -> "Models":
        """From parameter vectors (B, size)."""
        d1 = (flat.shape[1] - hidden - 1) // hidden
        inner = flat[:, : hidden * d1].reshape(len(flat), hidden, d1).transpose(1, 0, 2)
        return cls(np.ascontiguousarray(inner), np.ascontiguousarray(flat[:, hidden * d1 :].T))

    def flat(self) -> Array:
        """The parameter vectors: (B, size)."""
        inner = self.inner.transpose(1, 0, 2)
        return np.concatenate([inner.reshape(len(inner), -1), self.outer.T], axis=1)

    def scores(self, X: Array) -> tuple[Array, Array]:
        """Hidden units (n, H, B) and scores (n, B) of rows X (n, d+1), which end with a one."""
        hidden, models, width = self.inner.shape
        units = (X @ self.inner.reshape(-1, width).T).reshape(len(X), hidden, models)
        np.maximum(units, 0.0, out=units)
        return units, np.einsum("nhb,hb->nb", units, self.outer[:-1]) + self.outer[-1]


def clipped_sum(models: Models, X: Array, y: Array, loss: Loss, clip: float) -> Models:
    """``sum_i g_i min(1, clip/||g_i||)`` with the gradient g_i of row i's loss, for every model; inf: no clipping.

    In closed form, without ever building a g_i: with the slope s of the loss, hidden units z and the signal back
    ``q = v * [z > 0]``, the gradient is ``s (z, 1)`` outside and ``s q (x, 1)'`` inside, so that its squared norm is
    ``s^2 (||z||^2 + 1 + ||q||^2 (||x||^2 + 1))``, and clipping a row means shrinking its slope.
    """
    total = Models(np.zeros_like(models.inner), np.zeros_like(models.outer))
    height = max(64, _CACHE // models.outer.size)
    for first in range(0, len(y), height):
        rows = X[first : first + height]
        units, slope, back = _pass(models, rows, y[first : first + height], loss)
        if math.isfinite(clip):
            square = np.einsum("nhb,nhb->nb", units, units) + 1
            square += np.einsum("nhb,nhb->nb", back, back) * np.einsum("nd,nd->n", rows, rows)[:, None]
            slope *= clip / np.maximum(clip, np.abs(slope) * np.sqrt(square))
        part = _sum(rows, units, slope, slope, back, slope, slope)
        total.inner += part.inner
        total.outer += part.outer
    return total


def sum_of_clipped_terms(models: Models, X: Array, y: Array, loss: Loss) -> Models:
    """What the authors' scripts add up: every row's term over n^2, each of its four blocks clipped at norm 1.

    They divide by the number of rows n twice. A block of a gradient would have to be longer than n^2 to be clipped.
    """
    units, slope, back = _pass(models, X, y, loss)
    slope /= len(X) ** 2
    size = np.abs(slope)
    inside = size * np.sqrt(np.einsum("nhb,nhb->nb", back, back))
    outside = size * np.sqrt(np.einsum("nhb,nhb->nb", units, units))
    rows = np.sqrt(np.einsum("nd,nd->n", X[:, :-1], X[:, :-1]))[:, None]
    if max(inside.max(), outside.max(), float((inside * rows).max())) <= 1:
        return _sum(X, units, slope, slope, back, slope, slope)
    return _sum(
        X,
        units,
        slope / np.maximum(1.0, outside),
        slope,
        back,
        slope / np.maximum(1.0, inside * rows),
        slope / np.maximum(1.0, inside),
    )


def _pass(models: Models, X: Array, y: Array, loss: Loss) -> tuple[Array, Array, Array]:
    """Forward and back: hidden units (n, H, B), the loss's slope (n, B), and what comes back to them (n, H, B)."""
    units, scores = models.scores(X)
    return units, loss.slope(scores, y), (units > 0) * models.outer[:-1]


def _sum(
    X: Array, units: Array, outer: Array, outer_bias: Array, back: Array, inner: Array, inner_bias: Array
) -> Models:
    """The sum over the rows, each block of the gradient with a slope (n, B) of its own."""
    hidden, models = units.shape[1:]
    signal = (back * inner[:, None]).reshape(len(X), -1)
    gradient = (signal.T @ X).reshape(hidden, models, X.shape[1])
    if inner_bias is not inner:
        gradient[..., -1] = np.einsum("nhb,nb->hb", back, inner_bias)
    outside = np.einsum("nhb,nb->hb", units, outer)
    return Models(gradient, np.concatenate([outside, outer_bias.sum(axis=0, keepdims=True)]))


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
    version: ClassVar[int] = 1
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
        if self.calibration not in CALIBRATIONS:
            raise UserError(f"calibration must be one of {', '.join(CALIBRATIONS)}, got {self.calibration!r}.")
        if self.variant not in ("paper", "authors"):
            raise UserError(f"algo.variant of {self.name} must be paper or authors, got {self.variant!r}.")
        if self.variant == "authors" and self.calibration == "tight":
            raise UserError(
                f"algo={self.name} algo.variant=authors is a published curve only: set calibration=published."
            )
        if self.loss.name != "logistic":
            raise UserError(f"algo={self.name} needs loss=logistic, not loss={self.loss.name}.")
        for key in ("hidden", "epochs", "batch", "rate", "clip"):
            value = getattr(self, key)
            if value is not None and not 0 < value < math.inf:
                raise UserError(f"algo.{key} of {self.name} must be a positive number, got {value}.")

    @property
    def lam(self) -> float:
        """0: there is no regulariser."""
        return 0.0

    def rows_per_round(self, N: int) -> int:
        """Rows in a minibatch of N training rows; the last one of an epoch may have fewer."""
        if self.variant == "authors":
            return max(1, min(self.batch or 64, N // 10))
        return min(self.batch or N, N)

    def views(self, problem: Problem) -> dict[View, float]:
        """mu of every view of a round, as a multiple of the released sum's own."""
        return {"release": 1.0, "aggregate": 1.0}

    def summed_noise(self, rng: Generator, draws: int, M: int, size: int) -> Array:
        """One round's noise, the sum over all sites, of variance 1: (draws, size)."""
        return noise.gaussian(rng, (draws, size))

    def scale(self, budget: Budget, problem: Problem, rows: int) -> float:
        """Standard deviation of the noise on what a round of `rows` rows releases: the one place that says it."""
        return 0.0

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """None: eps is infinite."""
        return [
            Guarantee("release", "sample", math.inf, 0.0, "published", "no privacy is claimed"),
            Guarantee("release", "sample", math.inf, 0.0, "proven", "no noise"),
        ]

    def messages(self, view: View, problem: Problem) -> Messages | None:
        """What a view sees of a round's messages, in units of the noise of their sum; None where only the sum."""
        return None

    def prepare(self, parties: Parties, rng: Generator) -> "PreparedNetwork":
        """Draw the initial weights (He et al. 2015: variance 2 over the width below) and the order of the rows."""
        require_domain(parties, self.loss)
        H, d = self.hidden, parties.problem.d
        start = Models.zeros(H, 1, d)
        start.inner[..., :-1] = rng.standard_normal((H, 1, d)) * math.sqrt(2 / d)
        start.outer[:-1] = rng.standard_normal((H, 1)) * math.sqrt(2 / H)
        return PreparedNetwork(self, parties, start, int(rng.integers(2**63)))


class _Private(NonPrivateNetwork):
    """What both ways to release a gradient share."""

    private = True

    def excess(self, M: int) -> float:
        """How much wider the published summed noise is than a trusted curator's."""
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
            worst = max(self.views(problem).values()) * math.sqrt(self.epochs)
            return self.sensitivity(rows) * worst / gdp.mu_of(budget.eps, delta)
        believed = 1 / rows if self.variant == "authors" else self.sensitivity(rows)
        return believed * self.excess(problem.M) / gdp.classical_mu(budget.eps, delta)

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """Claimed: eps of one round (when published). Proven: of all rounds of all epochs together, in every view."""
        delta = budget.require_delta(f"algo={self.name}")
        rows = self.rows_per_round(problem.N)
        # the last, smaller minibatch of an epoch has no less noise
        scale = self.scale(budget, problem, rows)
        mu = math.sqrt(self.epochs) * self.sensitivity(rows) / scale if scale else math.inf
        found = []
        for view, factor in self.views(problem).items():
            if self.calibration == "published":
                found.append(Guarantee(view, "sample", budget.eps, delta, "published", _CLAIM))
            found.append(Guarantee(view, "sample", gdp.eps_of(mu * factor, delta), delta, "proven", _PROOF))
        return found

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
            return self.summed_noise(rng, draws, problem.M, size)[:, None]

        total = Messages(summed, np.eye(1), target=0)
        seen = {view: self.messages(view, problem) or total for view in self.views(problem) if view != "release"}
        return [
            Exposure("release", network),
            *(gaussian_messages(view, messages, shift) for view, messages in seen.items()),
        ]


class CapeNetwork(_Private):
    """`nn_cape`: every round's gradient by CAPE. The views are those of `imtiaz.CapeFM`, for every round.

    `authors` simulates no sites: it adds one noise to the gradient of pooled minibatches.
    """

    name = "nn_cape"

    @property
    def spread(self) -> float:
        """Standard deviation of the zero-sum noise before centring, when the sum's is 1."""
        return MASK if self.calibration == "tight" else 1.0

    def views(self, problem: Problem) -> dict[View, float]:
        return super().views(problem) if self.variant == "authors" else cape_views(problem, self.spread)

    def messages(self, view: View, problem: Problem) -> Messages | None:
        return None if self.variant == "authors" else cape_seen(view, problem, self.spread)

    def summed_noise(self, rng: Generator, draws: int, M: int, size: int) -> Array:
        if self.variant == "authors":
            return super().summed_noise(rng, draws, M, size)
        return noise.cape_total(rng, draws, M, size, shared=self.spread, own=1 / math.sqrt(M))


class ConventionalNetwork(_Private):
    """`nn_conv`: every site protects its own share of a round's gradient, the aggregator adds them up."""

    name = "nn_conv"

    def excess(self, M: int) -> float:
        # the authors multiply by M what only averaging M messages should make sqrt(M) as wide
        return float(M) if self.variant == "authors" else math.sqrt(M)

    def views(self, problem: Problem) -> dict[View, float]:
        return super().views(problem) if self.variant == "authors" else conventional_views(problem)

    def messages(self, view: View, problem: Problem) -> Messages | None:
        return None if self.variant == "authors" else conventional_seen(view, problem)

    def summed_noise(self, rng: Generator, draws: int, M: int, size: int) -> Array:
        if self.variant == "authors":
            return super().summed_noise(rng, draws, M, size)
        return noise.gaussian_total(rng, draws, M, size) / math.sqrt(M)


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
        loss, train_accuracy = _score(trained, self.inputs, self.parties.y, algorithm.loss)
        found = {"loss": loss, "train_accuracy": train_accuracy, "path_loss": path}
        data = self.parties.data
        if len(data.y_test):
            X_test = np.column_stack([data.X_test, np.ones(len(data.y_test))])
            found["accuracy"] = _score(trained, X_test, data.y_test, algorithm.loss)[1]
        shape = (len(budgets_here), draws_here)
        wanted = (len(budgets), draws)
        return Release(None, {key: np.broadcast_to(v.reshape(shape), wanted).copy() for key, v in found.items()})

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
        adam = _Adam(models, algorithm.rate, corrected=algorithm.variant == "paper")
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
                z = Models.of(algorithm.summed_noise(rng, draws, problem.M, size), algorithm.hidden)
                _add_noise(gradient, z, scales[n])
            adam.step(gradient, divisor)
            if step in checks:
                path.append(_score(models, X, y, algorithm.loss)[0])
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


class _Adam:
    """Adam's state for some models, changed in place. `corrected` is false in the authors' scripts: they leave the
    second moment as small as it starts, so that their first steps are up to 30 times as long.
    """

    def __init__(self, models: Models, rate: float, corrected: bool) -> None:
        self.parameters = (models.inner, models.outer)
        self.moments = [(np.zeros_like(p), np.zeros_like(p)) for p in self.parameters]
        self.rate, self.corrected, self.steps = rate, corrected, 0

    def step(self, gradient: Models, divisor: float) -> None:
        """Move by the gradient over `divisor`."""
        self.steps += 1
        forgotten = 1 - _SECOND**self.steps if self.corrected else 1.0
        length = self.rate / (1 - _FIRST**self.steps)
        for p, (first, second), g in zip(self.parameters, self.moments, (gradient.inner, gradient.outer), strict=True):
            if divisor != 1:
                g /= divisor
            first *= _FIRST
            first += (1 - _FIRST) * g
            g *= g
            second *= _SECOND
            second += (1 - _SECOND) * g
            np.multiply(second, 1 / forgotten, out=g)
            g += _TINY
            np.sqrt(g, out=g)
            np.divide(first, g, out=g)
            g *= length
            p -= g


def _score(models: Models, X: Array, y: Array, loss: Loss) -> tuple[Array, Array]:
    """The mean loss and the share of rows labelled right, of every model: (B,) each."""
    height = max(1, _BLOCK // models.outer.size)
    total, right = np.zeros((2, models.outer.shape[1]))
    for first in range(0, len(y), height):
        labels = y[first : first + height]
        _, scores = models.scores(X[first : first + height])
        total += loss.value(scores, labels).sum(axis=0)
        right += ((scores >= 0) == (labels > 0)[:, None]).sum(axis=0)
    return total / len(y), right / len(y)


_CLAIM = "Imtiaz et al. 2019, Sec. 5.1: for one round"
_PROOF = "Gaussian DP of all rounds (network.NonPrivateNetwork.guarantees)"
