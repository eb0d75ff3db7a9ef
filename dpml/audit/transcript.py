"""What a view sees of the messages of a release, recorded by the code that sends them.

An attacker who knows all rows but one, and every model on the way, knows what either data set would have sent in a
round. What is left of a message is noise, whitened e_t, under the first data set, and noise plus a known shift s_t
under the second: the log of the likelihood ratio of a run is ``sum_t <e_t, s_t> - ||s_t||^2 / 2`` (docs/audit.md).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array
from dpml.audit.exposure import RATIO, Attack, Exposure, difference
from dpml.mechanism.sharing import Channel
from dpml.privacy import View

_SAMPLE = 8  # releases from which a search estimates how far apart a pair is


class NoNumberError(ArithmeticError):
    """A sum of one of two neighbours is no number, and the other's is: whoever sees it knows which they are."""


class Recorder:
    """What one view sees of a release of either of two neighbours.

    Args:
        channel: what is seen of a message.
        blocks: how many numbers are in each block of each message. Blocks are told apart, so that one without noise
            shows.
        in_time: (T, T), the covariance of the noise of different messages, in units of it; None: independent.
    """

    def __init__(self, channel: Channel, blocks: Sequence[Sequence[int]], in_time: Array | None) -> None:
        self.channel, self.blocks = channel, blocks
        self.whiten = None if in_time is None else np.linalg.inv(np.linalg.cholesky(in_time))
        self.history: list[tuple[Array, Array]] = []
        self.before: tuple[Array, Array] | None = None
        self.columns: list[tuple[Array, ...]] = []

    def add(self, residual: Array, shift: Array, parts: Array) -> None:
        """Reduce a message to the statistics that distinguish the neighbours.

        `residual` (B, k) is the message minus what the first data set sends, `shift` the distance of what the second
        one sends, and `parts` is the noise of every source.
        """
        numbers = self._numbers(residual, parts)
        filtered = np.tensordot(self.channel.filter, numbers, axes=1) / self.channel.spread
        white, moved = self._whitened(filtered, shift / self.channel.spread)
        direction, length = _units(moved)
        along = np.einsum("bk,bk->b", white, direction)
        sizes = self.blocks[len(self.columns)]
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

    def _numbers(self, residual: Array, parts: Array) -> Array:
        """What the view sees of a message, less what the first data set sends: (m, B, k)."""
        channel = self.channel
        others = channel.noise.copy()
        others[0] -= channel.total
        numbers = np.zeros((len(others), *residual.shape))
        if others.any():  # not of the sum alone
            numbers += np.tensordot(others, parts, axes=1)
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
        assert len(self.columns) == len(self.blocks)
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
        return seen[:, 2 * self.messages :]

    def attacks(self, first: Array, second: Array, rng: Generator) -> tuple[list[Attack], float]:
        """Return the likelihood ratio of a run, and a score that is exactly normal.

        The information in a run, the sum of the squared shifts, depends on the models. The second attack stops as soon
        as that reaches C^2, which nearly every run does, and adds noise of its own for what the last round has beyond
        it. A sum of normal numbers with weights m_t, chosen before each is seen, of which the squares sum to C^2 in
        every run, is N(0, C^2), because exp(x sum - x^2 C^2/2) has the mean 1 for every x. So the score is N(0, C^2) or
        N(C^2, C^2), and the pair surely shows ``mu = C``; it may show more.
        """
        enough = min(float(np.sum(self.along(seen)[1] ** 2, axis=1).min()) for seen in (first, second))

        def ratio(seen: Array) -> Array:
            along, length = self.along(seen)
            score: Array = np.einsum("bt,bt->b", along, length) - np.einsum("bt,bt->b", length, length) / 2
            return score

        def stopped(seen: Array) -> Array:
            along, length = self.along(seen)
            shown = np.minimum(np.cumsum(length**2, axis=1), enough)
            gained = np.diff(shown, axis=1, prepend=0.0)
            weights = np.divide(gained, length, out=np.zeros_like(length), where=length > 0)
            missing = np.sqrt(np.maximum(enough - np.sum(weights**2, axis=1), 0.0))
            score: Array = np.einsum("bt,bt->b", weights, along) + missing * rng.standard_normal(len(seen))
            return score

        if not self.gaussian:
            return [Attack("matched filter", ratio)], math.nan
        return [Attack(RATIO, ratio), Attack(RATIO, stopped, normal=True)], math.sqrt(enough)

    def distance(self) -> float:
        """`mu` where it is known without a draw; else from a few, for Gaussian noise or noise of the same variance."""
        if not math.isnan(self.mu):
            return self.mu
        try:
            _, lengths = self.along(self.sample(0, np.random.default_rng(0), _SAMPLE))
        except NoNumberError:
            return math.inf
        return float(np.mean(np.linalg.norm(lengths, axis=1)))


@dataclass
class Recorders:
    """An observer with a recorder for every view; `pair` are the mechanisms of both data sets."""

    pair: Sequence[Any]
    each: Mapping[View, Recorder]

    def __call__(self, message: Array, parts: Array, exact: Callable[[Any], Array]) -> None:
        """Tell every recorder."""
        first, second = (np.asarray(exact(mechanism), dtype=float) for mechanism in self.pair)
        residual, shift = np.asarray(message, dtype=float) - first, difference(first, second)
        if not np.isfinite(shift).all():
            raise NoNumberError
        for recorder in self.each.values():
            recorder.add(residual, shift, np.asarray(parts, dtype=float))
