"""Wei et al. 2020: sensitivity, Theorem 1 and its relatives, and the convergence bound, by exact computation.

Proofs: docs/privacy/wei2020.md. Lengths are in units of the printed sensitivity 2 C/m of an upload, where they can be.
Printed are the noise of an upload, of L of which an adversary is thought to learn, ``s_U = c L/eps`` with
``c = sqrt(2 log(1.25/delta))``; that of all T broadcasts, ``s_A = c T/(N eps)``; and what the server adds to come from
``s_U/sqrt(N)`` to ``s_A``, Theorem 1.
"""

import math
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import binom

from dpml.audit.bounds import eps_by_gdp
from dpml.privacy import gdp
from dpml.reporting.claims import Check, Evidence, NotComputedError, Reading, Test

MLP = 784 * 256 + 256 + 256 * 10 + 10
"""The parameters of a network with one hidden layer of 256 units for MNIST."""


class Noise(NamedTuple):
    """The standard deviations that the paper prints, in units of 2 C/m: of an upload, and of what the server adds."""

    upload: float
    server: float


def printed_noise(  # many parameters: all that the two formulas have
    eps: float, delta: float, rounds: int, exposures: int, clients: int, chosen: int | None = None
) -> Noise:
    """Theorem 1 if all clients take part in every round, its version for K = `chosen` random ones otherwise."""
    if math.isinf(eps):
        return Noise(0.0, 0.0)
    c = math.sqrt(2 * math.log(1.25 / delta))
    upload = c * exposures / eps
    each = rounds
    if chosen is None or chosen == clients:
        taking = clients
    else:
        taking, share = chosen, chosen / clients
        gamma = -math.log1p(-share * -math.expm1(-eps / (exposures * math.sqrt(chosen))))
        if rounds <= eps / gamma:
            return Noise(upload, 0.0)
        each = rounds / (-rounds / eps * math.log1p(math.expm1(-eps / rounds) / share))
    missing = each**2 - exposures**2 * taking
    return Noise(upload, c * math.sqrt(missing) / (taking * eps) if missing > 0 else 0.0)


def far_apart(length: float) -> float:
    """The a in (0, 1) for which ``log(1 + e^-w) + log(1 + e^(a w)) + log(1 + e^(-a w))`` is least at w = `length`."""
    return float(brentq(lambda a: a * math.tanh(a * length / 2) - expit(-length), 0.0, 1.0, xtol=1e-300, rtol=1e-14))


def sensitivity(m: Sequence[int], clip: float, mu: float, delta: float, eps: float) -> pd.DataFrame:
    """How far one row of m moves an upload, over 2 C/m (`moved`), and the exact eps of its noise for `eps` (`eps_of_noise`).

    Of the minimiser of the mean logistic loss, clipped: rows (1, +-1), (a, 1), (a, -1) and zeros have minimisers at C
    and -C. With the term mu/2 ||w - w0||^2 the largest move of a loss of Lipschitz constant 1. Of the mean of clipped
    minimisers of every single row, with which the paper computes.
    """
    found = []
    for rows in m:
        unit = 2 * clip / rows
        moves = {"minimiser": 2 * clip, "proximal": min(2 * clip, 2 / (rows * mu)), "mean of one-row minimisers": unit}
        for reading, moved in moves.items():
            least = gdp.eps_of(moved / unit * gdp.classical_mu(eps, delta), delta)
            known = {"m": rows, "clip": clip, "prox": mu, "eps": eps, "delta": delta, "reading": reading}
            found += [known | {"metric": "moved", "value": moved / unit}]
            found += [known | {"metric": "eps_of_noise", "value": least}]
    return pd.DataFrame(found)


