"""Run an algorithm that uses only secure sums on several machines, as one of the parties or as the aggregator.

All machines run the code of a single process. A party uses a row of zeros in place of each other party's rows, draws
the noise of all parties, and keeps only its own message. The aggregator uses rows of zeros only, and receives every sum
from the parties. So with the same seed everywhere, the model equals the model of a single process to the last bit.

Before every sum, the aggregator sends the sum's arguments, such as the current model. The guarantees hold even if an
adversary chooses these arguments depending on all earlier sums.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from dpml.algorithms import Algorithm
from dpml.arrays import Array, Index
from dpml.data import Dataset, Task
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.federated.agreed import no_sums
from dpml.mechanism.algorithm import Release
from dpml.mechanism.carriers import Carrier, Prepared
from dpml.mechanism.message import Statistic, sums_in
from dpml.mechanism.program import Program
from dpml.privacy import Budget, Problem
from dpml.protocols import Session
from dpml.protocols.codec import Ring
from dpml.protocols.messages import RefusedError
from dpml.protocols.transports import Outcome

_LONGEST = 1e15
"""The largest allowed entry of a model, for which all scores of rows in the unit ball are finite."""


OPEN, MESSAGE, REFUSED, END = b"o", b"m", b"r", b"e"
"""The first byte of a message between aggregator and party, before an `Opening`, a protocol message, the reason of a
refusal, or the final model."""

_OPENING = struct.Struct("<16s64sI")


class Opening(NamedTuple):
    """The aggregator's message that starts a secure sum."""

    name: bytes  # 16 bytes, never used before
    digest: str  # the checksum of the plan (64 characters)
    number: int  # the number of the sum in the release, from 0
    payload: bytes  # the arguments of the sum, which all parties receive

    @property
    def content(self) -> bytes:
        return _OPENING.pack(self.name, self.digest.encode(), self.number) + self.payload

    @classmethod
    def read(cls, content: bytes) -> "Opening | None":
        """Parse the bytes of a message that starts a secure sum; return None if the bytes are too short."""
        if len(content) < _OPENING.size:
            return None
        name, digest, number = _OPENING.unpack_from(content)
        return cls(name, digest.decode("ascii", "replace"), number, content[_OPENING.size :])


Ask = Callable[[bytes], Outcome]
"""A function that runs the next secure sum, given its arguments as bytes, and returns the result."""

Answer = Callable[[int, bytes], tuple[Ring, Array]]
"""A function that returns a party's noisy message for a secure sum: a vector modulo 2^64, and openly sent numbers.

It takes the number of the sum and its arguments as bytes, and raises RefusedError if these are invalid.
"""


