"""Compare Theorems 2 and 3 of Kang, Liu & Wang 2019 with the excess risk of `wddp` on real rows.

Both theorems need ``||grad R||^2 >= 2 mu (R - min R)``: Theorem 2 with mu = lam, for a convex loss with a regulariser;
Theorem 3 with some mu > 0 (Polyak-Lojasiewicz). For a loss that is not convex, mu is measured as the least ``||grad
R||^2 / (2 (R - min R))`` over models on the path; the condition may not hold for other models. For such a loss, min R
is the least value found from several starts. If this value is too high, the excess risk is too small and mu too large.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize

from dpml.algorithms import Release
from dpml.algorithms.descent.noisy_descent import NoisyDescent, Sites
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.message import Statistic
from dpml.optim.convex import least

from .bounds import excess_risk_bound

EVERY = 20  # rounds between two measured models
STARTS = 8  # initial models of the search for a non-convex loss's minimum


@dataclass(frozen=True)
class MeasuredDescent(NoisyDescent):
    """`wddp` with step 1/L in synchronous rounds; it also reports the quantities in the theorems.

    The metrics read private rows: `excess_risk` is R(w_T) - min R; `theorem2_bound` bounds its mean for a convex loss;
    `theorem3_bound` is the bound with the measured mu, which is `pl_constant`.
    """

    in_step: ClassVar[bool] = False
    sites: Sites = "clients"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.layout.synchronous or self.step_selection != "fixed" or self.step is not None:
            raise UserError(
                "the theorems need algo.variant=synchronous or once, and algo.step_selection=fixed with algo.step=null."
            )

    def run(self, carrier: Carrier) -> Release:
        seen: list[Array] = []
        rounds = iter(range(self.rounds))

        def keep(of: Statistic, at: tuple[Array, ...]) -> None:
            if next(rounds) % EVERY == 0:
                seen.append(carrier.by_budget(at[0]))

        heard = replace(carrier.mechanism, announce=keep)
        own = Carrier(heard, carrier.budgets, carrier.rng, carrier.draws, carrier.observer)
        last: Array = carrier.by_budget(self.descend(own, 0))
        noises = np.array([messages[0].block_widths()[0] for messages in carrier.messages])
        path = np.array([*seen, last])
        return Release(last, self._measured(carrier, path, noises))

    def _measured(self, carrier: Carrier, path: Array, noises: Array) -> dict[str, Array]:
        parties = carrier.mechanism.parties
        gradient = carrier.mechanism.terms(carrier.statistic(0)).total
        slopes = gradient(path.reshape(-1, path.shape[-1])).reshape(path.shape) + self.lam * path
        values = self.objective(parties, path)
        minimum = min(self.minimum(parties, gradient), values.min())
        excess = values - minimum
        ratios = np.einsum("...j,...j->...", slopes, slopes) / (2 * np.where(excess > 0, excess, np.nan))
        # where the value equals the minimum up to rounding, the ratio is meaningless
        found = np.nanmin(np.where(excess > 1e-9, ratios, np.nan), axis=0)
        metrics = {
            "excess_risk": excess[-1],
            "theorem3_bound": self._bound(path.shape[-1], found, noises, excess[0]),
            "pl_constant": found,
        }
        if self.loss.convex and self.lam > 0:
            metrics["theorem2_bound"] = self._bound(path.shape[-1], np.full_like(found, self.lam), noises, excess[0])
        return metrics

    def _bound(self, d: int, constants: Array, noises: Array, start: Array) -> Any:
        smoothness, T = 1 / self.largest, self.rounds
        return excess_risk_bound(d, T, np.minimum(constants, smoothness), smoothness, noises[:, None] ** 2, start)

    def minimum(self, parties: Parties, gradient: Callable[[Array], Array]) -> float:
        """Return the minimum of the objective; for a non-convex loss, the least value from several starts."""
        if self.loss.convex:
            return least(parties, self.loss, self.lam)
        rng, d = np.random.default_rng(0), parties.problem.d
        lengths = np.geomspace(0.1, 30, STARTS - 1)[:, None]
        starts = np.vstack([np.zeros(d), lengths * rng.standard_normal((STARTS - 1, d)) / np.sqrt(d)])

        def value(w: Array) -> float:
            return float(self.objective(parties, w[None])[0])

        def slope(w: Array) -> Array:
            return gradient(w[None])[0] + self.lam * w

        found = [minimize(value, w, jac=slope, method="L-BFGS-B", options={"maxiter": 300}).fun for w in starts]
        return float(min(found))
