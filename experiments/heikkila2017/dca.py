"""DCA (Heikkilä et al. 2017) as the authors' program computes it: a linear model from noisy sums of clipped rows.

Every client adds its share of the noise to what it sends, so that a secure sum has all of it. That is `ssp` with one
colluder; here are the paper's noise, bounds and prior: rows are clipped in every coordinate to bounds, which come from
noisy sums of squares, and the model is the mean of the posterior with unit precisions of prior and noise.
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
from dpml.data import Dataset, Files
from dpml.data.partition import Parties
from dpml.data.sets.synthetic import Synthetic
from dpml.mechanism.algorithm import Release
from dpml.mechanism.guarantees import stated
from dpml.mechanism.options import check_choice, check_common, check_positive
from dpml.mechanism.outputs import Proof, gaussian_proof
from dpml.optim.losses import Loss
from dpml.packs.heikkila2017.theorems import SHARE, mu_of_bounds, printed_statistics
from dpml.privacy import Budget, Calibration, Guarantee, Problem, View, gdp

_FACTORS = np.arange(1, 21) / 10


@dataclass(frozen=True)
class DCA:
    """`dca`, which the program calls proj DDP: noise of all clients, rows clipped to bounds for which 0.3 of eps pays.

    Args:
        loss: squared.
        calibration: `published` noise.
        variant: `paper`.
        lam: of the objective whose gap is reported; no part of the algorithm.
        scale: rows and targets, at most 1, are multiplied by it; where they are not clipped the noise is for this range.
        reach: the assumed range of what is squared for the bounds.
    """

    prepare = prepare_rows
    name: ClassVar[str] = "dca"
    auxiliary: ClassVar[float] = 0.0
    claim: ClassVar[str] = "Heikkilä et al. 2017"
    clips: ClassVar[bool] = True

    loss: Loss
    calibration: Calibration = "published"
    variant: str = "paper"
    lam: float = 0.0
    scale: float = 5.0
    reach: float = 7.5

    def __post_init__(self) -> None:
        check_common(self, ("squared",))
        check_choice(f"calibration of algo={self.name}", self.calibration, ("published",))
        for key in ("scale", "reach"):
            check_positive(f"algo.{key} of {self.name}", getattr(self, key))

    def share(self, M: int) -> float:
        """The variance of all noise in a sum, over a trusted aggregator's: M clients add 1/(M - 1) of it each."""
        return M / max(M - 1, 1)

    def left(self, problem: Problem) -> dict[View, float]:
        """By view, the share of the noise that it does not know; colluding clients know their own."""
        return {"release": 1.0, "aggregate": 1.0, "colluders": problem.honest / problem.M}

    def mus(self, budget: Budget, d: int) -> tuple[float, float]:
        """mu of the bounds and of X'X and X'y, for a trusted aggregator's noise."""
        eps, delta = budget.eps, budget.require_delta(f"algo={self.name}")
        if not self.clips:
            return 0.0, gdp.classical_mu(eps, delta)
        return mu_of_bounds(eps, delta, [self.reach] * (d + 1)), gdp.classical_mu((1 - SHARE) * eps, (1 - SHARE) * delta)

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        """Of all noisy sums."""
        mu, share, delta = math.hypot(*self.mus(budget, problem.d)), self.share(problem.M), budget.require_delta(self.name)
        proofs: dict[View, Proof] = {
            view: gaussian_proof(mu / math.sqrt(share * part), delta, "Gaussian DP of the noisy sums")
            for view, part in self.left(problem).items()
        }
        return stated(proofs, dict.fromkeys(proofs, self.claim), "sample", budget, delta)

    def released(self, parties: Parties, budgets: Sequence[Budget], rng: Generator, draws: int) -> Release:
        """The means of the posteriors."""
        z, d = self.scale * np.column_stack([parties.X, parties.y]), parties.problem.d
        noises = rng.standard_normal((2, draws, d * (d + 1) // 2 + d))  # budgets share their noise directions
        return Release(np.stack([self._models(z, budget, parties.problem.M, *noises) for budget in budgets]))

    def _models(self, z: Array, budget: Budget, M: int, of_squares: Array, of_sums: Array) -> Array:
        n, d, root = len(z), z.shape[1] - 1, math.sqrt(self.share(M))
        bounds = np.full((len(of_sums), d + 1), self.scale)
        if self.clips:
            squares = np.sum(np.clip(z, -self.reach, self.reach) ** 2, axis=0)
            mu = self.mus(budget, d)[0] / self.reach  # the program's own
            variances = (squares + root * self.reach * math.sqrt(d + 1) / mu * of_squares[:, : d + 1]) / n
            x, y = thresholds(n, d, budget.eps, budget.require_delta(self.name))
            bounds = np.minimum(np.array([x] * d + [y]) * np.sqrt(np.where(variances > 0, variances, 0.5)), self.reach)
        rows = np.clip(z, -bounds[:, None], bounds[:, None]) if self.clips else z[None]
        return posterior(rows, (root / self.mus(budget, d)[1] * printed_statistics(bounds))[:, None] * of_sums, d)


@dataclass(frozen=True)
class Unprojected(DCA):
    """`dca_unprojected`, DDP: no bounds; all of eps for rows as they are."""

    name: ClassVar[str] = "dca_unprojected"
    clips: ClassVar[bool] = False


@dataclass(frozen=True)
class Curator(DCA):
    """`dca_curator`, proj TA: a trusted aggregator draws the noise."""

    name: ClassVar[str] = "dca_curator"

    def share(self, M: int) -> float:
        return 1.0

    def left(self, problem: Problem) -> dict[View, float]:
        return {"release": 1.0}


@dataclass(frozen=True)
class InputPerturbed(Unprojected):
    """`dca_input`, input perturbed: every client adds all of the noise, and trusts nobody."""

    name: ClassVar[str] = "dca_input"

    def share(self, M: int) -> float:
        return float(M)

    def left(self, problem: Problem) -> dict[View, float]:
        return super().left(problem) | {"client": 1 / problem.M}


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
    """The factors of standard deviations, from 0.1 to 2, that are best in mean absolute error on public made-up rows.

    With the noise that the program tries them with: the square of its squared sensitivity. It has 20 sets, 20 noises each.
    """
    rng, errors = np.random.default_rng(1), np.zeros((20, 20))
    for _ in range(sets):
        x, y = auxiliary(rng, n, d, rng.standard_normal(d))
        spread, heights = np.std(x, ddof=1), _FACTORS * np.std(y, ddof=1)
        targets = np.clip(y, -heights[:, None], heights[:, None])[..., None]
        for _ in range(noises):
            unit = math.sqrt(n / (n - 1)) / gdp.classical_mu(eps, delta) * rng.standard_normal(d * (d + 1) // 2 + d)
            for i, c in enumerate(_FACTORS * spread):
                rows = np.concatenate([np.broadcast_to(np.clip(x, -c, c), (20, n, d)), targets], -1)
                squared = d * c**4 + 2 * d * (d - 1) * c**4 + 4 * d * (c * heights) ** 2
                models = posterior(rows, (squared**2)[:, None] * unit, d)
                errors[i] += np.mean(np.abs(x @ models.T - y[:, None]), axis=0)
    i, j = np.unravel_index(np.argmin(errors), errors.shape)
    return float(_FACTORS[i]), float(_FACTORS[j])


def auxiliary(rng: Generator, n: int, d: int, weights: Array) -> tuple[Array, Array]:
    """Made-up rows: normal features, centred, then of norm 1, and y = x'w plus a normal number, centred."""
    x = rng.standard_normal((n, d))
    x -= x.mean(axis=0)
    x /= np.linalg.norm(x, axis=1, keepdims=True) * (1 + 1e-12)
    y = x @ weights + rng.standard_normal(n)
    return x, y - y.mean()


@dataclass(frozen=True)
class MadeUp(Synthetic):
    """Rows as the program makes them up for its thresholds; targets are divided by 5 and clipped to 1."""

    def load(self, files: Files, N: int | None, rng: Generator) -> Dataset:
        """As a data set."""
        n, weights = N or self.rows, rng.standard_normal(self.d)
        x, y = auxiliary(rng, n + self.test_rows, self.d, weights)
        y = np.clip(y / 5, -1, 1)
        known = {"source": repr(self), "sha256": None, "rows": len(y), "preprocessing": {}}
        return Dataset("made_up", "regression", x[:n], y[:n], x[n:], y[n:], known)
