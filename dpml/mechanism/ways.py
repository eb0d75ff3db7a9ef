"""Three ways to carry out a noisy sum: simulated, through the ring of a secure sum, or on a grid of integers.

Each gives the noisy sum (B, k), and the unit noise of its sources where it is known: (sources, B, k).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpml.arrays import Array, Index
from dpml.errors import UserError
from dpml.mechanism import discrete
from dpml.mechanism.message import RING_STEPS
from dpml.mechanism.sharing import REACH
from dpml.privacy import noise
from dpml.privacy.discrete.rounding import Integers

if TYPE_CHECKING:
    from dpml.mechanism.carriers import Carrier


class Way(ABC):
    """How the sums of one release are carried out. `constant` is as of `Carrier`."""

    def __init__(self, carrier: "Carrier") -> None:
        self.carrier, self.sharing, self.problem = carrier, carrier.sharing, carrier.problem
        self.rng, self.draws = carrier.rng, carrier.draws
        self.constant = self._drawn_once()

    @abstractmethod
    def sum(self, number: int, at: tuple[Any, ...]) -> tuple[Array, Array | None]:
        """The noisy sum of message `number` about `at`."""

    def _drawn_once(self) -> Array | None:
        messages = self.carrier.messages[0]
        if not messages or messages[0].constant is None:
            return None
        M, (size,) = self.problem.M, messages[0].of.lengths(self.problem.d)
        if self.carrier.secagg or self.carrier.observer is not None:
            return noise.gaussian_messages(self.rng, self.draws, M, size).transpose(1, 0, 2) / np.sqrt(M)
        return noise.gaussian(self.rng, (self.draws, size))[None]

    def _noisy(self, number: int, exact: Array, unit: Array, constant: Array | None) -> Array:
        """Exact sums (budgets or 1, draws or 1, k) with unit noise (draws, k) as wide as declared: (B, k)."""
        carrier = self.carrier
        if constant is not None:
            wide = np.array([messages[number].constant for messages in carrier.messages])
            exact = exact + wide[:, None, None] * constant
        noisy: Array = exact + carrier.widths(number)[:, None] * unit
        return noisy.reshape(-1, noisy.shape[-1])

    def _shaped(self, number: int, sums: Array) -> Array:
        """Sums (..., B, k) as (..., budgets, draws, k); those that are the same for all runs as (..., 1, 1, k)."""
        if not self.carrier.statistic(number).state(self.problem.d)[1]:
            return sums[..., None, None, :]
        return sums.reshape(*sums.shape[:-2], len(self.carrier.budgets), self.draws, sums.shape[-1])


class Simulated(Way):
    """The sum of all rows, and noise of the sum."""

    def sum(self, number: int, at: tuple[Any, ...]) -> tuple[Array, Array | None]:
        carrier = self.carrier
        unit, parts = carrier.unit_noise(number)
        exact = self._shaped(number, carrier.mechanism.terms(carrier.statistic(number)).total(*at))
        return self._noisy(number, exact, unit, None if self.constant is None else self.constant.sum(axis=0)), parts


class InRing(Way):
    """Every party's part with its noise, real numbers rounded to the ring of a secure sum."""

    def __init__(self, carrier: "Carrier") -> None:
        self.rounding = carrier.rng.spawn(1)[0]
        super().__init__(carrier)

    def sum(self, number: int, at: tuple[Any, ...]) -> tuple[Array, Array | None]:
        from dpml.protocols import FixedPoint, secure_sum

        of, problem, widths = self.carrier.statistic(number), self.problem, self.carrier.widths(number)
        each = self._shaped(number, self.carrier.mechanism.terms(of).each(*at))
        if self.sharing.zero_sum is not None:
            return self._by_cape(number, each[:, 0, 0], self.sharing.zero_sum)
        parts = of.project(self.sharing.parts(self.rng, self.draws, problem.M, sum(of.drawn(problem.d))), problem.d)
        constants = [None] * problem.M if self.constant is None else self.constant
        sent = np.array([self._noisy(number, *each_of) for each_of in zip(each, parts, constants, strict=True)])
        sent = sent.reshape(problem.M, -1)
        bound = of.largest(problem) + self._reach(number)
        step = 0.5 ** FixedPoint.fit(problem.M, bound).bits
        if widths.min(initial=math.inf, where=widths > 0) < RING_STEPS * step * math.sqrt(2 * problem.M):
            raise UserError(
                "so little noise has too few steps in the ring of a secure sum: ask for a smaller eps, or set "
                "algo.protocol=simulate or algo.noise=discrete."
            )
        transport, topology = _between(self.carrier)
        added = secure_sum(sent, bound, self.rounding, transport, topology=topology)
        return _made_up(self.carrier, added.total, added.survivors).reshape(-1, each.shape[-1]), parts

    def _reach(self, number: int) -> float:
        """What no noise of a party exceeds."""
        constants = [messages[number].constant or 0.0 for messages in self.carrier.messages]
        most = float(self.carrier.widths(number).max())
        return self.sharing.reach(self.problem.d) * most + REACH * max(constants)

    def _by_cape(self, number: int, shares: Array, spread: float) -> tuple[Array, Array | None]:
        """What the aggregator of CAPE has: the zero-sum noise in the ring, the messages sent openly."""
        from dpml.protocols.cape import CapeSettings, cape_sum

        carrier, d, (transport, topology) = self.carrier, self.problem.d, _between(self.carrier)
        of, widths = carrier.statistic(number), carrier.widths(number)
        secrets: list[Array] = []
        settings = CapeSettings(
            transport, self.draws, spread, topology=topology, drawn=sum(of.drawn(d)),
            project=lambda unit: of.project(unit, d), rounding=self.rounding,
        )  # fmt: skip
        cape = cape_sum(shares, widths, self.rng, settings, None if carrier.observer is None else secrets.append)
        total = _made_up(self.carrier, cape.total, cape.survivors).reshape(-1, shares.shape[1])
        if carrier.observer is None:
            return total, None
        noises = cape.messages[:, 0] - shares[:, None]
        np.divide(noises, widths[0], out=noises, where=widths[0] > 0)
        return total, np.concatenate([noises, *secrets])


