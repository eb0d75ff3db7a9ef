"""Compute the bounds of Theorems 2 and 3 and of Table 1 of Kang, Liu & Wang 2019.

The argument `figures` has the number p of features, the loss's Lipschitz constant G, the number N of rows, T rounds,
the regulariser's coefficient lam, eps and delta. A setting has M parties; the smallest has n_min rows.
"""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from dpml.arrays import Array

SMOOTHNESS, DIAMETER = 0.25, 1.0  # L, and the diameter D of the set of models in Zhang et al. 2017

METHODS = {
    "Pathak et al. 2010": ("yes", "no"),
    "Jayaraman et al. 2018": ("yes", "no"),
    "Zhang et al. 2017": ("no", "yes"),
    "Wang et al. 2017": ("no", "yes"),
    "WD-DP": ("yes", "yes"),
}
"""Whether each method is distributed, and whether it allows non-convex losses."""


def excess_risk_bound(
    p: int, T: int, lam: float | Array, smoothness: float, variance: float | Array, start: float | Array
) -> Any:
    """Return the bound (11) on E[R(w_T)] - min R after T rounds with step 1/L, from the initial gap `start`.

    R is L-smooth, and lam-strongly convex (Thm 2) or satisfies ``||grad R||^2 >= 2 lam (R - min R)`` (Thm 3).
    `variance` is the noise's variance in every entry of the gradient that descent uses. The paper inserts a client's
    sigma^2, but the weighted average of M clients' noise has variance sigma^2 sum (N_k/N)^2.
    """
    left = (1 - lam / smoothness) ** T
    return left * start + p * variance / (2 * lam) * (1 - left)


def published_bounds(figures: Mapping[str, Any], M: int, n_min: int) -> dict[str, tuple[float, float]]:
    """Return, by method, the orders of the noise variance and the excess risk in Table 1, without constants."""
    p, G, N, T, lam, eps, delta = (figures[key] for key in ("p", "G", "N", "T", "lam", "eps", "delta"))
    log = math.log(1 / delta)
    spread, length = (M - 1) / n_min, p / (n_min * eps) * math.log(p / delta)
    pathak = (lam + 1) / lam**2 * (spread**2 + length**2 + spread * length)
    inside, zhang = M * n_min, p * math.log(N / delta) * log
    central, in_mpc = (G**2 * log / (n * eps) ** 2 for n in (N, inside))
    jayaraman = p * SMOOTHNESS * (math.log(inside) / lam) ** 2 * in_mpc
    orders = (
        (math.nan, pathak),
        (T * in_mpc, jayaraman),
        (G**2 * (zhang / eps**2 + 1), G * math.sqrt(zhang) * DIAMETER / (N * eps)),
        (T * central, p * math.log(N) ** 2 * central),
        (T * central, p * math.log(N) * central),
    )
    return dict(zip(METHODS, orders, strict=True))


def table1(settings: Mapping[str, Mapping[str, Any]], figures: Mapping[str, Any]) -> pd.DataFrame:
    """Compute Table 1 at named `settings` of M and n_min: a row for each setting, method and metric."""
    rows = []
    for name, own in settings.items():
        for method, orders in published_bounds(figures, **own).items():
            distributed, nonconvex = METHODS[method]
            columns = {"setting": name, "method": method, "distributed": distributed, "non-convex": nonconvex}
            for metric, value in zip(("noise_variance_order", "excess_risk_order"), orders, strict=True):
                rows.append(columns | {"metric": metric, "value": value})
    return pd.DataFrame(rows)


def theorem2(
    settings: Mapping[str, Mapping[str, Any]], lam: float, eps: float, delta: float, T: int, c: float = 16.0
) -> pd.DataFrame:
    """Compute Theorem 2's bound for wddp with synchronous rounds, logistic loss, M equal clients and w_0 = 0.

    It is computed with sigma^2, which the proof uses for the average, and with sigma^2 / M, the true variance of the
    average. Both use the sigma for the constant c, and an initial gap of at most log 2. `settings` have p, N and M.
    """
    rows = []
    for name, own in settings.items():
        sigma2 = c * T * math.log(1 / delta) / (own["N"] * eps) ** 2
        for metric, variance in (("gap_as_printed", sigma2), ("gap_of_average", sigma2 / own["M"])):
            bound = excess_risk_bound(own["p"], T, lam, SMOOTHNESS + lam, variance, math.log(2))
            rows.append({"setting": name, "M": own["M"], "eps": eps, "metric": metric, "value": bound})
    return pd.DataFrame(rows)


def factors(settings: Mapping[str, Mapping[str, Any]], figures: Mapping[str, Any]) -> pd.DataFrame:
    """Compute the factors that Table 1 and Remark 1 state, and those of the paper's formulas, by setting.

    `noise_ratio` and `risk_ratio` are WD-DP's orders divided by Jayaraman et al.'s. `remark1` is the noise term of (12)
    divided by that of (11).
    """
    N, lam, rows = figures["N"], figures["lam"], []
    x = lam / (lam + SMOOTHNESS)
    proof = math.ceil(2 * math.log(N) / -math.log1p(-x))
    for name, own in settings.items():
        bounds = published_bounds(figures, **own)
        (noise, risk), (noise_there, risk_there) = bounds["WD-DP"], bounds["Jayaraman et al. 2018"]
        inside = own["M"] * own["n_min"]
        found = {
            ("noise_ratio", "as printed"): noise / noise_there,
            ("noise_ratio", "stated"): (inside / N) ** 2,
            ("risk_ratio", "as printed"): risk / risk_there,
            ("risk_ratio", "without the regulariser"): risk / risk_there * SMOOTHNESS / lam**2,
            ("risk_ratio", "stated"): (inside / N) ** 2 * math.log(N) / math.log(inside) ** 2,
            ("remark1", "T of the proof"): proof * x / -math.expm1(proof * math.log1p(-x)),
            ("remark1", "T of the figures"): figures["T"] * x / -math.expm1(figures["T"] * math.log1p(-x)),
            ("remark1", "stated"): math.log(N),
        }
        rows += [
            {"setting": name, "reading": reading, "metric": metric, "value": value}
            for (metric, reading), value in found.items()
        ]
    return pd.DataFrame(rows)
