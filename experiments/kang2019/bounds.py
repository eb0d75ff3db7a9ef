"""Kang, Liu & Wang 2019: Theorems 2 and 3, and Table 1, as functions and as tables."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class Descent:
    """The assumptions of Theorems 2 and 3 about gradient descent with step 1/L.

    Args:
        p: features.
        T: rounds.
        lam: the constant of strong convexity (Thm 2), or of the Polyak-Lojasiewicz condition (Thm 3).
        smoothness: L, of the risk with its regulariser.
    """

    p: int
    T: int
    lam: float
    smoothness: float


def excess_risk_bound(descent: Descent, variance: float, start: float) -> float:
    """Theorems 2 and 3, ineq. (11): E[R(w_T)] - min R after T rounds with step 1/L, from a model with gap `start`.

    ``(1 - lam/L)^T start + p variance / (2 lam) (1 - (1 - lam/L)^T)``, where R is L-smooth, and lam-strongly convex
    (Thm 2) or has gradients with ``||grad R||^2 >= 2 lam (R - min R)`` (Thm 3, the Polyak-Lojasiewicz condition).

    Args:
        descent: the setting.
        variance: of the noise in every entry of the gradient that the model follows. The paper uses a client's sigma^2
            here; the weighted average of M clients' noise has variance sigma^2 sum (N_k/N)^2.
        start: R(w_0) - min R.
    """
    left = (1 - descent.lam / descent.smoothness) ** descent.T
    return left * start + descent.p * variance / (2 * descent.lam) * (1 - left)


@dataclass(frozen=True)
class BoundSetting:
    """The quantities that the bounds of Table 1 depend on.

    Args:
        p: features.
        G: the loss's Lipschitz constant.
        N: rows of all parties.
        M: parties.
        n_min: rows of the smallest party.
        T: rounds.
        lam: the regulariser's coefficient.
        eps: of the budget.
        delta: of the budget.
        smoothness: L.
        diameter: D, of the models that Zhang et al. 2017 allow.
    """

    p: int
    G: float
    N: int
    M: int
    n_min: int
    T: int
    lam: float
    eps: float
    delta: float
    smoothness: float = 0.25
    diameter: float = 1.0


@dataclass(frozen=True)
class Row:
    """A row of Table 1: the orders of the noise's variance and of the excess risk, as printed, without constants."""

    method: str
    noise: float
    excess_risk: float
    distributed: bool
    nonconvex: bool


def published_bounds(setting: BoundSetting) -> list[Row]:
    """Table 1's five rows; the paper derives constants only for the first."""
    p, G, N, n_min, lam, eps = setting.p, setting.G, setting.N, setting.n_min, setting.lam, setting.eps
    log = math.log(1 / setting.delta)
    spread, length = (setting.M - 1) / n_min, p / (n_min * eps) * math.log(p / setting.delta)
    pathak = (lam + 1) / lam**2 * (spread**2 + length**2 + spread * length)
    inside, zhang = setting.M * n_min, p * math.log(N / setting.delta) * log
    central, in_mpc = (G**2 * log / (n * eps) ** 2 for n in (N, inside))
    jayaraman = p * setting.smoothness * (math.log(inside) / lam) ** 2 * in_mpc
    central_risk = G * math.sqrt(zhang) * setting.diameter / (N * eps)
    return [
        Row("Pathak et al. 2010", math.nan, pathak, True, False),
        Row("Jayaraman et al. 2018", setting.T * in_mpc, jayaraman, True, False),
        Row("Zhang et al. 2017", G**2 * (zhang / eps**2 + 1), central_risk, False, True),
        Row("Wang et al. 2017", setting.T * central, p * math.log(N) ** 2 * central, False, True),
        Row("WD-DP", setting.T * central, p * math.log(N) * central, True, True),
    ]