class OnGrid(Way):
    """Sums of integers with discrete noise, which budgets do not share."""

    def __init__(self, carrier: "Carrier") -> None:
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
        """The grid of every budget's message; the same in all rounds."""
        if number not in self._known:
            # where there are no parties to draw it, one curator does
            problem = self.problem if self.sharing.secure else replace(self.problem, M=1, sizes=(), colluders=0)
            self._known[number] = [discrete.grid(messages[number], problem) for messages in self.carrier.messages]
        return self._known[number]

    def _securely(self, sent: Integers) -> Integers:
        """The secure sum (B, k) of every party's integers (M, B, k)."""
        from dpml.protocols import secure_sum_integers

        transport, topology = _between(self.carrier)
        added = secure_sum_integers(sent.reshape(len(sent), -1), transport, topology=topology)
        total = added.total
        if len(added.survivors) < len(sent):
            total = np.rint(_made_up(self.carrier, total.astype(float), added.survivors)).astype(np.int64)
        return total.reshape(sent.shape[1:])


def beside(lots: Sequence[Any]) -> Array:
    """Concatenate what was drawn in lots."""
    return lots[0] if len(lots) == 1 else np.concatenate(lots, axis=-1)


def _between(carrier: "Carrier") -> tuple[Any, Any]:
    """Return who carries messages, and between which parties."""
    from dpml.protocols import choose, in_process  # most runs need no cryptography

    transport, problem = carrier.mechanism.transport, carrier.problem
    return (transport, None) if transport else (in_process, choose(problem.M, problem.colluders))


def _made_up(carrier: "Carrier", total: Array, survivors: Index) -> Array:
    """Rescale the sum of the surviving parties to all parties."""
    sizes = np.ones(carrier.problem.M) if carrier.algorithm.unit == "party" else carrier.mechanism.parties.sizes
    factor = float(sizes.sum() / sizes[survivors].sum())
    carrier.widening = factor * float(np.sqrt(len(survivors) / carrier.problem.M))
    return total * factor
