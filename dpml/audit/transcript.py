"""Record what one observer (view) sees of the messages of a release, while the release runs (docs/audit.md)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array
from dpml.audit.exposure import RATIO, Attack, Exposure
from dpml.mechanism.sharing import Channel

_SAMPLE = 8  # releases from which a search estimates the mu of two data sets


class NoNumberError(ArithmeticError):
    """Raised if a sum is NaN for only one of two data sets, so that the sum reveals the data set."""


class Recorder:
    """Record what one observer sees of the messages while one of two neighbouring data sets is released.

    Args:
        channel: The noisy numbers that the observer sees of a message.
        blocks: The sizes of the blocks of a message, which are recorded separately to notice a block without noise.
        in_time: The correlation matrix of the noise of different messages, (T, T); None: independent.
    """

    def __init__(self, channel: Channel, blocks: Sequence[Sequence[int]], in_time: Array | None) -> None:
        self.channel, self.blocks = channel, blocks
        self.whiten = None if in_time is None else np.linalg.inv(np.linalg.cholesky(in_time))
        self.history: list[tuple[Array, Array]] = []
        self.before: tuple[Array, Array] | None = None
        self.columns: list[tuple[Array, ...]] = []

    def add(self, residual: Array, shift: Array, parts: Array) -> None:
        """Compute and record the numbers of a message that best distinguish the two neighbouring data sets.

        `residual` (B, k) is the message minus the first data set's sum without noise, `shift` is the second data set's
        sum without noise minus the first's, and `parts` is the noise of every source.
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
                # the sum of the part orthogonal to the shift reveals noise that coordinates share
                across.append(numbers[..., some].sum(axis=2) - direction.sum(axis=1) * seen[-1])
        self.columns.append((along, length, *map(np.concatenate, (seen, across)), self._change(numbers[0], shift)))

    def _change(self, number: Array, shift: Array) -> Array:
        # shared noise cancels in the difference of two messages; equally long shifts in other directions do not
        before, self.before = self.before, (number, shift)
        if before is None or before[1].shape != shift.shape:
            return np.zeros((1, len(number)))
        direction, _ = _units(shift - before[1])
        return np.einsum("bk,bk->b", number - before[0], direction)[None]

    def _numbers(self, residual: Array, parts: Array) -> Array:
        """Return what the observer sees of a message, after subtracting the first data set's noiseless sum."""
        channel = self.channel
        others = channel.noise.copy()
        others[0] -= channel.total
        numbers = np.zeros((len(others), *residual.shape))
        if others.any():  # the view sees more than the sum
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
        assert len(self.columns) == len(self.blocks)
        along, length, *seen = zip(*self.columns, strict=True)
        return np.concatenate([np.stack(along), np.stack(length), *map(np.concatenate, seen)]).T


def _units(vectors: Array) -> tuple[Array, Array]:
    """Return the directions (B, k) and norms (B,) of vectors; a zero vector gets the direction of the first axis."""
    length = np.linalg.norm(vectors, axis=1)
    direction = vectors / np.where(length > 0, length, 1.0)[:, None]
    direction[length == 0, 0] = 1.0
    return direction, length


@dataclass(frozen=True)
class Transcript(Exposure):
    """What one observer (view) sees of the T messages of a release, as recorded by a `Recorder`.

    `gaussian` says whether all noise is Gaussian, so that the whitened residuals are exactly normal.
    """

    messages: int = 0
    gaussian: bool = True

    def along(self, seen: Array) -> tuple[Array, Array]:
        """Return two arrays (draws, T): every message's component along its shift (see `add`), and the shift's norm."""
        T = self.messages
        return seen[:, :T], seen[:, T : 2 * T]

    def numbers(self, seen: Array) -> Array:
        return seen[:, 2 * self.messages :]

    def attacks(self, first: Array, second: Array, rng: Generator) -> tuple[list[Attack], float]:
        """Return two likelihood-ratio attacks and a lower bound on mu; if not `gaussian`, a matched filter and NaN.

        Shifts depend on the models. The second attack stops when the sum of squared shift norms reaches C^2, as it does
        in nearly every run. Added noise makes the last round count only in part, so that the squares of all weights sum
        to C^2. The score is then exactly N(0, C^2) or N(C^2, C^2), and ``mu = C`` is a lower bound.
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
        """Return a lower bound on mu or, if no bound is known, an estimate of mu from a few releases."""
        if not math.isnan(self.mu):
            return self.mu
        try:
            _, lengths = self.along(self.sample(0, np.random.default_rng(0), _SAMPLE))
        except NoNumberError:
            return math.inf
        return float(np.mean(np.linalg.norm(lengths, axis=1)))
