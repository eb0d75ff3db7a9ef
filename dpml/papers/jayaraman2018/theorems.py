"""Jayaraman, Wang, Evans & Gu 2018: Theorems 3.1 and 3.4, Corollary 3.5 and Table 1, by exact computation.

*Theorem 3.1.* For the linear loss ``-G y x'w``, which is convex, G-Lipschitz and smooth, a party's minimiser is the
mean of its G y x over lam. A row x that becomes -x moves it by exactly ``2G/(n lam) x``, the bound of the proof. Noise
of density ``exp(-||z||/s)`` then has a largest privacy loss of eps; a Laplace number of the same scale in every
coordinate has ``||v||_1/s``, sqrt(d) eps for x along (1, ..., 1). For the logistic loss the party has n - 1 rows of 0
and one row x = +-(1, ..., 1)/sqrt(d): its minimiser is +-u x with ``n lam u = 1/(1 + e^u)``.

*Theorem 3.4.* One round with noise (3) is a Gaussian mechanism of ``2G/(m n sigma)``, and for the linear loss a row
moves the gradient by that bound wherever it is taken, so that t rounds are exactly mu-GDP with ``mu = eps sqrt(t/T) /
sqrt(2 log(1/delta))``, and for T = 1 the released model says as much. The proof equates ``T rho + 2 sqrt(T rho
log(1/delta))`` to eps, and drops the first term.
"""

import math
from collections.abc import Sequence

import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit

from dpml.privacy import gdp
from dpml.reporting.claims import Check, Evidence, NotComputedError, Reading, Test

PRINTED = {
    "Pathak": ("laplace", 0.8, 1150e-3),
    "Local Out P": ("laplace", 80e-3, 112e-3),
    "Local Obj P": ("laplace", 8e-3, 11.6e-3),
    "Local Grad P": ("gaussian", 5.66e-3, 5.63e-3),
    "MPC Out P": ("laplace", 8e-3, 12.2e-3),
    "MPC Grad P": ("gaussian", 0.57e-3, 0.572e-3),
}
"""Table 1: the law, the input of the generator, and the standard deviation over 1,000 samples."""


def output_perturbation(d: int, n: Sequence[int], lam: float, eps: float) -> pd.DataFrame:
    """The largest privacy loss of Theorem 3.1's noise between two neighbours, for parties of n rows (metric `loss`)."""
    found = []
    for rows in n:
        bound = 2 / (rows * lam)
        u = brentq(lambda u, rows=rows: rows * lam * u - expit(-u), 0, 1 / (rows * lam))
        for name, moved in (("linear", bound), ("logistic", 2 * u)):
            known = {"n": rows, "eps": eps, "neighbours": name, "metric": "loss"}
            found.append(known | {"reading": "density exp(-||z||)", "value": moved / bound * eps})
            found.append(known | {"reading": "in every coordinate", "value": moved / bound * math.sqrt(d) * eps})
    return pd.DataFrame(found)


def gradient_perturbation(eps: Sequence[float], delta: Sequence[float], shares: Sequence[float]) -> pd.DataFrame:
    """log10 of the exact delta over the claimed one (metric `log10_excess`), after a share t/T of the rounds."""
    found = []
    for e in eps:
        for d in delta:
            for share in shares:
                claimed = e * math.sqrt(share)
                exact = gdp.log_delta_of(claimed / math.sqrt(2 * math.log(1 / d)), claimed)
                known = {"eps": e, "delta": d, "share": share, "metric": "log10_excess"}
                found.append(known | {"value": (exact - math.log(d)) / math.log(10)})
    return pd.DataFrame(found)


