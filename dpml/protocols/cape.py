"""CAPE (Imtiaz, Mohammadi & Sarwate 2019, Algs. 1, 2): a sum over sites with a trusted curator's noise, but no curator.

Site k holds a share ``f_k`` (d,) of the sum. (For a mean, the shares are ``w_k values_k`` with the weights ``w_k =
N_k/N`` of Remark 3.) Let tau be the noise_std of the sum. Site k draws ``ehat_k ~ N(0, s^2)`` and ``g_k ~ N(0, 1/M)``,
sends ``m_k = f_k + tau (ehat_k + g_k)`` openly, and puts ``ehat_k`` into a secure sum. The aggregator releases ``sum m
- tau sum ehat = sum (f_k + tau g_k)``. The guarantee with drop-outs and rounding, and the paper's order of messages:
docs/secure_aggregation.md ("CAPE through it").
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array, Index
from dpml.privacy import noise
from dpml.protocols import FixedPoint, ProtocolError, Session, Stage, Topology
from dpml.protocols.codec import Ring
from dpml.protocols.transports import Dropouts, Traffic, Transport

# the codec refuses |ehat_k| beyond this many standard deviations: once in 10^57 numbers
_MOST_STDS = 16.0


@dataclass(frozen=True)
class Cape:
    """The aggregator's data: the messages of the n surviving sites, the sum of their ehat, and the traffic.

    `sent` (n, budgets, draws, d) are the ``m_k``, `zero_sum` (draws, d) is the ``sum ehat``, `scales` (budgets, d) tau.
    """

    sent: Array
    zero_sum: Array
    scales: Array
    survivors: Index
    traffic: Traffic | None

    @property
    def total(self) -> Array:
        """The noisy sum over the survivors: (budgets, draws, d)."""
        return self.sent.sum(axis=0) - self.scales[:, None] * self.zero_sum

    @property
    def messages(self) -> Array:
        """The paper's messages ``f_k + tau (e_k + g_k)``: (n, budgets, draws, d)."""
        return self.sent - self.scales[:, None] * (self.zero_sum / len(self.survivors))


@dataclass(frozen=True)
class CapeSettings:
    """The options of a sum.

    Attributes:
        transport: carries the messages (`dpml.protocols.in_process`); None: simulate, with the same distribution.
        draws: independent repetitions.
        spread: s, the noise_std of the zero-sum noise in units of tau.
        least: the number of survivors whose noise must still have standard deviation tau; None: all M.
        dropouts: sites that drop out, and the first message that each does not send.
        topology: which sites share masks; None: all, or for many sites a sparse ring.
        drawn: the number of noise values drawn for a message, before `project`; None: d.
        project: a linear map from the drawn values (..., drawn) to the noise of a message (..., d).
        rounding: the generator for rounding; None: a child of the generator for the noise.
    """

    transport: Transport | None = None
    draws: int = 1
    spread: float = 1.0
    least: int | None = None
    dropouts: Dropouts = field(default_factory=dict)
    topology: Topology | None = None
    drawn: int | None = None
    project: Callable[[Array], Array] | None = None
    rounding: Generator | None = None


_SIMULATE = CapeSettings()


