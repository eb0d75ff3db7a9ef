"""Compute noisy sums by the real secure aggregation protocol, or with discrete noise on integers."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from dpml.arrays import Array, Index
from dpml.errors import UserError
from dpml.mechanism import discrete
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.message import RING_STEPS
from dpml.mechanism.sharing import REACH
from dpml.privacy import noise
from dpml.privacy.discrete.rounding import Integers


def in_ring(carrier: Carrier, number: int, at: tuple[Any, ...]) -> tuple[Array, Array | None]:
    """Sum noisy real numbers by secure aggregation; each party first rounds its numbers to integers modulo 2^64."""
    from dpml.protocols import FixedPoint, secure_sum

    sharing, problem, of, widths = carrier.sharing, carrier.problem, carrier.statistic(number), carrier.widths(number)
    each = carrier.shaped(number, carrier.mechanism.terms(of).each(*at))
    if sharing.zero_sum is not None:
        return _by_cape(carrier, number, each[:, 0, 0], sharing.zero_sum)
    parts = of.project(sharing.parts(carrier.rng, carrier.draws, problem.M, sum(of.drawn(problem.d))), problem.d)
    constants = [None] * problem.M if carrier.constant is None else carrier.constant
    sent = np.array([carrier.noisy(number, *each_of) for each_of in zip(each, parts, constants, strict=True)])
    common = max(messages[number].constant or 0.0 for messages in carrier.messages)
    bound = of.largest(problem) + sharing.reach(problem.d) * float(widths.max()) + REACH * common
    step = 0.5 ** FixedPoint.fit(problem.M, bound).bits
    if widths.min(initial=math.inf, where=widths > 0) < RING_STEPS * step * math.sqrt(2 * problem.M):
        raise UserError(
            "algo.protocol=secagg cannot represent so little noise in the ring of a secure sum: set a smaller eps, "
            "algo.protocol=simulate, or algo.noise=discrete."
        )
    transport, topology = _between(carrier)
    added = secure_sum(sent.reshape(problem.M, -1), bound, carrier.rounding, transport, topology=topology)
    return (added.total * _rescaling(carrier, added.survivors)).reshape(-1, each.shape[-1]), parts


def _by_cape(carrier: Carrier, number: int, shares: Array, spread: float) -> tuple[Array, Array | None]:
    from dpml.protocols.cape import cape_sum

    of, widths, d, M = carrier.statistic(number), carrier.widths(number), carrier.problem.d, carrier.problem.M
    ehat, g = noise.cape_parties(carrier.rng, carrier.draws, M, sum(of.drawn(d)))
    drawn, (transport, topology) = (of.project(ehat, d), of.project(g, d)), _between(carrier)
    cape = cape_sum(shares, widths, drawn, spread, carrier.rounding, transport, topology=topology)
    total = (cape.total * _rescaling(carrier, cape.survivors)).reshape(-1, shares.shape[1])
    if carrier.observer is None:
        return total, None
    noises = cape.messages[:, 0] - shares[:, None]
    np.divide(noises, widths[0], out=noises, where=widths[0] > 0)
    return total, np.concatenate([noises, cape.ehat])


def on_grid(carrier: Carrier, number: int, at: tuple[Any, ...]) -> tuple[Array, Array | None]:
    """Return a sum of integers with discrete noise; new noise is drawn for every budget."""
    of, draws, problem = carrier.statistic(number), carrier.draws, carrier.problem
    if not carrier.sharing.secure:  # one curator draws the noise
        problem = replace(problem, M=1, sizes=(), colluders=0)
    grids = [discrete.grid(messages[number], problem) for messages in carrier.messages]
    lengths, every_party = of.lengths(problem.d), carrier.observer is not None or carrier.secagg
    draw = discrete.parts if every_party else discrete.total
    drawn = [draw(grids, block, problem.M, draws, size, carrier.rng) for block, size in enumerate(lengths)]
    noise = np.concatenate(drawn, axis=-1)
    resolutions = np.repeat([grid.resolution for grid in grids], draws)
    answers = carrier.mechanism.terms(of).integers(resolutions, carrier.secagg, *at)
    if carrier.secagg:
        total = _securely(carrier, answers + noise)
    else:
        total = answers.sum(axis=0) + (noise.sum(axis=0) if every_party else noise)
    steps = np.array([grid.steps for grid in grids])
    noisy = total * np.repeat(np.repeat(steps, lengths, axis=1), draws, axis=0)
    if carrier.observer is None:
        return noisy, None
    wide = np.repeat(np.array(carrier.messages[0][number].block_widths()) / steps[0], lengths)
    return noisy, np.divide(noise, wide, out=np.zeros(noise.shape), where=wide != 0)


def _securely(carrier: Carrier, sent: Integers) -> Integers:
    from dpml.protocols import secure_sum_integers

    transport, topology = _between(carrier)
    added = secure_sum_integers(sent.reshape(len(sent), -1), transport, topology=topology)
    factor = _rescaling(carrier, added.survivors)
    total = added.total if factor == 1 else np.rint(added.total * factor).astype(np.int64)
    return total.reshape(sent.shape[1:])


def _between(carrier: Carrier) -> tuple[Any, Any]:
    """Return the function that exchanges the parties' messages, and the graph of parties that share masks."""
    from dpml.protocols import choose, in_process  # imported here, because most runs need no cryptography

    transport, problem = carrier.mechanism.transport, carrier.problem
    return (transport, None) if transport else (in_process, choose(problem.M, problem.colluders))


def _rescaling(carrier: Carrier, survivors: Index) -> float:
    sizes = np.ones(carrier.problem.M) if carrier.algorithm.unit == "party" else carrier.mechanism.parties.sizes
    carrier.scaled_up = factor = float(sizes.sum() / sizes[survivors].sum())
    carrier.widening = factor * float(np.sqrt(len(survivors) / carrier.problem.M))
    return factor
