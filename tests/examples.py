"""Small data sets that the algorithms' tests share."""

from functools import partial

import numpy as np
from scipy.special import expit

from dpml.algorithms.descent.network import Network
from dpml.algorithms.descent.noisy_descent import NoisyDescent
from dpml.algorithms.quadratic.coefficients import polynomial
from dpml.algorithms.quadratic.functional_mechanism import FunctionalMechanism
from dpml.algorithms.quadratic.laplace_functional_mechanism import LaplaceFunctionalMechanism
from dpml.data import Dataset, Files
from dpml.data.partition import Equal, Fractions, Parties, Partition, partition
from dpml.data.sets.synthetic import Synthetic
from dpml.mechanism.carriers import Carrier, Prepared
from dpml.optim.losses import LOSSES
from dpml.privacy import Adversary, Budget, Problem

LOGISTIC, SQUARED = LOSSES["logistic"], LOSSES["squared"]
SOFTMAX, SIGMOID = LOSSES["softmax"], LOSSES["sigmoid"]

# algorithms by the names that users know, where several are one class
fm, capefm, conv, local = (
    partial(FunctionalMechanism, sites=sites) for sites in ("curator", "cape", "independent", "last")
)
dpfm = partial(LaplaceFunctionalMechanism, calibration="tight")
nn_cape, nn_conv, nn_nonpriv = (partial(Network, sites=sites) for sites in ("cape", "independent", "none"))
wang, jayaraman, wddp = (partial(NoisyDescent, sites=sites) for sites in ("curator", "mpc", "clients"))


def loss_of(K: int):
    return LOGISTIC if K == 1 else SOFTMAX


def ball(rng, *shape: int):
    """Rows in the unit ball, many of them on the sphere and many short."""
    X = rng.standard_normal(shape)
    length = rng.choice([1.0, 0.3, 0.02], shape[:-1]) * rng.random(shape[:-1]) ** 0.1
    return X * (length / np.linalg.norm(X, axis=-1))[..., None]


def dealt(task, X, y, M: int = 1, rng=None, rule=None, colluders: int | None = None) -> Parties:
    """Rows of which none is for tests, as parties."""
    rng = np.random.default_rng(1) if rng is None else rng
    return partition(Dataset("made", task, X, y, X[:0], y[:0]), rule or Equal(), M, rng, Adversary(colluders))


def some_parties(loss=LOGISTIC, M: int = 4, N: int = 200, d: int = 3, colluders=None, rule=None) -> Parties:
    """Parties of very different sizes, unless they are many, whose labels or targets a model can tell."""
    rng = np.random.default_rng(0)
    X = ball(rng, N, d)
    y = np.tanh(3 * X @ np.arange(1.0, d + 1) + 0.3 * rng.standard_normal(N))
    y = y if loss is SQUARED else np.where(y > 0, 1.0, -1.0)
    shares = np.arange(1.0, M + 1)
    unequal = Fractions(fractions=tuple((shares / shares.sum()).tolist())) if 1 < M < N / 5 else Equal()
    task, colluders = "regression" if loss is SQUARED else "binary", int(M > 3) if colluders is None else colluders
    return dealt(task, X, y, M, rng, rule or unequal, colluders)


def labelled_parties(K: int, M: int, rule=None) -> Parties:
    rng = np.random.default_rng(0)
    X = ball(rng, 400, 4)
    best = X @ rng.standard_normal((4, max(K, 2))) + 0.3 * rng.standard_normal((400, max(K, 2)))
    y = np.argmax(best, axis=1) * (2.0 if K == 1 else 1.0) - (K == 1)
    data = Dataset("made", "binary" if K == 1 else "multiclass", X[100:], y[100:], X[:100], y[:100])
    return partition(data, rule or Equal(auxiliary=0.2), M, rng)


def binary_parties(rule: Partition | None = None, N: int = 300, d: int = 4, M: int = 5, seed: int = 0) -> Parties:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, d))
    X *= rng.random((N, 1)) / np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(X @ np.arange(1, d + 1) + 0.3 * rng.standard_normal(N) > 0, 1.0, -1.0)
    return dealt("binary", X, y, M, rule=rule)


