"""Compute secure sums: the server learns the sum of the parties' vectors, and nothing else about the vectors.

This is the protocol of Bonawitz et al. 2017 (CCS, Fig. 4) with signatures and the consistency round; with a sparse
`Topology` it is the variant of Bell et al. 2020. docs/secure_aggregation.md has the guarantees and their assumptions.
Flower's own protocol signs no message, binds no keys to a session and draws its masks from 32 bits.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpml.arrays import Array, Index
from dpml.protocols.codec import FixedPoint
from dpml.protocols.messages import ProtocolError, RefusedError
from dpml.protocols.session import Session, Stage, Topology, choose, complete, sparse
from dpml.protocols.transports import Dropouts, Traffic, Transport, in_process

__all__ = [
    "FixedPoint", "ProtocolError", "RefusedError", "SecureSum", "Session", "Stage", "Topology",
    "choose", "complete", "in_process", "secure_sum", "secure_sum_integers", "sparse",
]  # fmt: skip

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class SecureSum:
    """The result of a secure sum: the total (d,), the parties that did not drop out, and the traffic in bytes.

    Integer sums are exact modulo 2^64, in [-2^63, 2^63). Each entry of a real-valued sum has an error below `error`.
    """

    total: NDArray[Any]
    survivors: Index
    traffic: Traffic
    error: float = 0.0


def secure_sum(
    vectors: Array,
    bound: float,
    rng: Generator,
    transport: Transport = in_process,
    dropouts: Dropouts | None = None,
    topology: Topology | None = None,
) -> SecureSum:
    """Return the sum of the parties' real vectors, computed by secure aggregation.

    Args:
        vectors: The parties' vectors, (M, d).
        bound: A public bound on the size of every entry, not computed from the data.
        rng: The generator for random rounding to fixed point; it need not be secret.
        transport: A function that carries the messages, such as `in_process`.
        dropouts: The parties that drop out, and the first message that each does not send.
        topology: Which pairs of parties share masks; None: all pairs, or for many parties only neighbours on a ring.
    """
    codec = FixedPoint.fit(len(vectors), bound)
    encoded = codec.encode(vectors, rng).view(np.int64)
    summed = secure_sum_integers(encoded, transport, dropouts, topology)
    return SecureSum(codec.decode(summed.total.view(np.uint64)), summed.survivors, summed.traffic, codec.error)


def secure_sum_integers(
    vectors: Integers,
    transport: Transport = in_process,
    dropouts: Dropouts | None = None,
    topology: Topology | None = None,
) -> SecureSum:
    """Return the exact sum of integer vectors (M, d) by secure aggregation; sums wrap modulo 2^64 to [-2^63, 2^63)."""
    vectors = np.asarray(vectors)
    if vectors.ndim != 2 or vectors.dtype not in (np.int64, np.uint64):
        raise ProtocolError(
            f"vectors must be 64-bit integers, a row for each party, got {vectors.dtype} in shape {vectors.shape}."
        )
    parties, d = vectors.shape
    outcome = transport(Session.of(parties, d, topology), np.ascontiguousarray(vectors).view(np.uint64), None, dropouts)
    return SecureSum(outcome.total.view(np.int64), outcome.survivors, outcome.traffic)
