"""DCA (Heikkilä et al. 2017) as the authors' program computes it: a linear model from noisy sums of clipped rows.

Every client adds its share of the noise to what it sends, so that a secure sum has all of it. In dpml that is `ssp` with
one colluder; this has the paper's noise, bounds and prior: rows are clipped in every coordinate to bounds, which come
from noisy sums of squares, and the model is the mean of the posterior with unit precisions of prior and noise.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dpml.algorithms.prepared import prepare_rows
from dpml.arrays import Array
from dpml.data import Dataset, Files, Info
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.mechanism.algorithm import Release
from dpml.mechanism.guarantees import stated
from dpml.mechanism.options import check_common, check_positive
from dpml.mechanism.outputs import Proof, gaussian_proof
from dpml.optim.losses import Loss
from dpml.papers.heikkila2017.theorems import SHARE, mu_of_bounds, printed_statistics
from dpml.privacy import Budget, Calibration, Guarantee, Problem, View, gdp

VARIANTS = ("paper", "unprojected", "curator", "curator_unprojected", "input", "none")
"""What the program calls proj DDP, DDP, proj TA, TA, input perturbed and NP."""
SOURCE = "Gaussian DP of the noisy sums"
_FACTORS = np.arange(1, 21) / 10


@dataclass(frozen=True)
class DCA:
    """`dca`: Bayesian linear regression from noisy X'X and X'y.

    Args:
        loss: squared.
        calibration: `published` noise.
        variant: `paper`: clipped rows, clients' noise; `unprojected`: all of eps for rows that are not clipped;
            `curator` and `curator_unprojected`: a trusted aggregator's noise, 1 - 1/M of the variance; `input`: every
            client adds all of the noise; `none`: no noise, not clipped.
        lam: of the objective whose gap is reported; no part of the algorithm.
        scale: rows and targets, at most 1, are multiplied by it; where they are not clipped the noise is for this range.
        reach: the assumed range of what is squared for the bounds.
    """

    prepare = prepare_rows
    name: ClassVar[str] = "dca"
    auxiliary: ClassVar[float] = 0.0
    claim: ClassVar[str] = "Heikkilä et al. 2017"

    loss: Loss
    calibration: Calibration = "published"
    variant: str = "paper"
    lam: float = 0.0
    scale: float = 5.0
    reach: float = 7.5

    def __post_init__(self) -> None:
        check_common(self, ("squared",), VARIANTS)
        for key in ("scale", "reach"):
            check_positive(f"algo.{key} of {self.name}", getattr(self, key))
        if self.calibration != "published":
            raise UserError(f"algo={self.name} is published noise: set calibration=published.")

    @property
    def clips(self) -> bool:
        """Whether rows are clipped to noisy bounds."""
        return self.variant in ("paper", "curator")

    def share(self, problem: Problem) -> float:
        """The variance of all noise in a sum, over a trusted aggregator's.

        Raises:
            UserError: one client alone has nobody to share with.
        """
        if self.variant.startswith("curator"):
            return 1.0
        if problem.M == 1:
            raise UserError(f"algo={self.name} algo.variant={self.variant} needs M of at least 2 clients.")
        return float(problem.M) if self.variant == "input" else problem.M / (problem.M - 1)

    def mus(self, budget: Budget, problem: Problem) -> tuple[float, float]:
        """mu of the bounds (0: there are none) and of X'X and X'y, for a trusted aggregator's noise."""
        delta = budget.require_delta(f"algo={self.name}")
        if self.variant == "none" or math.isinf(budget.eps):
            return math.inf, math.inf
        if not self.clips:
            return 0.0, gdp.classical_mu(budget.eps, delta)
        of_sums = gdp.classical_mu((1 - SHARE) * budget.eps, (1 - SHARE) * delta)
        return mu_of_bounds(budget.eps, delta, [self.reach] * (problem.d + 1)), of_sums

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """Of the sums; of colluding clients, who know their own noise; with `input`, of one client's message."""
        delta, mu = budget.require_delta(f"algo={self.name}"), math.hypot(*self.mus(budget, problem))
        left: dict[View, float] = {"release": 1.0, "aggregate": 1.0}
        if not self.variant.startswith("curator") and self.variant != "none":
            left["colluders"] = problem.honest / problem.M
            if self.variant == "input":
                left["client"] = 1 / problem.M
        noise = 1.0 if self.variant == "none" else self.share(problem)
        proofs: dict[View, Proof] = {
            view: gaussian_proof(mu / math.sqrt(noise * part), delta, SOURCE) for view, part in left.items()
        }
        claims = {} if self.variant == "none" else dict.fromkeys(proofs, self.claim)
        return stated(proofs, claims, "sample", budget, delta)

    def released(self, parties: Parties, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """The means of the posteriors."""
        z = self.scale * np.column_stack([parties.X, parties.y])
        d = z.shape[1] - 1
        noises = rng.standard_normal((2, draws, d * (d + 1) // 2 + d))  # budgets share their noise directions
        models = [self._models(z, budget, parties.problem, noises) for budget in budgets]
        return Release(np.stack(models))

    def _models(self, z: Array, budget: Budget, problem: Problem, noises: Array) -> Array:
        n, d = len(z), z.shape[1] - 1
        of_bounds, of_sums = self.mus(budget, problem)
        root = 1.0 if self.variant == "none" else math.sqrt(self.share(problem))
        bounds, clipped = np.full((noises.shape[1], d + 1), self.scale), z[None]
        if self.clips:
            width = root * self.reach * math.sqrt(d + 1) / self._own(of_bounds, budget)
            squares = np.sum(np.clip(z, -self.reach, self.reach) ** 2, axis=0)
            variances = (squares + width * noises[0, :, : d + 1]) / n
            factors = thresholds(n, d, budget.eps, budget.require_delta(self.name))
            spread = np.sqrt(np.where(variances > 0, variances, 0.5))
            bounds = np.minimum(np.array([factors[0]] * d + [factors[1]]) * spread, self.reach)
            clipped = np.clip(z, -bounds[:, None], bounds[:, None])
        widths = root * printed_statistics(bounds) / of_sums
        return posterior(clipped, widths[:, None] * noises[1], d)

    def _own(self, of_bounds: float, budget: Budget) -> float:
        """mu of the bounds as the program counts it."""
        return of_bounds if math.isinf(of_bounds) else gdp.classical_mu(SHARE * budget.eps, SHARE * budget.require_delta(""))


def posterior(rows: Array, noise: Array, d: int) -> Array:
    """Models from the sums over rows (B or 1, n, d + 1) plus noise (B, d (d + 1)/2 + d): (B, d).

    Negative eigenvalues of the noisy X'X get the opposite sign, as in the program.
    """
    low = np.tril_indices(d)
    both = np.einsum("bni,bnj->bij", rows[..., :d], rows, optimize=True)
    gram = both[..., :d] + np.zeros((len(noise), 1, 1))
    gram[:, low[0], low[1]] += noise[:, : len(low[0])]
    gram[:, low[1], low[0]] = gram[:, low[0], low[1]]
    values, vectors = np.linalg.eigh(gram)
    target = both[..., d] + noise[:, len(low[0]) :]
    along = np.einsum("bij,bi->bj", vectors, target) / (np.abs(values) + 1)
    return np.einsum("bij,bj->bi", vectors, along)


@lru_cache(maxsize=256)
def thresholds(n: int, d: int, eps: float, delta: float, sets: int = 4, noises: int = 5) -> tuple[float, float]:
    """The factors of standard deviations that are best in mean absolute error on public made-up rows, from 0.1 to 2.

    With the noise that the program tries them with: the square of its sensitivity's square. It has 20 sets and 20
    noises each.
    """
    if math.isinf(eps):
        return 2.0, 2.0
    rng, errors = np.random.default_rng(1), np.zeros((20, 20))
    for _ in range(sets):
        x, y = auxiliary(rng, n, d)
        spread_x, spread_y = np.std(x, ddof=1), np.std(y, ddof=1)
        for _ in range(noises):
            unit = math.sqrt(n / (n - 1)) / gdp.classical_mu(eps, delta) * rng.standard_normal(d * (d + 1) // 2 + d)
            for i, factor in enumerate(_FACTORS):
                c, cy = factor * spread_x, _FACTORS * spread_y
                squared = d * c**4 + 2 * d * (d - 1) * c**4 + 4 * d * (c * cy) ** 2
                cut = np.clip(x, -c, c)
                rows = np.concatenate([np.broadcast_to(cut, (20, n, d)), np.clip(y, -cy[:, None], cy[:, None])[..., None]], -1)
                models = posterior(rows, (squared**2)[:, None] * unit, d)
                errors[i] += np.mean(np.abs(x @ models.T - y[:, None]), axis=0)
    i, j = np.unravel_index(np.argmin(errors), errors.shape)
    return float(_FACTORS[i]), float(_FACTORS[j])


def auxiliary(rng: Generator, n: int, d: int, weights: Array | None = None) -> tuple[Array, Array]:
    """Made-up rows: centred normal features of norm 1, and y = x'b plus a normal number, b normal, centred."""
    x = rng.standard_normal((n, d))
    x -= x.mean(axis=0)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = x @ (rng.standard_normal(d) if weights is None else weights) + rng.standard_normal(n)
    return x, y - y.mean()


@dataclass(frozen=True)
class MadeUp:
    """Rows as the program makes them for its thresholds, with targets divided by 5 and clipped to 1.

    Args:
        d: features.
        rows: training rows, unless N says otherwise.
        test_rows: beside them.
    """

    d: int = 8
    rows: int = 3000
    test_rows: int = 1000
    info: ClassVar[Info] = Info(name="made_up", title="Made-up rows", task="regression", citation="Heikkilä et al. 2017")

    def size(self, N: int | None) -> tuple[int, int]:
        return N or self.rows, self.d

    def load(self, files: Files, N: int | None, rng: Generator) -> Dataset:
        n, weights = N or self.rows, rng.standard_normal(self.d)
        x, y = auxiliary(rng, n + self.test_rows, self.d, weights)
        x, y = x * (1 - 1e-12), np.clip(y / 5, -1, 1)
        provenance = {"source": repr(self), "sha256": None, "rows": len(y), "preprocessing": {}}
        return Dataset("made_up", "regression", x[:n], y[:n], x[n:], y[n:], provenance)
