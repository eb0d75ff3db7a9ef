"""What a view sees of the messages of a release, recorded by the code that sends them.

A `Recorder` observes a release of either of two neighbours. An attacker who knows all rows but one, and every model on
the way, knows what either data set would have sent in a round without noise, f_t and f'_t, for these depend on the
models before only. What is left of a message, ``r_t = m_t - f_t``, is then noise under the first data set, and noise
plus the shift ``f'_t - f_t`` under the second. With Gaussian noise of covariance C over the rounds, L L' = C, the
whitened residuals ``L^-1 r`` are standard normal, round by round given those before, and shifted by ``L^-1 (f' - f)``,
which is known before the round. So the log of the likelihood ratio of a whole run is

    sum_t <e_t, s_t> - ||s_t||^2 / 2,    e = L^-1 r,    s = L^-1 (f' - f),

whatever the rounds depend on.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array
from dpml.audit.exposure import Exposure, Sample, difference
from dpml.mechanism.sharing import Channel
from dpml.privacy import View

_SAMPLE = 8  # releases from which a search estimates how far apart a pair is


class NoNumberError(ArithmeticError):
    """A sum of one of two neighbours is no number, and the other's is: whoever sees it knows which they are."""


class Recorder:
    """What one view sees of a release of either of two neighbours, `pair`: prepared mechanisms.

    Args:
        pair: the mechanisms.
        channel: what is seen of a message.
        scales: the standard deviation that the noise of each message is meant to have, where `channel` counts 1.
        in_time: (T, T), the covariance of the noise of different messages, in the same unit; None: independent.
        blocks: how many numbers are in each block of each message; None: all are one block. Blocks are told apart, so
            that one without noise shows.
    """

    def __init__(  # many parameters: what is seen, of whom
        self,
        pair: Sequence[Any],
        channel: Channel,
        scales: Sequence[float] | Array,
        in_time: Array | None = None,
        blocks: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self.pair, self.channel = pair, channel
        self.scales, self.blocks = scales, blocks
        self.whiten = None if in_time is None else np.linalg.inv(np.linalg.cholesky(in_time))
        self.parts: Array | None = None
        self.history: list[tuple[Array, Array]] = []
        self.before: tuple[Array, Array] | None = None
        self.columns: list[tuple[Array, ...]] = []

    def drawn(self, parts: Array) -> None:
        """Keep the noise for the message that follows."""
        self.parts = np.asarray(parts, dtype=float)

    def sent(self, message: Array, exact: Callable[[Any], Array]) -> None:
        """Reduce a message to the statistics that distinguish the neighbours."""
        scale = self.scales[len(self.columns)]
        first, second = (np.asarray(exact(mechanism), dtype=float) for mechanism in self.pair)
        residual, shift = (np.asarray(message, dtype=float) - first) / scale, difference(first, second) / scale
        if not np.isfinite(shift).all():
            raise NoNumberError
        numbers = self._numbers(residual)
        filtered = np.tensordot(self.channel.filter, numbers, axes=1) / self.channel.spread
        white, moved = self._whitened(filtered, shift / self.channel.spread)
        direction, length = _units(moved)
        along = np.einsum("bk,bk->b", white, direction)
        sizes = [shift.shape[1]] if self.blocks is None else self.blocks[len(self.columns)]
        seen, across = [], []
        for stop, size in zip(np.cumsum(sizes), sizes, strict=True):
            if size:
                some = slice(stop - size, stop)
                direction, _ = _units(shift[:, some])
                seen.append(np.einsum("mbk,bk->mb", numbers[..., some], direction))
                # one number summarises the other coordinates: noise that is shared across coordinates shows there
                across.append(numbers[..., some].sum(axis=2) - direction.sum(axis=1) * seen[-1])
        self.columns.append((along, length, *map(np.concatenate, (seen, across)), self._change(numbers[0], shift)))

    def _change(self, number: Array, shift: Array) -> Array:
        """How much a message differs from the last of its size, in the direction in which the shifts do: (1, B).

        Noise that is the same in both is not in it, even where both shifts have the same length.
        """
        before, self.before = self.before, (number, shift)
        if before is None or before[1].shape != shift.shape:
            return np.zeros((1, len(number)))
        direction, _ = _units(shift - before[1])
        return np.einsum("bk,bk->b", number - before[0], direction)[None]

    def _numbers(self, residual: Array) -> Array:
        """What the view sees of a message, less what the first data set sends: (m, B, k)."""
        channel = self.channel
        others = channel.noise.copy()
        others[0] -= channel.total
        numbers = np.zeros((len(others), *residual.shape))
        if others.any():  # not of the sum alone
            if self.parts is None:
                raise AssertionError("this view needs the noise of every source, and none was recorded.")
            numbers += np.tensordot(others, self.parts, axes=1)
        numbers[0] += residual
        return numbers

    def _whitened(self, residual: Array, shift: Array) -> tuple[Array, Array]:
        if self.whiten is None:
            return residual, shift
        self.history.append((residual, shift))
        row = self.whiten[len(self.history) - 1, : len(self.history)]
        return tuple(np.tensordot(row, np.array(past), axes=1) for past in zip(*self.history, strict=True))  # type: ignore[return-value]

    def seen(self) -> Array:
        """All messages of B runs, (B, T (2 m + 3)) for one block: along the shifts, their lengths, all numbers seen."""
        if len(self.columns) != len(self.scales):
            raise AssertionError(f"{len(self.columns)} messages were sent, not {len(self.scales)}.")
        along, length, *seen = zip(*self.columns, strict=True)
        return np.concatenate([np.stack(along), np.stack(length), *map(np.concatenate, seen)]).T


def _units(vectors: Array) -> tuple[Array, Array]:
    """Directions (B, k) and lengths (B,); where there is none the first coordinate stands for it."""
    length = np.linalg.norm(vectors, axis=1)
    direction = vectors / np.where(length > 0, length, 1.0)[:, None]
    direction[length == 0, 0] = 1.0
    return direction, length


@dataclass(frozen=True)
class Transcript(Exposure):
    """A view of T messages, as a `Recorder` saw them in the release itself.

    Attributes:
        messages: T.
        gaussian: Whether all noise is Gaussian, so that the whitened residuals are exactly normal. Other noise is
            matched in its variance only.
    """

    messages: int = 0
    gaussian: bool = True

    def along(self, seen: Array) -> tuple[Array, Array]:
        """Every whitened residual along its shift, and the length of that shift, (draws, T) each."""
        T = self.messages
        return seen[:, :T], seen[:, T : 2 * T]

    def numbers(self, seen: Array) -> Array:
        """All numbers seen, along and across the shifts, and along their changes, (draws, T (2 m + 1))."""
        return seen[:, 2 * self.messages :]

    def distance(self) -> float:
        """`mu` where it is known without a draw; else from a few, for Gaussian noise or noise of the same variance."""
        if not math.isnan(self.mu):
            return self.mu
        try:
            _, lengths = self.along(self.sample(0, np.random.default_rng(0), _SAMPLE))
        except NoNumberError:
            return math.inf
        return float(np.mean(np.linalg.norm(lengths, axis=1)))


@dataclass(frozen=True)
class Recorders:
    """Several recorders of the same messages, for which exact sums are computed once."""

    each: Sequence[Recorder]

    def drawn(self, parts: Array) -> None:
        """Tell every recorder."""
        for recorder in self.each:
            recorder.drawn(parts)

    def sent(self, message: Array, exact: Callable[[Any], Array]) -> None:
        """Tell every recorder."""
        known: dict[int, Array] = {}

        def once(mechanism: Any) -> Array:
            key = id(mechanism)
            if key not in known:
                known[key] = exact(mechanism)
            return known[key]

        for recorder in self.each:
            recorder.sent(message, once)


def transcripts(  # many parameters: a release, and what is known of it
    recorders: Mapping[View, Callable[[], Recorder]],
    release: Callable[[int, Generator, int, Recorders], object],
    messages: int,
    gaussian: bool = True,
    mu: Callable[[View], float] = lambda view: math.nan,
) -> list[Transcript]:
    """What `Recorder`s see, by view, of the same releases ``release(which, rng, draws, recorders)``."""

    def together(which: int, rng: Generator, draws: int, views: Sequence[View]) -> dict[View, Array]:
        recording = {view: recorders[view]() for view in views}
        release(which, rng, draws, Recorders(list(recording.values())))
        return {view: each.seen() for view, each in recording.items()}

    def alone(view: View) -> Sample:
        return lambda which, rng, draws: together(which, rng, draws, [view])[view]

    return [
        Transcript(view, alone(view), mu=mu(view), together=together, gaussian=gaussian, messages=messages)
        for view in recorders
    ]
