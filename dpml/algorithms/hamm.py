"""Hamm, Cao & Belkin 2016: a global classifier from the votes, or the parameters, of M parties' local classifiers.

Every party trains a classifier on its own rows. A trusted entity labels public auxiliary rows with the ensemble and
fits a global model to them (`vote`, `soft`), or averages the local models (`avg`, Pathak et al. 2010). What is released
is that model plus noise of density proportional to exp(-||eta|| / scale): pure eps-DP for *all rows of one party*.

Two facts carry every proof; rows have norm at most 1, and R is a mean loss + lam/2 ||w||^2 with minimiser w.

- The minimisers of two such risks lie at most ``max ||grad (R - R')|| / lam`` apart (lam-strong convexity; Chaudhuri et
  al. 2011, Lemma 7). Changing a target a_i by b_i moves the gradient by b_i (x) x_i whatever w is.
- A minimiser is never long. From grad R = 0, ``lam ||w||^2 = mean (a_i - p_i)'t_i`` with scores t_i and probabilities
  p_i, and ``(a - p)'t`` is at most W((K-1)/e) (Lambert's W; K = 2 for binary): `longest`.
"""

import importlib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.random import Generator
from scipy.special import lambertw

from dpml.algorithms import Release, require_domain
from dpml.algorithms.exposure import Exposure, Pair, laplace_score, made_up, released_models
from dpml.arrays import Array
from dpml.data.partition import Equal, Parties, remembered
from dpml.data.preprocess import distinct
from dpml.errors import UserError
from dpml.optim.logistic import fit, fit_all, fit_parties, hard_targets
from dpml.optim.losses import Loss, scores
from dpml.privacy import CALIBRATIONS, Budget, Calibration, Guarantee, Problem, noise

_BLOCK = 1 << 19  # scores of local models held at once: 4 MiB


def longest(loss: Loss, lam: float, classes: int = 1) -> float:
    """A bound on the norm of every minimiser of a mean logistic or softmax loss + lam/2 ||w||^2, rows of norm <= 1.

    For softmax with a label y, ``(a - p)'t = sum_k p_k u_k`` with u_k = t_y - t_k, p_k proportional to exp(-u_k). It is
    at most theta exactly when ``sum_(k != y) (u_k - theta) e^-u_k <= theta`` for all u, each term being largest at
    u_k = 1 + theta: theta e^theta = (K-1)/e. And as the gradient is monotone, it is at most its value with p at w = 0,
    where ``||a - p|| <= sqrt(1 - 1/K)`` (binary: 1/2). For lam <= 0.17 the binary bound is reached: one row of norm
    1.2785 / ||w||, repeated, has a minimiser as long as this.

    Args:
        loss: logistic or softmax.
        lam: the regulariser's coefficient.
        classes: K for softmax; 1 when it is not known.
    """
    if loss.name == "softmax" and classes == 1:
        return 1 / lam
    binary = loss.name == "logistic"
    K = 2 if binary else classes
    at_zero = 0.5 if binary else math.sqrt(1 - 1 / K)
    return min(at_zero / lam, math.sqrt(float(lambertw((K - 1) / math.e).real) / lam))


Variant = Literal["paper", "binary", "per_coordinate", "radial", "sum"]
VARIANTS: tuple[Variant, ...] = ("paper", "binary", "per_coordinate", "radial", "sum")