def attacked(m: int, clip: float, delta: float, eps: Sequence[float], draws: int = 100_000) -> pd.DataFrame:
    """A 95 % lower bound on eps from `draws` uploads of either of the neighbours of `sensitivity` (`attacked`).

    Beside it what is claimed, and the exact eps of these neighbours (`proven`).
    """
    rng, found = np.random.default_rng(2020), []
    a = far_apart(clip)
    ends = [clipped_minimiser(np.array([1.0, a, a]), np.array([sign, 1, -1]), clip) for sign in (-1, 1)]
    for e in eps:
        scale = printed_noise(e, delta, 1, 1, 1).upload * 2 * clip / m
        first, second = (end + scale * rng.standard_normal(draws) for end in ends)
        reached = eps_by_gdp(first, second, delta, 0.05)
        exact = gdp.eps_of((ends[1] - ends[0]) / scale, delta)
        values = {"claimed": e, "proven": exact, "attacked": reached}
        found += [{"m": m, "eps": e, "delta": delta, "metric": key, "value": value} for key, value in values.items()]
    return pd.DataFrame(found)


def clipped_minimiser(x: np.ndarray, y: np.ndarray, clip: float) -> float:
    """The minimiser of the mean logistic loss of rows of one number, clipped; zeros among the rows change nothing."""
    top = 2 * clip + 100
    w = brentq(lambda w: -np.sum(x * y * expit(-y * x * w)), -top, top, xtol=1e-12)
    return float(np.clip(w, -clip, clip))


def accounted(  # many parameters: a grid
    eps: Sequence[float], delta: float, rounds: int, exposures: Sequence[int], clients: int, chosen: Sequence[int] = ()
) -> pd.DataFrame:
    """log10 of the exact delta over the claimed one, if one row moves an upload by the printed 2 C/m (`log10_excess`).

    By view: L uploads of a client; all of its uploads, which the server has; all T broadcasts; the same for a client,
    who knows its own noise. With K random clients in each round, broadcasts from which it shows who took part.
    """
    found = []
    for e, L in product(eps, exposures):
        noise = printed_noise(e, delta, rounds, L, clients)
        seen = {
            "uplink": math.sqrt(L) / noise.upload,
            "server": math.sqrt(rounds) / noise.upload,
            "downlink": broadcasts(noise, rounds, clients, clients),
            "downlink, to a client": broadcasts(noise, rounds, clients, clients - 1),
        }
        known = {"eps": e, "delta": delta, "exposures": L, "rounds": rounds, "clients": clients}
        for view, mu in seen.items():
            found.append(known | {"view": view, "value": (gdp.log_delta_of(mu, e) - math.log(delta)) / math.log(10)})
        for K in chosen:
            noise = printed_noise(e, delta, rounds, L, clients, K)
            one, taken = broadcasts(noise, 1, K, K), np.arange(1, rounds + 1)
            deltas = [math.exp(gdp.log_delta_of(math.sqrt(j) * one, e)) for j in taken]
            exact = float(binom.pmf(taken, rounds, K / clients) @ deltas)
            excess = math.log10(max(exact, 1e-300) / delta)
            found.append(known | {"view": "scheduled", "chosen": K, "value": excess})
    return pd.DataFrame(found).assign(metric="log10_excess")


def broadcasts(noise: Noise, times: int, clients: int, unknown: int) -> float:
    """mu of so many broadcasts of the mean of `clients` uploads, in `unknown` of which the noise is not known."""
    return math.sqrt(times) / clients / math.sqrt(unknown * noise.upload**2 / clients**2 + noise.server**2)


def convergence(  # many parameters: those of the bound
    d: Sequence[int], eps: Sequence[float], delta: float, rounds: Sequence[int], m: int, clients: int, mu: float
) -> pd.DataFrame:
    """The bound of Theorem 2 and what it bounds, for the loss ``||w - a||^2/2`` of every client, in units of C^2.

    a is C/2 long, w0 = 0; rho = l = B = 1, and beta = 2 C bounds the gradients for ||w|| <= 3 C/2. Clipping never acts
    while the noise is shorter than C/2.
    """
    P = 1 + 2 * (-1 / mu + 1 / mu**2 + 1 / (2 * mu**2))
    c, beta, start, stays = math.sqrt(2 * math.log(1.25 / delta)), 2.0, 1 / 8, mu / (1 + mu)
    kappa1 = 2 / mu * beta * c / (m * (1 - P)) * math.sqrt(2 / (clients * math.pi))
    kappa0 = c**2 / (2 * m**2 * (1 - P) * clients)
    found = []
    for size, e, T in product(d, eps, rounds):
        share = 1 - P**T
        bound = P**T * start + (kappa1 * T / e + kappa0 * (T / e) ** 2) * share
        noise = printed_noise(e, delta, T, 1, clients)
        std = 2 / m * math.hypot(noise.upload / math.sqrt(clients), noise.server)
        exact = stays ** (2 * T) * start + size * std**2 / 2 * (1 - stays ** (2 * T)) / (1 - stays**2)
        known = {"d": size, "eps": e, "rounds": T}
        found += [known | {"metric": "theorem2_bound", "value": bound}, known | {"metric": "gap", "value": exact}]
    return pd.DataFrame(found)