def eta_of(weights: np.ndarray, parties: Parties, ridge: float, shift: float = 0.0) -> np.ndarray:
    """The noise that a minimiser of logistic losses was made with, (draws, d): the gradient written out."""
    slopes = -parties.y[:, None] * expit(shift - parties.y[:, None] * (parties.X @ weights.T))
    return -(slopes.T @ parties.X + len(parties.y) * ridge * weights)


def proven(algorithm, budget: Budget, problem: Problem) -> dict[str, float]:
    return {g.view: g.eps for g in algorithm.guarantees(budget, problem) if g.basis == "proven"}


def recipe_parties(recipe: str = "linear", rows: int = 600, d: int = 6, fractions: tuple[float, ...] = ()) -> Parties:
    scale = 5.0 if recipe == "logistic" else 1.0
    data = Synthetic(recipe, d=d, rows=rows, scale=scale).load(Files(), None, np.random.default_rng(0))
    rule = Fractions(fractions=fractions) if fractions else Equal()
    return partition(data, rule, len(fractions) or 4, np.random.default_rng(1))


def sent(algorithm, budget, problem):
    """What a release says it is: the noise and the ridge that are drawn and counted."""
    return algorithm.messages(budget, problem)[0]


def release_of(algorithm, parties, budgets, draws=1, seed=1):
    prepared = algorithm.prepare(parties, np.random.default_rng(0))
    return prepared.release(budgets, np.random.default_rng(seed), draws)


Coefficients = tuple[np.ndarray | None, np.ndarray, np.ndarray]
"""L0 (...) where it is released, L1 (..., d) and L2 (..., d, d), as sums over units."""


def unpacked(of, packed: np.ndarray, d: int) -> Coefficients:
    return (packed[..., 0] if of.constant else None, *polynomial(packed, d, 1, 0.0))


def noisy_coefficients(prepared: Prepared, budgets, rng, draws: int) -> Coefficients:
    """What a release of coefficients sends, (budgets, draws, ...)."""
    carrier = Carrier(prepared, budgets, rng, draws, None)
    return unpacked(carrier.statistic(0), carrier.by_budget(carrier.ask(0)), prepared.problem.d)


def exact_coefficients(prepared: Prepared) -> Coefficients:
    """The same without noise."""
    (message,) = prepared.algorithm.messages(Budget(1.0, 1e-5), prepared.problem)
    return unpacked(message.of, prepared.terms(message.of).total(), prepared.problem.d)


def unit_noise(algorithm, rng, draws: int, problem: Problem) -> Coefficients:
    """The noise of a release of coefficients, in units of its scales."""
    (message,) = algorithm.messages(Budget(1.0, 1e-5), problem)
    drawn = algorithm.sharing(problem).total(rng, draws, problem.M, *message.of.drawn(problem.d))
    return unpacked(message.of, message.of.project(drawn, problem.d), problem.d)


def unit_rows(M: int, N: int, d: int, zero: bool = False) -> Parties:
    """Parties of equal size, of rows of length 1, or of zeros that say nothing."""
    X = np.random.default_rng(0).standard_normal((N, d))
    X /= np.linalg.norm(X, axis=1)[:, None] * (1 + 1e-12)
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    data = Dataset("made", "binary", 0 * X if zero else X, y, X[:1], y[:1])
    return partition(data, Equal(), M, np.random.default_rng(1))


def clipped_slope(loss, t, y, clip):
    return np.clip(-y * expit(-y * t) if loss is LOGISTIC else 2 * (t - y), -clip, clip)


class Observed:
    """Keeps what a release reports: the noise of all sources, messages, and what some data sets would have sent."""

    def __init__(self, *mechanisms) -> None:
        self.mechanisms, self.noise, self.messages, self.exact = mechanisms, [], [], []

    def __call__(self, message, parts, exact) -> None:
        self.noise.append(np.array(parts, dtype=float))
        self.messages.append(np.array(message))
        self.exact.append([np.array(exact(mechanism)) for mechanism in self.mechanisms])

    @property
    def residuals(self) -> list[np.ndarray]:
        """What is in every message beside what the first data set would have sent."""
        return [message - exact[0] for message, exact in zip(self.messages, self.exact, strict=True)]


def model_of(prepared: Prepared) -> np.ndarray:
    (message,) = prepared.algorithm.messages(Budget(1.0, 1e-5), prepared.problem)
    return prepared.terms(message.of).total()
