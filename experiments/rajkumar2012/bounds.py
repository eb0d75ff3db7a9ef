"""Rajkumar & Agarwal 2012, Theorem 5.3: how far the expected loss of `gop` may lie above that of a fixed model w_0.

The theorem has a constant kappa that it does not name. Its proof gives one if the cited result for the step from the
private rows to new ones is written with its own constants (Sridharan, Srebro & Shalev-Shwartz 2008, as quoted by Hamm
et al. 2016): with probability 1 - 2 delta', for Delta = 0,

    E phi(w_gop) - E phi(w_0) <= 2 T/(N^2 lam) + 16 (32 + log(1/delta'))/(lam N) + lam/2 ||w_0||^2,

where T is the 1 - delta' quantile of ||eta||^2 (eqs. 9 to 12). With lam = tau/||w_0||^2 the last term is tau/2, and N
is large enough when each of the other terms is tau/4. The paper bounds 32 + log(1/delta') by a constant times
log(1/delta'), which is wrong for delta' near 1; here the 32 is kept.
"""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.special import gammainccinv

from dpml.algorithms.perturbation import SMOOTHNESS, compute_slack, sigma_star
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.optim.losses import Loss, mean_loss
from dpml.privacy import Budget, Problem

TAIL = 0.05  # delta', for the noise and for the rows


def noise_quantile(budget: Budget, problem: Problem, lam: float) -> float:
    """T, the 1 - `TAIL` quantile of ||eta||^2 with the published noise; inf where the theorem does not hold.

    The theorem needs Delta = 0.
    """
    extra, left = compute_slack(budget.eps, lam, problem.N)
    if extra > 0:
        return math.inf
    sigma = sigma_star(problem.d, left, budget.require_delta("Theorem 5.3"))
    return float(sigma**2 * 2 * gammainccinv(problem.d / 2, TAIL))


def risk_bound(budget: Budget, problem: Problem, lam: float, length: float) -> float:
    """The bound above, for ||w_0|| = `length`; inf where the theorem does not hold."""
    noise_term = 2 * noise_quantile(budget, problem, lam) / (problem.N**2 * lam)
    return noise_term + 16 * (32 + math.log(1 / TAIL)) / (lam * problem.N) + lam / 2 * length**2


def rows_needed(budget: Budget, d: int, tau: float, length: float) -> int:
    """Theorem 5.3's N: with that many rows, and lam = tau/length^2, the excess is at most `tau` with probability 0.9.

    It is the largest of three: the N that the rows need, the N for Delta = 0 (``N lam >= 4 c/eps`` leaves at least half
    of eps), and the N that the noise at half of eps needs, which is more noise than there is.
    """
    lam = tau / length**2
    rows = 64 * (32 + math.log(1 / TAIL)) / (lam * tau)
    slack = 4 * SMOOTHNESS / (budget.eps * lam)
    sigma = sigma_star(d, budget.eps / 2, budget.require_delta("Theorem 5.3"))
    noise = math.sqrt(8 * sigma**2 * 2 * float(gammainccinv(d / 2, TAIL)) / (lam * tau))
    return math.ceil(max(rows, slack, noise))


def bounds(N: Sequence[int], d: int, eps: float, delta: float, lam: float, length: float) -> pd.DataFrame:
    """`risk_bound` for every N."""
    lines = [
        {"algo": "gop", "N": n, "eps": eps, "delta": delta, "d": d, "metric": "bound"}
        | {"value": risk_bound(Budget(eps, delta), Problem(1, n, d), lam, length)}
        for n in N
    ]
    return pd.DataFrame(lines)


def excess_loss(weights: Array, parties: Parties, loss: Loss, lam: float) -> Array:
    """The mean test loss of models (B, d) above that of the weights that generated the labels, w_0: (B,)."""
    data = parties.data
    if data.truth is None or not len(data.y_test):
        raise UserError(f"excess_loss needs test rows and weights that generated the labels; {data.name} has not both.")
    found = mean_loss(loss, data.X_test, data.y_test, np.vstack([weights, data.truth]))
    excess: Array = found[:-1] - found[-1]
    return excess
