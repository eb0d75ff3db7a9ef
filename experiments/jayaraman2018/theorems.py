"""Compute the theorems and Table 1 of Jayaraman, Wang, Evans & Gu 2018 exactly (docs/privacy/jayaraman2018.md)."""

import math
from collections.abc import Mapping, Sequence
from itertools import product

import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit

from dpml.privacy import gdp
from dpml.reporting.claims import Evidence, Group, NotComputedError
from dpml.reporting.criteria import exact

PRINTED = {
    "Pathak": ("laplace", 1150e-3),
    "Local Out P": ("laplace", 112e-3),
    "Local Obj P": ("laplace", 11.6e-3),
    "Local Grad P": ("gaussian", 5.63e-3),
    "MPC Out P": ("laplace", 12.2e-3),
    "MPC Grad P": ("gaussian", 0.572e-3),
}
"""Table 1: the distribution of the noise, and its printed standard deviation over 1,000 samples."""

ERRORS = {"laplace": math.sqrt(5 / 4000), "gaussian": math.sqrt(2 / 4000)}
"""The relative standard error of a standard deviation over 1,000 samples: sqrt((kurtosis - 1)/4,000)."""


def output_perturbation(d: int, n: Sequence[int], lam: float, eps: float) -> pd.DataFrame:
    """Compute the largest `privacy_loss` between two neighbours with Theorem 3.1's noise, for parties of n rows.

    The neighbours differ in one row, which is (1, ..., 1)/sqrt(d) or its opposite. The other rows of this party are 0.
    """
    found = []
    for rows in n:
        bound = 2 / (rows * lam)
        u = brentq(lambda u, strength=rows * lam: strength * u - expit(-u), 0, 1 / (rows * lam))
        for name, moved in (("linear loss", bound), ("logistic loss", 2 * u)):
            known = {"n": rows, "eps": eps, "neighbours": name, "metric": "privacy_loss"}
            found.append(known | {"reading": "density exp(-||z||)", "value": moved / bound * eps})
            found.append(known | {"reading": "in every coordinate", "value": moved / bound * math.sqrt(d) * eps})
    return pd.DataFrame(found)


def gradient_perturbation(eps: Sequence[float], delta: Sequence[float], shares: Sequence[float]) -> pd.DataFrame:
    """Compute log10 of the exact delta over the claimed one (`log10_excess`) after t of T rounds, for shares t/T."""
    found = []
    for e, d, share in product(eps, delta, shares):
        claimed = e * math.sqrt(share)
        exact = gdp.log_delta_of(claimed / math.sqrt(2 * math.log(1 / d)), claimed)
        known = {"eps": e, "delta": d, "share": share, "metric": "log10_excess"}
        found.append(known | {"value": (exact - math.log(d)) / math.log(10)})
    return pd.DataFrame(found)


def table1(m: int, n: int, lam: float, eps: float, T: int, delta: float) -> pd.DataFrame:
    """Recompute Table 1 with G = 1: `generated` is the printed standard deviation, `std` that of the printed law.

    For gradient methods, `needed` is the standard deviation of Theorem 3.4's noise (for Local Grad P, of the mean of
    all parties' noise), and `eps_of_noise` is the exact eps at `delta` of the generated noise.
    """
    output, gradient = math.sqrt(2) * 2 / (n * lam * eps), math.sqrt(2 * T) / (n * eps)
    stds = {
        "Pathak": output,
        "Local Out P": output / math.sqrt(m),
        "Local Obj P": output * lam,
        "MPC Out P": output / m,
    }
    stds |= {"Local Grad P": gradient / math.sqrt(m), "MPC Grad P": gradient / m}
    found = []
    for method, (law, generated) in PRINTED.items():
        values = {"generated": generated, "std": stds[method]}
        if law == "gaussian":
            rows = n * gradient / stds[method]  # the noise is in a mean over this many rows
            values["needed"] = math.sqrt(8 * T * math.log(1 / delta)) / (rows * eps)
            values["eps_of_noise"] = gdp.eps_of(math.sqrt(T) * 2 / (rows * generated), delta)
        found += [{"method": method, "law": law, "metric": key, "value": value} for key, value in values.items()]
    return pd.DataFrame(found)


def _rows(evidence: Evidence, metric: str, **values: object) -> pd.DataFrame:
    rows = evidence.rows
    for key, value in ({"metric": metric} | values).items():
        rows = rows[rows[key] == value] if key in rows else rows.iloc[:0]
    if rows.empty:
        raise NotComputedError([metric])
    return rows


def private(evidence: Evidence) -> list[Group]:
    """Test that no privacy loss is above the claimed eps."""
    rows = _rows(evidence, "privacy_loss", reading=evidence.reading.name)[["neighbours", "n", "value", "eps"]]
    shown = {f"{a}, n = {n:g}": exact(value, eps) for a, n, value, eps in rows.to_numpy()}
    return [Group("largest privacy loss", "", "eps", shown)]


def kept(evidence: Evidence, partly: bool = False, budget: Mapping[str, float] | None = None) -> list[Group]:
    """Test that no exact delta is above the claimed one, after all or some rounds, for all budgets or one."""
    rows = _rows(evidence, "log10_excess", **budget or {})
    rows = rows[(rows["share"] < 1) if partly else (rows["share"] == 1)]
    if rows.empty:
        raise NotComputedError(["a part of the rounds" if partly else "all rounds"])
    shown = {
        f"eps = {eps:g}, delta = {delta:g}, share {share:g}": exact(10**value, 1.0)
        for eps, delta, share, value in rows[["eps", "delta", "share", "value"]].to_numpy()
    }
    return [Group("exact delta over the claimed one", "", "", shown)]


def generated(evidence: Evidence) -> list[Group]:
    """Test that the printed standard deviations are within three standard errors of those of the noise."""
    made, stated = (_rows(evidence, name).set_index("method") for name in ("generated", "std"))
    errors = stated["law"].map(ERRORS) * 3
    shown = {
        name: exact(made["value"][name] / stated["value"][name], 1 + errors[name], 1 - errors[name])
        for name in made.index
    }
    return [Group("deviation over that of the law", "", "", shown)]


def enough(evidence: Evidence) -> list[Group]:
    """Test that both gradient methods have at least the noise of Theorem 3.4, less three standard errors."""
    needed, made = (
        _rows(evidence, name, law="gaussian").set_index("method")["value"] for name in ("needed", "generated")
    )
    shown = {name: exact(made[name], math.inf, needed[name] * (1 - 3 * ERRORS["gaussian"])) for name in needed.index}
    return [Group("deviation", "", "that of Theorem 3.4", shown)]
