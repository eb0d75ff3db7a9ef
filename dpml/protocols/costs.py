"""Measure what secure aggregation costs: the bytes of all messages, and CPU seconds."""

import math
import time

import numpy as np

from dpml.errors import UserError
from dpml.protocols import FixedPoint, Session, Stage, in_process
from dpml.protocols.transports import Traffic

_MOST_PARTIES = 2_000  # so many parties take a minute and 0.6 GB in one process
_MOST = 1 << 27  # entries of all vectors together, 1 GiB; `measure` holds a few copies of them


def measure(M: int, d: int, drop: float = 0.0) -> dict[str, str]:
    """Run secure aggregation of M random vectors (d,), and return a dictionary of bytes, seconds and errors."""
    if not (2 <= M <= _MOST_PARTIES and 1 <= d <= _MOST // M and 0 <= drop < 1):
        raise UserError(
            f"secure aggregation can be measured for 2 to {_MOST_PARTIES:,} parties, vectors of at least one entry (in "
            f"total at most {_MOST:,}), and a fraction of drop-outs in [0, 1): got M={M}, d={d} and drop={drop}."
        )
    session = Session.of(M, d)
    rng = np.random.default_rng(0)
    values = rng.uniform(-1, 1, (M, d))
    codec = FixedPoint.fit(M, bound=1.0)
    inputs = codec.encode(values, rng)
    dropped = rng.choice(M, math.floor(drop * M * (1 + 1e-12)), replace=False)  # 0.29 * 100 must give 29
    dropouts = {int(k): Stage.MASKED for k in dropped}
    start = time.process_time()
    outcome = in_process(session, inputs, None, dropouts)
    seconds = time.process_time() - start
    assert np.array_equal(outcome.total, inputs[outcome.survivors].sum(axis=0))
    error = np.abs(codec.decode(outcome.total) - values[outcome.survivors].sum(axis=0)).max()
    bound = float_difference(codec, len(outcome.survivors))
    topology, traffic = session.topology, outcome.traffic
    return {
        "neighbours, threshold": f"{topology.degree}, {topology.threshold}",
        "in the sum": f"{len(outcome.survivors)} of {M}",
        "sum in the ring": "exact",
        "largest error": f"{error:.2g} (bound {bound:.2g}: {codec.error:.2g} for fixed point, the rest for floats)",
        "CPU seconds, all parties": f"{seconds:.2f}",
        "bytes of a site": f"{site_bytes(traffic):,.0f}",
        "bytes of the aggregator": f"{traffic.server:,}",
    }


def float_difference(codec: FixedPoint, count: int) -> float:
    """Return a bound on the difference between a decoded sum of `count` numbers and any floating-point sum of them.

    The bound is the error of decoding plus Higham's bound on additions of floats (Accuracy and Stability of Numerical
    Algorithms, 2nd ed., eq. 4.4).
    """
    u = 2.0**-53
    additions = (count - 1) * u
    return codec.error * (1 + u) + count * codec.bound * (u + additions / (1 - additions))


def site_bytes(traffic: Traffic) -> float:
    """Return how many bytes a site sends and receives on average."""
    return float((traffic.sent + traffic.received).mean())
