"""Compute the sensitivity, Theorem 1 and its version for K clients, and the convergence bound of Wei et al. 2020.

Proofs: docs/privacy/wei2020.md. Most lengths are divided by an upload's printed sensitivity 2 C/m. The printed noise of
an upload is ``c L/eps`` with ``c = sqrt(2 log(1.25/delta))``, if an adversary learns L uploads. The printed noise of
one of T broadcasts is ``c T/(N eps)``. The server adds what the mean of N noisy uploads lacks (Theorem 1).
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

from dpml.arrays import Array
from dpml.audit.attacks import eps_by_gdp
from dpml.privacy import gdp
from dpml.reporting.claim_exact import rows_of
from dpml.reporting.claims import Evidence, Group
from dpml.reporting.criteria import Comparison


class Noise(NamedTuple):
    """The standard deviations of the noise in an upload and of the server's noise, divided by 2 C/m."""

    upload: float
    server: float


def printed_noise(
    eps: float, delta: float, rounds: int, exposures: int, clients: int, chosen: int | None = None
) -> Noise:
    """Return the noise of Theorem 1, or of its version for K = `chosen` random clients in each round."""
    c, taking, each = math.sqrt(2 * math.log(1.25 / delta)), chosen or clients, float(rounds)
    if math.isinf(eps):
        return Noise(0.0, 0.0)
    if taking < clients:
        share = taking / clients
        gamma = -math.log1p(share * math.expm1(-eps / (exposures * math.sqrt(taking))))
        if rounds <= eps / gamma:
            return Noise(c * exposures / eps, 0.0)
        each = rounds / (-rounds / eps * math.log1p(math.expm1(-eps / rounds) / share))
    missing = max(each**2 - exposures**2 * taking, 0.0)
    return Noise(c * exposures / eps, c * math.sqrt(missing) / (taking * eps))


def broadcasts(noise: Noise, times: int, clients: int, unknown: int) -> float:
    """Return the mu of `times` broadcasts of the mean of `clients` uploads, of which `unknown` have unknown noise."""
    return math.sqrt(times) / clients / math.sqrt(unknown * noise.upload**2 / clients**2 + noise.server**2)


def sensitivity(m: Sequence[int], clip: float, mu: float, delta: float, eps: float) -> pd.DataFrame:
    """Compute an upload's sensitivity to one of m rows, divided by 2 C/m (`moved`), and its exact eps (`eps_of_noise`).

    Three uploads are compared: the clipped minimiser of the mean logistic loss, where `neighbours` have minimisers at C
    and -C; the same with the term mu/2 ||w - w0||^2; and the mean of the clipped minimisers of single rows, with which
    the paper computes.
    """
    found = []
    for rows in m:
        unit = 2 * clip / rows
        proximal = "proximal, C at least 1/mu" if clip * mu >= 1 else "proximal, C below 1/mu"
        moves = {"minimiser": 2 * clip, proximal: min(2 * clip, 2 / (rows * mu)), "mean of minimisers": unit}
        for reading, moved in moves.items():
            known = {"m": rows, "C": clip, "eps": eps, "delta": delta, "reading": reading}
            exact = gdp.eps_of(moved / unit * gdp.classical_mu(eps, delta), delta)
            found += [known | {"metric": "moved", "value": moved / unit}]
            found += [known | {"metric": "eps_of_noise", "value": exact}]
    return pd.DataFrame(found)


def neighbours(length: float) -> tuple[Array, Array, Array]:
    """Return three rows x with one feature, and labels of two neighbours whose minimisers are +-`length` (>= 1.1)."""
    a = brentq(lambda a: a * math.tanh(a * length / 2) - expit(-length), 0.0, 1.0, xtol=1e-300, rtol=1e-14)
    return np.array([1.0, a, a]), np.array([1.0, 1, -1]), np.array([-1.0, 1, -1])


def attacked(
    m: int, clip: float, prox: Sequence[float], delta: float, eps: Sequence[float], draws: int = 100_000
) -> pd.DataFrame:
    """Compute a 95 % lower bound on eps (`attacked`) from `draws` uploads of both `neighbours`, by eps and mu."""
    rng, found = np.random.default_rng(2020), []
    x, *labels = neighbours(clip)
    for e, mu in product(eps, prox):
        scale = printed_noise(e, delta, 1, 1, 1).upload * 2 * clip / m
        ends = [local_model(x, y, m, mu, clip) for y in labels]
        second, first = (end + scale * rng.standard_normal(draws) for end in ends)
        values = {"claimed": e, "proven": gdp.eps_of((ends[0] - ends[1]) / scale, delta)}
        values["attacked"] = eps_by_gdp(first, second, delta, 0.05)
        known = {"m": m, "eps": e, "delta": delta, "reading": f"mu = {mu:g}"}
        found += [known | {"metric": key, "value": value} for key, value in values.items()]
    return pd.DataFrame(found)


