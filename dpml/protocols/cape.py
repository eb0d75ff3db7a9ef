"""CAPE (Imtiaz, Mohammadi & Sarwate 2019, Algs. 1, 2): a sum over sites with a trusted curator's noise, but no curator.

Site k holds a share ``f_k`` (d,) of any vector-valued target that is the sum of the shares. (For a mean, the shares are
``w_k values_k`` with the weights ``w_k = N_k/N`` of Remark 3, which give the noise that the pooled data would need, for
any sizes.) Let tau be the desired standard deviation of the noise of the sum. Site k draws ``ehat_k ~ N(0, s^2)`` and
``g_k ~ N(0, 1/M)``, and sends

    ``m_k = f_k + tau (ehat_k + g_k)`` openly, and ``ehat_k`` into a secure sum.

The aggregator releases ``sum m - tau sum ehat = sum (f_k + tau g_k)``. In the paper it broadcasts the mean of ehat, and
the sites send ``f_k + tau (e_k + g_k)`` with ``e_k = ehat_k - mean ehat``. That is ``m_k - tau mean ehat``: the
aggregator learns the same in both orders, and the guarantees are the same. Here, however, one message carries both
contributions of a site, which saves a round and makes drop-outs simple:

*Drop-outs.* A site is in the sum of the m_k if and only if it is in the sum of the ehat_k, so the ``e_k`` of any set of
survivors sum to zero. They do so exactly, because ehat_k is put on the grid of the fixed-point codec before it is used.
n survivors leave noise of variance ``n/M`` tau^2, which is less than requested; with `least` the g_k are wide enough
for that number of survivors. With h honest sites among them the whole view has, for g_k of variance v,
``mu^2 = 1/(h v) + (1 - 1/h)/(s^2 + v)``; v = 1/M and h = M - M_C gives the formula without drop-outs.

*Rounding.* The ehat_k are put on the grid, of step u, at random: in law they are ``ehat_k + T_k`` there, with a
triangular T_k that knows no data. Given the T_k and the sum of the honest ehat_k, the density of the h honest messages
is a sum of Gaussian terms over vectors of multiples of u with that sum. By Poisson summation it is the integral, and so
what it is without rounding, but for a factor ``1 +- e``: e is the sum of ``e^(-2 pi^2 q^2 |w|^2/u^2)`` over the dual
lattice without 0, whose shortest vectors have ``|w|^2 = 1 - 1/h >= 1/2``, and ``1/q^2 = 1/s^2 + 1/v``. For up to a
million sites q is above 10^5 u: e is nothing, and mu as it is.

The Gaussians themselves are NumPy's, in floating point, here as everywhere in dpml (Mironov 2012).
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

# |ehat_k| beyond this many standard deviations is refused by the codec: once in 10^57 numbers
_WIDTHS = 16.0


@dataclass(frozen=True)
class Cape:
    """The aggregator's data: all that the n surviving sites sent, the sum of their ehat, and the traffic.

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
        spread: s, the width of the zero-sum noise in units of tau.
        least: the number of survivors whose noise must still have standard deviation tau; None: all M.
        dropouts: sites that drop out, and the first message that each does not send.
        topology: which sites share masks; None: all, or for many sites a sparse ring.
        drawn: how many numbers the noise has as it is drawn, if `project` makes the d numbers of a message of them.
        project: makes the noise of a message, (..., d), linearly from what is drawn, (..., drawn).
        rounding: random numbers to round with; None: a child of those for the noise.
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
    """The sum of the sites' shares with CAPE's noise, through secure aggregation or, without a transport, simulated.

    With the same `rng` both add the same noise; the ehat_k are on the codec's grid only with a transport, and cancel in
    both. The messages of all sites are held in memory, M budgets draws d floats.

    Args:
        shares: (M, d).
        scales: (budgets, d), the standard deviation tau of the noise of the sum in every coordinate. The budgets and
            their coordinates share the noise directions.
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
    """The codec that puts the ehat_k into the ring."""
    return FixedPoint.fit(parties, _WIDTHS * settings.spread)


def _drawn(rng: Generator, parties: int, d: int, settings: CapeSettings) -> tuple[Array, Array]:
    """The ``ehat_k`` and ``g_k`` of all sites, (M, draws, d) each, in units of tau."""
    ehat, g = noise.cape_parties(rng, settings.draws, parties, settings.drawn or d)
    if settings.project is not None:
        ehat, g = settings.project(ehat), settings.project(g)
    ehat *= settings.spread
    own = 1 / math.sqrt(parties if settings.least is None else settings.least) * g.transpose(1, 0, 2)
    return np.ascontiguousarray(ehat.transpose(1, 0, 2)), own


def _messages(shares: Array, scales: Array, added: Array) -> Array:
    """The ``m_k`` (M, budgets, draws, d), with the noise `added` (M, draws, d) in units of tau."""
    return shares[:, None, None] + scales[:, None] * added[:, None]


def _carried(encoded: Ring, sent: Array, scales: Array, codec: FixedPoint, settings: CapeSettings) -> Cape:
    """The aggregator's data after the transport has carried ehat (M, draws, d), encoded, with the open messages."""
    parties = len(encoded)
    inputs, beside = encoded.reshape(parties, -1), sent.reshape(parties, -1)
    session = Session.of(parties, inputs.shape[1], settings.topology, beside=beside.shape[1])
    assert settings.transport is not None
    outcome = settings.transport(session, inputs, beside, settings.dropouts)
    received = outcome.beside.reshape(-1, *sent.shape[1:])
    zero_sum = codec.decode(outcome.total).reshape(encoded.shape[1:])
    return Cape(received, zero_sum, scales, outcome.survivors, outcome.traffic)


def cape_mean(
    values: Array, scale: float, rng: Generator, sizes: Index | None = None, settings: CapeSettings = _SIMULATE
) -> Array:
    """The mean (d,) over the sites' samples of the sites' own means `values` (M, d), with noise of deviation `scale`.

    `sizes` (M,) are the sites' numbers of samples, equal if None; of several draws the first is returned. With
    drop-outs it is the mean over the survivors' samples, and the noise grows as their share of the samples falls.

    Raises:
        ProtocolError: as `cape_sum`.
    """
    parties, d = values.shape
    weights = np.full(parties, 1 / parties) if sizes is None else sizes / sizes.sum()
    cape = cape_sum(weights[:, None] * values, np.full((1, d), scale), rng, settings)
    return cape.total[0, 0] / weights[cape.survivors].sum()
