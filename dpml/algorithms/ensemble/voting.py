"""A global classifier from the votes of M parties' local classifiers (Hamm, Cao & Belkin 2016)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from dpml.algorithms.ensemble import local_models
from dpml.arrays import Array, Index
from dpml.data.partition import Parties, remembered
from dpml.data.preprocess import distinct
from dpml.errors import UserError
from dpml.mechanism.algorithm import Release
from dpml.mechanism.carriers import Carrier
from dpml.optim.logistic import TOLERANCE, fit, hard_targets, longest_minimiser
from dpml.optim.losses import LOSSES
from dpml.privacy import Problem

TAIL = 0.05  # probability that the noise is longer, and that the sample is worse, than a bound assumes


@dataclass(frozen=True)
class Vote(local_models.LocalClassifiers):
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
        if not isinstance(self.protect_auxiliary, bool):
            raise UserError(f"algo.protect_auxiliary must be true or false, got {self.protect_auxiliary}.")
        local_models.check_local(self.local)

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
        multiclass = self.loss.name == "softmax"
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
        return None if self.local is None else local_models.seeds(parties, rng)

    def run(self, carrier: Carrier) -> Release:
        """The model; `bound` is Theorem 4's, or eq. 9's, of the published noise."""
        about = [] if self.local is None else [np.tile(carrier.start, (len(carrier.budgets) * carrier.draws, 1))]
        weights = carrier.by_budget(carrier.ask(0, *about))
        binary = self.loss.name == "logistic" and self.variant == "paper" and not self.protect_auxiliary
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
        return np.array([self.trained(parties, local_models.vote_shares(parties, X, *own, each)) for each in seeds])

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
    return local_models.vote_shares(parties, _auxiliary(parties)[0], lam, sums)


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
