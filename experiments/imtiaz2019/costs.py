"""Measure the bytes of secure aggregation and their growth (Table 1)."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpml.arrays import Array
from dpml.protocols import Session, Topology, complete, in_process, sparse
from dpml.protocols.costs import site_bytes
from dpml.protocols.transports import Traffic

_WORD = 8  # bytes of an entry


def communication(
    everybody: Sequence[int], ring: Sequence[int], d: Sequence[int], nodes: int | None = None
) -> pd.DataFrame:
    """Measure the bytes that a site (on average) and the aggregator send and receive, without drop-outs.

    All pairs of parties share masks (`algo` everybody), or neighbours on a `ring`. If there are compute `nodes`, rows
    `heikkila2017` have the bytes of the protocol of Heikkilä et al. 2017, by the formula in Imtiaz et al. 2019 (App.
    A): every site sends a share of its d words of 8 bytes to each node, and every node sends the sum of its shares.
    """
    cases = [("everybody", m, complete(m)) for m in everybody]
    cases += [("ring", m, topology) for m in ring if (topology := sparse(m)) is not None]
    rows: list[dict[str, Any]] = []

    def add(algo: str, m: int, length: int, **metrics: float) -> None:
        setting = {"algo": algo, "M": m, "d": length, "length": f"d = {length:,}"}
        rows.extend({**setting, "metric": metric, "value": float(value)} for metric, value in metrics.items())

    for graph, m, topology in cases:
        for length in d:
            traffic = _traffic(m, length, topology)
            sent = {"site_bytes": site_bytes(traffic), "aggregator_bytes": traffic.server}
            add(graph, m, length, **sent, degree=topology.degree)
    for m in dict.fromkeys(m for _, m, _ in cases) if nodes is not None else ():
        for length in d:
            words = _WORD * length * (nodes or 0)
            add("heikkila2017", m, length, site_bytes=words, aggregator_bytes=(m + 1) * words)
    return pd.DataFrame(rows)


def exponents(everybody: Sequence[int], ring: Sequence[int], d: Sequence[int]) -> pd.DataFrame:
    """Measure the growth of the bytes of `communication`, by `algo` and `who`.

    Metrics: `in_M` is the log-log slope over the three largest M at the smallest d, and `in_d` the slope over the three
    largest d at the smallest M. `misfit` is the largest relative error of a least-squares fit with the terms 1, M, d
    (on a ring also the degree k) for a site, and M times these for the aggregator.
    """
    table = communication(everybody, ring, d)
    wide = table.pivot_table(index=["algo", "M", "d"], columns="metric", values="value", sort=False).reset_index()
    rows = []
    for graph, own in wide.groupby("algo", sort=False):
        M, length, k = (own[name].to_numpy(dtype=float) for name in ("M", "d", "degree"))
        site = np.stack([np.ones_like(M), M, length, *([k] if graph == "ring" else [])], axis=1)
        for who, form in (("site", site), ("aggregator", M[:, None] * site)):
            value = own[f"{who}_bytes"].to_numpy(dtype=float)
            slopes = {
                "in_M": _slope(M, value, length == length.min()),
                "in_d": _slope(length, value, M.min() == M),
            }
            relative = form / value[:, None]
            fit = relative @ np.linalg.lstsq(relative, np.ones_like(value), rcond=None)[0]
            metrics = {n: v for n, v in slopes.items() if v is not None} | {"misfit": float(np.abs(fit - 1).max())}
            rows += [{"algo": graph, "who": who, "metric": n, "value": v} for n, v in metrics.items()]
    return pd.DataFrame(rows)


def _slope(x: Array, y: Array, where: NDArray[np.bool_]) -> float | None:
    if where.sum() < 3:
        return None
    largest = np.argsort(x[where])[-3:]
    return float(np.polyfit(np.log(x[where][largest]), np.log(y[where][largest]), 1)[0])


@cache
def _traffic(M: int, d: int, topology: Topology) -> Traffic:
    return in_process(Session.of(M, d, topology), np.zeros((M, d), dtype=np.uint64)).traffic
