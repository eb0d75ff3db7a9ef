"""Compute curves of delta, and variances of noise, that need no runs of algorithms.

A curve of delta is given as `digits` = log10(1/delta), because delta itself leaves the range of floating-point numbers,
and as `log10_delta`, down to `DRAWN`.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.random import Generator
from scipy.special import log_ndtr

from dpml.algorithms.quadratic.coefficients import polynomial
from dpml.algorithms.quadratic.functional_mechanism import FunctionalMechanism, Sites
from dpml.arrays import Array
from dpml.data import Files
from dpml.data.partition import Parties, TwoGroup, partition
from dpml.data.sets.synthetic import Synthetic
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.sharing import cape_whole_view
from dpml.optim.losses import for_task
from dpml.privacy import Budget, Problem, gdp, noise
from dpml.seeds import generator

from .tight import FAMILY

DRAWN = -20.0
"""log10 of the smallest delta in a figure."""


def delta_against_tau(
    N: int, M: int, eps: float, low: float = 1e-2, high: float = 1e2, points: int = 41
) -> pd.DataFrame:
    """Compute fig. 5: delta of CAPE and of `conv` against the noise_std tau of a site, with the most colluders."""
    problem = Problem(M, N, 1)
    rows = []
    for tau in np.geomspace(low, high, points):
        rows += [{"tau": tau, **row} for row in _deltas(N, M, problem.honest, eps, float(tau))]
    return pd.DataFrame(rows).assign(eps=eps, M=M, N=N)


def delta_against_colluders(N: int, M: int, eps: float, tau: float) -> pd.DataFrame:
    """Compute fig. 6: delta of CAPE and of `conv` against the number of colluders, at one tau."""
    rows = []
    for honest in range(M, Problem(M, N, 1).honest - 1, -1):
        rows += [{"share": (M - honest) / M, **row} for row in _deltas(N, M, honest, eps, tau)]
    return pd.DataFrame(rows).assign(eps=eps, M=M, N=N)


def _deltas(N: int, M: int, honest: int, eps: float, tau: float) -> list[dict[str, Any]]:
    """Compute delta in every interpretation of the paper, for sites of N/M rows, sensitivity M/N, and noise_std tau.

    For CAPE:

    - `as plotted`: 2 Q((eps - mu^2/2)/mu), the authors' script, for the covariance of their proof;
    - `printed`: 2 phi(z)/z, z = (eps - mu^2/2)/mu, with the mu of Theorem 1 (eqs. 4, 5), from a wrong matrix inverse;
    - `their view`: the exact curve for the covariance of their proof, in which the colluders' own noise is random;
    - `whole view`: the exact curve for everything that the aggregator and the colluders know.

    For `conv`, every site has the noise tau/sqrt(M), which gives the average the same variance. Here `as plotted` is
    1.25 exp(-M (N_k eps tau/M)^2 / 2), by the textbook formula, and `whole view` is the exact curve.
    """
    shift = M / N
    theirs = _mu_of_their_covariance(M, honest) * shift / tau
    whole = cape_whole_view(M, honest, 1.0) * shift / tau
    conventional = math.sqrt(M) * shift / tau

    def tail(mu: float) -> float:
        return math.log(2) + float(log_ndtr(-(eps / mu - mu / 2)))

    logs = {
        ("cape", "as plotted"): tail(theirs),
        ("cape", "printed"): _printed(M, honest, eps, shift / tau),
        ("cape", "their view"): gdp.log_delta_of(theirs, eps),
        ("cape", "whole view"): gdp.log_delta_of(whole, eps),
        ("conv", "as plotted"): math.log(1.25) - M * (N / M * eps * tau / M) ** 2 / 2,
        ("conv", "whole view"): gdp.log_delta_of(conventional, eps),
    }
    tens = {key: log / math.log(10) for key, log in logs.items()}
    return [
        {"algo": algo, "reading": reading, "metric": metric, "value": value}
        for (algo, reading), ten in tens.items()
        for metric, value in (("digits", -ten), ("log10_delta", ten))
        if metric == "digits" or ten >= DRAWN
    ]


def _mu_of_their_covariance(M: int, honest: int) -> float:
    """Return the mu of Theorem 1 for the covariance in its proof, divided by (shift of one site) / tau.

    The observer sees the honest sites' messages and the sum of their ehat. The proof treats the colluders' ehat as
    random, although the colluders know them.
    """
    H = honest
    covariance = np.empty((H + 1, H + 1))
    covariance[:H, :H] = (1 + 1 / M) * np.eye(H) - 1 / M
    covariance[H, :H] = covariance[:H, H] = 1 - H / M
    covariance[H, H] = H
    return gdp.correlated(covariance, np.eye(H + 1)[0])


def _printed(M: int, honest: int, eps: float, shift: float) -> float:
    colluders = M - honest
    factor = (honest + 2) / honest + 9 * colluders**2 / honest / (M * (1 + M) - 3 * colluders**2)
    mu = math.sqrt(M / (1 + M) * factor) * shift
    z = eps / mu - mu / 2
    return math.log(2) - z * z / 2 - math.log(2 * math.pi) / 2 - math.log(z) if z > 0 else math.nan


def noise_left(M: Sequence[int], samples: int = 20000, seed: int = 0) -> pd.DataFrame:
    """Measure the variance ratios of Lemma 1 and Prop. 1 of Imtiaz et al. 2019 on samples of the average's noise."""
    rows = []
    for sites in M:
        rng = generator(seed, "noise", "noise_left", str(sites))
        messages, _ = noise.cape_messages(rng, samples, sites, 1, shared=1.0, own=1 / math.sqrt(sites))
        cape = messages.mean(axis=1)
        conventional = noise.gaussian_messages(rng, samples, sites, 1).mean(axis=1)
        pooled = 1 / sites**2
        for metric, value in (
            ("cape_over_pooled", _variance(cape) / pooled),
            ("conv_over_cape", _variance(conventional) / _variance(cape)),
        ):
            rows.append({"M": sites, "algo": "cape", "samples": samples, "metric": metric, "value": value})
    return pd.DataFrame(rows)


