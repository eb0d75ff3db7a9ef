"""DCA (Heikkilä et al. 2017) as in the authors' program: a linear model from noisy sums of clipped rows.

Every client adds noise to a secure sum, and the noise of all clients but one suffices. Every coordinate of a row is
clipped to a bound that is computed from noisy sums of squares. The model is the mean of the posterior distribution.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array
from dpml.data import Dataset, Files
from dpml.data.partition import Parties
from dpml.data.sets.synthetic import Synthetic
from dpml.mechanism.algorithm import SIMULATED, Release
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.guarantees import Proof, gaussian_proof, stated
from dpml.mechanism.message import Sum
from dpml.mechanism.program import Program
from dpml.optim.losses import Loss
from dpml.options import POSITIVE
from dpml.privacy import Budget, Guarantee, Problem, View, gdp, noise

from .theorems import SHARE, mu_of_bounds, printed_statistics

_FACTORS = np.arange(1, 21) / 10


@dataclass(frozen=True)
class DCA(Program, losses=("squared",), calibrations=("published",), lam=0.0, variants=("paper",), **SIMULATED):
    """`dca` ("proj DDP" in the program): all clients add noise, and the bounds for clipping get 0.3 of eps.

    Args:
        lam: the ridge of the objective whose gap is reported; it is not used by the algorithm.
        scale: the factor of rows and targets with entries up to 1; noise without clipping is for entries up to `scale`.
        reach: the assumed range of the numbers whose squares give the bounds; numbers outside are clipped to it.
    """

    name: ClassVar[str] = "dca"
    claim: ClassVar[str] = "Heikkilä et al. 2017"
    clips: ClassVar[bool] = True
    noise_of: ClassVar[str] = "clients"

    scale: Annotated[float, POSITIVE] = 5.0
    reach: Annotated[float, POSITIVE] = 7.5

    def share(self, M: int) -> float:
        """Return the variance of the noise in a sum, divided by a trusted aggregator's (clients add 1/(M - 1) each)."""
        return {"clients": M / max(M - 1, 1), "curator": 1.0, "everybody": float(M)}[self.noise_of]

    def left(self, problem: Problem) -> dict[View, float]:
        """Return the share of the noise that each observer does not know; colluding clients know their own noise."""
        shown: dict[View, float] = {"release": 1.0, "aggregate": 1.0, "colluders": problem.honest / problem.M}
        if self.noise_of == "everybody":
            shown["client"] = 1 / problem.M
        return {"release": 1.0} if self.noise_of == "curator" else shown

    def mus(self, budget: Budget, d: int) -> tuple[float, float]:
        """Return the mu of the bounds, and that of X'X and X'y, for the noise of a trusted aggregator."""
        eps, delta = budget.eps, budget.require_delta(f"algo={self.name}")
        if not self.clips:
            return 0.0, gdp.classical_mu(eps, delta)
        return mu_of_bounds(eps, delta, [self.reach] * (d + 1)), gdp.classical_mu(0.7 * eps, 0.7 * delta)

    def guarantees(self, budget: Budget, problem: Problem) -> list[Guarantee]:
        mu, delta = math.hypot(*self.mus(budget, problem.d)), budget.require_delta(self.name)
        known = {view: math.sqrt(self.share(problem.M) * part) for view, part in self.left(problem).items()}
        proofs: dict[View, Proof] = {
            v: gaussian_proof(mu / std, delta, "Theorems 1 and 2, docs/privacy/heikkila2017.md")
            for v, std in known.items()
        }
        return stated(proofs, dict.fromkeys(proofs, self.claim), "sample", budget, delta)

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        return ()

    def run(self, carrier: Carrier) -> Release:
        parties, budgets, rng, draws = carrier.mechanism.parties, carrier.budgets, carrier.rng, carrier.draws
        z, d = self.scale * np.column_stack([parties.X, parties.y]), parties.problem.d
        root = math.sqrt(self.share(parties.problem.M))
        noises = noise.gaussian(rng, (2, draws, d * (d + 1) // 2 + d))
        models = []
        for budget in budgets:  # all budgets get the same noise, multiplied by different factors
            rows, bounds = z[None], np.full((draws, d + 1), self.scale)
            if self.clips:
                bounds = self.bounds(z, budget, root * noises[0, :, : d + 1])
                rows = np.clip(z, -bounds[:, None], bounds[:, None])
            widths = root / self.mus(budget, d)[1] * printed_statistics(bounds)
            gram, target = np.split(np.einsum("bni,bnj->bij", rows[..., :d], rows, optimize=True), [d], axis=-1)
            models.append(posterior(gram, target[..., 0], widths[:, None] * noises[1]))
        return Release(np.stack(models))

    def bounds(self, z: Array, budget: Budget, unit: Array) -> Array:
        """Return clipping bounds, multiples of noisy standard deviations; a negative mean square counts as 1/2."""
        (n, d), eps, delta = (len(z), z.shape[1] - 1), budget.eps, budget.require_delta(self.name)
        printed = self.reach * math.sqrt(d + 1) / gdp.classical_mu(SHARE * eps, SHARE * delta)
        variances = (np.sum(np.clip(z, -self.reach, self.reach) ** 2, axis=0) + printed * unit) / n
        x, y = thresholds(n, d, eps, delta)
        return np.minimum(np.array([x] * d + [y]) * np.sqrt(np.where(variances > 0, variances, 0.5)), self.reach)


@dataclass(frozen=True)
class Unprojected(DCA):
    """`dca_unprojected` ("DDP"): rows are not clipped, so X'X and X'y get all of eps."""

    name: ClassVar[str] = "dca_unprojected"
    clips: ClassVar[bool] = False


@dataclass(frozen=True)
class Curator(DCA):
    """`dca_curator` ("proj TA"): a trusted aggregator draws the noise."""

    name: ClassVar[str] = "dca_curator"
    noise_of: ClassVar[str] = "curator"


@dataclass(frozen=True)
class InputPerturbed(Unprojected):
    """`dca_input` ("input perturbed"): every client adds as much noise as a trusted aggregator would."""

    name: ClassVar[str] = "dca_input"
    noise_of: ClassVar[str] = "everybody"


def posterior(gram: Array, target: Array, added: Array) -> Array:
    """Return models (..., d) from X'X, X'y and noise (..., d (d + 1)/2 + d); negative eigenvalues change their sign."""
    low = np.tril_indices(gram.shape[-1])
    noisy = np.broadcast_to(gram, (*np.broadcast_shapes(gram.shape[:-2], added.shape[:-1]), *gram.shape[-2:])).copy()
    noisy[..., low[0], low[1]] += added[..., : len(low[0])]
    values, vectors = np.linalg.eigh(noisy)  # reads only the lower half
    along = np.einsum("...ij,...i->...j", vectors, target + added[..., len(low[0]) :]) / (np.abs(values) + 1)
    return np.einsum("...ij,...j->...i", vectors, along)


@lru_cache(maxsize=256)
def thresholds(n: int, d: int, eps: float, delta: float, sets: int = 4, noises: int = 5) -> tuple[float, float]:
    """Return the factors of standard deviations that are best on generated rows (the program: 20 sets, 20 draws)."""
    rng, errors = np.random.default_rng(1), np.zeros((20, 20))
    unit = math.sqrt(n / (n - 1)) / gdp.classical_mu(eps, delta)
    for _ in range(sets):
        x, y = auxiliary(rng, n, d, rng.standard_normal(d))
        tried = unit * rng.standard_normal((noises, 1, d * (d + 1) // 2 + d))
        heights = _FACTORS * np.std(y, ddof=1)
        for i, c in enumerate(_FACTORS * np.std(x, ddof=1)):
            cut = np.clip(x, -c, c)
            squared = d * c**4 + 2 * d * (d - 1) * c**4 + 4 * d * (c * heights) ** 2
            targets = np.clip(y, -heights[:, None], heights[:, None]) @ cut
            models = posterior(cut.T @ cut, targets, squared[:, None] ** 2 * tried)  # the program squares it again
            errors[i] += np.mean(np.abs(models @ x.T - y), axis=(0, 2))
    i, j = divmod(int(np.argmin(errors)), 20)
    return float(_FACTORS[i]), float(_FACTORS[j])


def mean_absolute_error(weights: Array, parties: Parties, loss: Loss, lam: float) -> Array:
    """Return the paper's error measure on the test rows: (B,)."""
    return np.mean(np.abs(parties.data.X_test @ weights.T - parties.data.y_test[:, None]), axis=0)


def auxiliary(rng: Generator, n: int, d: int, weights: Array) -> tuple[Array, Array]:
    """Generate rows x of norm 1, from centred normal features, and y = x'w plus a normal variable, centred."""
    x = rng.standard_normal((n, d))
    x -= x.mean(axis=0)
    x /= np.linalg.norm(x, axis=1, keepdims=True) * (1 + 1e-12)
    y = x @ weights + rng.standard_normal(n)
    return x, y - y.mean()


@dataclass(frozen=True)
class MadeUp(Synthetic):
    """Generated rows as the program uses for its thresholds; targets are divided by 5 and clipped to 1."""

    def load(self, files: Files, N: int | None, rng: Generator) -> Dataset:
        n, weights = N or self.rows, rng.standard_normal(self.d)
        x, y = auxiliary(rng, n + self.test_rows, self.d, weights)
        y = np.clip(y / 5, -1, 1)
        known: dict[str, Any] = {"source": repr(self), "sha256": None, "rows": len(y), "preprocessing": {}}
        return Dataset("made_up", "regression", x[:n], y[:n], x[n:], y[n:], known)
