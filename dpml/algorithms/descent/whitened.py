"""Define gradient descent on clipped gradients of privately whitened rows (`wdgd`).

The guarantee: docs/privacy/clipped_descent.md, Theorem 4.
"""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from dpml.algorithms import defaults
from dpml.algorithms.descent.clipped import Schedule, take_rounds
from dpml.algorithms.descent.clipped_gradients import ClippedGradients, LabelSums
from dpml.algorithms.quadratic.coefficients import Coefficients, polynomial, spectral_edge
from dpml.arrays import Array
from dpml.errors import UserError
from dpml.optim.gradients import Single
from dpml.optim.losses import LOSSES
from dpml.options import SHARE
from dpml.program import UNITS, Budget, Carrier, Clip, Problem, Program, Release, Rounds, Statistic, Sum

_HELD = 1 << 25  # entries of all runs' whitened rows in memory at once: 128 MiB


@dataclass(frozen=True)
class WhitenedDescent(
    Program, losses=("logistic", "softmax", "squared"), calibrations=("tight",), lam=0.0, units=UNITS
):
    """`wdgd`: gradient descent on clipped gradients with Gaussian noise, after privately whitening the rows.

    The rows are whitened by a noisy X'X, and the models of the last rounds are averaged. With M = 1, a trusted curator
    adds the noise. With M parties, each party adds 1/M of the noise's variance to its part of every secure sum.

    Args:
        lam: The coefficient lam of lam/2 ||w||^2 in the whitened space, where rows have length 1.
        budget_share: The share of mu^2 for X'X; None: chosen by a public rule.
        rounds: The number of rounds T; None: chosen by a public rule (`defaults.WHITENED_RULES`).
        clip: The largest norm of a row's gradient, or of a party's mean gradient; None: chosen by a public rule, or,
            at party level, adapted in every round.
    """

    name: ClassVar[str] = "wdgd"
    audited_rows: ClassVar[int] = 20
    """The number of rows per party in an audit, which is small because every run maps all rows."""
    proof: ClassVar[str] = "Theorem 4, docs/privacy/clipped_descent.md"

    budget_share: Annotated[float | None, SHARE] = None
    rounds: Rounds | None = None
    clip: Clip | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.budget_share is not None and self.labels and self.budget_share >= 1 - defaults.LABEL_SHARE:
            raise UserError(
                f"algo.budget_share of {self.name}, the share for X'X, must be less than {1 - defaults.LABEL_SHARE:g}, "
                f"got {self.budget_share:g}: the rounds and the noisy sums of labels need the rest of the budget."
            )

    @property
    def rule(self) -> defaults.WhitenedRule:
        return defaults.WHITENED_RULES[self.loss.name, self.unit]

    @property
    def labels(self) -> bool:
        """Whether noisy sums of the labels are released in order to choose the clip."""
        return self.loss.task != "regression" and self.unit == "sample" and self.clip is None

    @property
    def adaptive(self) -> bool:
        return self.unit == "party" and self.clip is None

    def left(self, budget: Budget, problem: Problem) -> float:
        """Return the Gaussian-DP mu of all rounds together; noisy X'X and label sums use the rest of the budget."""
        share = 1 - self.share(budget, problem) - defaults.LABEL_SHARE * self.labels
        rounds = self.rounds or self.rule.rounds
        each = math.sqrt(share / rounds) * self.target_mu(budget, problem, self._gradients(problem))
        return math.sqrt(rounds) * each

    def share(self, budget: Budget, problem: Problem) -> float:
        """Return X'X's share of mu^2: `budget_share`; if None, a default that depends on whether noise hides X'X."""
        if self.budget_share is not None:
            return self.budget_share
        n = problem.units(self.unit)
        mu, rule = self.target_mu(budget, problem, self._moments), self.rule
        edge = spectral_edge(problem.d) * math.sqrt(2 / rule.share) / (n * mu)
        return rule.unseen if edge > defaults.HIDDEN else rule.share

    def schedule(self, budget: Budget, problem: Problem) -> Schedule:
        rounds, left = self.rounds or self.rule.rounds, self.left(budget, problem)
        counting = defaults.COUNTING_SHARE if self.adaptive else 0.0
        width = 2 * math.sqrt(rounds / (1 - counting)) / left
        clip = defaults.FIRST_CLIP if self.adaptive else self.clip or self.rule.clip
        counts = math.sqrt(rounds / counting) / left if counting else math.inf
        return Schedule(rounds, clip, 0.0, width, counts)

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        sensitivity = math.sqrt(2) if problem.d > 1 else 1.0  # worst rows: orthogonal unit rows; if d = 1, 1 and 0
        sent = [self._message(self._moments, sensitivity, self.share(budget, problem), budget, problem)]
        if self.labels:
            labels = LabelSums(self.loss.outputs(problem.classes))
            sent.append(self._message(labels, labels.sensitivity, defaults.LABEL_SHARE, budget, problem))
        return *sent, self.schedule(budget, problem).message(self._gradients(problem))

    @property
    def _moments(self) -> Coefficients:
        return Coefficients(LOSSES["squared"], unit=self.unit, linear=False)

    def _gradients(self, problem: Problem) -> ClippedGradients:
        return ClippedGradients(self.loss, self.unit, self.clip, self.loss.outputs(problem.classes), mapped=True)

    def _message(self, of: Statistic, sensitivity: float, share: float, budget: Budget, problem: Problem) -> Sum:
        noise = sensitivity / (math.sqrt(share) * self.target_mu(budget, problem, of))
        return Sum(of, sensitivity, noise, (1.0,) * len(of.lengths(problem.d)))

    def together(self, problem: Problem) -> int:
        return max(1, _HELD // (problem.N * problem.d))

    def run(self, carrier: Carrier) -> Release:
        d, n = carrier.problem.d, carrier.problem.units(self.unit)
        K = self.loss.outputs(carrier.problem.classes)
        maps, steepest, lengths = self._maps(carrier, n)
        reach = n * carrier.per_run([self.left(budget, carrier.problem) for budget in carrier.budgets])
        first = self.schedule(carrier.budgets[0], carrier.problem)
        clips = None if self.adaptive or self.clip else self._clips(carrier, reach, n, steepest, lengths)
        longest = np.full(len(maps), first.clip) if clips is None else clips[0]
        far = self._far(reach, longest, first.rounds, d)
        lam = np.float32(self.lam)

        def move(t: int, w: Single, gradients: Single, clip: Single) -> Single:
            step = clip / (2 * steepest) if self.loss.task == "regression" and not self.adaptive else far[t]
            towards = gradients / np.float32(n)
            if lam:  # a longer step than clip/lam would overshoot
                step = np.minimum(step, clip / lam)
                towards = towards + lam * w / clip[:, None]
            return step.astype(np.float32)[:, None] * towards

        start = np.zeros((len(maps), K * d), np.float32)
        number = 2 if self.labels else 1
        weights, last = take_rounds(carrier, number, first, start, move, clips, maps.reshape(-1, d * d))
        back = (weights.reshape(-1, K, d).astype(float) @ maps).reshape(-1, K * d)
        used = {"rounds": np.full(len(maps), float(first.rounds)), "clip": last.astype(float)}
        return Release(carrier.by_budget(back), {key: carrier.by_budget(values) for key, values in used.items()})

    def _maps(self, carrier: Carrier, n: int) -> tuple[Single, Array, Array]:
        """Return B whitening matrices (B, d, d), and bounds on the variances (B,) and the norms (B,) of whitened rows.

        They bound the whitened rows' largest mean square along a direction, and the root mean square of their norms.
        """
        d = carrier.problem.d
        squares = np.array([messages[0].block_widths()[0] for messages in carrier.messages])
        _, H = polynomial(carrier.by_budget(carrier.ask(0)), d, n, 0.0)
        values, vectors = np.linalg.eigh(H.reshape(-1, d, d))
        edges = carrier.per_run(spectral_edge(d) * squares / n * carrier.widening)[:, None]
        flat = d * np.finfo(float).eps if self.loss.task == "regression" else defaults.FLAT / d
        least = np.maximum(edges, flat)
        seen = 1 / np.maximum(values, least)
        if self.loss.task == "regression":  # without noise, directions without variance are left out
            seen *= (values > flat) | (edges > 0)
        along = np.maximum(values, 0) * seen
        total = np.maximum(along.sum(axis=1, keepdims=True), seen.min(axis=1, keepdims=True))
        maps = (vectors * np.sqrt(seen / total)[:, None]) @ vectors.swapaxes(-1, -2)
        steepest = np.maximum((along / total).max(axis=1), 1 / d)
        lengths = np.sqrt(np.minimum(_most(values, seen, least) / total[:, 0], 1))
        return maps.astype(np.float32), steepest, lengths

    def _clips(self, carrier: Carrier, reach: Array, n: int, steepest: Array, lengths: Array) -> Single:
        """Return clips (T, B) of B runs; they grow with `reach`, which is n times the Gaussian-DP mu of T rounds."""
        rule, d = self.rule, carrier.problem.d
        rounds = self.rounds or rule.rounds
        if self.loss.task == "regression":
            least = defaults.LEAST_REACH / np.sqrt(np.maximum(reach / d, 1)) / lengths
            first = np.clip(2 * np.maximum(defaults.REACH, least) * reach * steepest / rounds, rule.clip, rule.longest)
            last = np.minimum(first, np.maximum(defaults.LAST_CLIP, rule.clip * 2 * reach / d))
            fallen = np.minimum(2 * np.arange(rounds) / rounds, 1)[:, None]
            return (first * (last / first) ** fallen).astype(np.float32)
        sums = carrier.ask(1) / n
        shares = (1 + np.hstack([sums, -sums])) / 2 if sums.shape[1] == 1 else sums
        rare = np.clip(1 - shares.max(axis=1), 1 / n, 1.0)
        clip = np.maximum(rule.clip * reach / (d * rule.enough), np.minimum(defaults.RARE / rare, rule.rare))
        return np.tile(np.clip(clip, rule.clip, rule.longest).astype(np.float32), (rounds, 1))

    def _far(self, reach: Array, clip: Array, rounds: int, d: int) -> Array:
        rule = self.rule
        pace = 1 + rule.growth * (2 * np.arange(rounds) / rounds - 1)
        far = rule.noise_step * np.sqrt(clip / rule.clip) * reach / math.sqrt(rounds) * pace[:, None]
        return np.minimum(far, np.maximum(4 * clip * d, rule.largest))


def _most(values: Array, seen: Array, least: Array) -> Array:
    """Return upper bounds (B,) on the mean squared norm of whitened rows in B runs.

    Whitening scales eigenvalue j of run b's X'X/n by ``seen[b, j]``. The eigenvalues sum to at most 1 for rows in the
    unit ball, so those below `least` sum to at most 1 minus the sum of the others.
    """
    known = values > least
    left = np.maximum(1 - values.sum(axis=1, where=known), 0)
    most: Array = known.sum(axis=1) + left * seen.max(axis=1)
    return most