@dataclass(frozen=True)
class _Classifier:
    """The hyper-parameters that all have in common.

    Args:
        loss: logistic (binary) or softmax (multiclass).
        calibration: `published` noise, or `tight`: scaled to the sensitivity that we prove.
        variant: `paper`, or how else the text might be read; none of these keeps what the paper promises without more.
            `binary` uses the binary sensitivities 2/lam and 2/(M lam) for K classes; `per_coordinate` draws a Laplace
            number of the scale for every coordinate; `radial` draws the noise's length from the exponential law instead
            of Gamma(D, .); `sum` minimises sums of losses, not means, + lam/2 ||w||^2.
        lam: coefficient of lam/2 ||w||^2, for local and global models.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 2

    loss: Loss
    calibration: Calibration = "published"
    variant: Variant = "paper"
    lam: float = 1e-4

    def __post_init__(self) -> None:
        if self.calibration not in CALIBRATIONS:
            raise UserError(f"calibration must be one of {', '.join(CALIBRATIONS)}, got {self.calibration!r}.")
        if self.variant not in VARIANTS:
            raise UserError(f"algo.variant of {self.name} must be one of {', '.join(VARIANTS)}, got {self.variant!r}.")
        if self.variant != "paper" and self.calibration == "tight":
            raise UserError(
                f"algo.variant={self.variant} is a reading of the published noise: set calibration=published."
            )
        if self.loss.name not in ("logistic", "softmax"):
            raise UserError(f"algo={self.name} needs loss=logistic or loss=softmax, not loss={self.loss.name}.")
        if not 0 < self.lam < math.inf:
            raise UserError(f"algo.lam of {self.name} must be a positive number, got {self.lam}.")

    @property
    def multiclass(self) -> bool:
        """Whether the model has one score per class."""
        return self.loss.name == "softmax"

    @property
    def root(self) -> float:
        """By how much the paper's multiclass bound on a row's gradient, sqrt 2, exceeds the binary one."""
        return math.sqrt(2) if self.multiclass and self.variant != "binary" else 1.0

    @property
    def sums(self) -> bool:
        """Whether the objective has the sum of the losses where the paper has their mean."""
        return self.variant == "sum"

    def strength(self, n: int) -> float:
        """The coefficient beside a *mean* loss over n rows that gives the same minimiser."""
        return self.lam / n if self.sums else self.lam


@dataclass(frozen=True)
class _Global(_Classifier, ABC):
    """One model, released with or without noise."""

    claim: ClassVar[str]

    @abstractmethod
    def sensitivity(self, problem: Problem) -> tuple[float, float]:
        """(published, proven): how far the model moves at most, in L2 norm, when one party's rows are replaced."""

    @abstractmethod
    def model(self, parties: Parties, rng: Generator) -> Array:
        """The model without noise: d weights, or K d for K classes."""

    def bound(self, budget: Budget, problem: Problem, length: float) -> float | None:
        """The published bound on the excess risk over a model of this length, where there is one."""
        return None

    def scale(self, budget: Budget, problem: Problem) -> float:
        """The noise of a release, ``sensitivity / eps``: the one place that says it."""
        published, proven = self.sensitivity(problem)
        return (proven if self.calibration == "tight" else published) / budget.eps

    def noise(self, rng: Generator, draws: int, D: int) -> Array:
        """Noise of scale 1 on D coordinates: (draws, D)."""
        if self.variant == "per_coordinate":
            return noise.laplace(rng, (draws, D))
        return (noise.radial if self.variant == "radial" else noise.l2_laplace)(rng, draws, D)

    def proven_eps(self, scale: float, problem: Problem) -> float:
        """What noise of this scale gives: the largest privacy loss over all that one party can do.

        Laplace noise on D coordinates has a loss of ||v||_1 / scale <= sqrt(D) ||v||_2 / scale for a move v. Noise
        of an exponential length has the density ``exp(-||eta||/scale) / ||eta||^(D-1)``, infinite at the model itself:
        for D > 1 the loss of an output close to it is above any bound.
        """
        D = problem.classes * problem.d if problem.classes > 1 or not self.multiclass else math.inf  # K is not known
        if scale == 0 or (self.variant == "radial" and D > 1):
            return math.inf
        return self.sensitivity(problem)[1] / scale * (math.sqrt(D) if self.variant == "per_coordinate" else 1.0)

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """Claimed (when published) and proven eps for all rows of one party; delta is 0."""
        eps = self.proven_eps(self.scale(budget, problem), problem)
        proven = Guarantee("release", "party", eps, 0.0, "proven", f"L2 sensitivity (hamm.{type(self).__name__})")
        if self.calibration == "tight":
            return [proven]
        return [Guarantee("release", "party", budget.eps, 0.0, "published", self.claim), proven]

    def prepare(self, parties: Parties, rng: Generator) -> "PreparedOutput":
        """Train the local models and the global one, once for all budgets and draws."""
        require_domain(parties, self.loss)
        self.scale(Budget(1.0), parties.problem)  # refuse what cannot be calibrated before the work
        plain = replace(self, calibration="published", variant="sum" if self.sums else "paper")
        alike = getattr(self, "local", None) is None  # the noise apart, so that all of these share one fit
        weights = _fitted(parties, plain) if alike else self.model(parties, rng)
        return PreparedOutput(self, weights, parties.problem)

    def worst_case(self, budget: Budget, problem: Problem) -> Pair:
        """Party 0 turns all its labels. Its rows, and the public ones, repeat the one whose minimiser is `longest`."""
        M, K = problem.M, max(problem.classes, 2)
        theta = float(lambertw((K - 1) / math.e).real)
        reach = longest(self.loss, self.lam, K) * (math.sqrt(K / (K - 1)) if self.multiclass else 1.0)
        row = np.eye(1, problem.d) * min(1.0, (1 + theta) / reach)
        sizes = Equal().sizes(problem.N, M, np.random.default_rng(0))
        party = np.repeat(np.arange(M), sizes)
        others = party <= M - math.ceil(M / 2)  # tied, so that party 0 decides the vote
        X, auxiliary = row.repeat(problem.N, axis=0), row.repeat(problem.auxiliary, axis=0)
        labels = [np.where(party == 0, vote, others).astype(float) for vote in (False, True)]
        if not self.multiclass:
            labels = [2 * y - 1 for y in labels]
        first, second = (
            made_up("multiclass" if self.multiclass else "binary", X, y, sizes, auxiliary, K) for y in labels
        )
        return first, second

    def exposures(self, pair: Pair, budget: Budget) -> list[Exposure]:
        """The released model: the exact one plus L2-Laplace noise."""
        prepared = [self.prepare(parties, np.random.default_rng(0)) for parties in pair]
        first, second = (found.weights for found in prepared)
        scale = self.scale(budget, pair[0].problem)
        far = float(np.linalg.norm(first - second)) / scale
        found = released_models(prepared, budget)
        return [replace(found, score=laplace_score(scale, first, second), distance=far)]


