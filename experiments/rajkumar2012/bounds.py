"""Compute Theorem 5.3, Proposition 5.2 and footnote 4 of Rajkumar & Agarwal 2012.

Theorem 5.3 bounds the expected loss of `gop` minus that of a fixed model w_0, with an unspecified constant kappa. Its
proof gives a value if the generalisation bound that it cites is written with its constants (Sridharan, Srebro &
Shalev-Shwartz 2008, as quoted by Hamm et al. 2016). With probability 1 - 2 delta', for Delta = 0,

    E phi(w_gop) - E phi(w_0) <= 2 T/(N^2 lam) + 16 (32 + log(1/delta'))/(lam N) + lam/2 ||w_0||^2,

where T is the 1 - delta' quantile of ||eta||^2 (eqs. 9 to 12). With lam = tau/||w_0||^2 the last term is tau/2, and N
is large enough when each of the other terms is tau/4. The paper bounds 32 + log(1/delta') by a constant times
log(1/delta'), which is wrong for delta' near 1; here the 32 is kept.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import pandas as pd
from scipy.special import gammainccinv

from dpml.algorithms.perturbation import SMOOTHNESS, GaussianObjectivePerturbation, compute_slack, sigma_star
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.optim.losses import LOSSES, Loss, mean_loss
from dpml.privacy import Budget, Problem

TAIL = 0.05  # delta', for the noise and for the rows


def noise_quantile(budget: Budget, problem: Problem, lam: float) -> float:
    """Return T, the 1 - `TAIL` quantile of ||eta||^2 with the published noise; inf unless Delta = 0 (theorem)."""
    extra, left = compute_slack(budget.eps, lam, problem.N)
    if extra > 0:
        return math.inf
    sigma = sigma_star(problem.d, left, budget.require_delta("Theorem 5.3"))
    return float(sigma**2 * 2 * gammainccinv(problem.d / 2, TAIL))


def risk_bound(budget: Budget, problem: Problem, lam: float, length: float) -> float:
    """Return the bound of this module's docstring for ||w_0|| = `length`; inf if the theorem does not hold."""
    noise_term = 2 * noise_quantile(budget, problem, lam) / (problem.N**2 * lam)
    return noise_term + 16 * (32 + math.log(1 / TAIL)) / (lam * problem.N) + lam / 2 * length**2


def rows_needed(budget: Budget, d: int, tau: float, length: float) -> int:
    """Return Theorem 5.3's N: with N rows and lam = tau/length^2, the excess is at most `tau` with probability 0.9.

    It is the largest of the N for the generalisation term, the N for Delta = 0 (``N lam >= 4 c/eps`` leaves at least
    half of eps), and the N for the noise at half of eps.
    """
    lam = tau / length**2
    rows = 64 * (32 + math.log(1 / TAIL)) / (lam * tau)
    slack = 4 * SMOOTHNESS / (budget.eps * lam)
    sigma = sigma_star(d, budget.eps / 2, budget.require_delta("Theorem 5.3"))
    noise = math.sqrt(8 * sigma**2 * 2 * float(gammainccinv(d / 2, TAIL)) / (lam * tau))
    return math.ceil(max(rows, slack, noise))


def bounds(N: Sequence[int], d: int, eps: float, delta: float, lam: float, length: float) -> pd.DataFrame:
    """Compute `risk_bound` for every N."""
    lines = [
        {"algo": "gop", "N": n, "eps": eps, "delta": delta, "d": d, "metric": "bound"}
        | {"value": risk_bound(Budget(eps, delta), Problem(1, n, d), lam, length)}
        for n in N
    ]
    return pd.DataFrame(lines)


def quantile_orders(d: Sequence[int], eps: Sequence[float], delta: Sequence[float]) -> pd.DataFrame:
    """Compute T over d^2 log(1/delta) log(1/delta')/eps^2, which Proposition 5.2 bounds, on a grid.

    eps is the part of the budget that computeSlack leaves. The proof has sigma^2 <= 4 (R(delta) + eps)/eps^2 and T <=
    sigma^2 R(delta'), R(x) = d + 2 sqrt(d log(1/x)) + 2 log(1/x) <= 5 d log(1/x). So the ratio is <= 120 for eps <= 1.
    """
    lines = []
    for size, left, x, y in product(d, eps, delta, delta):
        quantile = sigma_star(size, left, x) ** 2 * 2 * gammainccinv(size / 2, y)
        ratio = quantile * left**2 / (size**2 * math.log(x) * math.log(y))
        lines.append({"d": size, "eps": left, "delta": x, "tail": y, "metric": "quantile_ratio", "value": ratio})
    return pd.DataFrame(lines)


def full_noise(shares: Mapping[str, Sequence[float]], N: int, d: int, eps: float, delta: float) -> pd.DataFrame:
    """Compute the cost and benefit of footnote 4, in which party k adds the noise of `gop` for its N_k rows; lam = 1.

    `noise_ratio` is the variance of the summed noise over that of the shared noise. The paper states that it is at
    least the number of parties. `proven_of_party` is the eps that is proven for a party's own minimiser.
    """
    budget, gop = Budget(eps, delta), GaussianObjectivePerturbation(LOSSES["logistic"], "published", lam=1.0)
    about: dict[str, object] = {"eps": eps, "delta": delta, "d": d, "N": N}

    def variance(rows: int) -> float:
        return sigma_star(d, compute_slack(eps, 1.0, rows)[1], delta) ** 2

    def ratio(parts: Sequence[float]) -> float:
        return sum(variance(round(part * N)) for part in parts) / variance(N)

    lines: list[dict[str, object]] = []
    for name, parts in shares.items():
        equal = [1 / len(parts)] * len(parts)
        stated = len(parts) if max(parts) == min(parts) else ratio(equal)
        for reading, value in (("full noise", ratio(parts)), ("stated", stated)):
            lines.append({"setting": name, "reading": reading, "metric": "noise_ratio", "value": value} | about)
        for rows in sorted({round(part * N) for part in parts}):
            proven = max(one.eps for one in gop.guarantees(budget, Problem(1, rows, d)) if one.basis == "proven")
            own = {"setting": f"{name}, {rows} rows"}
            lines += [own | {"metric": "proven_of_party", "value": proven} | about]
            lines += [own | {"metric": "claimed_of_party", "value": eps} | about]
    return pd.DataFrame(lines)


def excess_loss(weights: Array, parties: Parties, loss: Loss, lam: float) -> Array:
    """Return the mean test loss of models (B, d) minus that of w_0, the weights that generated the labels: (B,)."""
    data = parties.data
    if data.truth is None or not len(data.y_test):
        raise UserError(f"excess_loss needs test rows and weights that generated the labels; {data.name} lacks one.")
    found = mean_loss(loss, data.X_test, data.y_test, np.vstack([weights, data.truth]))
    excess: Array = found[:-1] - found[-1]
    return excess
