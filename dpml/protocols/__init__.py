"""Secure aggregation: the server learns the sum of the parties' vectors, and nothing else about any of them.

Bonawitz et al. 2017 (CCS, "Practical secure aggregation for privacy-preserving machine learning", Fig. 4) with
signatures and the round that stands against a lying server, and with a sparse `Topology` its variant by Bell et al.
2020. Five times every party sends one message, signed with the key of its identity, and the server answers those from
whom it came:

1. KEYS: two X25519 public keys, one to agree on sealing keys and one to agree on masks.
2. SHARES: Shamir shares of the secret mask key ``s_u`` and of a random seed ``b_u``, sealed for each neighbour
   (ChaCha20-Poly1305 under keys agreed on by X25519 and HKDF-SHA256), and a commitment to ``b_u``.
3. MASKED: ``y_u = x_u + PRG(b_u) + sum_(v > u) PRG(k_uv) - sum_(v < u) PRG(k_uv)`` modulo 2^64, with ``k_uv`` agreed
   on by the mask keys of u and its neighbours v, and PRG the key stream of ChaCha20.
4. CONSISTENCY: the list of those whose MASKED came, as the server told it.
5. UNMASK, after a quorum of signatures under that very list: for every neighbour (and itself) in the sum its share of
   ``b_u``; for every neighbour that shared its secrets and then dropped out, its share of ``s_u``. Never both for one
   party: they would unmask its vector.

Whoever has not sent the message that is due has dropped out. t shares of each secret are enough to take the masks off
the sum of those who sent MASKED; the server checks what it reconstructs against the public key and the commitment, so
that wrong shares end the run, and do not change the sum.

*What is covered* (docs/secure_aggregation.md has the argument). A server and C parties who lie and put together all
they know, with everybody everybody's neighbour and 2t > M + C: for one list of at least t parties they learn the sum of
the honest ones' vectors, and nothing else. On a ring that holds for a server that follows the protocol and up to
`Topology.colluders`, independent of the seats; one that lies gets no party's vector alone, but can cut the ring and get
the sums of its parts. All provided that the parties know each other's verification keys, and that X25519, HKDF,
ChaCha20, Poly1305, Ed25519 and SHA-256 are what they are taken for.

*What is not.* A party can send any vector, and spoil the sum by it. Vectors of a party that is alone among colluders
follow from the sum. Memory is not wiped, and timing is not hidden. Checksums find damage but no forgery: for that are
the signatures.
"""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpml.arrays import Array, Index
from dpml.protocols.codec import FixedPoint
from dpml.protocols.errors import ProtocolError, RefusedError
from dpml.protocols.graph import Topology, choose, complete, sparse
from dpml.protocols.session import Session, Stage
from dpml.protocols.transports import Dropouts, Traffic, Transport, in_process

__all__ = [
    "FixedPoint", "ProtocolError", "RefusedError", "SecureIntegerSum", "SecureSum", "Session", "Stage", "Topology",
    "choose", "complete", "in_process", "secure_sum", "secure_sum_integers", "sparse",
]  # fmt: skip

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class SecureIntegerSum:
    """The exact sum (d,) of the integers of the `survivors`, modulo 2^64 in [-2^63, 2^63), and the bytes it took."""

    total: Integers
    survivors: Index
    traffic: Traffic


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
        transport: who carries the messages, `in_process` or one like it.
        dropouts: parties that fall silent, and the first message that they do not send.
        topology: who shares masks with whom; None: all, or for many parties a sparse ring.

    Raises:
        ProtocolError: an entry is larger than `bound`, or too few parties are left.
    """
    codec = FixedPoint.fit(len(vectors), bound)
    encoded = codec.encode(vectors, rng).view(np.int64)
    summed = secure_sum_integers(encoded, transport, dropouts, topology)
    return SecureSum(codec.decode(summed.total.view(np.uint64)), summed.survivors, codec.error, summed.traffic)


def secure_sum_integers(
    vectors: Integers,
    transport: Transport = in_process,
    dropouts: Dropouts | None = None,
    topology: Topology | None = None,
) -> SecureIntegerSum:
    """The sum of one vector of integers of each party, by a run of secure aggregation: nothing is rounded.

    Args:
        vectors: (M, d), a row for each party. Sums outside [-2^63, 2^63) wrap around.
        transport, dropouts, topology: as of `secure_sum`.

    Raises:
        ProtocolError: too few parties are left.
    """
    parties, d = vectors.shape
    outcome = transport(Session.of(parties, d, topology), np.ascontiguousarray(vectors).view(np.uint64), None, dropouts)
    return SecureIntegerSum(outcome.total.view(np.int64), outcome.survivors, outcome.traffic)
