"""What secure aggregation costs, measured: bytes of the real messages, and seconds."""

import time
from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd

from dpml.errors import UserError
from dpml.protocols import FixedPoint, Session, Stage, Topology, complete, in_process, sparse
from dpml.protocols.secagg import Traffic


def measure(M: int, d: int, drop: float = 0.0, tcp: bool = False) -> dict[str, str]:
    """One run on random vectors, a share `drop` of whose owners fall silent before they send them, as lines to print.

    Raises:
        ProtocolError: too few parties are left.
    """
    from dpml.protocols.tcp import over_tcp  # asyncio loads slowly

    if M < 2 or d < 1:
        raise UserError(f"a secure sum needs M >= 2 parties and d >= 1 entries, got M={M} and d={d}.")
    rng = np.random.default_rng(0)
    values = rng.uniform(-1, 1, (M, d))
    codec = FixedPoint.fit(M, bound=1.0)
    inputs, session = codec.encode(values, rng), Session.of(M, d)
    dropouts = {int(k): Stage.MASKED for k in rng.choice(M, int(drop * M), replace=False)}
    start = time.perf_counter()
    outcome = (over_tcp if tcp else in_process)(session, inputs, None, dropouts)
    seconds = time.perf_counter() - start
    exact = np.array_equal(outcome.total, inputs[outcome.survivors].sum(axis=0))
    error = np.abs(codec.decode(outcome.total) - values[outcome.survivors].sum(axis=0)).max()
    chosen, traffic = session.topology, outcome.traffic
    return {
        "neighbours, threshold": f"{chosen.degree}, {chosen.threshold}",
        "in the sum": f"{len(outcome.survivors)} of {M}",
        "sum in the ring": "exact" if exact else "WRONG",
        "largest error": f"{error:.2g} (bound {codec.error:.2g}, and float rounding)",
        "seconds, all parties": f"{seconds:.2f}",
        "bytes of a site": f"{_site(traffic):,.0f}",
        "bytes of the server": f"{traffic.server:,}",
    }


def communication(M: Sequence[int], d: Sequence[int], ring: Sequence[int] = ()) -> pd.DataFrame:
    """Bytes sent and received by a site (the mean over sites) and by the aggregator, nobody dropping out.

    For every number of parties in M with everybody everybody's neighbour, in `ring` with the sparse topology, and every
    length in d. Metrics: `site_bytes`, `aggregator_bytes`, `degree`; own column: `graph`.
    """
    cases = [("complete", m, complete(m)) for m in M]
    cases += [("ring", m, found) for m in ring if (found := sparse(m)) is not None]
    rows = []
    for graph, m, topology in cases:
        for length in d:
            traffic = _traffic(m, length, topology)
            metrics = {"site_bytes": _site(traffic), "aggregator_bytes": traffic.server, "degree": topology.degree}
            rows += [{"graph": graph, "M": m, "d": length, "metric": k, "value": float(v)} for k, v in metrics.items()]
    return pd.DataFrame(rows)


def exponents(M: Sequence[int], d: Sequence[int], ring: Sequence[int] = ()) -> pd.DataFrame:
    """The exponents of `communication` in M, at the smallest d, and in d, at the smallest M.

    A sum of two powers, such as M + d, shows each of them only where it dominates: the exponents are the slopes between
    the two largest values on a log-log scale. Metrics: `in_M`, `in_d`; own columns: `graph`, `who`.
    """
    parts = [communication(M, [min(d)], ring), communication([min(M)], d)]
    table = pd.concat(parts).drop_duplicates()
    rows = []
    for (graph, metric), own in table[table["metric"] != "degree"].groupby(["graph", "metric"], sort=False):
        for name, along, at in (("in_M", "M", "d"), ("in_d", "d", "M")):
            line = own[own[at] == own[at].min()].nlargest(2, along)
            if len(line) == 2:
                slope = np.diff(np.log(line["value"]))[0] / np.diff(np.log(line[along].astype(float)))[0]
                who = str(metric).removesuffix("_bytes")
                rows.append({"graph": graph, "who": who, "metric": name, "value": float(slope)})
    return pd.DataFrame(rows)


@cache  # tables and exponents share runs, and the bytes do not depend on chance
def _traffic(M: int, d: int, topology: Topology) -> Traffic:
    return in_process(Session.of(M, d, topology), np.zeros((M, d), dtype=np.uint64)).traffic


def _site(traffic: Traffic) -> float:
    return float((traffic.sent + traffic.received).mean())
