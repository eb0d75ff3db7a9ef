"""Release one model from the parties' models or votes, with noise for pure eps-DP (docs/privacy/hamm2016.md).

Every proven sensitivity includes the largest distance of a computed model from the exact minimiser, once for each of
two neighbours.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array, Index
from dpml.data.partition import Parties, remembered
from dpml.data.preprocess import distinct
from dpml.errors import UserError
from dpml.mechanism.message import Law
from dpml.mechanism.sharing import Sharing, TrustedCurator
from dpml.optim.convex import LOCAL_TOLERANCE, TOLERANCE, fit, fit_parties
from dpml.optim.losses import LOSSES, hard_targets, longest_minimiser, scores
from dpml.options import POSITIVE
from dpml.privacy.safe import with_slack
from dpml.program import SIMULATED, Budget, Carrier, Lam, Minimiser, Problem, Program, Release, Sum, Unit

_BLOCK = 1 << 19  # scores of local models in memory at once: 4 MiB


class NoiseReading(NamedTuple):
    """One interpretation of Hamm et al. 2016: the noise law, the objective, and the sensitivities for K classes."""

    law: Law = "l2_laplace"
    sums: bool = False  # whether sums of losses are minimised instead of means
    binary: bool = False  # whether models of K classes use the sensitivity for two classes


READINGS: Mapping[str, NoiseReading] = {
    "paper": NoiseReading(),
    "binary": NoiseReading(binary=True),
    "per_coordinate": NoiseReading("laplace"),
    "radial": NoiseReading("radial"),
    "sum": NoiseReading(sums=True),
    "sum_per_coordinate": NoiseReading("laplace", sums=True),
    "sum_radial": NoiseReading("radial", sums=True),
}


@dataclass(frozen=True)
class LocalClassifiers(
    Program, losses=("logistic", "softmax"), calibrations=("published", "tight"), variants=tuple(READINGS), **SIMULATED
):
    """Algorithms in which a trusted curator has the parties' regularised classifiers (Hamm, Cao & Belkin 2016).

    Args:
        loss: `logistic` for two classes, or `softmax` for several classes.
        calibration: `published` uses the paper's noise; `tight` scales the noise to the proven sensitivity.
        variant: `paper`, or another interpretation of the text, whose guarantee may differ from the paper's. For K
            classes, `binary` uses the two-class sensitivities, 2/lam (`vote`) or 2/(M lam). `per_coordinate` draws a
            Laplace number for every coordinate. `radial` draws the norm of the noise from an exponential distribution
            instead of a Gamma distribution. `sum` minimises sums of losses + lam/2 ||w||^2, instead of means.
            `sum_per_coordinate` and `sum_radial` combine `sum` with `per_coordinate` or `radial`.
        lam: The coefficient lam of lam/2 ||w||^2, for local and global models.
    """

    unit: ClassVar[Unit] = "party"  # type: ignore[misc]
    published_variants: ClassVar[bool] = True
    proof: ClassVar[str] = "Theorems 1 and 2, docs/privacy/hamm2016.md"
    lam: Annotated[Lam, POSITIVE] = 1e-4

    @property
    def reading(self) -> NoiseReading:
        return READINGS[self.variant]

    def strength(self, n: int) -> float:
        """Return the ridge coefficient for the mean loss of n rows: lam, or lam/n if the variant minimises sums."""
        return self.lam / n if self.reading.sums else self.lam

    @property
    def root(self) -> float:
        """The paper's bound on the norm of a row's gradient: sqrt 2 for several classes, 1 for two classes."""
        return math.sqrt(2) if self.loss.task == "multiclass" and not self.reading.binary else 1.0

    def sharing(self, problem: Problem) -> Sharing:
        return TrustedCurator()

    def sensitivity(self, problem: Problem) -> tuple[float, float]:
        """Return the paper's and the proven L2 sensitivity of the model, for one replaced row or party."""
        raise NotImplementedError

    def minimiser(self, problem: Problem) -> Minimiser:
        """Return the function that trains the model on all parties' rows, without noise."""
        raise NotImplementedError

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        published, proven = self.sensitivity(problem)
        scale = with_slack(proven / budget.eps) if self.tight else published / budget.eps
        known = problem.classes > 1 or self.loss.task != "multiclass"
        root = math.sqrt(problem.classes * problem.d) if known else math.inf
        law = self.reading.law
        shift = proven * root if law == "laplace" else proven
        return (Sum(self.minimiser(problem), shift, scale, law=law),)

    def run(self, carrier: Carrier) -> Release:
        return Release(carrier.by_budget(carrier.ask(0)))

    def unsolved(self, rows: int) -> float:
        """Return a bound on the distance of a party's computed model from the exact minimiser."""
        return LOCAL_TOLERANCE / self.strength(rows)