def rows_of(evidence: Evidence, metric: str, **values: object) -> pd.DataFrame:
    """The rows of a metric with these values.

    Raises:
        NotComputedError: there are none.
    """
    rows = evidence.rows
    for key, value in ({"metric": metric} | values).items():
        rows = rows[rows[key] == value] if key in rows else rows.iloc[:0]
    if rows.empty:
        raise NotComputedError([", ".join([metric, *map(str, values.values())])])
    return rows


def moved(evidence: Evidence, reading: Reading) -> Check:
    """No row moves an upload by more than the printed sensitivity."""
    rows = rows_of(evidence, "moved", reading=reading.name)
    text = ", ".join(f"m = {m:g}, C = {c:g}: {v:.4g}" for m, c, v in rows[["m", "clip", "value"]].to_numpy())
    return Check(bool((rows["value"] <= 1 + 1e-12).all()), f"moves by this many times 2C/m: {text}")


def reached(evidence: Evidence, _: Reading) -> Check:
    """No attack reaches more than is claimed."""
    claimed, found = (rows_of(evidence, key).set_index("eps")["value"] for key in ("claimed", "attacked"))
    text = ", ".join(f"{found[e]:.4g} of the {e:g} claimed" for e in found.index)
    return Check(bool((found <= claimed).all()), f"eps at least {text}")


def kept(view: str, grids: dict[str, tuple[float, ...]]) -> Test:
    """No exact delta of a view is above the claimed one, at the eps of the reading."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        rows = rows_of(evidence, "log10_excess", view=view)
        grid = grids[reading.name]
        missing = set(grid) - set(rows["eps"])
        if missing:
            raise NotComputedError([f"{view} at eps = {', '.join(f'{e:g}' for e in sorted(missing))}"])
        rows = rows[rows["eps"].isin(grid)]
        wrong, worst = rows[rows["value"] > 0], rows.loc[rows["value"].idxmax()]
        text = f"above the claimed delta at {len(wrong)} of {len(rows)}, most at eps = {worst['eps']:g}"
        return Check(wrong.empty, f"{text}, L = {worst['exposures']:g}: {10 ** worst['value']:.3g} times")

    return test


def bounded(evidence: Evidence, reading: Reading) -> Check:
    """The expected gap is at most the bound of Theorem 2."""
    d = {"one parameter": 1, "the parameters of the MLP": MLP}[reading.name]
    bound, gap = (rows_of(evidence, key, d=d).set_index(["eps", "rounds"])["value"] for key in ("theorem2_bound", "gap"))
    ratio = gap / bound
    text = f"gap over bound from {ratio.min():.3g} to {ratio.max():.3g} in {len(ratio)} settings"
    return Check(bool((ratio <= 1 + 1e-12).all()), text)


def interior(evidence: Evidence, _: Reading) -> Check:
    """At every eps the bound of Theorem 2 is least at neither end of the rounds."""
    rows = rows_of(evidence, "theorem2_bound", d=1)
    best = {e: group.loc[group["value"].idxmin(), "rounds"] for e, group in rows.groupby("eps")}
    ends = rows["rounds"].min(), rows["rounds"].max()
    text = ", ".join(f"eps = {e:g}: T* = {T:g}" for e, T in best.items())
    return Check(all(ends[0] < T < ends[1] for T in best.values()), f"{text} of {ends[0]:g} to {ends[1]:g}")
