"""How far a release is, as the aggregator and every party say it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from dpml.federated.party import Member


@dataclass(frozen=True)
class Clock:
    """The time since the `start` of a process, `before` which some of the `whole` number of sums were done."""

    whole: int
    before: int
    start: float = field(default_factory=time.monotonic)

    def said(self, what: str, done: int, more: str = "") -> str:
        """A line after a sum, with the time that the others take if they take as long as those since the start."""
        used = time.monotonic() - self.start
        left = used / (done - self.before) * (self.whole - done)
        return f"{what} {done} of {self.whole}{more}: {used:.1f} s" + (f", about {left:.0f} s left" if left else "")


def answering(member: Member) -> Callable[[bytes], bytes]:
    """The party's answers, with a line on the screen for each of its vectors; time counts from the first message."""
    start: float | None = None
    clock: Clock | None = None

    def answer(said: bytes) -> bytes:
        nonlocal start, clock
        if start is None:
            start = time.monotonic()
        before, answered = member.reached, member.answer(said)
        if member.reached > before:
            clock = clock or Clock(len(member.plan.sums.lengths), member.reached - 1, start)
            print(clock.said("sent to sum", member.reached), flush=True)
        return answered

    return answer