def table1(m: int, n: int, lam: float, eps: float, T: int, delta: float) -> pd.DataFrame:
    """Table 1 again, G = 1: printed and computed standard deviations; the eps of gradient noise at `delta`, exact.

    `needed` is the standard deviation of Theorem 3.4's noise (of a party alone, over sqrt(m), for Local Grad P).
    """
    scales = {
        "Pathak": 2 / (n * lam * eps),
        "Local Obj P": 2 / (n * eps),
        "MPC Grad P": math.sqrt(2 * T) / (m * n * eps),
    }
    scales |= {"Local Out P": scales["Pathak"] / math.sqrt(m), "MPC Out P": scales["Pathak"] / m}
    scales |= {"Local Grad P": scales["MPC Grad P"] * math.sqrt(m)}
    found = []
    for method, (law, entry, generated) in PRINTED.items():
        width = scales[method] * (math.sqrt(2) if law == "laplace" else 1.0)
        values = {"entry": entry, "scale": scales[method], "generated": generated, "std": width}
        if law == "gaussian":
            parties = m if method.startswith("MPC") else math.sqrt(m)  # by how much the noise of one party is divided
            values["needed"] = math.sqrt(8 * T * math.log(1 / delta)) / (parties * n * eps)
            values["eps_of_noise"] = gdp.eps_of(math.sqrt(T) * 2 / (parties * n * generated), delta)
        found += [{"method": method, "law": law, "metric": key, "value": value} for key, value in values.items()]
    return pd.DataFrame(found)


# ---- tests


def _rows(evidence: Evidence, metric: str, **values: object) -> pd.DataFrame:
    rows = evidence.rows
    for key, value in ({"metric": metric} | values).items():
        rows = rows[rows[key] == value] if key in rows else rows.iloc[:0]
    if rows.empty:
        raise NotComputedError([metric])
    return rows


def private(evidence: Evidence, reading: Reading) -> Check:
    """No privacy loss is above the eps claimed."""
    rows = _rows(evidence, "loss", reading=reading.name)
    text = ", ".join(f"{a}, n = {n:g}: {value:.3g}" for a, n, value in rows[["neighbours", "n", "value"]].to_numpy())
    eps = rows["eps"].iloc[0]
    return Check(bool((rows["value"] <= rows["eps"] * (1 + 1e-12)).all()), f"largest losses for eps = {eps:g}: {text}")


def kept(partly: bool = False, **budget: float) -> Test:
    """No exact delta is above the claimed one, after all rounds or after a part of them, for all budgets or for one."""

    def test(evidence: Evidence, _: Reading) -> Check:
        rows = _rows(evidence, "log10_excess", **budget)
        rows = rows[(rows["share"] < 1) if partly else (rows["share"] == 1)]
        if rows.empty:
            raise NotComputedError(["a part of the rounds" if partly else "all rounds"])
        wrong = rows[rows["value"] > 0]
        worst = rows.loc[rows["value"].idxmax()]
        text = f"above the claimed delta at {len(wrong)} of {len(rows)}"
        text += f", first at eps = {wrong['eps'].min():g}" if len(wrong) else ""
        text += f"; largest: {10 ** worst['value']:.3g} times, at eps = {worst['eps']:g}, delta = {worst['delta']:g}"
        return Check(wrong.empty, text)

    return test


def generated(evidence: Evidence, _: Reading) -> Check:
    """The printed deviations are those of 1,000 samples of the printed laws: within three standard errors."""
    table = _rows(evidence, "generated").set_index("method")["value"]
    exact, laws = _rows(evidence, "std").set_index("method")["value"], _rows(evidence, "std").set_index("method")["law"]
    # the relative standard error of a standard deviation is sqrt((kurtosis - 1)/(4 n))
    error = laws.map({"laplace": math.sqrt(5 / 4000), "gaussian": math.sqrt(2 / 4000)})
    off = ((table - exact) / exact / error).abs()
    text = ", ".join(f"{name} {table[name]:.3g} for {exact[name]:.3g}" for name in table.index)
    return Check(bool((off <= 3).all()), f"{text}; at most {off.max():.2g} standard errors apart")


def enough(evidence: Evidence, _: Reading) -> Check:
    """The noise of both gradient methods is at least that of Theorem 3.4, less three standard errors."""
    made, needed, eps = (
        _rows(evidence, name).set_index("method")["value"] for name in ("generated", "needed", "eps_of_noise")
    )
    text = [f"{name}: {made[name]:.3g}, needed {needed[name]:.3g}; exact eps {eps[name]:.3g}" for name in needed.index]
    return Check(bool((made[needed.index] >= needed * (1 - 3 * math.sqrt(2 / 4000))).all()), "; ".join(text))
