"""Compute exactly what the noise in the authors' program of Heikkilä et al. 2017 guarantees.

Proofs: docs/privacy/heikkila2017.md. A row is z = (x, y), with d features and a target. All numbers of a noisy sum have
the same noise, c/eps times the printed sensitivity, with ``c = sqrt(2 log(1.25/delta))``. The sums of squares spend 0.3
of eps and of delta. X'X and X'y of the clipped rows spend 0.7.
"""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from dpml.arrays import Array
from dpml.audit.attacks import eps_by_gdp
from dpml.privacy import gdp

SHARE = 0.3
"""The share of eps and delta for the bounds: in the program, ``privacy_for_marg_var = .3``."""


def printed_statistics(bounds: Array) -> Array:
    """Return the program's sensitivity for bounds c (..., d + 1): c_i^2 for x_i^2, and 2 c_i c_j for x_i x_j."""
    squares = np.square(bounds)
    x, y = squares[..., :-1], squares[..., -1]
    diagonal, all_x = np.sum(x**2, -1), np.sum(x, -1)
    return np.sqrt(diagonal + 2 * (all_x**2 - diagonal) + 4 * y * all_x)


def proven_statistics(bounds: Array) -> Array:
    """Return the proven sensitivity of X'X and X'y: ``sqrt(|c|^4 + sum_i c_i^4 / 2)``, or the program's if smaller."""
    squares = np.square(bounds)
    most = np.sqrt(np.sum(squares, -1) ** 2 + np.sum(squares[..., :-1] ** 2, -1) / 2)
    return np.minimum(most, printed_statistics(bounds))


def coefficients(z: Array) -> Array:
    """Return a row's contribution to X'X and X'y: x_i x_j for i >= j, and x_i y."""
    return np.concatenate([np.outer(z[:-1], z[:-1])[np.tril_indices(len(z) - 1)], z[:-1] * z[-1]])


def moves(d: Sequence[int]) -> pd.DataFrame:
    """Compute the change of X'X and X'y by one row, divided by the program's sensitivity (`moved`), for equal bounds.

    With clipping, it is the change between two given rows (`shown`), and the largest. Without, the program assumes that
    centred columns of range 10 lie within 5; if nearly all rows are at one end (`one-sided`), others are up to 10 away.
    """
    found = []
    for size in d:
        z, other = np.ones(size + 1), np.where(np.arange(size + 1) < (size + 1) // 2, -1.0, 1.0)
        moved: dict[str, float] = {
            "clipped, shown": float(np.linalg.norm(coefficients(z) - coefficients(other))),
            "clipped, at most": float(proven_statistics(z)),
            "not clipped, one-sided": float(np.linalg.norm(coefficients(2 * z))),
        }
        found += [
            {"d": size, "reading": key, "metric": "moved", "value": move / printed_statistics(z)}
            for key, move in moved.items()
        ]
    return pd.DataFrame(found)


def mu_of_bounds(eps: float, delta: float, reach: Sequence[float]) -> float:
    """Return the mu of the sums of squares of rows within `reach` (d + 1,); their sensitivity is reach^2."""
    return float(np.linalg.norm(np.square(reach)) / np.linalg.norm(reach)) * gdp.classical_mu(
        SHARE * eps, SHARE * delta
    )


def parts(eps: Sequence[float], delta: float, d: int, reach: Sequence[float]) -> pd.DataFrame:
    """Compute log10 of exact over claimed delta (`log10_excess`), and the exact eps (`eps_of_noise`), by part.

    The noise is a trusted aggregator's, and all bounds are equal. X'X, X'y have the program's sensitivity (`printed`)
    or the proven one (`statistics`). In `whole`, a row at the ends of the ranges `reach` (feature, target) becomes 0.
    """
    row, unit, found = np.ones(d + 1), printed_statistics(np.ones(d + 1)), []
    for e in eps:
        squares, sums = mu_of_bounds(e, delta, [reach[0]] * d + [reach[1]]), gdp.classical_mu(0.7 * e, 0.7 * delta)
        whole = math.hypot(squares, np.linalg.norm(coefficients(row)) / unit * sums)
        seen = {"bounds": (squares, SHARE), "printed": (sums, 1 - SHARE), "whole": (whole, 1.0)}
        seen["statistics"] = float(proven_statistics(row) / unit) * sums, 1 - SHARE
        for part, (mu, share) in seen.items():
            excess = (gdp.log_delta_of(mu, share * e) - math.log(share * delta)) / math.log(10)
            values = {"log10_excess": excess, "eps_of_noise": gdp.eps_of(mu, share * delta)}
            known = {"eps": e, "delta": delta, "d": d, "part": part}
            found += [known | {"metric": key, "value": value} for key, value in values.items()]
    return pd.DataFrame(found)


def noise_lacking(clients: Sequence[int], known: Sequence[int]) -> pd.DataFrame:
    """Compute a trusted aggregator's noise variance, divided by that of the clients with unknown noise (`lacking`)."""
    cases = [(n, k) for n in clients for k in known if k < n]
    return pd.DataFrame([{"n": n, "known": k, "metric": "lacking", "value": (n - 1) / (n - k)} for n, k in cases])


def attacked(eps: Sequence[float], delta: float, reach: Sequence[float], draws: int = 100_000) -> pd.DataFrame:
    """Compute a 95 % lower bound on eps (`attacked`) from noisy sums of squares, with `draws` of each neighbour.

    The neighbours differ in a row, which is at the ends of the assumed range or 0.
    """
    rng, found, row = np.random.default_rng(2017), [], np.square(reach)
    for e in eps:
        scale = np.linalg.norm(reach) / gdp.classical_mu(SHARE * e, SHARE * delta)
        noise = scale * rng.standard_normal((2, draws, len(row)))
        reached = eps_by_gdp(noise[0] @ row, (noise[1] + row) @ row, delta, 0.05)
        values = {"claimed": e, "proven": gdp.eps_of(mu_of_bounds(e, delta, reach), delta), "attacked": reached}
        found += [{"eps": e, "delta": delta, "metric": key, "value": value} for key, value in values.items()]
    return pd.DataFrame(found)