@remembered
def _fitted(parties: Parties, algorithm: _Global) -> Array:
    return algorithm.model(parties, np.random.default_rng(0))  # nothing is drawn from it without algo.local


@dataclass(frozen=True)
class PreparedOutput:
    """A model `weights` (D,), before output perturbation."""

    algorithm: _Global
    weights: Array
    problem: Problem

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """The model plus noise over all its coordinates; the budgets share their noise directions."""
        scale = np.array([self.algorithm.scale(budget, self.problem) for budget in budgets])
        drawn = self.algorithm.noise(rng, draws, len(self.weights))
        length = float(np.linalg.norm(self.weights))
        bounds = [self.algorithm.bound(budget, self.problem, length) for budget in budgets]
        known = {} if None in bounds else {"bound": np.repeat(np.array(bounds, dtype=float)[:, None], draws, axis=1)}
        return Release(self.weights + scale[:, None, None] * drawn, known)


class Average(_Global):
    """`avg` (Pathak et al. 2010): the mean of the local models.

    One party's model moves by at most the diameter of all that it can be, 2 `longest`, and the mean by 1/M of that. The
    paper counts ``2/(M lam)`` (softmax: ``2 sqrt2/(M lam)``), which is 190 times as much at lam = 1e-4.
    """

    name = "avg"
    claim = "Pathak et al. 2010, as in Hamm et al. 2016, App. B.4"

    def sensitivity(self, problem: Problem) -> tuple[float, float]:
        published = 2.0 * self.root
        most = problem.N - problem.M + 1  # rows of a party at most, as all have one
        diameter = 2 * longest(self.loss, self.strength(most), problem.classes)
        return published / (problem.M * self.lam), diameter / problem.M

    def model(self, parties: Parties, rng: Generator) -> Array:
        problem = parties.problem
        blocks = fit_parties(parties.X, parties.y, parties.offsets, self.lam, problem.classes, sums=self.sums)
        total = np.zeros(problem.classes * problem.d)
        for _, w in blocks:
            total += w.sum(axis=0)
        return total / problem.M