def cape_sum(
    shares: Array,
    scales: Array,
    rng: Generator,
    settings: CapeSettings = _SIMULATE,
    heard: Callable[[Array], None] | None = None,
) -> Cape:
    """Return the sum of the sites' shares with CAPE's noise, by secure aggregation or, without a transport, simulated.

    With the same `rng` both add the same noise; with a transport the ehat_k are rounded to the codec's grid, and cancel
    in both. The messages of all sites are held in memory, M budgets draws d floats.

    Args:
        shares: (M, d).
        scales: (budgets, d), the noise_std tau of the sum in every coordinate. All share the noise directions.
        rng: for the noise, and a child of it for rounding.
        settings: the options.
        heard: is called with every site's input to the secure sum, (M, draws, d): the ehat_k in its message.

    Raises:
        ProtocolError: too few sites are left: fewer than `least`, or too few for a secure sum.
    """
    parties, d = shares.shape
    least = settings.least
    if least is not None and not 1 <= least <= parties:
        raise ProtocolError(f"least must be between 1 and the {parties} sites, got {least}.")
    rounding = rng.spawn(1)[0] if settings.rounding is None else settings.rounding
    masks, own = _drawn(rng, parties, d, settings)
    if settings.transport is None:
        sent = _messages(shares, scales, masks + own)
        silent = [k for k, stage in settings.dropouts.items() if stage <= Stage.MASKED]
        survivors = np.setdiff1d(np.arange(parties), silent)
        cape = Cape(sent[survivors], masks[survivors].sum(axis=0), scales, survivors, None)
    else:
        codec = codec_of(parties, settings)
        encoded = codec.encode(masks, rounding)
        masks = codec.decode(encoded)
        sent = _messages(shares, scales, masks + own)
        cape = _carried(encoded, sent, scales, codec, settings)
    if heard is not None:
        heard(masks)
    left = len(cape.survivors)
    if least is not None and left < least:
        raise ProtocolError(f"{left} sites are left, fewer than the {least} whose noise was to be enough.")
    return cape


def codec_of(parties: int, settings: CapeSettings) -> FixedPoint:
    """Return the codec that puts the ehat_k into the ring."""
    return FixedPoint.fit(parties, _MOST_STDS * settings.spread)


def _drawn(rng: Generator, parties: int, d: int, settings: CapeSettings) -> tuple[Array, Array]:
    """Draw the ``ehat_k`` and ``g_k`` of all sites, (M, draws, d) each, in units of tau."""
    ehat, g = noise.cape_parties(rng, settings.draws, parties, settings.drawn or d)
    if settings.project is not None:
        ehat, g = settings.project(ehat), settings.project(g)
    ehat *= settings.spread
    own = 1 / math.sqrt(parties if settings.least is None else settings.least) * g.transpose(1, 0, 2)
    return np.ascontiguousarray(ehat.transpose(1, 0, 2)), own


def _messages(shares: Array, scales: Array, added: Array) -> Array:
    """Return the ``m_k`` (M, budgets, draws, d), with the noise `added` (M, draws, d) in units of tau."""
    return shares[:, None, None] + scales[:, None] * added[:, None]


def _carried(encoded: Ring, sent: Array, scales: Array, codec: FixedPoint, settings: CapeSettings) -> Cape:
    """Return the aggregator's data after the transport carried the encoded ehat (M, draws, d) and open messages."""
    parties = len(encoded)
    inputs, plaintext = encoded.reshape(parties, -1), sent.reshape(parties, -1)
    session = Session.of(parties, inputs.shape[1], settings.topology, beside=plaintext.shape[1])
    assert settings.transport is not None
    outcome = settings.transport(session, inputs, plaintext, settings.dropouts)
    received = outcome.beside.reshape(-1, *sent.shape[1:])
    zero_sum = codec.decode(outcome.total).reshape(encoded.shape[1:])
    return Cape(received, zero_sum, scales, outcome.survivors, outcome.traffic)


def cape_mean(
    values: Array, scale: float, rng: Generator, sizes: Index | None = None, settings: CapeSettings = _SIMULATE
) -> Array:
    """Return the mean (d,) over the sites' samples of the sites' means `values` (M, d), with noise of std `scale`.

    `sizes` (M,) are the sites' numbers of samples, equal if None; of several draws the first is returned. With
    drop-outs it is the mean over the survivors' samples, and the noise grows as their share of the samples falls.

    Raises:
        ProtocolError: as `cape_sum`.
    """
    parties, d = values.shape
    weights = np.full(parties, 1 / parties) if sizes is None else sizes / sizes.sum()
    cape = cape_sum(weights[:, None] * values, np.full((1, d), scale), rng, settings)
    return cape.total[0, 0] / weights[cape.survivors].sum()
