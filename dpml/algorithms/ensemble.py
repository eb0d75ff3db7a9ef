"""One model of the parties' own models, or of their votes, plus noise: pure eps-DP (docs/privacy/hamm2016.md).

Rows have norm at most 1, and minimisers of lam-strongly convex mean losses lie at most ``max ||grad (R - R')|| / lam``
apart (Chaudhuri et al. 2011, Lemma 7). A solver stops at a gradient of norm `TOLERANCE` or `LOCAL_TOLERANCE`; every
proven sensitivity has the distance from the exact minimiser twice, once for each of two neighbours.
"""

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array, Index
from dpml.data.partition import Parties, remembered
from dpml.data.preprocess import distinct
from dpml.errors import UserError
from dpml.mechanism.algorithm import SIMULATED, Lam, Release, Unit
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.message import Law, Sum
from dpml.mechanism.program import Program
from dpml.mechanism.sharing import Sharing, TrustedCurator
from dpml.mechanism.statistics import Minimiser
from dpml.optim.logistic import LOCAL_TOLERANCE, TOLERANCE, fit, fit_parties, hard_targets, longest_minimiser
from dpml.optim.losses import LOSSES, scores
from dpml.options import POSITIVE
from dpml.privacy import Budget, Problem
from dpml.privacy.safe import with_slack

_BLOCK = 1 << 19  # scores of local models held at once: 4 MiB


class NoiseReading(NamedTuple):
    """What a variant says: the law of the noise, whether losses are summed, whether bounds are those of two classes."""

    law: Law = "l2_laplace"
    sums: bool = False
    binary: bool = False


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
    """Classification with regularised local models (Hamm, Cao & Belkin 2016), at one trusted curator.

    Args:
        loss: logistic (binary) or softmax (multiclass).
        calibration: `published` noise, or `tight`: scaled to the sensitivity that we prove.
        variant: `paper`, or another reading of the text, none of which has the paper's guarantee unchanged.
            `binary` uses the binary sensitivities 2/lam and 2/(M lam) for K classes; `per_coordinate` draws a Laplace
            number of the scale for every coordinate; `radial` draws the noise's length from the exponential law instead
            of Gamma(D, .); `sum` minimises sums of losses, not means, + lam/2 ||w||^2; `sum_per_coordinate` and
            `sum_radial` do so and draw the noise of the other.
        lam: coefficient of lam/2 ||w||^2, for local and global models.
    """

    unit: ClassVar[Unit] = "party"  # type: ignore[misc]
    published_variants: ClassVar[bool] = True
    proof: ClassVar[str] = "Theorems 1 and 2, docs/privacy/hamm2016.md"
    lam: Annotated[Lam, POSITIVE] = 1e-4

    @property
    def reading(self) -> NoiseReading:
        """What the variant says."""
        return READINGS[self.variant]

    def strength(self, n: int) -> float:
        """The coefficient of ||w||^2 / 2 beside a *mean* loss over n rows that gives the same minimiser."""
        return self.lam / n if self.reading.sums else self.lam

    @property
    def root(self) -> float:
        """By how much the paper's multiclass bound on a row's gradient, sqrt 2, exceeds the binary one."""
        return math.sqrt(2) if self.loss.task == "multiclass" and not self.reading.binary else 1.0

    def sharing(self, problem: Problem) -> Sharing:
        return TrustedCurator()

    def sensitivity(self, problem: Problem) -> tuple[float, float]:
        """(published, proven): how far the model moves at most, in L2 norm, when a unit is replaced."""
        raise NotImplementedError

    def about(self, problem: Problem) -> int:
        """Return how many numbers the fit is about, beside the rows."""
        return 0

    def fit(self) -> Callable[..., Array]:
        """What trains the model on all parties' rows."""
        raise NotImplementedError

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        """The model; its noise has the scale sensitivity/eps, the proven one if `tight`."""
        published, proven = self.sensitivity(problem)
        scale = with_slack(proven / budget.eps) if self.tight else published / budget.eps
        known = problem.classes > 1 or self.loss.task != "multiclass"
        root = math.sqrt(problem.classes * problem.d) if known else math.inf
        law = self.reading.law
        moved = proven * root if law == "laplace" else proven
        return (Sum(Minimiser(self.fit(), problem.classes, self.about(problem)), moved, scale, law=law),)

    def run(self, carrier: Carrier) -> Release:
        return Release(carrier.by_budget(carrier.ask(0)))

    def unsolved(self, rows: int) -> float:
        """Bound the distance between the computed and the exact model of a party that has so many `rows`."""
        return LOCAL_TOLERANCE / self.strength(rows)


