"""Secure aggregation: the server learns the sum of the parties' vectors, and nothing else about any of them.

Bonawitz et al. 2017 (CCS, "Practical secure aggregation for privacy-preserving machine learning", Fig. 4) with
signatures and the consistency round, which protects against a malicious server. With a sparse `Topology` it is the
variant of Bell et al. 2020. Every party sends five messages, each signed with its identity key, and after each round
the server answers the parties that sent one:

1. KEYS: two X25519 public keys, one to agree on sealing keys and one to agree on masks.
2. SHARES: Shamir shares of the secret mask key ``s_u`` and of a random seed ``b_u``, sealed for each neighbour
   (ChaCha20-Poly1305 under keys agreed on by X25519 and HKDF-SHA256), and a commitment to ``b_u``.
3. MASKED: ``y_u = x_u + PRG(b_u) + sum_(v > u) PRG(k_uv) - sum_(v < u) PRG(k_uv)`` modulo 2^64, with ``k_uv`` agreed
   on by the mask keys of u and its neighbours v, and PRG the key stream of ChaCha20.
4. CONSISTENCY: the list of the parties whose MASKED arrived, as the server sent it.
5. UNMASK, after a quorum of signatures on that same list: for every neighbour (and itself) in the sum its share of
   ``b_u``; for every neighbour that shared its secrets and then dropped out, its share of ``s_u``. Never both for one
   party: together they would unmask its vector.

A party that has not sent the message that is due has dropped out. t shares of each secret are enough to remove the
masks from the sum of the parties that sent MASKED. The server checks the secrets that it reconstructs against the
public key and the commitment, so wrong shares do not change the sum: they are replaced, and their sender
named, or end the run where too few others are left.

*What is protected* (docs/secure_aggregation.md has the argument). Let a malicious server and C malicious parties pool
their knowledge, let all parties be neighbours, and let 2t > M + C. For a single list of at least t parties they then
learn the sum of the honest parties' vectors, and nothing else. On a ring this holds for a server that follows the
protocol and up to `Topology.colluders` colluders, chosen independently of the seats. A malicious server obtains no
single party's vector, but can cut the ring and obtain the sums of its parts. All of this assumes that the parties know
each other's verification keys, and that X25519, HKDF, ChaCha20, Poly1305, Ed25519 and SHA-256 satisfy the usual
assumptions.

*What is not protected.* A party can send any vector, and thereby spoil the sum. The vector of a party that is alone
among colluders follows from the sum. Memory is not wiped, and timing is not hidden. Checksums detect damage but not
forgery: signatures detect forgery.

Our own, because the protocol that comes with Flower signs no message, binds no keys to a session and draws its masks
from 32 bits; cryptography's primitives are used throughout.
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
    """The exact sum (d,) of the integers of the `survivors`, modulo 2^64 in [-2^63, 2^63), and its bytes of traffic."""

    total: Integers
    survivors: Index
    traffic: Traffic


@dataclass(frozen=True)
class SecureSum:
    """The sum (d,) of the vectors of the `survivors`, and its bytes of traffic.

    Each entry is off by less than `error`, besides the rounding of the sum itself to a float, a relative 2^-53.
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
    """The sum of one vector from each party, by a run of secure aggregation.

    Args:
        vectors: (M, d), a row for each party.
        bound: a public bound on the size of every entry, not taken from the data.
        rng: only for the rounding to fixed point; keys and masks come from the operating system.
        transport: carries the messages, `in_process` or a similar one.
        dropouts: parties that drop out, and the first message that each does not send.
        topology: which parties share masks; None: all, or for many parties a sparse ring.

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
    """The sum of one vector of integers from each party, by a run of secure aggregation: nothing is rounded.

    Args:
        vectors: (M, d), a row for each party. Sums outside [-2^63, 2^63) wrap around.
        transport, dropouts, topology: as in `secure_sum`.

    Raises:
        ProtocolError: `vectors` are no 64-bit integers, or too few parties are left.
    """
    vectors = np.asarray(vectors)
    if vectors.ndim != 2 or vectors.dtype not in (np.int64, np.uint64):
        raise ProtocolError(
            f"a secure sum is of 64-bit integers, a row for each party, got {vectors.dtype} in shape {vectors.shape}."
        )
    parties, d = vectors.shape
    outcome = transport(Session.of(parties, d, topology), np.ascontiguousarray(vectors).view(np.uint64), None, dropouts)
    return SecureIntegerSum(outcome.total.view(np.int64), outcome.survivors, outcome.traffic)
