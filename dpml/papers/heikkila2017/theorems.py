"""Heikkilä et al. 2017: what the noise of the authors' program guarantees, by exact computation.

Proofs: docs/privacy/heikkila2017.md. A row is z = (x, y), with d features and a target. Every number of a noisy sum has
the same noise, c/eps times the printed sensitivity, ``c = sqrt(2 log(1.25/delta))``. Of eps and of delta 0.3 go to the
sums of squares that set the bounds to which rows are clipped, and 0.7 to X'X and X'y of the clipped rows.
"""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from dpml.arrays import Array
from dpml.audit.bounds import eps_by_gdp
from dpml.privacy import gdp
from dpml.reporting.claims import Check, Evidence, NotComputedError, Reading, Test

SHARE = 0.3
"""Of eps and delta, for the bounds; in the program ``privacy_for_marg_var = .3``."""


def printed_statistics(bounds: Array) -> Array:
    """The program's sensitivity of X'X and X'y for rows within `bounds` (..., d + 1): x_i^2 moves by c_i^2, the rest doubly."""
    squares = np.square(bounds)
    x, y = squares[..., :-1], squares[..., -1]
    diagonal, all_x = np.sum(x**2, -1), np.sum(x, -1)
    return np.sqrt(diagonal + 2 * (all_x**2 - diagonal) + 4 * y * all_x)


def proven_statistics(bounds: Array) -> Array:
    """How far they move at most: ``sqrt(|c|^4 + sum_i c_i^4 / 2)``, or the program's number where that is less."""
    squares = np.square(bounds)
    most = np.sqrt(np.sum(squares, -1) ** 2 + np.sum(squares[..., :-1] ** 2, -1) / 2)
    return np.minimum(most, printed_statistics(bounds))


def coefficients(z: Array) -> Array:
    """What a row contributes: x_i x_j for i >= j, and x_i y."""
    x = z[:-1]
    return np.concatenate([np.outer(x, x)[np.tril_indices(len(x))], x * z[-1]])