@dataclass(frozen=True)
class MeanModel:
    """The mean of the parties' own regularised models: d weights, or K d for K classes.

    Args:
        lam: as of `fit_parties`, and `sums`.
    """

    lam: float
    sums: bool = False

    def __call__(self, parties: Parties) -> Array:
        """(D,)."""
        problem = parties.problem
        total = np.zeros(problem.classes * problem.d)
        for _, models in fit_parties(parties.X, parties.y, parties.offsets, self.lam, problem.classes, sums=self.sums):
            total += models.sum(axis=0)
        return total / problem.M


def vote_shares(
    parties: Parties, X: Array, lam: float, sums: bool = False, local: Sequence[Any] | None = None, seeds: Any = ()
) -> Array:
    """The share of parties that vote +1 (binary, (n, 1)) or for each class ((n, K)) on the rows X (n, d).

    Votes are added up block by block: no table of all parties' votes ever exists. `sums` as in `fit_parties`; `seeds`
    (M,) are for classifiers that are `local`.
    """
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
    """Draw a seed for every party, so that no party's rows change the numbers that another gets: (M,)."""
    drawn: Index = rng.integers(2**31, size=parties.problem.M)
    return drawn


def count_votes(scores: Array) -> Array:
    """How many of the models with these scores, (n, b) or (n, b, K), vote +1, (n, 1), or for each class, (n, K).

    A score of zero is a vote for +1, and of equal scores the lowest class's wins.
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
        build_local(spec)


def build_local(spec: Any) -> Any:
    """Return an unfitted classifier from a class path, a mapping with `_target_` and arguments, or itself."""
    if isinstance(spec, str | Mapping):
        arguments = {} if isinstance(spec, str) else dict(spec)
        path = spec if isinstance(spec, str) else arguments.pop("_target_", "")
        module, _, name = str(path).rpartition(".")
        try:
            spec = getattr(importlib.import_module(module), name)(**arguments)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise UserError(f"algo.local: cannot build the classifier {path!r}: {error}.") from error
    if not (hasattr(spec, "fit") and hasattr(spec, "predict") and hasattr(spec, "get_params")):
        raise UserError(f"algo.local: {spec!r} is not a scikit-learn classifier with fit and predict.")
    return spec


def _predict(spec: Any, X: Array, y: Array, X_new: Array, seed: int) -> Array:
    """Labels (n,) of the rows X_new by a new classifier trained on X, y. A party with one label only votes for that."""
    if np.all(y == y[0]):
        return np.full(len(X_new), y[0])
    from sklearn.base import clone  # slow to import, and only this path needs it

    classifier = clone(build_local(spec))
    if classifier.get_params().get("random_state", 0) is None:
        classifier.set_params(random_state=seed)
    return np.asarray(classifier.fit(X, y).predict(X_new))


TAIL = 0.05  # probability that the noise is longer, and that the sample is worse, than a bound assumes


@dataclass(frozen=True)
class Vote(LocalClassifiers):
    """`vote` (Alg. 1): the minimiser on auxiliary rows with the ensemble's majority votes as labels.

    One party may turn every label. A turned label moves the gradient by the row (the logistic loss has l'(t) + l'(-t)
    = -1; softmax: by sqrt 2 rows), where Theorem 1 counts 2. So the model moves by at most 1/lam (sqrt2/lam), and never
    by more than 2 `longest_minimiser`, which at lam = 1e-4 is 189 times less than published.

    Args:
        local: scikit-learn classifiers, as class paths, nodes with `_target_`, or objects; party k trains the (k mod
            len(local))-th. None: the regularised model of `loss` at every party, the fast path.
        protect_auxiliary: also hide one auxiliary row, its features included (Sec. 4.5).
    """

    name: ClassVar[str] = "vote"
    auxiliary: ClassVar[float] = 0.1
    claim: ClassVar[str | None] = "Hamm et al. 2016, Thm 1"
    shared: ClassVar[bool] = False
    """Whether a row's target is the share of the votes, which no party changes by more than 1/M."""

    local: Sequence[Any] | None = None
    protect_auxiliary: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_local(self.local)

    def voters(self, M: int) -> int:
        """The number of parties that share a row's target: one of them changes it by at most 1 over that."""
        return M if self.shared else 1

    def sensitivity(self, problem: Problem) -> tuple[float, float]:
        """(published, proven): how far the model moves at most, in L2 norm, when one party's rows are replaced.

        With protect_auxiliary one auxiliary row may be replaced: it counts as 1 (published) or 2 (proven) labels. Where
        a row is replaced, the gradient's term moves from (a - p) (x) x to (a' - p') (x) x', by up to two labels' worth.
        The paper's bound of 2 is that for the logistic loss; it has no multiclass version of Sec. 4.5.
        """
        n = problem.auxiliary
        if n == 0:
            raise UserError(
                f"algo={self.name} labels public auxiliary rows, and there are none: set partition.auxiliary to the "
                f"share of training rows to set aside, 0.1 for example."
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

    def fit(self) -> "Voted":
        return Voted(self.lam, self.reading.sums, self.shared, self.local)

    def about(self, problem: Problem) -> int:
        return 0 if self.local is None else problem.M

    def begin(self, parties: Parties, rng: Generator) -> Index | None:
        """Draw the seeds of classifiers that are `local`."""
        self.sensitivity(parties.problem)  # raise before the work if there are no auxiliary rows
        return None if self.local is None else drawn_seeds(parties, rng)

    def run(self, carrier: Carrier) -> Release:
        """The model; `bound` is Theorem 4's, or eq. 9's, of the published noise."""
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
    """`soft` (Alg. 2): the minimiser of the risk weighted by vote shares, insensitive to any one party.

    A party changes every share by at most 1/M: 1/M of what `vote` counts. That bound comes close for small lam only.
    """

    name = "soft"
    claim = "Hamm et al. 2016, Thm 3"
    shared = True


@dataclass(frozen=True)
class Voted:
    """The minimiser on the auxiliary rows with targets from the parties' votes: d weights, or K d for K classes."""

    lam: float
    sums: bool
    shared: bool
    local: Sequence[Any] | None = field(hash=False)

    def __call__(self, parties: Parties, seeds: Sequence[Array] = ()) -> Array:
        """(D,), or of classifiers that are `local` with the seeds (B, M): (B, D)."""
        if self.local is None:
            return self.trained(parties, _auxiliary_shares(parties, self.lam, self.sums))
        X, own = _auxiliary(parties)[0], (self.lam, self.sums, self.local)
        return np.array([self.trained(parties, vote_shares(parties, X, *own, each)) for each in seeds])

    def trained(self, parties: Parties, shares: Array) -> Array:
        """(D,), for vote shares (n, K)."""
        X, weight = _auxiliary(parties)
        lam = self.lam / len(parties.X_auxiliary) if self.sums else self.lam
        return fit(X[None], self.targets(shares)[None], lam, weight[None])[0]

    def targets(self, shares: Array) -> Array:
        """Training targets from vote shares (n, K): these, or the majority, ties to +1 or to the lowest class."""
        if self.shared:
            return shares
        if shares.shape[1] == 1:
            return (shares >= 0.5).astype(float)
        return hard_targets(np.argmax(shares, axis=1).astype(float), shares.shape[1])


@remembered
def _auxiliary(parties: Parties) -> tuple[Array, Array]:
    """The distinct auxiliary rows (m, d) and the share of each (m,)."""
    first, _, counts = distinct(parties.X_auxiliary)
    return parties.X_auxiliary[first], counts / counts.sum()


@remembered
def _auxiliary_shares(parties: Parties, lam: float, sums: bool) -> Array:
    """The vote shares of the parties' own models on the auxiliary rows."""
    return vote_shares(parties, _auxiliary(parties)[0], lam, sums)


def voting_risk_bound(eps: float, voters: int, n: int, d: int, lam: float, length: float = 0.0) -> float:
    """Theorem 4's bound on R(w_p) - R(w_0), for binary `soft` with the published noise.

    It holds with probability 1 - delta_p (over the noise) - delta_s (over the n auxiliary rows), `TAIL` each:
    ``4 d^2 (c + lam) log^2(d/delta_p) / (lam M eps)^2 + 16 (32 + log(1/delta_s)) / (lam n) + lam/2 ||w_0||^2`` with the
    Lipschitz constant c = 1/4 of l'.

    Args:
        eps: the budget; inf for no noise.
        voters: M, or 1 for the counterpart for `vote` (eq. 9), which lacks M^-2.
        n: auxiliary rows.
        d: features.
        lam: the regulariser's coefficient.
        length: ||w_0||, of the reference hypothesis.
    """
    moved = 2 * d * math.log(d / TAIL) / lam / voters / eps  # may be inf, which a power would not return but raise
    noise_term = moved * moved * (LOSSES["logistic"].smoothness + lam)
    return noise_term + 16 * (32 + math.log(1 / TAIL)) / (lam * n) + lam / 2 * length**2


@dataclass(frozen=True)
class Average(LocalClassifiers):
    """`avg`: the mean of the local models; all rows of one party are the unit.

    One party's model moves by at most the diameter of all that it can be, 2 `longest_minimiser`, and the mean by 1/M of
    that. The paper counts ``2/(M lam)`` (softmax: ``2 sqrt2/(M lam)``), which is 189 times as much at lam = 1e-4.
    """

    name: ClassVar[str] = "avg"
    claim: ClassVar[str | None] = "Pathak et al. 2010, as in Hamm et al. 2016, App. B.4"

    def sensitivity(self, problem: Problem) -> tuple[float, float]:
        most = problem.N - problem.M + 1  # rows of a party at most, as all have one
        lam = self.strength(most)
        diameter = 2 * (longest_minimiser(self.loss, lam, problem.classes) + self.unsolved(most))
        return 2.0 * self.root / (problem.M * self.lam), diameter / problem.M

    def fit(self) -> MeanModel:
        return MeanModel(self.lam, self.reading.sums)


@dataclass(frozen=True)
class LocalAggregation(LocalClassifiers, losses=("logistic",), variants=("paper", "per_coordinate")):
    """`la`: the mean of the parties' own minimisers, as in `avg`; one sample is the unit.

    Replacing a row moves the gradient of its party's objective by at most 2/n, so its minimiser by 2/(n lam), and the
    mean by ``S = 2/(M n lam)`` for the smallest party's n. `tight` knows that no minimiser is longer than
    `longest_minimiser`, so that it cannot move by more than twice that. The parties' sizes are public. Both the noise
    of `tight` and every proven eps count the tolerance of the solver.

    Args:
        loss: logistic.
        variant: `paper`; or `per_coordinate`, a Laplace number of the scale in every coordinate, as Jayaraman et al.
            2018 draw it, and Pathak et al. themselves (footnote 2), of which only sqrt(d) times the eps is true.
        lam: coefficient of lam/2 ||w||^2.
    """

    name: ClassVar[str] = "la"
    claim: ClassVar[str | None] = "Pathak et al. 2010 (Rajkumar & Agarwal 2012, Sec. 2.4)"
    proof: ClassVar[str] = "Theorem 5, docs/privacy/rajkumar2012.md"
    unit: ClassVar[Unit] = "sample"  # type: ignore[misc]

    lam: Annotated[Lam, POSITIVE] = 0.01

    def sensitivity(self, problem: Problem) -> tuple[float, float]:
        published = 2 / (problem.smallest * self.lam)
        moved = min(published, 2 * longest_minimiser(self.loss, self.lam))
        return published / problem.M, (moved + 2 * self.unsolved(problem.N)) / problem.M

    def fit(self) -> MeanModel:
        return MeanModel(self.lam)
