"""Define a small neural network trained on noisy sums of clipped gradients (Imtiaz et al. 2019, Sec. 5.1).

The published eps is for one round, and the proven eps is for all rounds: docs/privacy/imtiaz2019.md, Theorem 3.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array, Index
from dpml.data.partition import Parties
from dpml.mechanism.guarantees import no_privacy
from dpml.mechanism.sharing import CapeNoise, IndependentNoise, Sharing, TrustedCurator, cape_spread
from dpml.optim.losses import Loss
from dpml.optim.network import Adam, Models, clipped_sum, score
from dpml.options import POSITIVE
from dpml.privacy import Budget, Guarantee, Problem, View, gdp
from dpml.program import SIMULATED, VARIANTS, Carrier, Program, Release, Statistic, Sum, Terms, Variant

_CHECKS = 10  # how often the training loss is evaluated during training

Sites = Literal["none", "cape", "independent"]
NAMES: dict[Sites, str] = {"none": "nn_nonpriv", "cape": "nn_cape", "independent": "nn_conv"}

ALL: Index = np.empty(0, np.intp)
"""Row numbers that select all rows instead of a minibatch."""


@dataclass(frozen=True)
class NetworkTerms(Terms["NetworkGradients"]):
    """Compute sums of rows' gradients for each network."""

    def total(self, *at: Any) -> Array:
        """Return the gradients of B networks, summed over a minibatch, given parameters (B, size) and row indices."""
        flat, rows = at
        X, y = self._rows
        if len(rows):
            X, y = X[rows], y[rows]
        of = self.statistic
        return clipped_sum(Models.of(flat, of.hidden), X, y, of.loss, of.clip)

    @cached_property
    def _rows(self) -> tuple[Array, Array]:
        return with_ones(self.parties.X), self.parties.y

    @cached_property
    def folded(self) -> tuple[Array, Array, Array | None]:
        """The rows with the constant 1 appended, their labels, and how many equal rows each stands for (None: one)."""
        X, y, counts = self.parties.folded
        return with_ones(X), y, counts


@dataclass(frozen=True)
class NetworkGradients(Statistic):
    """The sum of the clipped gradients of a network over a minibatch.

    If `clip` is None, four blocks of a row's gradient are clipped as in the authors' scripts.
    """

    terms = NetworkTerms

    loss: Loss
    hidden: int
    clip: float | None

    def lengths(self, d: int) -> tuple[int, ...]:
        return (self.hidden * (d + 2) + 1,)

    def largest(self, problem: Problem) -> float:
        return problem.N * (2.0 if self.clip is None else self.clip)

    def state(self, d: int) -> tuple[str, tuple[int, ...]]:
        return "<f8", self.lengths(d)


class Start(NamedTuple):
    """The initial network (1, size) and the seed for the order of the rows, both shared by all noise draws."""

    weights: Array
    order: int


