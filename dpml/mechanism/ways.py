"""Compute noisy sums by the real secure aggregation protocol, or with discrete noise on integers.

Over a network, the same code runs at every party and at the aggregator with another transport (`dpml.federated.sums`).
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from dpml.arrays import Array, Index
from dpml.errors import UserError
from dpml.mechanism import discrete
from dpml.mechanism.carriers import Carrier, Way
from dpml.mechanism.message import RING_STEPS
from dpml.mechanism.sharing import REACH
from dpml.privacy import noise
from dpml.privacy.discrete.rounding import Integers


class InRing(Way):
    """Sum real numbers by secure aggregation; each party rounds its noisy contribution to an integer modulo 2^64."""

    def __init__(self, carrier: Carrier) -> None:
        self.rounding = carrier.rng.spawn(1)[0]
        super().__init__(carrier)

    def sum(self, number: int, at: tuple[Any, ...]) -> tuple[Array, Array | None]:
        from dpml.protocols import FixedPoint, secure_sum

        of, problem, widths = self.carrier.statistic(number), self.problem, self.carrier.widths(number)
        each = self._shaped(number, self.carrier.mechanism.terms(of).each(*at))
        if self.sharing.zero_sum is not None:
            return self._by_cape(number, each[:, 0, 0], self.sharing.zero_sum)
        parts = of.project(self.sharing.parts(self.rng, self.draws, problem.M, sum(of.drawn(problem.d))), problem.d)
        constants = [None] * problem.M if self.carrier.constant is None else self.carrier.constant
        sent = np.array([self._noisy(number, *each_of) for each_of in zip(each, parts, constants, strict=True)])
        sent = sent.reshape(problem.M, -1)
        bound = of.largest(problem) + self._reach(number)
        step = 0.5 ** FixedPoint.fit(problem.M, bound).bits
        if widths.min(initial=math.inf, where=widths > 0) < RING_STEPS * step * math.sqrt(2 * problem.M):
            raise UserError(
                "algo.protocol=secagg cannot represent so little noise in the ring of a secure sum: set a smaller eps, "
                "algo.protocol=simulate, or algo.noise=discrete."
            )
        transport, topology = _between(self.carrier)
        added = secure_sum(sent, bound, self.rounding, transport, topology=topology)
        return (added.total * _rescaling(self.carrier, added.survivors)).reshape(-1, each.shape[-1]), parts

    def _reach(self, number: int) -> float:
        """Return a bound on the absolute value of a party's noise."""
        constants = [messages[number].constant or 0.0 for messages in self.carrier.messages]
        most = float(self.carrier.widths(number).max())
        return self.sharing.reach(self.problem.d) * most + REACH * max(constants)

    def _by_cape(self, number: int, shares: Array, spread: float) -> tuple[Array, Array | None]:
        """Return the noisy sum by CAPE, and for an observer the noise of the messages and the secrets (scale 1)."""
        from dpml.protocols.cape import cape_sum

        carrier, d, (transport, topology) = self.carrier, self.problem.d, _between(self.carrier)
        of, widths = carrier.statistic(number), carrier.widths(number)
        ehat, g = noise.cape_parties(self.rng, self.draws, self.problem.M, sum(of.drawn(d)))
        drawn = of.project(ehat, d), of.project(g, d)
        cape = cape_sum(shares, widths, drawn, spread, self.rounding, transport, topology=topology)
        total = (cape.total * _rescaling(carrier, cape.survivors)).reshape(-1, shares.shape[1])
        if carrier.observer is None:
            return total, None
        noises = cape.messages[:, 0] - shares[:, None]
        np.divide(noises, widths[0], out=noises, where=widths[0] > 0)
        return total, np.concatenate([noises, cape.ehat])


class OnGrid(Way):
    """Sum integers, and add discrete noise, which is drawn anew for every budget."""

    def __init__(self, carrier: Carrier) -> None:
        super().__init__(carrier)
        self._known: dict[int, list[discrete.Grid]] = {}

    def sum(self, number: int, at: tuple[Any, ...]) -> tuple[Array, Array | None]:
        carrier, draws, parties = self.carrier, self.draws, self.problem.M if self.sharing.secure else 1
        of, grids = carrier.statistic(number), self._grids(number)
        lengths, every_party = of.lengths(self.problem.d), carrier.observer is not None or carrier.secagg
        draw = discrete.parts if every_party else discrete.total
        drawn = [draw(grids, block, parties, draws, size, self.rng) for block, size in enumerate(lengths)]
        noise = np.concatenate(drawn, axis=-1)
        resolutions = np.repeat([grid.resolution for grid in grids], draws)
        answers = carrier.mechanism.terms(of).integers(resolutions, carrier.secagg, *at)
        if carrier.secagg:
            total = self._securely(answers + noise)
        else:
            total = answers.sum(axis=0) + (noise.sum(axis=0) if every_party else noise)
        steps = np.array([grid.steps for grid in grids])
        noisy = total * np.repeat(np.repeat(steps, lengths, axis=1), draws, axis=0)
        if carrier.observer is None:
            return noisy, None
        wide = np.repeat(np.array(carrier.messages[0][number].block_widths()) / steps[0], lengths)
        return noisy, np.divide(noise, wide, out=np.zeros(noise.shape), where=wide != 0)

    def _grids(self, number: int) -> list[discrete.Grid]:
        if number not in self._known:
            # without a secure sum, one curator draws the noise
            problem = self.problem if self.sharing.secure else replace(self.problem, M=1, sizes=(), colluders=0)
            self._known[number] = [discrete.grid(messages[number], problem) for messages in self.carrier.messages]
        return self._known[number]

    def _securely(self, sent: Integers) -> Integers:
        from dpml.protocols import secure_sum_integers

        transport, topology = _between(self.carrier)
        added = secure_sum_integers(sent.reshape(len(sent), -1), transport, topology=topology)
        factor = _rescaling(self.carrier, added.survivors)
        total = added.total if factor == 1 else np.rint(added.total * factor).astype(np.int64)
        return total.reshape(sent.shape[1:])


def _between(carrier: Carrier) -> tuple[Any, Any]:
    """Return the transport of messages, and the graph of parties that share masks."""
    from dpml.protocols import choose, in_process  # imported here, because most runs need no cryptography

    transport, problem = carrier.mechanism.transport, carrier.problem
    return (transport, None) if transport else (in_process, choose(problem.M, problem.colluders))


def _rescaling(carrier: Carrier, survivors: Index) -> float:
    """Return the factor that rescales the sum of the surviving parties to all parties, and store it in the carrier."""
    sizes = np.ones(carrier.problem.M) if carrier.algorithm.unit == "party" else carrier.mechanism.parties.sizes
    carrier.scaled_up = factor = float(sizes.sum() / sizes[survivors].sum())
    carrier.widening = factor * float(np.sqrt(len(survivors) / carrier.problem.M))
    return factor
