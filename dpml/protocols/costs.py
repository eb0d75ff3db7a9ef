"""The measured cost of secure aggregation: bytes of the real messages, and seconds."""

import math
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpml.arrays import Array
from dpml.errors import UserError
from dpml.protocols import FixedPoint, ProtocolError, Session, Stage, Topology, complete, in_process, sparse
from dpml.protocols.transports import Traffic

_WORD = 8  # bytes of an entry
_MOST_PARTIES = 10_000  # in one process: 11 minutes and 4 GB
_MOST = 1 << 27  # entries of all vectors together, 1 GiB; `measure` holds a few copies of them


def measure(M: int, d: int, drop: float = 0.0) -> dict[str, str]:
    """Run secure aggregation on random vectors, with a share `drop` of drop-outs before MASKED; return lines to print.

    Raises:
        ProtocolError: too few parties are left.
    """
    if M < 2 or d < 1:
        raise UserError(f"a secure sum needs M >= 2 parties and d >= 1 entries, got M={M} and d={d}.")
    if M * d > _MOST:
        raise UserError(f"M * d, the entries of all vectors, must be at most {_MOST:,} here, got M={M} and d={d}.")
    if M > _MOST_PARTIES:
        raise UserError(f"M must be at most {_MOST_PARTIES:,} here, where one process runs all parties, got M={M}.")
    if not 0 <= drop < 1:
        raise UserError(f"the share of parties that drop out must be in [0, 1), got {drop}.")
    session = Session.of(M, d)
    rng = np.random.default_rng(0)
    values = rng.uniform(-1, 1, (M, d))
    codec = FixedPoint.fit(M, bound=1.0)
    inputs = codec.encode(values, rng)
    dropped = rng.choice(M, math.floor(drop * M * (1 + 1e-12)), replace=False)  # .29 of 100 are 29
    dropouts = {int(k): Stage.MASKED for k in dropped}
    start = time.process_time()
    outcome = in_process(session, inputs, None, dropouts)
    seconds = time.process_time() - start
    if not np.array_equal(outcome.total, inputs[outcome.survivors].sum(axis=0)):
        raise ProtocolError("the sum is wrong.")  # cannot happen
    error = np.abs(codec.decode(outcome.total) - values[outcome.survivors].sum(axis=0)).max()
    bound = float_difference(codec, len(outcome.survivors))
    topology, traffic = session.topology, outcome.traffic
    return {
        "neighbours, threshold": f"{topology.degree}, {topology.threshold}",
        "in the sum": f"{len(outcome.survivors)} of {M}",
        "sum in the ring": "exact",
        "largest error": f"{error:.2g} (bound {bound:.2g}: {codec.error:.2g} for fixed point, the rest for floats)",
        "CPU seconds, all parties": f"{seconds:.2f}",
        "bytes of a site": f"{_site(traffic):,.0f}",
        "bytes of the aggregator": f"{traffic.server:,}",
    }


def float_difference(codec: FixedPoint, count: int) -> float:
    """Bound the difference between a decoded sum of `count` numbers and their sum in floats, in any order.

    Let S be the exact sum of numbers v_i of size at most B, and u = 2^-53. The ring holds S + e, where
    ``|e| <= codec.error``; decoding rounds that to a float, off by at most ``u (|S| + |e|)``. count - 1 additions of
    floats are off by at most ``g sum |v_i|`` with ``g = (count - 1) u / (1 - (count - 1) u)`` (Higham, Accuracy and
    Stability of Numerical Algorithms, 2nd ed., eq. 4.4). And |S| and sum |v_i| are at most count B.
    """
    u = 2.0**-53
    additions = (count - 1) * u
    return codec.error * (1 + u) + count * codec.bound * (u + additions / (1 - additions))