@dataclass(frozen=True)
class Sums:
    """A privacy budget, public numbers like M (parties) and N (rows), and an algorithm that uses secure sums only."""

    algorithm: Program
    budget: Budget
    problem: Problem
    task: Task = "binary"

    @cached_property
    def _messages(self) -> list[tuple[int, Statistic]]:
        messages = self.algorithm.messages(self.budget, self.problem)
        return [(number, message.of) for number, message in enumerate(messages) for _ in range(message.times)]

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        return tuple(sum(statistic.lengths(self.problem.d)) for _, statistic in self._messages)

    @property
    def beside(self) -> int:
        return 0 if self.algorithm.sharing(self.problem).zero_sum is None else self.lengths[0]

    def ready(self, X: Array, y: Array, party: int) -> Callable[[Generator], Answer]:
        """Check and prepare a party's rows before noise is drawn; return a function: random generator -> `Answer`."""
        sent: list[Any] = []

        def keep(session: Session, inputs: Ring, beside: Array | None = None, *_: Any) -> Outcome:
            floats = np.empty((len(inputs), 0)) if beside is None else beside
            sent[:] = inputs[party].copy(), floats[party].copy()
            return Outcome(np.zeros_like(inputs[0]), np.arange(len(inputs)), floats)

        mechanism = replace(self._prepared(party, (X, y)), transport=keep)

        def answering(rng: Generator) -> Answer:
            carrier = Carrier(mechanism, [self.budget], rng, 1, None)

            def answer(number: int, content: bytes) -> tuple[Ring, Array]:
                carrier.ask(self._messages[number][0], *self.read(number, content))
                return sent[0], sent[1]

            return answer

        return answering

    def read(self, number: int, content: bytes) -> list[Array]:
        """Convert the aggregator's message into arrays at which a secure sum is computed, such as the current model.

        Raise RefusedError if the size is wrong, or if numbers are so extreme that a sum might fail for some rows.
        """
        statistic = self._messages[number][1]
        kind, lengths = statistic.state(self.problem.d)
        sizes = [max(length, 1) for length in lengths]
        if len(content) != sum(sizes) * np.dtype(kind).itemsize:
            due = f"{sum(sizes)} numbers are" if sizes else "nothing is"
            raise RefusedError(f"the aggregator sends {len(content)} bytes, but {due} expected.")
        numbers = np.frombuffer(content, kind)
        if not np.abs(numbers).max(initial=0.0) <= _LONGEST:
            raise RefusedError("the aggregator's model is not finite, or too large to occur in this release.")
        parts = np.split(numbers, np.cumsum(sizes)[:-1]) if sizes else []
        at = [part[None] if length else part for part, length in zip(parts, lengths, strict=True)]
        if not statistic.valid(*at):
            raise RefusedError("the aggregator's clip is too small to occur in this release.")
        return at

    def release(self, ask: Ask) -> Release:
        """Run each secure sum by one call of `ask`; return metrics and weights (1, 1, K d), for one budget and draw."""
        arguments = b""

        def announce(statistic: Statistic, at: tuple[Array, ...]) -> None:
            nonlocal arguments
            kind = statistic.state(0)[0]
            arguments = b"".join(np.asarray(each, kind).tobytes() for each in at)

        mechanism = replace(self._prepared(), transport=lambda *_: ask(arguments), announce=announce)
        return mechanism.release([self.budget], np.random.default_rng(0), 1)  # the noise of this process is not used

    def _prepared(self, party: int = 0, rows: tuple[Array, Array] | None = None) -> Prepared:
        """Prepare the algorithm with one party's rows (or none) and a placeholder row of zeros for each other party."""
        sizes = np.ones(self.problem.M, np.intp)
        if rows is not None:
            sizes[party] = len(rows[1])
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        X, y = np.zeros((offsets[-1], self.problem.d)), np.ones(offsets[-1])
        if rows is not None:
            own = slice(offsets[party], offsets[party + 1])
            X[own], y[own] = rows
        data = Dataset("federation", self.task, X, y, X[:0], y[:0], classes=self.problem.classes)
        parties = _Stated(data, np.arange(len(y)), offsets, X, y, X[:0], stated=self.problem)
        program: Any = self.algorithm
        return replace(program, protocol="secagg").prepare(parties, np.random.default_rng(0))


@dataclass(frozen=True, eq=False)
class _Stated(Parties):
    """The parties' data on one machine: the private rows of at most one party, and the public sizes of all parties."""

    stated: Problem = field(kw_only=True)

    @property
    def sizes(self) -> Index:
        M, N = self.stated.M, self.stated.N
        return np.array(self.stated.sizes or [N // M] * M)

    @property
    def problem(self) -> Problem:
        return self.stated


def sums_of(algorithm: Algorithm, budget: Budget, problem: Problem, task: Task = "binary") -> Sums:
    """Return the secure sums of an algorithm; raise UserError if the algorithm releases anything but secure sums."""
    program: Any = algorithm
    messages = program.messages(budget, problem)
    secure = program.sharing(problem).secure
    if not secure or not sums_in(messages) or any(message.constant for message in messages):
        raise UserError(no_sums(algorithm.name))
    return Sums(program, budget, problem, task)