@dataclass(frozen=True)
class Vote(_Global):
    """`vote` (Alg. 1): the minimiser on auxiliary rows with the ensemble's majority votes as labels.

    One party may turn every label. A turned label moves the gradient by the row (the logistic loss has l'(t) + l'(-t)
    = -1; softmax: by sqrt 2 rows), where Theorem 1 counts 2. So the model moves by at most 1/lam (sqrt2/lam), and never
    by more than 2 `longest`, which at lam = 1e-4 is 190 times less than published.

    Args:
        loss: logistic (binary) or softmax (multiclass).
        calibration: `published` noise, or `tight`: scaled to the sensitivity that we prove.
        variant: as for all (`_Classifier`).
        lam: coefficient of lam/2 ||w||^2, for local and global models.
        local: scikit-learn classifiers, as class paths, nodes with `_target_`, or objects; party k trains the (k mod
            len(local))-th. None: the regularised model of `loss` at every party, the fast path.
        protect_auxiliary: also hide one auxiliary row, its features included (Sec. 4.5).
    """

    name: ClassVar[str] = "vote"
    claim: ClassVar[str] = "Hamm et al. 2016, Thm 1"

    local: Sequence[Any] | None = None
    protect_auxiliary: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.protect_auxiliary, bool):
            raise UserError(f"algo.protect_auxiliary must be true or false, got {self.protect_auxiliary}.")
        check_local(self.local)

    def swing(self, M: int) -> float:
        """By how much one party can change a row's target."""
        return 1.0

    def targets(self, shares: Array) -> Array:
        """Training targets from vote shares (n, K): the majority, ties to +1 or to the lowest class."""
        if shares.shape[1] == 1:
            return (shares >= 0.5).astype(float)
        return hard_targets(np.argmax(shares, axis=1).astype(float), shares.shape[1])

    def sensitivity(self, problem: Problem) -> tuple[float, float]:
        """With protect_auxiliary one row may be replaced altogether: it counts 1 (published) or 2 (proven) labels.

        Where a row is replaced, the gradient's term moves from (a - p) (x) x to (a' - p') (x) x', by up to two labels'
        worth. The paper's bound of 2 is that for the logistic loss; it has no multiclass version of Sec. 4.5.
        """
        n = problem.auxiliary
        if n == 0:
            raise UserError(
                f"algo={self.name} labels public auxiliary rows, and there are none: set partition.auxiliary to the "
                f"share of training rows to set aside, 0.1 for example."
            )
        swing = self.swing(problem.M)
        published, proven = swing, swing
        if self.protect_auxiliary:
            published, proven = (swing * (n - 1) + 1) / n, (swing * (n - 1) + 2) / n
        published *= 2.0 / self.root if self.multiclass else 2.0
        proven *= math.sqrt(2) if self.multiclass else 1.0
        lam = self.strength(n)
        return published / self.lam, min(proven / lam, 2 * longest(self.loss, lam, problem.classes))

    def model(self, parties: Parties, rng: Generator) -> Array:
        X, weight = _auxiliary(parties)
        if self.local is None:
            shares = _auxiliary_shares(parties, self.lam, self.sums)
        else:
            shares = vote_shares(parties, X, self.lam, self.local, rng, self.sums)
        lam = self.strength(len(parties.X_auxiliary))
        return fit(X[None], self.targets(shares)[None], lam, weight[None])[0]

    def bound(self, budget: Budget, problem: Problem, length: float) -> float | None:
        """Theorem 4's, or eq. 9 for `vote`, over a model as long as the one without noise; for the published noise."""
        if self.multiclass or self.variant != "paper" or self.calibration != "published" or self.protect_auxiliary:
            return None
        n, d = problem.auxiliary, problem.d
        return excess_risk_bound(budget.eps, problem.M, n, d, self.lam, length, votes=self.name)


class Soft(Vote):
    """`soft` (Alg. 2): the minimiser of the risk weighted by vote shares, insensitive to any one party.

    A party changes every share by at most 1/M: 1/M of what `vote` counts. That is as little as can be proven for small
    lam: with a tenth of the rows holding w in place, the others have margins so large that they resist no change.
    """

    name = "soft"
    claim = "Hamm et al. 2016, Thm 3"

    def swing(self, M: int) -> float:
        return 1 / M

    def targets(self, shares: Array) -> Array:
        return shares


class Batch(_Global):
    """`batch`: one model on all private rows. Not private."""

    name = "batch"

    def sensitivity(self, problem: Problem) -> tuple[float, float]:
        return 0.0, 0.0

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        return _no_privacy("no noise")

    def model(self, parties: Parties, rng: Generator) -> Array:
        return fit_all(parties, self.strength(len(parties.y)))