def local_model(x: Array, y: Array, m: int, prox: float, clip: float) -> float:
    """Return the clipped minimiser of mean logistic loss + prox/2 w^2 for m rows, of which x, y are not 0."""
    w = brentq(lambda w: prox * w - np.sum(x * y * expit(-y * x * w)) / m, -2 * clip - 9, 2 * clip + 9, xtol=1e-14)
    return float(np.clip(w, -clip, clip))


def accounted(
    eps: Sequence[float], delta: float, rounds: int, exposures: Sequence[int], clients: int, chosen: int
) -> pd.DataFrame:
    """Compute log10 of the exact delta over the claimed one (`log10_excess`), for the printed sensitivity 2 C/m.

    The observers see: L uploads of a client (`uplink`); all its uploads (`server`); all T broadcasts (`downlink`); all
    broadcasts and the noise of one client (`client`); broadcasts of K random clients and who took part (`scheduled`).
    """
    found = []
    for e, L in product(eps, exposures):
        noise, few = (printed_noise(e, delta, rounds, L, clients, K) for K in (None, chosen))
        mus = {
            "uplink": math.sqrt(L) / noise.upload,
            "server": math.sqrt(rounds) / noise.upload,
            "downlink": broadcasts(noise, rounds, clients, clients),
            "client": broadcasts(noise, rounds, clients, clients - 1),
        }
        logs = {view: gdp.log_delta_of(mu, e) for view, mu in mus.items()}
        taken = range(1, rounds + 1)
        deltas = np.exp([gdp.log_delta_of(broadcasts(few, j, chosen, chosen), e) for j in taken])
        logs["scheduled"] = math.log(max(float(binom.pmf(taken, rounds, chosen / clients) @ deltas), 1e-300))
        known = {"eps": e, "delta": delta, "L": L, "metric": "log10_excess"}
        found += [known | {"view": v, "value": (log - math.log(delta)) / math.log(10)} for v, log in logs.items()]
    return pd.DataFrame(found)


def convergence(  # noqa: PLR0913 - those of the bound
    d: Sequence[int], eps: Sequence[float], delta: float, rounds: Sequence[int], m: int, clients: int, mu: float
) -> pd.DataFrame:
    """Compute the bound of Theorem 2 and the `gap` that it bounds; every client has the loss ``||w - a||^2/2``, C = 1.

    Here ||a|| = 1/2, w0 = 0, rho = l = B = 1, and beta = 2 bounds the gradients for ||w|| <= 3/2. Models are not
    clipped while the norm of the noise is below 1/2.
    """
    P = 1 - 2 / mu + 3 / mu**2
    c, beta, start, stays = math.sqrt(2 * math.log(1.25 / delta)), 2.0, 1 / 8, mu / (1 + mu)
    kappa1 = 2 / mu * beta * c / (m * (1 - P)) * math.sqrt(2 / (clients * math.pi))
    kappa0 = c**2 / (2 * m**2 * (1 - P) * clients)
    found = []
    for size, e, T in product(d, eps, rounds):
        bound = P**T * start + (kappa1 * T / e + kappa0 * (T / e) ** 2) * (1 - P**T)
        noise = printed_noise(e, delta, T, 1, clients)
        std = 2 / m * math.hypot(noise.upload / math.sqrt(clients), noise.server)
        exact = stays ** (2 * T) * start + size * std**2 / 2 * (1 - stays ** (2 * T)) / (1 - stays**2)
        known = {"d": size, "eps": e, "T": T}
        found += [known | {"metric": "theorem2_bound", "value": bound}, known | {"metric": "gap", "value": exact}]
    return pd.DataFrame(found)


def interior(evidence: Evidence) -> list[Group]:
    """Test that at every eps, the bound of Theorem 2 is least between the fewest and the most rounds."""
    rows = rows_of(evidence, "theorem2_bound", {"d": 1})
    curves = rows.pivot(index="T", columns="eps", values="value")
    best, low, high = curves.idxmin(), curves.index.min(), curves.index.max()
    needs = f"between {low:g} and {high:g}"
    shown = {f"eps = {e:g}": Comparison(low < T < high, needs=needs, value=f"{T:g}") for e, T in best.items()}
    return [Group("best number of rounds", "", "", shown)]