@dataclass(frozen=True)
class MeanModel:
    """Compute the mean of the parties' regularised models, (K d,)."""

    lam: float
    sums: bool = False

    def __call__(self, parties: Parties) -> Array:
        problem = parties.problem
        total = np.zeros(problem.classes * problem.d)
        for _, models in fit_parties(parties.X, parties.y, parties.offsets, self.lam, problem.classes, sums=self.sums):
            total += models.sum(axis=0)
        return total / problem.M


def vote_shares(
    parties: Parties, X: Array, lam: float, sums: bool = False, local: Sequence[Any] | None = None, seeds: Any = ()
) -> Array:
    """Return for each of n rows X the share of parties that vote for each of K classes, (n, K); K = 1: for class +1."""
    classes = parties.problem.classes
    M = len(parties.offsets) - 1
    votes = np.zeros((len(X), classes))
    if local is None:
        for _, w in fit_parties(parties.X, parties.y, parties.offsets, lam, classes, sums=sums):
            height = max(1, _BLOCK // (len(w) * classes))
            for start in range(0, len(X), height):
                votes[start : start + height] += count_votes(scores(X[start : start + height], w, classes))
    else:
        for k in range(M):
            own = parties.of(k)
            try:
                labels = _predict(local[k % len(local)], parties.X[own], parties.y[own], X, int(seeds[k]))
            except ValueError as error:
                raise UserError(f"algo.local: {local[k % len(local)]} fails at party {k}: {error}") from error
            votes += hard_targets(labels, classes)
    return votes / M


def drawn_seeds(parties: Parties, rng: Generator) -> Index:
    """Draw a seed for every party, (M,), so that no party's rows affect another party's random numbers."""
    return np.asarray(rng.integers(2**31, size=parties.problem.M))


def count_votes(scores: Array) -> Array:
    """Count the votes of b models on n rows for each class: an array (n, K), or (n, 1) with the votes for class +1.

    Scores have shape (n, b, K), or (n, b) for two classes. A score of zero is a vote for +1. If several classes have
    the largest score, the vote is for the first class.
    """
    if scores.ndim == 2:
        return np.count_nonzero(scores >= 0, axis=1)[:, None]
    chosen = np.argmax(scores, axis=2)
    return np.stack([np.count_nonzero(chosen == k, axis=1) for k in range(scores.shape[2])], axis=1)


def check_local(local: Any) -> None:
    """Raise UserError unless `algo.local` is null or a list of classifiers that can be built."""
    if local is None:
        return
    if isinstance(local, str | Mapping) or not isinstance(local, Sequence) or not local:
        raise UserError(f"algo.local must be null or a list of scikit-learn classifiers, got {local}.")
    for spec in local:
        _build(spec)


def _build(spec: Any) -> Any:
    """Return an unfitted classifier, given as a class path, a mapping with `_target_` and arguments, or an object."""
    if isinstance(spec, str | Mapping):
        arguments = {"_target_": spec} if isinstance(spec, str) else dict(spec)
        path = str(arguments.pop("_target_", ""))
        try:
            spec = resolve_name(path)(**arguments)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise UserError(f"algo.local: cannot build the classifier {path!r}: {error}.") from error
    if not (hasattr(spec, "fit") and hasattr(spec, "predict") and hasattr(spec, "get_params")):
        raise UserError(f"algo.local: {spec!r} is not a scikit-learn classifier with fit and predict.")
    return spec


def _predict(spec: Any, X: Array, y: Array, X_new: Array, seed: int) -> Array:
    if np.all(y == y[0]):  # some classifiers refuse a single class
        return np.full(len(X_new), y[0])
    from sklearn.base import clone  # slow to import, and only this path needs it

    classifier = clone(_build(spec))
    if classifier.get_params().get("random_state", 0) is None:
        classifier.set_params(random_state=seed)
    return np.asarray(classifier.fit(X, y).predict(X_new))


@dataclass(frozen=True)
class Vote(LocalClassifiers):
    """`vote`: a model that is trained on public auxiliary rows, labelled by the majority votes of the parties' models.

    This is Algorithm 1 of Hamm et al. 2016. One party can change the labels of all auxiliary rows. The proven
    sensitivity is therefore 1/lam (softmax: sqrt2/lam), or twice the norm of the longest possible minimiser if that is
    less. For two classes and lam = 1e-4 it is 1/189 of the published sensitivity (docs/privacy/hamm2016.md).

    Args:
        local: Scikit-learn classifiers (class paths, nodes with `_target_`, or objects), from which parties 0, 1, ...
            take one each, cyclically. None: all train the regularised linear model of `loss`, which is fast.
        protect_auxiliary: Whether the features of one auxiliary row are also protected (Sec. 4.5).
    """

    name: ClassVar[str] = "vote"
    auxiliary: ClassVar[float] = 0.1
    claim: ClassVar[str | None] = "Hamm et al. 2016, Thm 1"
    shared: ClassVar[bool] = False
    """Whether a row's target is the share of the votes for every class, instead of the majority's label."""

    local: Sequence[Any] | None = None
    protect_auxiliary: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_local(self.local)

    def voters(self, M: int) -> int:
        """Return n: replacing one party's rows changes an auxiliary row's target for each class by at most 1/n."""
        return M if self.shared else 1

    def sensitivity(self, problem: Problem) -> tuple[float, float]:
        """Return the paper's and the proven L2 sensitivity of the model to replacing one party's rows.

        With `protect_auxiliary`, a replaced auxiliary row counts as one changed label in the paper, two in our proof.
        """
        n = problem.auxiliary
        if n == 0:
            raise UserError(
                f"algo={self.name} needs public auxiliary rows, but there are none: set partition.auxiliary to a share "
                f"of the training rows, for example 0.1."
            )
        multiclass = self.loss.task == "multiclass"
        swing = 1 / self.voters(problem.M)
        published, proven = swing, swing
        if self.protect_auxiliary:
            published, proven = (swing * (n - 1) + 1) / n, (swing * (n - 1) + 2) / n
        published *= 2.0 / self.root if multiclass else 2.0
        proven *= math.sqrt(2) if multiclass else 1.0
        lam = self.strength(n)
        exact = min(proven / lam, 2 * longest_minimiser(self.loss, lam, problem.classes))
        return published / self.lam, exact + 2 * TOLERANCE / lam

    @property
    def voted(self) -> "Voted":
        return Voted(self.lam, self.reading.sums, self.shared, self.local)

    def minimiser(self, problem: Problem) -> Minimiser:
        return Minimiser(self.voted, problem.classes, 0 if self.local is None else problem.M)

    def begin(self, parties: Parties, rng: Generator) -> Index | None:
        self.sensitivity(parties.problem)  # raises UserError early if there are no auxiliary rows
        return None if self.local is None else drawn_seeds(parties, rng)

    def run(self, carrier: Carrier) -> Release:
        """Release the model. With the paper's noise, the metric `bound` is the risk bound of Hamm et al., Theorem 4."""
        about = [] if self.local is None else [np.tile(carrier.start, (len(carrier.budgets) * carrier.draws, 1))]
        weights = carrier.by_budget(carrier.ask(0, *about))
        binary = self.loss.task == "binary" and self.variant == "paper" and not self.protect_auxiliary
        if not binary or self.tight:
            return Release(weights)
        exact = carrier.mechanism.terms(carrier.statistic(0)).total(*(each[:1] for each in about))
        problem, length = carrier.problem, float(np.linalg.norm(exact))
        facts = self.voters(problem.M), problem.auxiliary, problem.d, self.lam, length
        bounds = np.array([voting_risk_bound(budget.eps, *facts) for budget in carrier.budgets])
        return Release(weights, {"bound": np.repeat(bounds[:, None], carrier.draws, axis=1)})


class Soft(Vote):
    """`soft`: a model trained on public auxiliary rows; a row's target is the share of parties voting for each class.

    This is Algorithm 2 of Hamm et al. 2016. One party changes every share by at most 1/M, so the sensitivity of `soft`
    is 1/M times the sensitivity of `vote`.
    """

    name = "soft"
    claim = "Hamm et al. 2016, Thm 3"
    shared = True


@dataclass(frozen=True)
class Voted:
    """Train a model (K d,) on the auxiliary rows with targets from the parties' votes."""

    lam: float
    sums: bool
    shared: bool
    local: Sequence[Any] | None = field(hash=False)

    def __call__(self, parties: Parties, seeds: Sequence[Array] = ()) -> Array:
        """Return the model trained on the parties' votes or, for scikit-learn classifiers, one model per seed array."""
        if self.local is None:
            return self.trained(parties, _auxiliary_shares(parties, self.lam, self.sums))
        X, own = _auxiliary(parties)[0], (self.lam, self.sums, self.local)
        return np.array([self.trained(parties, vote_shares(parties, X, *own, each)) for each in seeds])

    def trained(self, parties: Parties, shares: Array) -> Array:
        X, weight = _auxiliary(parties)
        lam = self.lam / len(parties.X_auxiliary) if self.sums else self.lam
        return fit(X[None], self.targets(shares)[None], lam, weight[None])[0]

    def targets(self, shares: Array) -> Array:
        """Return the training targets: the shares of the parties' votes (n, K), or the labels with the most votes."""
        if self.shared:
            return shares
        if shares.shape[1] == 1:
            return (shares >= 0.5).astype(float)  # in a tie, +1 or the first class wins
        return hard_targets(np.argmax(shares, axis=1).astype(float), shares.shape[1])


@remembered
def _auxiliary(parties: Parties) -> tuple[Array, Array]:
    """Return the distinct public auxiliary rows (m, d), and the relative frequency of each row, (m,)."""
    first, _, counts = distinct(parties.X_auxiliary)
    return parties.X_auxiliary[first], counts / counts.sum()


@remembered
def _auxiliary_shares(parties: Parties, lam: float, sums: bool) -> Array:
    return vote_shares(parties, _auxiliary(parties)[0], lam, sums)


TAIL = 0.05  # the probability with which the noise, or the sample of rows, violates a risk bound


def voting_risk_bound(eps: float, voters: int, n: int, d: int, lam: float, length: float = 0.0) -> float:
    """Bound the excess risk of algorithm `soft` for two classes and the paper's noise (Hamm et al. 2016, Theorem 4).

    The bound holds with probability 1 - 2 `TAIL`. `voters` is M for `soft` and 1 for `vote` (eq. 9), n is the number of
    auxiliary rows, and `length` is the norm of the reference model.
    """
    root = 2 * d * math.log(d / TAIL) / lam / voters / eps  # its square may be inf; ** would raise OverflowError
    noise_term = root * root * (LOSSES["logistic"].smoothness + lam)
    return noise_term + 16 * (32 + math.log(1 / TAIL)) / (lam * n) + lam / 2 * length**2


@dataclass(frozen=True)
class Average(LocalClassifiers):
    """`avg`: the mean of the parties' models, with noise that protects all rows of one party.

    The proven sensitivity is 2/M times the norm of the longest possible minimiser (`longest_minimiser`). The published
    sensitivity is 2/(M lam) (softmax: 2 sqrt2/(M lam)): for two classes and lam = 1e-4, 189 times as much.
    """

    name: ClassVar[str] = "avg"
    claim: ClassVar[str | None] = "Pathak et al. 2010, as in Hamm et al. 2016, App. B.4"

    def sensitivity(self, problem: Problem) -> tuple[float, float]:
        most = problem.N - problem.M + 1  # the most rows that a party can have, if each has at least one
        lam = self.strength(most)
        diameter = 2 * (longest_minimiser(self.loss, lam, problem.classes) + self.unsolved(most))
        return 2.0 * self.root / (problem.M * self.lam), diameter / problem.M

    def minimiser(self, problem: Problem) -> Minimiser:
        return Minimiser(MeanModel(self.lam, self.reading.sums), problem.classes)


@dataclass(frozen=True)
class LocalAggregation(LocalClassifiers, losses=("logistic",), variants=("paper", "per_coordinate")):
    """`la`: the mean of the parties' models, with noise that protects one row (Pathak et al. 2010).

    A replaced row changes the mean by at most 2/(M n lam), where n is the size of the smallest party. `tight` noise
    also uses a bound on the norm of every minimiser. The parties' sizes are public.

    Args:
        loss: logistic.
        variant: `paper`; or `per_coordinate`, which draws a Laplace number for every coordinate, as Jayaraman et al.
            2018 and Pathak et al. (footnote 2) do. With this noise, the proven eps is sqrt(d) times as large.
        lam: The coefficient lam of lam/2 ||w||^2.
    """

    name: ClassVar[str] = "la"
    claim: ClassVar[str | None] = "Pathak et al. 2010 (Rajkumar & Agarwal 2012, Sec. 2.4)"
    proof: ClassVar[str] = "Theorem 5, docs/privacy/rajkumar2012.md"
    unit: ClassVar[Unit] = "sample"  # type: ignore[misc]

    lam: Annotated[Lam, POSITIVE] = 0.01

    def sensitivity(self, problem: Problem) -> tuple[float, float]:
        published = 2 / (problem.smallest * self.lam)
        shift = min(published, 2 * longest_minimiser(self.loss, self.lam))
        return published / problem.M, (shift + 2 * self.unsolved(problem.N)) / problem.M

    def minimiser(self, problem: Problem) -> Minimiser:
        return Minimiser(MeanModel(self.lam), problem.classes)