def table1(  # many parameters: the keys of a block in an experiment's file
    settings: Mapping[str, Mapping[str, Any]],
    p: int,
    G: float,
    N: int,
    T: int,
    lam: float,
    eps: float,
    delta: float,
) -> pd.DataFrame:
    """Table 1 at named `settings` of M and n_min: a row per setting, method and metric."""
    rows = []
    for name, own in settings.items():
        for bounds in published_bounds(BoundSetting(p, G, N, own["M"], own["n_min"], T, lam, eps, delta)):
            columns = {
                "setting": name,
                "method": bounds.method,
                "distributed": "yes" if bounds.distributed else "no",
                "non-convex": "yes" if bounds.nonconvex else "no",
            }
            rows.append(columns | {"metric": "noise_variance_order", "value": bounds.noise})
            rows.append(columns | {"metric": "excess_risk_order", "value": bounds.excess_risk})
    return pd.DataFrame(rows)


def theorem2(
    settings: Mapping[str, Mapping[str, Any]], lam: float, eps: float, delta: float, T: int, c: float = 16.0
) -> pd.DataFrame:
    """Theorem 2's bound for wddp with synchronous rounds, logistic loss, M equal clients and w_0 = 0.

    The bound is given with the noise that the proof has in the average, sigma^2, and with the variance of the average
    of M clients' noise, sigma^2 / M. Both use the sigma of c, and a start with a gap of at most log 2.

    Args:
        settings: p, N and M of every named setting.
        lam: the regulariser's coefficient.
        eps: of the budget.
        delta: of the budget.
        T: rounds.
        c: the published noise's constant.
    """
    rows = []
    start = math.log(2)
    for name, own in settings.items():
        descent = Descent(own["p"], T, lam, 0.25 + lam)
        sigma2 = c * T * math.log(1 / delta) / (own["N"] * eps) ** 2
        for metric, variance in (("gap_as_printed", sigma2), ("gap_of_average", sigma2 / own["M"])):
            bound = excess_risk_bound(descent, variance, start)
            rows.append({"setting": name, "M": own["M"], "eps": eps, "metric": metric, "value": bound})
    return pd.DataFrame(rows)


def factors(  # many parameters: the keys of a block in an experiment's file
    settings: Mapping[str, Mapping[str, Any]],
    p: int,
    G: float,
    N: int,
    T: int,
    lam: float,
    eps: float,
    delta: float,
) -> pd.DataFrame:
    """The factors of Table 1 and Remark 1 beside what the formulas give: a row per setting, reading and metric.

    `noise_ratio` and `risk_ratio` are WD-DP's orders over Jayaraman et al.'s; `remark1` is the noise's term of (12),
    ``T p sigma^2/(2L)``, over that of (11), ``p sigma^2/(2 lam) (1 - (1 - lam/L)^T)``.
    """
    rows = []
    for name, own in settings.items():
        bounds = BoundSetting(p, G, N, own["M"], own["n_min"], T, lam, eps, delta)
        by_method = {row.method: row for row in published_bounds(bounds)}
        ours, theirs = by_method["WD-DP"], by_method["Jayaraman et al. 2018"]
        inside = own["M"] * own["n_min"]
        risk = ours.excess_risk / theirs.excess_risk
        x = lam / (lam + bounds.smoothness)
        proof = math.ceil(2 * math.log(N) / -math.log1p(-x))
        found = {
            ("noise_ratio", "as printed"): ours.noise / theirs.noise,
            ("noise_ratio", "stated"): (inside / N) ** 2,
            ("risk_ratio", "as printed"): risk,
            ("risk_ratio", "without the regulariser"): risk * bounds.smoothness / lam**2,
            ("risk_ratio", "stated"): (inside / N) ** 2 * math.log(N) / math.log(inside) ** 2,
            ("remark1", "T of the proof"): proof * x / -math.expm1(proof * math.log1p(-x)),
            ("remark1", "T of the figures"): T * x / -math.expm1(T * math.log1p(-x)),
            ("remark1", "stated"): math.log(N),
        }
        rows += [
            {"setting": name, "reading": reading, "metric": metric, "value": value}
            for (metric, reading), value in found.items()
        ]
    return pd.DataFrame(rows)