@dataclass(frozen=True)
class Individual(_Classifier):
    """`indiv`: every party keeps its own classifier. Nothing is released; the metric is their mean test accuracy.

    Args:
        loss: logistic (binary) or softmax (multiclass).
        calibration: has no effect.
        variant: `sum` sums losses; the others, which are about noise, have no effect.
        lam: coefficient of lam/2 ||w||^2.
        local: as for `Vote`.
    """

    name: ClassVar[str] = "indiv"

    local: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_local(self.local)

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """None: nothing is released that could be guaranteed anything."""
        return _no_privacy("nothing is released to be protected")

    def prepare(self, parties: Parties, rng: Generator) -> "PreparedIndividual":
        """The mean over parties and test rows of being right: the mean share of votes for the true label."""
        require_domain(parties, self.loss)
        y = parties.data.y_test
        if not len(y):
            raise UserError(f"algo=indiv is scored on test rows, and dataset={parties.data.name} has none.")
        first, where, _ = distinct(parties.data.X_test)
        shares = vote_shares(parties, parties.data.X_test[first], self.lam, self.local, rng, self.sums)[where]
        right = hard_targets(y, shares.shape[1])
        found = right * shares if self.multiclass else right * shares + (1 - right) * (1 - shares)
        return PreparedIndividual(float(found.sum()) / len(y))


@dataclass(frozen=True)
class PreparedIndividual:
    """The mean test accuracy of the local classifiers."""

    accuracy: float

    def release(self, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """No model, the same accuracy for every budget and draw."""
        return Release(None, {"accuracy": np.full((len(budgets), draws), self.accuracy)})


def _no_privacy(source: str) -> list[Guarantee]:
    return [
        Guarantee("release", "party", math.inf, 0.0, "published", "no privacy is claimed"),
        Guarantee("release", "party", math.inf, 0.0, "proven", source),
    ]


# ---- votes


@remembered
def _auxiliary(parties: Parties) -> tuple[Array, Array]:
    """The different auxiliary rows (m, d) and the share of each (m,)."""
    first, _, counts = distinct(parties.X_auxiliary)
    return parties.X_auxiliary[first], counts / counts.sum()


@remembered
def _auxiliary_shares(parties: Parties, lam: float, sums: bool) -> Array:
    """What the parties' own models vote on them."""
    return vote_shares(parties, _auxiliary(parties)[0], lam, None, np.random.default_rng(0), sums)


def vote_shares(
    parties: Parties, X: Array, lam: float, local: Sequence[Any] | None, rng: Generator, sums: bool = False
) -> Array:
    """The share of parties that vote +1 (binary, (n, 1)) or for each class ((n, K)) on the rows X (n, d).

    Votes are added up block by block: no table of all parties' votes ever exists. `sums` as in `fit_parties`; `rng` is
    for classifiers that are `local`.
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
        seeds = rng.integers(2**31, size=M)  # one each: no party's rows may change the numbers that another gets
        for k in range(M):
            own = parties.of(k)
            try:
                labels = _predict(local[k % len(local)], parties.X[own], parties.y[own], X, int(seeds[k]))
            except ValueError as error:
                raise UserError(f"algo.local: {local[k % len(local)]} fails at party {k}: {error}") from error
            votes += hard_targets(labels, classes)
    return votes / M


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
    """An unfitted classifier from a class path, a mapping with `_target_` and the constructor's arguments, or itself.

    Raises:
        UserError: it names no class, the class does not take the arguments, or it has no `fit` and `predict`.
    """
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


# ---- the published error bound


def excess_risk_bound(
    eps: float,
    M: int,
    N: int,
    d: int,
    lam: float,
    w0_norm: float = 0.0,
    delta_p: float = 0.05,
    delta_s: float = 0.05,
    smoothness: float = 0.25,
    votes: str = "soft",
) -> float:
    """Theorem 4's bound on R(w_p) - R(w_0), for binary `soft` with the published noise.

    It holds with probability 1 - delta_p (over the noise) - delta_s (over the N auxiliary rows):
    ``4 d^2 (c + lam) log^2(d/delta_p) / (lam M eps)^2 + 16 (32 + log(1/delta_s)) / (lam N) + lam/2 ||w_0||^2``.

    Args:
        eps: the budget; inf for no noise.
        M: parties.
        N: auxiliary rows.
        d: features.
        lam: the regulariser's coefficient.
        w0_norm: ||w_0||, of the reference hypothesis.
        delta_p: probability that the noise is longer than assumed.
        delta_s: probability that the sample is worse than assumed.
        smoothness: c, the Lipschitz constant of l' (1/4 for the logistic loss).
        votes: `soft`, or `vote` for its counterpart (eq. 9), which lacks M^-2.
    """
    parties = 1 if votes == "vote" else M
    noise_term = (2 * d * math.log(d / delta_p) / (lam * parties * eps)) ** 2 * (smoothness + lam)
    return noise_term + 16 * (32 + math.log(1 / delta_s)) / (lam * N) + lam / 2 * w0_norm**2