def noise_of_uneven_sites(
    M: int, u: Sequence[float], N: int = 10000, samples: int = 20000, seed: int = 0
) -> pd.DataFrame:
    """Compute the variances of Remark 3 and Prop. 2 of Imtiaz et al. 2019, relative to pooled data, for unequal sites.

    Sites of the second half have u times as many rows as those of the first half. Site k needs noise tau_k proportional
    to 1/N_k. The metric `variance_ratio` has three values (column `reading`):

    - `H(n)`: the formula ``(N^2/M^3) sum 1/N_k^2`` for the plain average of CAPE's messages;
    - `plain average`: the same from samples of ``e_k = ehat_k - mean ehat`` and of ``g_k`` with variance tau_k^2/M;
    - `weighted sum`: the variance of the linear coefficients that capeFM (or conv, as algorithm `conv`) releases for
      these sites, around the exact coefficients of all rows, over that of one trusted curator.
    """
    rows = []
    for ratio in u:
        data = Synthetic(recipe="linear", d=10, rows=N).load(Files(), N, generator(seed, "data"))
        parties = partition(data, TwoGroup(u=ratio), M, generator(seed, "partition"))
        sizes = np.array(parties.sizes, dtype=float)
        rng = generator(seed, "noise", "uneven", f"{ratio:g}")
        tau = sizes.sum() / sizes  # relative to the pooled mechanism's tau
        ehat, g = (tau * noise.gaussian(rng, (samples, M)) for _ in range(2))
        messages = ehat - ehat.mean(axis=1, keepdims=True) + g / math.sqrt(M)
        values = {
            ("cape", "H(n)"): float(sizes.sum() ** 2 / M**3 * np.sum(sizes**-2)),
            ("cape", "plain average"): _variance(messages.mean(axis=1)),
        }
        for name in ("capefm", "conv"):
            values[name, "weighted sum"] = _released_variance(FAMILY[name], parties, rng, samples)
        rows += [
            {"u": ratio, "algo": algo, "reading": reading, "metric": "variance_ratio", "value": value}
            for (algo, reading), value in values.items()
        ]
    return pd.DataFrame(rows).assign(M=M, N=N, samples=samples)


def _released_variance(sites: Sites, parties: Parties, rng: Generator, samples: int) -> float:
    budget, loss, problem = Budget(1.0, 1e-5), for_task("regression"), parties.problem
    N, d = problem.N, problem.d
    (pooled,) = FunctionalMechanism(loss).messages(budget, problem)
    prepared = FunctionalMechanism(loss, sites=sites).prepare(parties, rng)
    released = Carrier(prepared, [budget], rng, samples // d, None).ask(0)
    linear, _ = polynomial(released, d, N, 0.0)
    exact = -2 * parties.y @ parties.X / N
    return _variance((linear - exact) / (pooled.block_widths()[1] / N))


def _variance(values: Array) -> float:
    return float(np.mean(values * values))  # the mean is zero