@dataclass(frozen=True)
class Network(Program, losses=("logistic",), calibrations=("published", "tight"), variants=VARIANTS, **SIMULATED):
    """A neural network with one hidden layer, trained by noisy gradient descent (Imtiaz et al. 2019, Sec. 5.1).

    In `nn_cape` the sites add correlated noise, and in `nn_conv` independent noise. `nn_nonpriv` has no noise and no
    clip.

    Args:
        sites: Who draws the noise of a round's sum. With `cape`, the sites draw correlated noise as in `capefm`. With
            `independent`, each site draws enough noise to protect its own message. With `none`, there is no noise.
        variant: `paper` clips each row's gradient and averages the clipped gradients; `authors` follows the authors'
            scripts, with one curator.
        hidden: The number of units in the hidden layer.
        epochs: The number of passes over the rows.
        batch: The number of rows in a minibatch; None: all rows with `paper` (one round per epoch), 64 with `authors`.
        rate: The step size; None: 1 with `paper`, because its text gives no step size for gradient descent, or 0.01
            with `authors`, which uses Adam.
        clip: The largest norm of a row's gradient, for `variant=paper` only.
    """

    proof: ClassVar[str] = "Theorem 3, docs/privacy/imtiaz2019.md"
    linear: ClassVar[bool] = False
    published_variants: ClassVar[bool] = True
    audited_rows: ClassVar[int] = 20
    """The number of rows per party in an audit. More rows would take longer without stronger attacks."""

    variant: Variant = "paper"
    sites: Sites = "none"
    hidden: Annotated[int, POSITIVE] = 5
    epochs: Annotated[int, POSITIVE] = 500
    batch: Annotated[int | None, POSITIVE] = None
    rate: Annotated[float | None, POSITIVE] = None
    clip: Annotated[float, POSITIVE] = 1.0

    @property
    def name(self) -> str:  # type: ignore[override]
        return NAMES[self.sites]

    @property
    def private(self) -> bool:
        return self.sites != "none"

    def sharing(self, problem: Problem) -> Sharing:
        if self.variant == "authors" or not self.private:
            return TrustedCurator(("release", "aggregate"))
        return CapeNoise(cape_spread(self.calibration)) if self.sites == "cape" else IndependentNoise()

    def rows_per_round(self, N: int) -> int:
        """Return the number of rows in a minibatch; the last minibatch of an epoch may have fewer rows."""
        if self.variant == "authors":
            return max(1, min(self.batch or 64, N // 10))
        return min(self.batch or N, N)

    def sensitivity(self) -> float:
        # the authors clip each of four blocks of a gradient to norm 1
        return 2 * (math.sqrt(4) if self.variant == "authors" else self.clip)

    def scale(self, budget: Budget, problem: Problem, rows: int) -> float:
        """Return the noise_std of a sum of gradients over a minibatch of `rows` rows."""
        if math.isinf(budget.eps):
            return 0.0
        if self.tight:
            return self.sensitivity() * math.sqrt(self.epochs) / self.target_mu(budget, problem)
        believed = 1 / rows if self.variant == "authors" else self.sensitivity()
        if self.sites == "independent":
            # averaging M messages requires sqrt(M) times the noise, but the authors multiply the noise by M
            believed *= float(problem.M) if self.variant == "authors" else math.sqrt(problem.M)
        return believed / gdp.classical_mu(budget.eps, budget.require_delta(f"algo={self.name}"))

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        """Return noisy gradient sums over full minibatches, and over the last, smaller minibatch of every epoch."""
        if not self.private:
            return ()
        of = NetworkGradients(self.loss, self.hidden, None if self.variant == "authors" else self.clip)
        rows = self.rows_per_round(problem.N)
        whole, left = divmod(problem.N, rows)

        def of_rows(n: int, times: int, joined: int) -> Sum:
            return Sum(of, self.sensitivity(), self.scale(budget, problem, n), times=times, joined=joined)

        messages = (of_rows(rows, whole * self.epochs, self.epochs),)
        # a smaller minibatch protects a row at least as well, so the accounting places every row in full minibatches
        return (*messages, of_rows(left, self.epochs, 0)) if left else messages

    def claimed(self, view: View) -> str | None:
        return "Imtiaz et al. 2019, Sec. 5.1: for one round" if self.calibration == "published" else None

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        return super().guarantees(budget, problem) if self.private else no_privacy("sample", "no noise")

    def begin(self, parties: Parties, rng: Generator) -> Start:
        start = initial_weights(rng, self.hidden, parties.problem.d).flat()
        return Start(start, int(rng.integers(2**63)))

    def run(self, carrier: Carrier) -> Release:
        """Train the networks of all budgets and noise draws together, and return their metrics.

        `loss` and `train_accuracy` are measured on the private rows, and `accuracy` on the test rows. `path_loss` is
        the mean training loss at ten evenly spaced rounds.
        """
        parties = carrier.mechanism.parties
        trained, path = self.train(carrier)
        X, y, counts = _terms(carrier, self).folded
        loss, train_accuracy = score(trained, X, y, self.loss, counts)
        metrics = {"loss": loss, "train_accuracy": train_accuracy, "path_loss": path}
        data = parties.data
        if len(data.y_test):
            metrics["accuracy"] = score(trained, with_ones(data.X_test), data.y_test, self.loss)[1]
        runs = len(carrier.budgets) * carrier.draws
        # without noise, all budgets and draws are equal
        return Release(None, {key: carrier.by_budget(np.broadcast_to(v, runs)).copy() for key, v in metrics.items()})

    def train(self, carrier: Carrier) -> tuple[Models, Array]:
        """Return the B trained networks, and each network's mean training loss over ten evenly spaced rounds, (B,)."""
        N, terms = carrier.problem.N, _terms(carrier, self)
        runs = len(carrier.budgets) * carrier.draws if self.private else 1
        w = np.repeat(carrier.start.weights, runs, axis=0)
        rate = self.rate or (0.01 if self.variant == "authors" else 1.0)
        adam = Adam(w, rate) if self.variant == "authors" else None
        rounds = -(-N // self.rows_per_round(N)) * self.epochs
        checks = set(np.linspace(0, rounds - 1, min(_CHECKS, rounds)).round().astype(int).tolist())
        path = []
        X, y, counts = terms.folded
        for step, rows in enumerate(self.minibatches(N, carrier.start.order)):
            n = len(rows) or N
            gradient = carrier.ask(int(n < self.rows_per_round(N)), w, rows) if self.private else terms.total(w, rows)
            if adam is None:
                w -= rate / n * gradient
            else:
                adam.step(gradient)
            if step in checks:
                path.append(score(Models.of(w, self.hidden), X, y, self.loss, counts)[0])
        return Models.of(w, self.hidden), np.mean(path, axis=0)

    def minibatches(self, N: int, order: int) -> Iterator[Index]:
        size, rng = self.rows_per_round(N), np.random.default_rng(order)
        for _ in range(self.epochs):
            if size == N:
                yield ALL
                continue
            dealt = rng.permutation(N)
            for first in range(0, N, size):
                yield dealt[first : first + size]


def initial_weights(rng: Generator, hidden: int, d: int) -> Models:
    """Draw initial weights of variance 2 / number of inputs (He et al. 2015)."""
    inner, outer = np.zeros((hidden, 1, d + 1)), np.zeros((hidden + 1, 1))
    inner[..., :-1] = rng.standard_normal((hidden, 1, d)) * math.sqrt(2 / d)
    outer[:-1] = rng.standard_normal((hidden, 1)) * math.sqrt(2 / hidden)
    return Models(inner, outer)


def with_ones(X: Array) -> Array:
    """Append the constant 1 to every row of X (n, d)."""
    return np.column_stack([X, np.ones(len(X))])


def _terms(carrier: Carrier, algorithm: Network) -> NetworkTerms:
    if algorithm.private:
        of = carrier.statistic(0)
        assert isinstance(of, NetworkGradients)
    else:
        # without noise, the variant `paper` does not clip gradients
        of = NetworkGradients(algorithm.loss, algorithm.hidden, None if algorithm.variant == "authors" else math.inf)
    terms = carrier.mechanism.terms(of)
    assert isinstance(terms, NetworkTerms)
    return terms
