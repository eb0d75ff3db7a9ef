"""Who carries out the noisy sums of a release: simulated, through secure aggregation, or on a grid of integers.

An algorithm's loop asks a `Carrier` for one sum after the other. All budgets and draws are asked for at once, as
B = budgets x draws runs, one budget's draws after the other's; with continuous noise they share its directions. Over a
network the same code runs at every party and at the aggregator (`dpml.federated.sums`), each with its own `Transport`.
"""

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpml.arrays import Array, Index, blocks
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.mechanism import discrete
from dpml.mechanism.algorithm import Release
from dpml.mechanism.message import RING_STEPS, Statistic, Sum, Terms
from dpml.mechanism.observer import Numbers, Observer
from dpml.mechanism.sharing import Sharing
from dpml.privacy import Budget, Problem, noise
from dpml.privacy.discrete.rounding import Integers

# noise beyond so many standard deviations is refused by the codec of a secure sum: once in 10^57 numbers
_REACH = 16.0

# what an audit divides by where there is no noise: a difference is seen for certain
_EXACT = 1e-9


class Carried(Protocol):
    """What a carrier needs of an algorithm (`dpml.mechanism.program.Program`)."""

    @property
    def unit(self) -> str: ...
    @property
    def protocol(self) -> str: ...
    @property
    def noise(self) -> str: ...
    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]: ...
    def sharing(self, problem: Problem) -> Sharing: ...
    def run(self, carrier: "Carrier") -> Release: ...
    def together(self, problem: Problem) -> int | None: ...


@dataclass(frozen=True)
class Prepared:
    """The rows of a program of noisy sums, ready to be released.

    Attributes:
        start: what was drawn before any noise (`Program.begin`).
        transport: carries the messages of a secure sum; None: all parties are in this process.
        announce: is told of every sum before it is carried out: what it is of, and about what.
    """

    algorithm: Carried
    parties: Parties
    start: Any = None
    transport: Any = None
    announce: Callable[[Statistic, tuple[Array, ...]], None] | None = None
    _terms: dict[Statistic, Terms] = field(init=False, default_factory=dict, repr=False, compare=False)

    @property
    def problem(self) -> Problem:
        """The public facts about the parties."""
        return self.parties.problem

    def terms(self, statistic: Statistic) -> Terms:
        """A statistic of the rows."""
        if statistic not in self._terms:
            self._terms[statistic] = statistic.on(self.parties)
        return self._terms[statistic]

    def release(
        self, budgets: Sequence[Budget], rng: Generator, draws: int, observer: Observer | None = None
    ) -> Release:
        """Run the algorithm's loop for all budgets and draws; `observer` sees every message of one budget.

        Budgets whose messages differ in more than their noise run apart, from the same random numbers.
        """
        alike: dict[Any, list[int]] = {}
        for i, budget in enumerate(budgets):
            messages = self.algorithm.messages(budget, self.problem)
            alike.setdefault(tuple((message.of, message.times) for message in messages), []).append(i)
        most = self.algorithm.together(self.problem) or draws
        found: list[tuple[list[int], Release]] = []
        for numbers in alike.values():
            own = rng if len(alike) == 1 else deepcopy(rng)
            some = [budgets[i] for i in numbers]
            sizes = [block.stop - block.start for block in blocks(draws, most=most)]
            releases = [self.algorithm.run(Carrier(self, some, own, size, observer)) for size in sizes]
            found.append((numbers, _joined(releases)))
        return found[0][1] if len(found) == 1 else _in_order(found)


