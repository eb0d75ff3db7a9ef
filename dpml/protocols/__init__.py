"""Secure aggregation among parties, and what is built on it; the threat model is in `dpml.protocols.secagg`."""

from dataclasses import dataclass

from numpy.random import Generator

from dpml.arrays import Array, Index
from dpml.protocols.codec import FixedPoint
from dpml.protocols.errors import ProtocolError, RefusedError
from dpml.protocols.graph import Topology, complete, sparse
from dpml.protocols.secagg import Dropouts, Session, Stage, Traffic, Transport, in_process

__all__ = [
    "FixedPoint", "ProtocolError", "RefusedError", "SecureSum", "Session", "Stage", "Topology",
    "complete", "in_process", "secure_sum", "sparse",
]  # fmt: skip


@dataclass(frozen=True)
class SecureSum:
    """The sum (d,) of the vectors of the `survivors`, and the bytes it took.

    Each entry is off by less than `error`, beside the rounding of the sum itself to a float, a relative 2^-53.
    """

    total: Array
    survivors: Index
    error: float
    traffic: Traffic


def secure_sum(
    vectors: Array,
    bound: float,
    rng: Generator,
    transport: Transport = in_process,
    dropouts: Dropouts | None = None,
    topology: Topology | None = None,
) -> SecureSum:
    """The sum of one vector of each party, by a run of secure aggregation.

    Args:
        vectors: (M, d), a row for each party.
        bound: a public bound on the size of every entry, not taken from the data.
        rng: for the rounding to fixed point only; keys and masks come from the operating system.
        transport: `in_process`, or `dpml.protocols.tcp.over_tcp`.
        dropouts: parties that fall silent, and the first message that they do not send.
        topology: who shares masks with whom; None: all, or for many parties a sparse ring.

    Raises:
        ProtocolError: an entry is larger than `bound`, or too few parties are left.
    """
    parties, d = vectors.shape
    codec = FixedPoint.fit(parties, bound)
    outcome = transport(Session.of(parties, d, topology), codec.encode(vectors, rng), None, dropouts)
    return SecureSum(codec.decode(outcome.total), outcome.survivors, codec.error, outcome.traffic)
