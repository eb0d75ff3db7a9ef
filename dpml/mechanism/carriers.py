"""Who carries out the noisy sums of a release: a `Carrier`, in one of three ways.

An algorithm's loop asks a `Carrier` for one sum after the other. All budgets and draws run at once: axis 0 has B =
budgets * draws entries, budget-major. Continuous noise is shared across budgets and only rescaled. Over a network the
same code runs at every party and at the aggregator (`dpml.federated.sums`), each with its own `Transport`. A sum is
simulated, or goes through the ring of a secure sum, or is one of integers on a grid.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array, Index, blocks
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.mechanism import discrete
from dpml.mechanism.algorithm import Release
from dpml.mechanism.message import RING_STEPS, Statistic, Terms
from dpml.mechanism.sharing import REACH, Numbers, Observer, Sampler
from dpml.privacy import Budget, Problem, noise
from dpml.privacy.discrete.rounding import Integers

# what an audit divides by where there is no noise: a difference is seen for certain
_EXACT = 1e-9


@dataclass(frozen=True)
class Prepared:
    """The rows of a program of noisy sums, ready to be released.

    Attributes:
        start: what was drawn before any noise (`Program.begin`).
        transport: carries the messages of a secure sum; None: all parties are in this process.
        announce: is told of every sum before it is carried out: what it is of, and about what.
    """

    algorithm: Any  # a `Program`, whose module imports this one
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
        algorithm: the program.
        problem: public facts about the parties.
        budgets, draws: the runs.
        messages: those of every budget, which differ in their noise only.
        start: what was drawn before any noise.
        constant: unit noise that is in every sum, of one party after the other or of all: (P, draws, k), or None.
        widening: by how much the noise of the last sum is wider than declared, because parties dropped out.
        scaled_up: what the last sum of the surviving parties was multiplied by to stand for all.
    """

    def __init__(
        self, mechanism: Prepared, budgets: Sequence[Budget], rng: Generator, draws: int, observer: Observer | None
    ) -> None:
        self.mechanism, self.problem, self.start = mechanism, mechanism.problem, mechanism.start
        self.budgets, self.draws, self.rng, self.observer = tuple(budgets), draws, rng, observer
        self.algorithm = algorithm = mechanism.algorithm
        self.messages = [algorithm.messages(budget, self.problem) for budget in budgets]
        self.sharing = algorithm.sharing(self.problem)
        self.secagg = algorithm.protocol == "secagg"
        self.widening = self.scaled_up = 1.0
        self._widths: dict[int, Array] = {}
        self.way: Way = (OnGrid if algorithm.noise == "discrete" else InRing if self.secagg else Simulated)(self)

    # What a loop reads.

    def ask(self, number: int, *at: Any) -> Array:
        """The noisy sum of message `number`, for B runs about `at`: (B, k)."""
        if self.mechanism.announce is not None:
            self.mechanism.announce(self.statistic(number), at)
        noisy, parts = self.way.sum(number, at)
        if self.observer is not None:
            self.observe(number, noisy, parts, at)
        return noisy

    @property
    def constant(self) -> Array | None:
        return self.way.constant

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
        law: Sampler = self.messages[0][number].law
        if of.single and isinstance(self.way, Simulated):
            law = "single_gaussian"
        if self.observer is None:
            lots = [self.sharing.total(self.rng, self.draws, M, size, law) for size in of.drawn(d)]
            return of.project(beside(lots), d), None
        both = [self.sharing.observed(self.rng, self.draws, M, size, law) for size in of.drawn(d)]
        totals, sources = zip(*both, strict=True)
        return of.project(beside(totals), d), of.project(beside(sources), d)

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


class Way(ABC):
    """How the sums of one release are carried out. `constant` is as of `Carrier`."""

    def __init__(self, carrier: Carrier) -> None:
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
        return (added.total * _made_up(self.carrier, added.survivors)).reshape(-1, each.shape[-1]), parts

    def _reach(self, number: int) -> float:
        """What no noise of a party exceeds."""
        constants = [messages[number].constant or 0.0 for messages in self.carrier.messages]
        most = float(self.carrier.widths(number).max())
        return self.sharing.reach(self.problem.d) * most + REACH * max(constants)

    def _by_cape(self, number: int, shares: Array, spread: float) -> tuple[Array, Array | None]:
        """Return the noisy sum by CAPE, and the unit noise of the open messages and the zero-sum noise."""
        from dpml.protocols.cape import cape_sum

        carrier, d, (transport, topology) = self.carrier, self.problem.d, _between(self.carrier)
        of, widths = carrier.statistic(number), carrier.widths(number)
        ehat, g = noise.cape_parties(self.rng, self.draws, self.problem.M, sum(of.drawn(d)))
        drawn = of.project(ehat, d), of.project(g, d)
        cape = cape_sum(shares, widths, drawn, spread, self.rounding, transport, topology=topology)
        total = (cape.total * _made_up(carrier, cape.survivors)).reshape(-1, shares.shape[1])
        if carrier.observer is None:
            return total, None
        noises = cape.messages[:, 0] - shares[:, None]
        np.divide(noises, widths[0], out=noises, where=widths[0] > 0)
        return total, np.concatenate([noises, cape.ehat])


class OnGrid(Way):
    """Sums of integers with discrete noise, which budgets do not share."""

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
        factor = _made_up(self.carrier, added.survivors)
        total = added.total if factor == 1 else np.rint(added.total * factor).astype(np.int64)
        return total.reshape(sent.shape[1:])


def beside(lots: Sequence[Any]) -> Array:
    """Concatenate what was drawn in lots."""
    return lots[0] if len(lots) == 1 else np.concatenate(lots, axis=-1)


def _between(carrier: Carrier) -> tuple[Any, Any]:
    """Return who carries messages, and between which parties."""
    from dpml.protocols import choose, in_process  # most runs need no cryptography

    transport, problem = carrier.mechanism.transport, carrier.problem
    return (transport, None) if transport else (in_process, choose(problem.M, problem.colluders))


def _made_up(carrier: Carrier, survivors: Index) -> float:
    """Return by what the sum of the surviving parties is multiplied to stand for all parties."""
    sizes = np.ones(carrier.problem.M) if carrier.algorithm.unit == "party" else carrier.mechanism.parties.sizes
    carrier.scaled_up = factor = float(sizes.sum() / sizes[survivors].sum())
    carrier.widening = factor * float(np.sqrt(len(survivors) / carrier.problem.M))
    return factor