class Carrier:
    """Carries out the messages of one release of a prepared program.

    Attributes:
        mechanism: the program with the parties' rows, which its loop may use for metrics only.
        problem: public facts about the parties.
        budgets, draws: the runs.
        messages: those of every budget, which differ in their noise only.
        start: what was drawn before any noise.
        constant: unit noise that is in every sum, of one party after the other or of all: (P, draws, k), or None.
        widening: by how much the noise of the last sum is wider than declared, because parties dropped out.
    """

    def __init__(
        self, mechanism: Prepared, budgets: Sequence[Budget], rng: Generator, draws: int, observer: Observer | None
    ) -> None:
        self.mechanism, self.problem, self.start = mechanism, mechanism.problem, mechanism.start
        self.budgets, self.draws, self.rng, self.observer = tuple(budgets), draws, rng, observer
        algorithm = mechanism.algorithm
        self.messages = [algorithm.messages(budget, self.problem) for budget in budgets]
        self.sharing = algorithm.sharing(self.problem)
        self.widening = 1.0
        self._discrete, self._secagg = algorithm.noise == "discrete", algorithm.protocol == "secagg"
        self._rounding = rng.spawn(1)[0] if self._secagg else rng
        self._widths: dict[int, Array] = {}
        self._known_grids: dict[int, list[discrete.Grid]] = {}
        self.constant = self._drawn_once()

    # What a loop reads.

    def ask(self, number: int, *at: Any) -> Array:
        """The noisy sum of message `number`, for B runs about `at`: (B, k)."""
        if self.mechanism.announce is not None:
            self.mechanism.announce(self.statistic(number), at)
        if self._discrete:
            noisy, parts = self._on_grid(number, at)
        elif self._secagg:
            noisy, parts = self._securely(number, at)
        else:
            noisy, parts = self._simulated(number, at)
        if self.observer is not None:
            self.observe(number, noisy, parts, at)
        return noisy

    @property
    def simulated(self) -> bool:
        """Whether the noise of sums is added to the exact sums of all rows."""
        return not (self._discrete or self._secagg)

    def statistic(self, number: int) -> Statistic:
        """What message `number` is of."""
        return self.messages[0][number].of

    def widths(self, number: int) -> Array:
        """What unit noise of message `number` is multiplied by: (budgets, k)."""
        if number not in self._widths:
            self._widths[number] = np.array([messages[number].widths(self.problem.d) for messages in self.messages])
        return self._widths[number]

    def per_run(self, values: Sequence[float] | Array) -> Array:
        """A value of every budget, for every run: (B,)."""
        return np.repeat(values, self.draws)

    def by_budget(self, runs: Numbers) -> Any:
        """What B runs have, (B, ...), as (budgets, draws, ...)."""
        return runs.reshape(len(self.budgets), self.draws, *runs.shape[1:])

    def unit_noise(self, number: int) -> tuple[Array, Array | None]:
        """Unit noise for a sum, (draws, k), and where there is an observer that of its sources, (sources, draws, k)."""
        of, d, M = self.statistic(number), self.problem.d, self.problem.M
        if self.observer is None:
            lots = [self.sharing.total(self.rng, self.draws, M, size) for size in of.drawn(d)]
            return of.project(_beside(lots), d), None
        both = [self.sharing.observed(self.rng, self.draws, M, size) for size in of.drawn(d)]
        totals, sources = zip(*both, strict=True)
        return of.project(_beside(totals), d), of.project(_beside(sources), d)

    def single_noise(self, number: int) -> tuple[NDArray[np.float32], Array | None]:
        """`unit_noise` in single precision and in half the time, for rounds that a loop carries out itself."""
        if self.observer is not None:
            total, parts = self.unit_noise(number)
            return total.astype(np.float32), parts
        size = sum(self.statistic(number).drawn(self.problem.d))
        return noise.single_gaussian(self.rng, (self.draws, size)), None

    def observe(self, number: int, noisy: Array, parts: Array | None, at: tuple[Any, ...]) -> None:
        """Report a message of one budget, and the unit noise of its sources, in units of the message's noise."""
        assert self.observer is not None
        of, widths = self.statistic(number), self.widths(number)[0]
        wide = widths * np.repeat(of.deviations(self.problem.d), of.lengths(self.problem.d))
        scale = np.where(wide > 0, wide, _EXACT)
        if parts is not None:
            drawn = parts * widths
            if self.constant is not None:
                drawn = drawn + float(self.messages[0][number].constant or 0.0) * self.constant
            self.observer.drawn(drawn / scale)
        at = tuple(np.array(each) for each in at)

        def exact(mechanism: Prepared) -> Array:
            return np.broadcast_to(mechanism.terms(of).total(*at), noisy.shape) / scale

        self.observer.sent(noisy / scale, exact)

    # How sums are carried out: each gives the noisy sum (B, k), and the unit noise of its sources where it is known.

    def _simulated(self, number: int, at: tuple[Any, ...]) -> tuple[Array, Array | None]:
        """The sum of all rows, and noise of the sum."""
        unit, parts = self.unit_noise(number)
        exact = self._shaped(number, self.mechanism.terms(self.statistic(number)).total(*at))
        constant = None if self.constant is None else self.constant.sum(axis=0)
        return self._noisy(number, exact, unit, constant), parts

    def _securely(self, number: int, at: tuple[Any, ...]) -> tuple[Array, Array | None]:
        """Every party's part with its noise, in one secure sum."""
        from dpml.protocols import FixedPoint, choose, in_process, secure_sum  # most runs need no cryptography

        of, problem = self.statistic(number), self.problem
        transport, topology = self.mechanism.transport, None
        if transport is None:
            transport, topology = in_process, choose(problem.M, problem.colluders)
        each = self._shaped(number, self.mechanism.terms(of).each(*at))
        if self.sharing.zero_sum is not None:
            return self._by_cape(number, each[:, 0, 0], self.sharing.zero_sum, transport, topology)
        lots = self.sharing.parts(self.rng, self.draws, problem.M, sum(of.drawn(problem.d)))  # type: ignore[attr-defined]
        parts = of.project(lots, problem.d)
        sent = np.array(
            [
                self._noisy(number, part, unit, None if self.constant is None else self.constant[k])
                for k, (part, unit) in enumerate(zip(each, parts, strict=True))
            ]
        )
        bound = of.largest(problem) + self._reach(number)
        step, widths = 0.5 ** FixedPoint.fit(problem.M, bound).bits, self.widths(number)
        if widths.min(initial=math.inf, where=widths > 0) < RING_STEPS * step * math.sqrt(2 * problem.M):
            raise UserError(
                "so little noise has too few steps in the ring of a secure sum: ask for a smaller eps, or set "
                "algo.protocol=simulate or algo.noise=discrete."
            )
        summed = secure_sum(sent.reshape(problem.M, -1), bound, self._rounding, transport, topology=topology)
        return self._made_up(summed.total, summed.survivors).reshape(sent.shape[1:]), parts

    def _by_cape(  # many parameters: the message, its noise, and who carries it
        self, number: int, shares: Array, spread: float, transport: Any, topology: Any
    ) -> tuple[Array, Array | None]:
        """Return the noisy sum by CAPE, and the unit noise of the open messages and the zero-sum noise."""
        from dpml.protocols.cape import cape_sum

        of, d, widths = self.statistic(number), self.problem.d, self.widths(number)
        ehat, g = noise.cape_parties(self.rng, self.draws, self.problem.M, sum(of.drawn(d)))
        drawn = of.project(ehat, d), of.project(g, d)
        cape = cape_sum(shares, widths, drawn, spread, self._rounding, transport, topology=topology)
        total = self._made_up(cape.total, cape.survivors).reshape(-1, shares.shape[1])
        if self.observer is None:
            return total, None
        noises = cape.messages[:, 0] - shares[:, None]
        np.divide(noises, widths[0], out=noises, where=widths[0] > 0)
        return total, np.concatenate([noises, cape.ehat])

    def _on_grid(self, number: int, at: tuple[Any, ...]) -> tuple[Array, Array | None]:
        """Sums of integers with discrete noise, which budgets do not share."""
        of, draws, parties = self.statistic(number), self.draws, self.problem.M if self.sharing.secure else 1
        lengths, grids = of.lengths(self.problem.d), self._grids(number)
        resolutions, steps = [grid.resolution for grid in grids], np.array([grid.steps for grid in grids])
        every_party = self.observer is not None or self._secagg
        drawn = [self._integers(grids, block, size, parties, every_party) for block, size in enumerate(lengths)]
        noise = np.concatenate(drawn, axis=-1)
        answers = self.mechanism.terms(of).integers(np.repeat(resolutions, draws), self._secagg, *at)
        if self._secagg:
            total = self._integer_sum(answers + noise)
        else:
            total = answers.sum(axis=0) + (noise.sum(axis=0) if every_party else noise)
        noisy = total * np.repeat(np.repeat(steps, lengths, axis=1), draws, axis=0)
        if self.observer is None:
            return noisy, None
        wide = np.repeat(np.array(self.messages[0][number].block_widths()) / steps[0], lengths)
        return noisy, np.divide(noise, wide, out=np.zeros(noise.shape), where=wide != 0)

    def _grids(self, number: int) -> list[discrete.Grid]:
        """The grid of every budget's message; the same in all rounds."""
        if number not in self._known_grids:
            # where there are no parties to draw it, one curator does
            problem = self.problem if self.sharing.secure else replace(self.problem, M=1, colluders=0)
            self._known_grids[number] = [discrete.grid(messages[number], problem) for messages in self.messages]
        return self._known_grids[number]

    def _integers(  # many parameters: which noise, and of whom
        self, grids: Sequence[discrete.Grid], block: int, size: int, parties: int, every_party: bool
    ) -> Integers:
        """The noise of a block, of every party if that is asked for."""
        own = getattr(self.sharing, "integers", None)  # of another law than the Gaussian
        if own is not None:
            total: Integers = own([grid.widths[block] for grid in grids], self.draws, size, self.rng)
            return total[None] if every_party else total
        draw = discrete.parts if every_party else discrete.total
        return draw([grid.variances[block] for grid in grids], parties, self.draws, size, self.rng)

    def _integer_sum(self, sent: Integers) -> Integers:
        """The secure sum (B, k) of every party's integers (M, B, k)."""
        from dpml.protocols import choose, in_process, secure_sum_integers  # most runs need no cryptography

        M, transport, topology = self.problem.M, self.mechanism.transport, None
        if transport is None:
            transport, topology = in_process, choose(M, self.problem.colluders)
        summed = secure_sum_integers(sent.reshape(M, -1), transport, topology=topology)
        total = summed.total
        if len(summed.survivors) < M:
            total = np.rint(self._made_up(total.astype(float), summed.survivors)).astype(np.int64)
        return total.reshape(sent.shape[1:])

    def _made_up(self, total: Array, survivors: Index) -> Array:
        """The sum of the survivors, times the units of all parties over theirs."""
        sizes = self.mechanism.parties.sizes if self.mechanism.algorithm.unit == "sample" else np.ones(self.problem.M)
        factor = float(sizes.sum() / sizes[survivors].sum())
        self.widening = factor * float(np.sqrt(len(survivors) / self.problem.M))
        return total * factor

    def _noisy(self, number: int, exact: Array, unit: Array, constant: Array | None) -> Array:
        """Exact sums (budgets or 1, draws or 1, k) with unit noise (draws, k) as wide as declared: (B, k)."""
        if constant is not None:
            wide = np.array([messages[number].constant for messages in self.messages])
            exact = exact + wide[:, None, None] * constant
        noisy: Array = exact + self.widths(number)[:, None] * unit
        return noisy.reshape(-1, noisy.shape[-1])

    def _drawn_once(self) -> Array | None:
        if not self.messages[0] or self.messages[0][0].constant is None:
            return None
        M, (size,) = self.problem.M, self.statistic(0).lengths(self.problem.d)
        if self._secagg or self.observer is not None:
            return noise.gaussian_messages(self.rng, self.draws, M, size).transpose(1, 0, 2) / np.sqrt(M)
        return noise.gaussian(self.rng, (self.draws, size))[None]

    def _shaped(self, number: int, sums: Array) -> Array:
        """Sums (..., B, k) as (..., budgets, draws, k); those that are the same for all runs as (..., 1, 1, k)."""
        if not self.statistic(number).state(self.problem.d)[1]:
            return sums[..., None, None, :]
        return sums.reshape(*sums.shape[:-2], len(self.budgets), self.draws, sums.shape[-1])

    def _reach(self, number: int) -> float:
        """What no noise of a party exceeds, but once in 10^40 numbers."""
        reach: float = getattr(self.sharing, "reach", lambda d: _REACH)(self.problem.d)
        constants = [messages[number].constant or 0.0 for messages in self.messages]
        return reach * float(self.widths(number).max()) + _REACH * max(constants)


def _beside(lots: Sequence[Array]) -> Array:
    return lots[0] if len(lots) == 1 else np.concatenate(lots, axis=-1)


def _joined(blocks: Sequence[Release]) -> Release:
    """The draws of one block after those of the other."""
    if len(blocks) == 1:
        return blocks[0]
    weights = [block.weights for block in blocks if block.weights is not None]
    metrics = {key: np.concatenate([block.metrics[key] for block in blocks], axis=1) for key in blocks[0].metrics}
    return Release(np.concatenate(weights, axis=1) if weights else None, metrics)


def _in_order(found: Sequence[tuple[list[int], Release]]) -> Release:
    """The releases of some budgets, by their numbers, as one of all."""
    order = np.argsort([i for numbers, _ in found for i in numbers])
    weights = [release.weights for _, release in found if release.weights is not None]
    metrics = {
        key: np.concatenate([release.metrics[key] for _, release in found])[order] for key in found[0][1].metrics
    }
    return Release(np.concatenate(weights)[order] if weights else None, metrics)