def communication(
    everybody: Sequence[int], ring: Sequence[int], d: Sequence[int], nodes: int | None = None
) -> pd.DataFrame:
    """Measure the bytes of a site (the mean over sites) and of the aggregator, without drop-outs.

    For the complete graph and for a sparse ring (for the numbers of parties that have one), and every length in d.
    `algo` names the graph. Metrics: `site_bytes`, `aggregator_bytes`, `degree`; the column `length` is d in words.

    If a number of compute `nodes` is given, the rows of `shared_among_nodes` for the same M and d are added.
    """
    cases = [("everybody", m, complete(m)) for m in everybody]
    cases += [("ring", m, topology) for m in ring if (topology := sparse(m)) is not None]
    rows = []
    for graph, m, topology in cases:
        for length in d:
            traffic = _traffic(m, length, topology)
            metrics = {"site_bytes": _site(traffic), "aggregator_bytes": traffic.server, "degree": topology.degree}
            setting = {"algo": graph, "M": m, "d": length, "length": f"d = {length:,}"}
            rows += [{**setting, "metric": metric, "value": float(value)} for metric, value in metrics.items()]
    if nodes is not None:
        rows += [row for m in dict.fromkeys(m for _, m, _ in cases) for row in shared_among_nodes(m, d, nodes)]
    return pd.DataFrame(rows)


def shared_among_nodes(M: int, d: Sequence[int], nodes: int) -> list[dict[str, Any]]:
    """Return the bytes of the protocol of Heikkilä et al. 2017, by the formula in Imtiaz et al. 2019 (App. A): not run.

    Every site sends a share of its d words to each compute node, and every node forwards the sum of its shares: (M + 1)
    d nodes words in total, reported in `aggregator_bytes`, of which each site sends d nodes. A word has 8 bytes, as in
    our messages; keys and headers are not counted.
    """
    rows = []
    for length in d:
        setting = {"algo": "heikkila2017", "M": M, "d": length, "length": f"d = {length:,}"}
        metrics = {"site_bytes": _WORD * length * nodes, "aggregator_bytes": _WORD * (M + 1) * length * nodes}
        rows += [{**setting, "metric": metric, "value": float(value)} for metric, value in metrics.items()]
    return rows


def exponents(everybody: Sequence[int], ring: Sequence[int], d: Sequence[int]) -> pd.DataFrame:
    """Return the growth of the bytes of `communication`, by `algo` and `who`.

    Metrics: `in_M` and `in_d`, slopes on a log-log scale over the three largest M at the smallest d, and over the three
    largest d at the smallest M, where one term of a sum of two powers dominates; only if there are three. `misfit` is
    the largest relative error of the least-squares fit to all measurements of this form: 1, M, d for a site and M
    times that for the aggregator; on a ring, 1, k, M, d with the degree k, on which only signatures depend.
    """
    table = communication(everybody, ring, d)
    wide = table.pivot_table(index=["algo", "M", "d"], columns="metric", values="value", sort=False).reset_index()
    rows = []
    for graph, own in wide.groupby("algo", sort=False):
        M, length, k = (own[name].to_numpy(dtype=float) for name in ("M", "d", "degree"))
        site = np.stack([np.ones_like(M), M, length, *([k] if graph == "ring" else [])], axis=1)
        for who, form in (("site", site), ("aggregator", M[:, None] * site)):
            value = own[f"{who}_bytes"].to_numpy(dtype=float)
            metrics = {
                "in_M": _slope(M, value, length == length.min()),
                "in_d": _slope(length, value, M.min() == M),
                "misfit": _misfit(form, value),
            }
            rows += [{"algo": graph, "who": who, "metric": n, "value": v} for n, v in metrics.items() if v is not None]
    return pd.DataFrame(rows)


def _slope(x: Array, y: Array, where: NDArray[np.bool_]) -> float | None:
    if where.sum() < 3:
        return None
    largest = np.argsort(x[where])[-3:]
    return float(np.polyfit(np.log(x[where][largest]), np.log(y[where][largest]), 1)[0])


def _misfit(form: Array, value: Array) -> float:
    relative = form / value[:, None]
    coefficients = np.linalg.lstsq(relative, np.ones_like(value), rcond=None)[0]
    return float(np.abs(relative @ coefficients - 1).max())


@cache
def _traffic(M: int, d: int, topology: Topology) -> Traffic:
    return in_process(Session.of(M, d, topology), np.zeros((M, d), dtype=np.uint64)).traffic


def _site(traffic: Traffic) -> float:
    return float((traffic.sent + traffic.received).mean())
