"""Jayaraman, Wang, Evans & Gu 2018: Theorems 3.1 and 3.4, Corollary 3.5 and Table 1, by exact computation.

Proofs: docs/privacy/jayaraman2018.md.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit

from dpml.privacy import gdp
from dpml.reporting.claim_places import Pairs, Place, places
from dpml.reporting.claims import Check, Evidence, NotComputedError, Reading, Test
from dpml.reporting.criteria import Comparison, better, scale, similar

PRINTED = {
    "Pathak": ("laplace", 1150e-3),
    "Local Out P": ("laplace", 112e-3),
    "Local Obj P": ("laplace", 11.6e-3),
    "Local Grad P": ("gaussian", 5.63e-3),
    "MPC Out P": ("laplace", 12.2e-3),
    "MPC Grad P": ("gaussian", 0.572e-3),
}
"""Table 1: the law of the noise, and its standard deviation over 1,000 samples."""

ERRORS = {"laplace": math.sqrt(5 / 4000), "gaussian": math.sqrt(2 / 4000)}
"""Of a standard deviation over 1,000 samples, relative: sqrt((kurtosis - 1)/4,000)."""


def output_perturbation(d: int, n: Sequence[int], lam: float, eps: float) -> pd.DataFrame:
    """The largest `privacy_loss` of Theorem 3.1's noise between two neighbours, for parties of n rows.

    They differ in one row, which is (1, ..., 1)/sqrt(d) or the opposite; the other rows of its party are 0.
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
    """log10 of the exact delta over the claimed one (metric `log10_excess`), after a share t/T of the rounds."""
    found = []
    for e, d, share in product(eps, delta, shares):
        claimed = e * math.sqrt(share)
        exact = gdp.log_delta_of(claimed / math.sqrt(2 * math.log(1 / d)), claimed)
        known = {"eps": e, "delta": d, "share": share, "metric": "log10_excess"}
        found.append(known | {"value": (exact - math.log(d)) / math.log(10)})
    return pd.DataFrame(found)


def table1(m: int, n: int, lam: float, eps: float, T: int, delta: float) -> pd.DataFrame:
    """Table 1 again, G = 1: standard deviations, `generated` as printed and `std` of the printed law.

    For gradients also `needed`, that of Theorem 3.4's noise (of each party's, in the mean, for Local Grad P), and
    `eps_of_noise`, the exact eps at `delta` of what was generated.
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
            rows = n * gradient / stds[method]  # the noise is that of a mean over so many rows
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


def private(evidence: Evidence, reading: Reading) -> Check:
    """No privacy loss is above the eps claimed."""
    rows = _rows(evidence, "privacy_loss", reading=reading.name)
    text = ", ".join(f"{a}, n = {n:g}: {value:.3g}" for a, n, value in rows[["neighbours", "n", "value"]].to_numpy())
    eps = rows["eps"].iloc[0]
    return Check(bool((rows["value"] <= rows["eps"] * (1 + 1e-12)).all()), f"largest losses for eps = {eps:g}: {text}")


def kept(partly: bool = False, budget: Mapping[str, float] | None = None) -> Test:
    """No exact delta is above the claimed one, after all rounds or after a part of them, for all budgets or for one."""

    def test(evidence: Evidence, _: Reading) -> Check:
        rows = _rows(evidence, "log10_excess", **budget or {})
        rows = rows[(rows["share"] < 1) if partly else (rows["share"] == 1)]
        if rows.empty:
            raise NotComputedError(["a part of the rounds" if partly else "all rounds"])
        wrong, (most, eps, delta) = rows[rows["value"] > 0], max(rows[["value", "eps", "delta"]].to_numpy().tolist())
        text = f"above the claimed delta at {len(wrong)} of {len(rows)}"
        text += f", first at eps = {wrong['eps'].min():g}" if len(wrong) else ""
        text += f"; largest: {10**most:.3g} times, at eps = {eps:g}, delta = {delta:g}"
        return Check(wrong.empty, text)

    return test


def generated(evidence: Evidence, _: Reading) -> Check:
    """The printed deviations are those of 1,000 samples of the printed laws: within three standard errors."""
    made, exact = (_rows(evidence, name).set_index("method") for name in ("generated", "std"))
    off = ((made["value"] / exact["value"] - 1) / exact["law"].map(ERRORS)).abs()
    text = ", ".join(f"{name} {made['value'][name]:.3g} for {exact['value'][name]:.3g}" for name in made.index)
    return Check(bool((off <= 3).all()), f"{text}; at most {off.max():.2g} standard errors apart")


def enough(evidence: Evidence, _: Reading) -> Check:
    """The noise of both gradient methods is at least that of Theorem 3.4, less three standard errors."""
    names = ("needed", "generated", "eps_of_noise")
    needed, made, eps = (_rows(evidence, name, law="gaussian").set_index("method")["value"] for name in names)
    text = [f"{name} {made[name]:.3g}, needed {needed[name]:.3g}; exact eps {eps[name]:.3g}" for name in needed.index]
    return Check(bool((made >= needed * (1 - 3 * ERRORS["gaussian"])).all()), "; ".join(text))


def in_the_order(block: str, first: Place, second: Place, metrics: Sequence[str], tens: float) -> Test:
    """The gap of the first is in the order of 1e-3; its accuracy is in the order of 1e-4 from that of the second."""

    def how(pairs: Pairs, reading: Reading) -> dict[Any, Comparison]:
        on = scale(reading.metric)
        if reading.metric == "optimality_gap":
            return better({key: (a, 0 * a + 1e-3 * 10**tens) for key, (a, _) in pairs.items()}, on)
        return {key: similar(a, b, on, 1e-4 * 10**tens) for key, (a, b) in pairs.items()}

    return places(block, [first], [second], metrics, how)
