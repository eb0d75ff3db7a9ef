"""Partitions by label, as in benchmarks of federated learning: the classes that a party holds differ by party.

Rows of one class are dealt at random, so parties differ only in labels and sizes.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpml.arrays import Array, Index
from dpml.data.partition import AuxiliaryShare, Equal, check_each
from dpml.errors import UserError

_ALPHAS = 1e-6, 1e6  # beyond these, shares are effectively 0 and 1, or equal


@dataclass(frozen=True)
class Dirichlet(AuxiliaryShare):
    """The parties' shares of every class are drawn from the symmetric Dirichlet(alpha) distribution, class by class.

    Thus both the parties' class mixes and their sizes differ: little for a large `alpha`; for a small `alpha` nearly
    all rows of a class are with one party. This is the definition of Yurochkin et al. 2019, of NIID-Bench (Li et al.
    2022, ``noniid-labeldir``) and of Flower's ``DirichletPartitioner``. In the other common definition (Hsu et al.
    2019) each party draws a class mix, and all parties have the same size.

    A party with share p of a class's n rows gets n p of them rounded down or up, n p in expectation. Then the parties
    with fewer than `smallest` rows are filled up: every party keeps `smallest` rows, drawn at random, and as many of
    the remaining rows of all parties as are needed are drawn and moved. The benchmarks instead repeat the draw until
    every party has 10 rows, which does not terminate with many parties. NIID-Bench also gives no further class to a
    party that has N/M rows; that is not done here (nor by Flower, unless requested).

    Args:
        alpha: Of the Dirichlet distribution: 0.1 is very uneven, 100 nearly even.
        smallest: Rows that every party has at least, from the others' if need be.
    """

    name: ClassVar[str] = "dirichlet"
    of_classes: ClassVar[bool] = True
    every_row: ClassVar[bool] = True
    alpha: float = 0.5
    smallest: int = 1

    def __post_init__(self) -> None:
        if not _ALPHAS[0] <= self.alpha <= _ALPHAS[1]:
            least, most = _ALPHAS
            raise UserError(f"partition.alpha must be a number from {least:g} to {most:g}, got {self.alpha}.")

    def owners(self, y: Array, M: int, rng: Generator) -> Index:
        check_each("smallest", self.smallest, len(y), M)
        dealt = [rows_of_shares(dirichlet_shares(self.alpha, M, rng), n, rng) for n in _classes(y)]
        owners = np.empty(len(y), dtype=np.intp)
        owners[sorted_at_random(y, rng)] = np.concatenate(dealt)
        return filled_up(owners, M, self.smallest, rng)


@dataclass(frozen=True)
class Classes(AuxiliaryShare):
    """Every party has rows of `k` classes: "#C = k" of NIID-Bench (Li et al. 2022, ``noniid-#label``).

    Of K classes, party i has class i mod K and k - 1 others, drawn at random. A class's rows are divided equally among
    the parties that have it. With fewer parties than classes, a class may belong to no party: its rows are not used.

    Args:
        k: Classes of every party.
    """

    name: ClassVar[str] = "classes"
    of_classes: ClassVar[bool] = True
    k: int = 1

    def owners(self, y: Array, M: int, rng: Generator) -> Index:
        counts = _classes(y)
        if not 1 <= self.k <= len(counts):
            raise UserError(f"partition.k must be a whole number from 1 to the {len(counts)} classes, got {self.k}.")
        held = self._held(len(counts), M, rng)
        dealt = [_divided(np.flatnonzero(held[:, c]), n, rng) for c, n in enumerate(counts)]
        owners = np.empty(len(y), dtype=np.intp)
        owners[sorted_at_random(y, rng)] = np.concatenate(dealt)
        return owners

    def _held(self, K: int, M: int, rng: Generator) -> NDArray[np.bool_]:
        """Which of K classes each party has, (M, K)."""
        drawn = rng.random((M, K), dtype=np.float32)
        drawn[np.arange(M), np.arange(M) % K] = -1.0  # its first class comes before all others
        held = np.zeros((M, K), dtype=bool)
        np.put_along_axis(held, np.argpartition(drawn, self.k - 1, axis=1)[:, : self.k], True, axis=1)
        return held


@dataclass(frozen=True)
class Shards(AuxiliaryShare):
    """Rows sorted by label and cut into `per_party` * M equal shards, dealt at random (McMahan et al. 2017, Sec. 3).

    A party has rows of about `per_party` classes, or of as many intervals of a real-valued target.

    Args:
        per_party: Shards of the rows, sorted by label, that every party gets.
    """

    name: ClassVar[str] = "shards"
    of_classes: ClassVar[bool] = False
    every_row: ClassVar[bool] = True
    per_party: int = 2

    def owners(self, y: Array, M: int, rng: Generator) -> Index:
        shards = self.per_party * M
        if not 1 <= self.per_party <= len(y) / M:
            raise UserError(
                f"partition.per_party={self.per_party} shards for each of M={M} parties are not possible with "
                f"N={len(y)} rows."
            )
        owners = np.empty(len(y), dtype=np.intp)
        holders = rng.permutation(shards) // self.per_party
        owners[sorted_at_random(y, rng)] = np.repeat(holders, Equal().sizes(len(y), shards, rng))
        return owners


def sorted_at_random(values: NDArray[Any], rng: Generator) -> Index:
    """The indices of `values` (n,) from the smallest to the largest; ties are in random order."""
    shuffled = rng.permutation(len(values))
    return shuffled[np.argsort(values[shuffled], kind="stable")]


def dirichlet_shares(alpha: float, M: int, rng: Generator) -> Array:
    """Symmetric Dirichlet(alpha) shares, (M,).

    They are Gamma(alpha) variates divided by their sum. A Gamma(alpha) variate is U^(1/alpha) times a Gamma(alpha + 1)
    variate (Marsaglia & Tsang 2000, Sec. 6). The logarithm is drawn, because with a small alpha all variates would
    underflow to 0.
    """
    logarithms = np.log(rng.standard_gamma(alpha + 1, M)) - rng.standard_exponential(M) / alpha
    shares = np.exp(logarithms - logarithms.max())
    return shares / shares.sum()


def rows_of_shares(shares: Array, n: int, rng: Generator) -> Index:
    """The parties of n rows, (n,) in ascending order, by `shares` (M,): systematic sampling.

    Party k has as many rows as the interval of length n * shares[k] contains points of a randomly shifted grid of width
    1: n * shares[k] rounded down or up, and n * shares[k] in expectation.
    """
    ends = np.cumsum(shares)
    points = (np.arange(n) + rng.random()) * (ends[-1] / n)
    return np.minimum(np.searchsorted(ends, points, side="right"), len(shares) - 1)  # rounding: a point at the end


def filled_up(owners: Index, M: int, smallest: int, rng: Generator) -> Index:
    """The parties `owners` (n,) of n rows, changed so that each of the M parties has at least `smallest` rows.

    Every party keeps `smallest` of its rows, or all of them if it has fewer. Of all remaining rows, as many as are
    missing elsewhere are drawn with equal probability. There must be at least ``smallest * M`` rows.
    """
    sizes = np.bincount(owners, minlength=M)
    missing = np.maximum(smallest - sizes, 0)
    order = sorted_at_random(owners, rng)
    place = np.arange(len(owners)) - np.repeat(np.cumsum(sizes) - sizes, sizes)  # of a row among the rows of its party
    moved = rng.choice(order[place >= smallest], missing.sum(), replace=False)
    filled = owners.copy()
    filled[moved] = np.repeat(np.arange(M), missing)
    return filled


def _classes(y: Array) -> Index:
    """Rows of each class, (K,), in ascending order of the labels."""
    return np.unique(y, return_counts=True)[1]


def _divided(holders: Index, n: int, rng: Generator) -> Index:
    """The parties of n rows, (n,), divided equally among `holders`; -1 if `holders` is empty."""
    if not len(holders):
        return np.full(n, -1)
    return rng.permutation(holders)[np.arange(n) % len(holders)]