def statistics(d: Sequence[int]) -> pd.DataFrame:
    """Over the program's sensitivity, for equal bounds: a move that two rows show (`moved`), and the proven bound (`bound`)."""
    found = []
    for size in d:
        first = np.ones(size + 1)
        second = np.where(np.arange(size + 1) < (size + 1) // 2, -1.0, 1.0)
        unit = printed_statistics(first)
        shown = np.linalg.norm(coefficients(first) - coefficients(second))
        values = {"moved": shown / unit, "bound": proven_statistics(first) / unit}
        found += [{"d": size, "metric": key, "value": value} for key, value in values.items()]
    return pd.DataFrame(found)


def unprojected(d: Sequence[int]) -> pd.DataFrame:
    """The same for columns that are centred and have length 10, which are taken to lie within 5.

    `even`: they lie so. `one-sided`: nearly all rows are at one end, so that others are up to 10 away from the mean.
    """
    found = []
    for size in d:
        unit = printed_statistics(np.full(size + 1, 5.0))
        ends = {"even": (np.full(size + 1, 5.0), np.full(size + 1, 5.0))}
        ends["even"][1][: (size + 1) // 2] = -5.0
        ends["one-sided"] = (np.full(size + 1, 10.0), np.zeros(size + 1))
        for reading, (first, second) in ends.items():
            moved = float(np.linalg.norm(coefficients(first) - coefficients(second)) / unit)
            found.append({"d": size, "reading": reading, "metric": "moved", "value": moved})
    return pd.DataFrame(found)


def mu_of_bounds(eps: float, delta: float, reach: Sequence[float]) -> float:
    """mu of the sums of squares of rows within `reach` (d + 1,): they move by its squares, the program counts it itself."""
    wide = np.asarray(reach)
    return float(np.linalg.norm(wide**2) / np.linalg.norm(wide)) * gdp.classical_mu(SHARE * eps, SHARE * delta)


def parts(
    eps: Sequence[float], delta: float, d: int, reach: Sequence[float], clients: int, colluders: Sequence[int]
) -> pd.DataFrame:
    """log10 of the exact delta over the claimed one (`log10_excess`), and the exact eps (`eps_of_noise`), by part of a release.

    Args:
        eps: claimed.
        delta: claimed.
        d: features.
        reach: the assumed range of a feature, and of the target.
        clients: n, who add noise of 1/(n - 1) of the variance each.
        colluders: how many of them whoever sees the sum knows the noise of.

    `statistics` with the sensitivity of `proven_statistics` for equal bounds, `printed` with the program's, as if a move
    of that length were possible; `whole` for a row at the ends of the range that becomes 0.
    """
    wide = np.array([reach[0]] * d + [reach[1]])
    row = np.ones(d + 1)
    unit = printed_statistics(row)
    move, most = np.linalg.norm(coefficients(row)) / unit, proven_statistics(row) / unit
    found = []
    for e in eps:
        of_bounds, of_sums = mu_of_bounds(e, delta, wide), gdp.classical_mu((1 - SHARE) * e, (1 - SHARE) * delta)
        for known in colluders:
            left = math.sqrt((clients - 1) / (clients - known))
            seen = {
                "bounds": (of_bounds, SHARE),
                "statistics": (most * of_sums, 1 - SHARE),
                "printed": (of_sums, 1 - SHARE),
                "whole": (math.hypot(of_bounds, move * of_sums), 1.0),
            }
            for part, (mu, share) in seen.items():
                said = {"eps": e, "delta": delta, "d": d, "part": part, "colluders": known, "clients": clients}
                excess = (gdp.log_delta_of(mu * left, share * e) - math.log(share * delta)) / math.log(10)
                found.append(said | {"metric": "log10_excess", "value": excess})
                found.append(said | {"metric": "eps_of_noise", "value": gdp.eps_of(mu * left, share * delta)})
    return pd.DataFrame(found)


def noise_left(clients: Sequence[int], known: Sequence[int]) -> pd.DataFrame:
    """The variance of the noise that is left to whoever knows that of some clients, over a trusted aggregator's (`noise_left`)."""
    return pd.DataFrame(
        [
            {"clients": n, "known": k, "metric": "noise_left", "value": (n - k) / (n - 1)}
            for n in clients
            for k in known
        ]
    )


def attacked(eps: Sequence[float], delta: float, d: int, reach: Sequence[float], draws: int = 100_000) -> pd.DataFrame:
    """A 95 % lower bound on eps (`attacked`) from noisy sums of squares, 100,000 of either of two neighbours.

    In one a row is at the ends of the assumed range, in the other it is 0; the attacker knows all other rows, and the
    noise of one client. Beside it what is `claimed` for the whole release, and for this part of it (`part`).
    """
    rng, found = np.random.default_rng(2017), []
    row = np.array([reach[0]] * d + [reach[1]]) ** 2
    for e in eps:
        scale = np.linalg.norm([reach[0]] * d + [reach[1]]) / gdp.classical_mu(SHARE * e, SHARE * delta)
        noise = scale * rng.standard_normal((2, draws, d + 1))  # of n - 1 clients, 1/(n - 1) of the variance each
        first, second = noise[0] @ row, (noise[1] + row) @ row
        values = {"claimed": e, "part": SHARE * e, "attacked": eps_by_gdp(first, second, delta, 0.05)}
        values["proven"] = gdp.eps_of(mu_of_bounds(e, delta, [reach[0]] * d + [reach[1]]), delta)
        found += [{"eps": e, "delta": delta, "metric": key, "value": value} for key, value in values.items()]
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


def moves(metric: str, named: bool = False) -> Test:
    """Nothing moves by more than the program's sensitivity."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        rows = rows_of(evidence, metric, **({"reading": reading.name} if named else {}))
        text = ", ".join(f"d = {d:g}: {value:.3g}" for d, value in rows[["d", "value"]].to_numpy())
        return Check(bool((rows["value"] <= 1 + 1e-12).all()), f"by this many times the program's number: {text}")

    return test


def kept(part: str, colluders: int, readings: dict[str, str]) -> Test:
    """No exact delta of a part is above the claimed one, in the block of the reading."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        blocks, _, named = readings[reading.name].partition("/")
        where = {"part": named or part, "colluders": colluders, "block": blocks}
        rows, eps = (rows_of(evidence, metric, **where) for metric in ("log10_excess", "eps_of_noise"))
        wrong = rows[rows["value"] > 0]
        text = ", ".join(f"{e:.3g}: {value:.3g}" for e, value in eps[["eps", "value"]].to_numpy())
        return Check(wrong.empty, f"exact eps by the claimed total: {text}; delta too large at {len(wrong)} of {len(rows)}")

    return test


def left(evidence: Evidence, reading: Reading) -> Check:
    """At least the noise of a trusted aggregator is left."""
    known = {"one client": 1, "two clients": 2, "a tenth of the clients": -1}[reading.name]
    rows = rows_of(evidence, "noise_left")
    rows = rows[rows["known"] == known] if known > 0 else rows[rows["known"] * 10 == rows["clients"]]
    if rows.empty:
        raise NotComputedError([f"noise_left to {reading.name}"])
    text = ", ".join(f"{v:.6g} of {n:g}" for n, v in rows[["clients", "value"]].to_numpy())
    return Check(bool((rows["value"] >= 1).all()), f"share of the variance: {text}")


def reached(evidence: Evidence, _: Reading) -> Check:
    """No attack reaches more than is claimed for the whole release."""
    claimed, found = (rows_of(evidence, key).set_index("eps")["value"] for key in ("claimed", "attacked"))
    text = ", ".join(f"{found[e]:.3g} of {e:.3g}" for e in found.index)
    return Check(bool((found <= claimed).all()), f"eps at least, of the claimed: {text}")
