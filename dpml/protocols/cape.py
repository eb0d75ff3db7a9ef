"""Compute a sum over sites by CAPE, with as little noise as a curator would add (Imtiaz et al. 2019, Algs. 1, 2).

Site k openly sends ``f_k + tau (ehat_k + g_k)``: its share ``f_k`` of the sum, plus the noise ``ehat_k ~ N(0, s^2)``
and ``g_k ~ N(0, 1/M)`` times the noise_std tau of the sum. A secure sum reveals the sum of all ``ehat_k``, which the
aggregator subtracts. For the guarantee, see docs/secure_aggregation.md, "CAPE through it".
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array, Index
from dpml.protocols import FixedPoint, Session, Topology, in_process
from dpml.protocols.transports import Dropouts, Transport

# |ehat_k| beyond this many standard deviations is refused, which happens once in 10^57 numbers
_MOST_STDS = 16.0


@dataclass(frozen=True)
class Cape:
    """The noisy sum that CAPE releases, and the numbers that the sites send.

    Attributes:
        total: The noisy sum over the n surviving sites, (budgets, draws, d).
        messages: Of survivors, ``f_k + tau (ehat_k - mean(ehat) + g_k)`` as in the paper, (n, budgets, draws, d).
        ehat: The input of every site to the secure sum, (M, draws, d).
        survivors: The sites that are in the sum.
    """

    total: Array
    messages: Array
    ehat: Array
    survivors: Index


def codec_of(parties: int, spread: float) -> FixedPoint:
    """Return the fixed-point encoding of the sites' noise ``ehat_k ~ N(0, spread^2)`` for CAPE's secure sum of it."""
    return FixedPoint.fit(parties, _MOST_STDS * spread)


def cape_sum(  # noqa: PLR0913 - the sum, its noise, and who carries it
    shares: Array,
    scales: Array,
    drawn: tuple[Array, Array],
    spread: float,
    rounding: Generator,
    transport: Transport = in_process,
    dropouts: Dropouts | None = None,
    topology: Topology | None = None,
) -> Cape:
    """Compute the noisy sum of all sites' vectors by the protocol CAPE.

    Args:
        shares: The sites' shares of the sum, (M, d).
        scales: The noise_std tau of the sum in every coordinate, (budgets, d).
        drawn: Standard Gaussian noise ``ehat / s`` and ``sqrt(M) g``, each (draws, M, d), which all budgets share.
        spread: The standard deviation s of ``ehat_k``, before the factor tau.
        rounding: The generator for random rounding of ``ehat`` to the codec's grid; it need not be secret.
        transport, dropouts, topology: As in `dpml.protocols.secure_sum`.
    """
    parties = len(shares)
    codec = codec_of(parties, spread)
    unit, g = (np.ascontiguousarray(part.transpose(1, 0, 2)) for part in drawn)
    encoded = codec.encode(unit * spread, rounding)
    ehat = codec.decode(encoded)
    sent = shares[:, None, None] + scales[:, None] * (ehat + 1 / math.sqrt(parties) * g)[:, None]
    inputs, plaintext = encoded.reshape(parties, -1), sent.reshape(parties, -1)
    session = Session.of(parties, inputs.shape[1], topology, beside=plaintext.shape[1])
    outcome = transport(session, inputs, plaintext, dropouts)
    received = outcome.beside.reshape(-1, *sent.shape[1:])
    zero_sum = codec.decode(outcome.total).reshape(encoded.shape[1:])
    messages = received - scales[:, None] * (zero_sum / len(received))
    return Cape(received.sum(axis=0) - scales[:, None] * zero_sum, messages, ehat, outcome.survivors)
