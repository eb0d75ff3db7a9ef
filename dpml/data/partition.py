"""Partition the training rows among parties, by size (rows are assigned at random) or by label."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Annotated, Any, ClassVar, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpml.arrays import Array, Index
from dpml.data import Dataset, Task
from dpml.data.memmap import take
from dpml.data.preprocess import FOLDED, distinct
from dpml.errors import UserError
from dpml.options import NOT_NEGATIVE, Bound, at_least, between, check_options
from dpml.privacy import Adversary, Problem

T = TypeVar("T")

Rows = tuple[Array, Array, Array | None]
"""Rows X (n, d), their labels y (n,), and the number of copies of each row, (n,); None: one copy of each row."""


@dataclass(frozen=True, eq=False)  # compared by identity, so that objects can be dictionary keys
class Parties:
    """A data set whose training rows are ordered by party: party k has the rows ``offsets[k]:offsets[k + 1]``.

    Attributes:
        order: The index of each private row in the training rows of `data`, ordered by party.
        X, y: The private rows and their labels in the same order, (N, d) and (N,).
        X_auxiliary: The rows that are set aside as public; their labels must not be used.
    """

    data: Dataset
    order: Index
    offsets: Index
    X: Array
    y: Array
    X_auxiliary: Array
    adversary: Adversary = field(default_factory=Adversary)

    @property
    def sizes(self) -> Index:
        return np.diff(self.offsets)

    @property
    def problem(self) -> Problem:
        """The inputs of the privacy analysis, such as the public numbers of parties, rows, features and classes."""
        y, y_test, classes = self.data.y, self.data.y_test, 1
        if self.data.task == "multiclass":
            classes = max(self.data.classes, 1 + int(max(y.max(), y_test.max(initial=0))))
        M, N, d = len(self.offsets) - 1, len(self.y), self.X.shape[1]
        colluders = self.adversary.count(M)
        return Problem(M, N, d, len(self.X_auxiliary), classes, colluders=colluders).of_sizes(self.sizes)

    @cached_property
    def folded(self) -> Rows:
        """The private rows after equal rows were merged, with the number of copies of each row."""
        if len(self.y) > FOLDED:
            return self.X, self.y, None
        first, _, counts = distinct(self.X, self.y)
        return self.X[first], self.y[first], counts.astype(float)

    def of(self, k: int) -> slice:
        """Return the slice that selects the rows of party k."""
        return slice(int(self.offsets[k]), int(self.offsets[k + 1]))


def remembered(function: Callable[..., T]) -> Callable[..., T]:
    """Decorate a function of `Parties` so that its results are kept as long as the `Parties` object exists."""
    known: WeakKeyDictionary[Parties, dict[tuple[Any, ...], T]] = WeakKeyDictionary()

    @wraps(function)
    def recall(parties: Parties, *arguments: Any) -> T:
        results = known.setdefault(parties, {})
        if arguments not in results:
            results[arguments] = function(parties, *arguments)
        return results[arguments]

    return recall


@dataclass(frozen=True)
class Partition:
    """A rule that divides the private rows among parties.

    Args:
        auxiliary: The share of the training rows that is set aside as public; None: the algorithm's default.
    """

    name: ClassVar[str]
    drawn: ClassVar[bool] = False
    """Whether the party sizes are random."""
    of_classes: ClassVar[bool] = False
    """Whether the rule needs classes, so that it refuses real-valued targets."""
    auxiliary: Annotated[float | None, Bound("a share in [0, 1)", lambda share: 0 <= share < 1)] = None

    def __post_init__(self) -> None:
        check_options(self, "partition")

    def deal(self, data: Dataset, rows: Index, M: int, rng: Generator) -> tuple[Index, Index]:
        """Assign the shuffled `rows` to parties; return the rows in party order, and the sizes of the parties."""
        raise NotImplementedError

    def aside(self, rows: int) -> int:
        """Return how many training rows are set aside as public, given the number `rows` of all training rows."""
        return round(rows * (self.auxiliary or 0.0))

    def check_task(self, task: Task, dataset: str) -> None:
        """Raise UserError if this rule needs classes, but the targets of the task are real numbers."""
        if self.of_classes and task == "regression":
            raise UserError(
                f"partition={self.name} needs classes, but dataset={dataset} has real-valued targets: choose "
                "partition=shards, which sorts rows by target, or a partition by size, such as partition=power_law."
            )


@dataclass(frozen=True)
class BySize(Partition):
    """A rule that decides how many rows each party gets; the rows themselves are assigned at random."""

    drawn: ClassVar[bool] = True

    def sizes(self, N: int, M: int, rng: Generator) -> Index:
        """Return the number of rows of each party, (M,); their sum is at most N."""
        raise NotImplementedError

    def deal(self, data: Dataset, rows: Index, M: int, rng: Generator) -> tuple[Index, Index]:
        sizes = self.sizes(len(rows), M, rng)
        return rows[: sizes.sum()], sizes


@dataclass(frozen=True)
class ByLabel(Partition):
    """A rule that assigns rows by their labels."""

    every_row: ClassVar[bool] = False
    """Whether every private row belongs to a party."""

    def owners(self, y: Array, M: int, rng: Generator) -> Index:
        """Return the party of each row, (N,), from the labels y (N,); -1 means that no party gets the row."""
        raise NotImplementedError

    def deal(self, data: Dataset, rows: Index, M: int, rng: Generator) -> tuple[Index, Index]:
        return _by_owner(rows, self.owners(data.y[rows], M, rng), M)


@dataclass(frozen=True)
class Natural(ByLabel):
    """The data set assigns each row to a party; M must be the number of parties that have training rows."""

    name: ClassVar[str] = "natural"
    every_row: ClassVar[bool] = True

    def deal(self, data: Dataset, rows: Index, M: int, rng: Generator) -> tuple[Index, Index]:
        if data.party is None:
            raise UserError(
                f"partition=natural needs a data set that assigns each row to a party, but dataset={data.name} does "
                f"not: choose another partition, such as partition=dirichlet."
            )
        present, party = np.unique(data.party[rows], return_inverse=True)
        if len(present) != M:
            raise UserError(
                f"partition=natural: the N={len(rows)} private training rows of dataset={data.name} belong to "
                f"{len(present)} parties, not to M={M}: set M={len(present)}."
            )
        return _by_owner(rows, party, M)


def _by_owner(rows: Index, owners: Index, M: int) -> tuple[Index, Index]:
    counts = np.bincount(owners + 1, minlength=M + 1)  # the first count is of rows without a party
    return rows[np.argsort(owners, kind="stable")[counts[0] :]], counts[1:]


def partition(data: Dataset, rule: Partition, M: int, rng: Generator, adversary: Adversary | None = None) -> Parties:
    """Set a share of the rows aside as public, then assign the other training rows to M parties by `rule`."""
    rows, aside = len(data.y), rule.aside(len(data.y))
    if not 1 <= M <= rows - aside:
        raise UserError(
            f"M={M} parties cannot share N={rows - aside} private training rows of dataset={data.name}: choose "
            "1 <= M <= N."
        )
    rule.check_task(data.task, data.name)
    adversary = adversary or Adversary()
    adversary.count(M)  # raises an error for an adversary that leaves no party to protect
    order = rng.permutation(rows)
    used, sizes = rule.deal(data, order[aside:], M, rng)
    check_floor(rule, sizes)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Parties(data, used, offsets, take(data.X, used), data.y[used], data.X[order[:aside]], adversary)


def party_sizes(rule: Partition, rows: int, M: int, rng: Generator) -> Index | None:
    """Return the party sizes that `partition` gives with the same `rng`; None if the sizes depend on the labels."""
    if not isinstance(rule, BySize):
        return None
    if rule.drawn:
        rng.permutation(rows)  # advances the stream to where `partition` draws the sizes
    sizes = rule.sizes(rows - rule.aside(rows), M, rng)
    check_floor(rule, sizes)
    return sizes


def check_floor(rule: Partition, sizes: Index) -> None:
    """Raise UserError if a party has no row."""
    if sizes.min() < 1:
        raise UserError(
            f"partition={rule.name} leaves a party without rows when it deals {sizes.sum()} rows to M={len(sizes)} "
            "parties: reduce M."
        )


def check_each(option: str, rows: int, N: int, M: int, of: str = "rows") -> None:
    """Raise UserError if N rows are too few for M parties that need `rows` rows (or shards) each."""
    if rows * M > N:
        raise UserError(f"N={N} is too small for partition.{option}={rows} {of} for each of M={M} parties: reduce M.")


def whole_rows(shares: Array, N: int) -> Index:
    """Round N * `shares` (M,) to whole numbers that sum to N, by the largest-remainder method."""
    exact = N * (shares / shares.sum())
    sizes = np.floor(exact).astype(np.intp)
    sizes[np.argsort(sizes - exact, kind="stable")[: N - int(sizes.sum())]] += 1
    return sizes


@dataclass(frozen=True)
class Equal(BySize):
    """Every party gets the same number of rows, or one row more if M does not divide N."""

    name: ClassVar[str] = "equal"
    drawn: ClassVar[bool] = False

    def sizes(self, N: int, M: int, rng: Generator) -> Index:
        return N // M + (np.arange(M) < N % M).astype(np.intp)


@dataclass(frozen=True)
class Simplex(BySize):
    """The parties' shares of the rows are drawn uniformly from the simplex.

    Args:
        floor: The number of rows that every party gets before the remaining rows are divided.
    """

    name: ClassVar[str] = "simplex"
    floor: Annotated[int, at_least(1)] = 1

    def sizes(self, N: int, M: int, rng: Generator) -> Index:
        check_each("floor", self.floor, N, M)
        # uniform on the part of the simplex above `floor`, which is an affine image of the whole simplex
        return self.floor + whole_rows(rng.standard_exponential(M), N - self.floor * M)


@dataclass(frozen=True)
class Fractions(BySize):
    """The user lists the share of the rows of each party: ``partition.fractions=[.5,.3,.2]``.

    Args:
        fractions: One positive share per party; the shares sum to 1.
    """

    drawn: ClassVar[bool] = False
    fractions: tuple[float, ...] = ()

    @property
    def name(self) -> str:  # type: ignore[override]
        return "/".join(f"{share:g}" for share in self.fractions)

    def sizes(self, N: int, M: int, rng: Generator) -> Index:
        shares = np.asarray(self.fractions, dtype=float)
        if len(shares) != M or not np.all((shares > 0) & (shares <= 1)) or not np.isclose(shares.sum(), 1):
            raise UserError(
                f"partition.fractions must be M={M} positive numbers that sum to 1, got {list(self.fractions)}."
            )
        return whole_rows(shares, N)


@dataclass(frozen=True)
class TwoGroup(BySize):
    """Half of the parties are small and half are large; parties in the same half have equally many rows.

    Args:
        u: A large party has `u` times as many rows as a small party.
    """

    name: ClassVar[str] = "two_group"
    drawn: ClassVar[bool] = False
    u: Annotated[float, between(1, 1e15)] = 2.0  # at u = 1e15, small parties have no rows

    def sizes(self, N: int, M: int, rng: Generator) -> Index:
        shares = np.where(np.arange(M) < (M + 1) // 2, 1.0, self.u)
        return whole_rows(shares, N)


@dataclass(frozen=True)
class PerParty(BySize):
    """Every party gets `n` rows; the remaining rows are not used.

    Args:
        n: The number of rows of each party.
    """

    name: ClassVar[str] = "per_party"
    drawn: ClassVar[bool] = False
    n: Annotated[int, at_least(1)] = 10

    def sizes(self, N: int, M: int, rng: Generator) -> Index:
        check_each("n", self.n, N, M)
        return np.full(M, self.n, dtype=np.intp)


@dataclass(frozen=True)
class PowerLaw(BySize):
    """The sizes follow a power law: the number of rows of party r = 1, 2, ..., M is proportional to r^-a.

    Args:
        a: The exponent of the power law; 0 makes all parties equally large.
        smallest: The smallest number of rows of a party; smaller parties get rows of larger parties.
    """

    name: ClassVar[str] = "power_law"
    drawn: ClassVar[bool] = False
    a: Annotated[float, NOT_NEGATIVE] = 1.0
    smallest: Annotated[int, at_least(1)] = 1

    def sizes(self, N: int, M: int, rng: Generator) -> Index:
        check_each("smallest", self.smallest, N, M)
        shares = np.arange(1, M + 1, dtype=float) ** -self.a
        left = N - self.smallest * np.arange(M - 1, -1, -1)  # rows of parties 1 to h if others have `smallest`, by h
        last = left * shares / np.cumsum(shares)  # the rows that party h then has
        h = int(np.flatnonzero(last >= self.smallest)[-1]) + 1
        return np.concatenate([whole_rows(shares[:h], int(left[h - 1])), np.full(M - h, self.smallest)])


@dataclass(frozen=True)
class Dirichlet(ByLabel):
    """For each class, the parties' shares of its rows are drawn from the symmetric Dirichlet(alpha) distribution.

    Yurochkin et al. 2019, NIID-Bench (Li et al. 2022, ``noniid-labeldir``) and Flower use this partition, but repeat
    the draw until every party has 10 rows. dpml instead moves rows to parties with fewer than `smallest` rows.
    NIID-Bench also limits each party to N/M rows.

    Args:
        alpha: The parameter of the Dirichlet distribution: 0.1 is very uneven, 100 nearly even.
        smallest: The smallest number of rows of a party; smaller parties get rows of larger parties.
    """

    name: ClassVar[str] = "dirichlet"
    of_classes: ClassVar[bool] = True
    every_row: ClassVar[bool] = True
    alpha: Annotated[float, between(1e-6, 1e6)] = 0.5  # outside, shares are effectively 0 and 1, or equal
    smallest: Annotated[int, at_least(1)] = 1

    def owners(self, y: Array, M: int, rng: Generator) -> Index:
        check_each("smallest", self.smallest, len(y), M)
        dealt = [rows_of_shares(dirichlet_shares(self.alpha, M, rng), n, rng) for n in _classes(y)]
        return filled_up(_by_label(dealt, y, rng), M, self.smallest, rng)


@dataclass(frozen=True)
class Classes(ByLabel):
    """Every party has rows of `k` classes, as in the partition "#C = k" of NIID-Bench (Li et al. 2022).

    Party i has class i mod K and k - 1 random other classes. The parties that have a class share its rows equally. If
    there are fewer parties than classes, the rows of some classes may not be used.

    Args:
        k: The number of classes of each party.
    """

    name: ClassVar[str] = "classes"
    of_classes: ClassVar[bool] = True
    k: Annotated[int, at_least(1)] = 1

    def owners(self, y: Array, M: int, rng: Generator) -> Index:
        counts = _classes(y)
        K = len(counts)
        if self.k > K:
            raise UserError(f"partition.k must be a whole number from 1 to the {K} classes, got {self.k}.")
        order = rng.random((M, K), dtype=np.float32)
        order[np.arange(M), np.arange(M) % K] = -1.0  # a party's first class comes before all others
        has = np.zeros((M, K), dtype=bool)
        np.put_along_axis(has, np.argpartition(order, self.k - 1, axis=1)[:, : self.k], True, axis=1)
        dealt = [_divided(np.flatnonzero(has[:, c]), n, rng) for c, n in enumerate(counts)]
        return _by_label(dealt, y, rng)


@dataclass(frozen=True)
class Shards(ByLabel):
    """The rows are sorted by label and cut into `per_party` * M equal shards, which are dealt to parties at random.

    A party has rows of about `per_party` classes or, for real-valued targets, of about `per_party` intervals (McMahan
    et al. 2017, Sec. 3).

    Args:
        per_party: The number of shards of each party.
    """

    name: ClassVar[str] = "shards"
    every_row: ClassVar[bool] = True
    per_party: Annotated[int, at_least(1)] = 2

    def owners(self, y: Array, M: int, rng: Generator) -> Index:
        check_each("per_party", self.per_party, len(y), M, "shards")
        shards = self.per_party * M
        holders = rng.permutation(shards) // self.per_party
        return _by_label([np.repeat(holders, Equal().sizes(len(y), shards, rng))], y, rng)


def sorted_at_random(values: NDArray[Any], rng: Generator) -> Index:
    """Return the indices that sort `values` (n,) in ascending order; equal values are in random order."""
    shuffled = rng.permutation(len(values))
    return shuffled[np.argsort(values[shuffled], kind="stable")]


def dirichlet_shares(alpha: float, M: int, rng: Generator) -> Array:
    """Draw the shares of M parties, (M,), from the symmetric Dirichlet(alpha) distribution (Marsaglia & Tsang 2000)."""
    logarithms = np.log(rng.standard_gamma(alpha + 1, M)) - rng.standard_exponential(M) / alpha
    shares = np.exp(logarithms - logarithms.max())
    return shares / shares.sum()


def rows_of_shares(shares: Array, n: int, rng: Generator) -> Index:
    """Return the party of each of n rows, in ascending order; party k gets n * shares[k] rows, randomly rounded."""
    ends = np.cumsum(shares)
    points = (np.arange(n) + rng.random()) * (ends[-1] / n)
    return np.minimum(np.searchsorted(ends, points, side="right"), len(shares) - 1)  # rounding: a point at the end


def filled_up(owners: Index, M: int, smallest: int, rng: Generator) -> Index:
    """Move random rows to parties with fewer than `smallest` rows, and return the party of each row, (n,)."""
    sizes = np.bincount(owners, minlength=M)
    missing = np.maximum(smallest - sizes, 0)
    order = sorted_at_random(owners, rng)
    place = np.arange(len(owners)) - np.repeat(np.cumsum(sizes) - sizes, sizes)  # each row's index in its party
    moved = rng.choice(order[place >= smallest], missing.sum(), replace=False)
    filled = owners.copy()
    filled[moved] = np.repeat(np.arange(M), missing)
    return filled


def _by_label(dealt: Sequence[Index], y: Array, rng: Generator) -> Index:
    owners = np.empty(len(y), dtype=np.intp)
    owners[sorted_at_random(y, rng)] = np.concatenate(dealt)  # `dealt` lists parties in the order of labels
    return owners


def _classes(y: Array) -> Index:
    return np.unique(y, return_counts=True)[1]  # rows of each class, by label


def _divided(holders: Index, n: int, rng: Generator) -> Index:
    if not len(holders):  # no party has this class
        return np.full(n, -1)
    return rng.permutation(holders)[np.arange(n) % len(holders)]


FIFTHS = 5  # real-valued targets are split into so many equally large classes


@dataclass(frozen=True)
class Skew:
    """The number of rows of each party and class, (M, K), which shows how unequal a partition is.

    Attributes:
        names: The names of the K classes; for real-valued targets, intervals (`intervals`).
        chance: The counts after random permutation of the rows' classes, for comparison.
    """

    names: Sequence[str]
    counts: Index
    chance: Index
    intervals: bool = False

    @classmethod
    def of(cls, parties: Parties, rng: Generator) -> "Skew":
        """Count each party's rows of each class, once with the true classes and once with randomly permuted classes."""
        classes, names = named_classes(parties.y, parties.data.task)
        cells = len(parties.sizes), len(names)
        party = len(names) * np.repeat(np.arange(len(parties.sizes)), parties.sizes)
        counts, chance = (
            np.bincount(party + each, minlength=math.prod(cells)).reshape(cells)
            for each in (classes, rng.permutation(classes))
        )
        return cls(names, counts, chance, parties.data.task == "regression")

    @property
    def sizes(self) -> Index:
        return self.counts.sum(axis=1)


def distances(counts: Index) -> Array:
    """Return the total variation distance between each party's label frequencies and all rows' frequencies, (M,)."""
    mixes = counts / counts.sum(axis=1, keepdims=True)
    whole = counts.sum(axis=0) / counts.sum()
    return np.abs(mixes - whole).sum(axis=1) / 2


def named_classes(y: Array, task: Task) -> tuple[Index, list[str]]:
    """Return each label's class 0..K-1, (N,), and the K class names; real targets are divided into fifths."""
    if task != "regression":
        labels, classes = np.unique(y, return_inverse=True)
        return classes, [f"{label:+g}" if task == "binary" else f"{label:g}" for label in labels]
    values, place, rows = np.unique(y, return_inverse=True, return_counts=True)
    middle = (np.cumsum(rows) - rows / 2) / len(y)  # the mean rank of equal targets, from 0 to 1
    _, intervals = np.unique(np.floor(FIFTHS * middle), return_inverse=True)
    inside = [values[intervals == number] for number in range(intervals.max() + 1)]
    return intervals[place], [f"{each.min():.2g} to {each.max():.2g}" for each in inside]
