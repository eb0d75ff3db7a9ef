"""Who holds which rows: the training rows laid out party by party, as one permutation and M + 1 offsets."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable
from weakref import WeakKeyDictionary

import numpy as np
from numpy.random import Generator

from dpml.arrays import Array, Index
from dpml.data import Dataset, Task
from dpml.data.large import take
from dpml.data.preprocess import distinct
from dpml.errors import UserError
from dpml.privacy import Adversary, Problem

T = TypeVar("T")

Rows = tuple[Array, Array, Array | None]
"""Rows X (n, d), their labels y (n,), and how often each is there, (n,); None: once."""


@dataclass(frozen=True, eq=False)  # told apart by identity: two are never compared, and can be keys
class Parties:
    """A data set whose training rows lie party by party: party k has the rows ``offsets[k]:offsets[k + 1]``.

    `X` (N, d) and `y` (N,) are the private rows in that order, `order` says which training rows of `data` they are, and
    `X_auxiliary` holds the public rows set aside (their labels are not for use). What is proven may depend on how many
    of the parties collude, `adversary`.
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
        """Rows per party, (M,)."""
        return np.diff(self.offsets)

    @property
    def problem(self) -> Problem:
        """M, N, d and what else the privacy analysis needs.

        The number of classes is public: what is stated of it, or else that of all labels.
        """
        y, y_test, classes = self.data.y, self.data.y_test, 1
        if self.data.task == "multiclass":
            classes = max(self.data.classes, 1 + int(max(y.max(), y_test.max(initial=0))))
        M, N, d = len(self.offsets) - 1, len(self.y), self.X.shape[1]
        colluders = self.adversary.count(M)
        return Problem(M, N, d, len(self.X_auxiliary), classes, colluders=colluders).of_sizes(self.sizes)

    @cached_property
    def folded(self) -> Rows:
        """The private rows for sums that do not ask whose they are.

        Copies are kept once where they are at least a quarter of all; otherwise these are all rows, and None.
        """
        first, _, counts = distinct(self.X, self.y)
        if len(first) > 0.75 * len(self.y):
            return self.X, self.y, None
        return self.X[first], self.y[first], counts.astype(float)

    def of(self, k: int) -> slice:
        """The rows of party k."""
        return slice(int(self.offsets[k]), int(self.offsets[k + 1]))


def remembered(function: Callable[..., T]) -> Callable[..., T]:
    """Let a function of some Parties, and of arguments that can be keys, compute the same thing once.

    What it found is kept as long as the Parties are: algorithms that are compared on them share it.
    """
    known: WeakKeyDictionary[Parties, dict[tuple[Any, ...], T]] = WeakKeyDictionary()

    @wraps(function)
    def recall(parties: Parties, *arguments: Any) -> T:
        found = known.setdefault(parties, {})
        if arguments not in found:
            found[arguments] = function(parties, *arguments)
        return found[arguments]

    return recall


class _Rule(Protocol):
    """What every partition has: a frozen dataclass whose fields are its YAML options."""

    @property
    def name(self) -> str:
        """What tables call it."""
        ...

    @property
    def auxiliary(self) -> float | None:
        """The share of the training rows set aside as public auxiliary rows; None: what the algorithm asks for."""
        ...


class SizeRule(_Rule, Protocol):
    """A rule that says how many rows each party gets; which ones is drawn at random.

    One that draws nothing may say so with ``drawn = False``: its sizes are then known without permuting the rows.
    """

    def sizes(self, N: int, M: int, rng: Generator) -> Index:
        """Rows per party (M,), each at least 1, at most N in all."""
        ...


@runtime_checkable
class LabelRule(_Rule, Protocol):
    """A rule that looks at the labels: how many rows each party gets is not known before these are.

    One that leaves no row to nobody may say so with ``every_row = True``: how many are dealt is then known.
    """

    @property
    def of_classes(self) -> bool:
        """Whether it deals rows by their classes; one that does not takes real targets, too."""
        ...

    def owners(self, y: Array, M: int, rng: Generator) -> Index:
        """The party of each row, (N,), from the labels (N,): 0..M-1, or -1 for nobody. Every party must have a row."""
        ...


@dataclass(frozen=True)
class Natural:
    """The parties of the world: whose each row is, the data set says (`Dataset.party`).

    They are those that have a private training row, numbered from 0 in the data set's order, and M must be how many.
    """

    name: ClassVar[str] = "natural"
    every_row: ClassVar[bool] = True
    auxiliary: float | None = None

    def owners(self, data: Dataset, rows: Index, M: int) -> Index:
        """The party of each of the numbered rows, (n,) of 0..M-1.

        Raises:
            UserError: nobody says whose the rows are, or they are not those of M parties.
        """
        if data.party is None:
            raise UserError(
                f"partition=natural deals rows to those whose they are, but dataset={data.name} does not say whose: "
                f"choose another partition, such as partition=dirichlet."
            )
        party = data.party[rows]
        present = np.bincount(party) > 0
        P = int(present.sum())
        if P != M:
            raise UserError(
                f"partition=natural: the N={len(rows)} private training rows of dataset={data.name} are those of {P} "
                f"parties, not of M={M}: set M={P}."
            )
        return (np.cumsum(present) - 1)[party]


Partition = SizeRule | LabelRule | Natural


def partition(data: Dataset, rule: Partition, M: int, rng: Generator, adversary: Adversary | None = None) -> Parties:
    """Deal the training rows of `data` to M parties by `rule`, after setting auxiliary rows aside at random.

    Rows of one party are in random order.

    Raises:
        UserError: there are fewer rows than the rule needs, or a party has none, or there are none of the classes that
            the rule needs.
    """
    rows = len(data.y)
    aside = set_aside(rule, rows)
    private = rows - aside
    if not 1 <= M <= private:
        raise UserError(
            f"M={M} parties cannot share N={private} private training rows of dataset={data.name}: choose 1 <= M <= N."
        )
    check_task(rule, data.task, data.name)
    adversary = adversary or Adversary()
    adversary.count(M)  # refuses one that leaves nobody to be protected
    order = rng.permutation(rows)
    dealt = order[aside:]
    if isinstance(rule, LabelRule | Natural):
        owners = rule.owners(data, dealt, M) if isinstance(rule, Natural) else rule.owners(data.y[dealt], M, rng)
        counts = np.bincount(owners + 1, minlength=M + 1)  # first those of nobody
        used = dealt[np.argsort(owners, kind="stable")[counts[0] :]]
        sizes = check_floor(counts[1:], f"partition={rule.name}")
    else:
        sizes = rule.sizes(private, M, rng)
        used = dealt[: sizes.sum()]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Parties(data, used, offsets, take(data.X, used), data.y[used], data.X[order[:aside]], adversary)


def party_sizes(rule: Partition, rows: int, M: int, rng: Generator) -> Index | None:
    """The sizes that `partition` gives the parties of `rows` training rows with the same `rng`, without any rows.

    None for a rule that needs to look at them.
    """
    if isinstance(rule, LabelRule | Natural):
        return None
    if getattr(rule, "drawn", True):
        rng.permutation(rows)  # to where the stream is when `partition` draws the sizes
    return rule.sizes(rows - set_aside(rule, rows), M, rng)


def check_task(rule: Partition, task: Task, dataset: str) -> None:
    """Raise UserError when a rule that needs classes is to deal rows that have real targets."""
    if isinstance(rule, LabelRule) and rule.of_classes and task == "regression":
        raise UserError(
            f"partition={rule.name} deals rows by their classes, but dataset={dataset} has real targets: choose "
            f"partition=shards, which sorts rows by them, or a partition by size, such as partition=power_law."
        )


def set_aside(rule: Partition, rows: int) -> int:
    """How many of `rows` training rows become auxiliary.

    Raises:
        UserError: the share is not in [0, 1).
    """
    share = rule.auxiliary or 0.0
    if not 0 <= share < 1:
        raise UserError(f"partition.auxiliary must be a share in [0, 1), got {rule.auxiliary}.")
    return round(rows * share)


def whole_rows(shares: Array, N: int) -> Index:
    """Whole numbers (M,) that sum to N and follow `shares` (M,): rounded down, then the largest remainders get one."""
    exact = N * (shares / shares.sum())
    sizes = np.floor(exact).astype(np.intp)
    sizes[np.argsort(sizes - exact, kind="stable")[: N - int(sizes.sum())]] += 1
    return sizes


def check_floor(sizes: Index, key: str) -> Index:
    """The sizes, if every party has a row.

    Raises:
        UserError: one has none.
    """
    if sizes.min() < 1:
        raise UserError(f"{key} leaves a party without a row: there are {sizes.sum()} rows for M={len(sizes)} parties.")
    return sizes


def check_each(option: str, rows: int, N: int, M: int) -> None:
    """Raise UserError unless N rows are enough for each of M parties to have what an option says, at least one row."""
    if rows < 1 or rows * M > N:
        raise UserError(f"partition.{option}={rows} rows for each of M={M} parties is not possible with N={N}.")


@dataclass(frozen=True)
class Equal:
    """The same number of rows for every party, or one more for the first few."""

    name: ClassVar[str] = "equal"
    drawn: ClassVar[bool] = False
    auxiliary: float | None = None

    def sizes(self, N: int, M: int, rng: Generator) -> Index:
        return N // M + (np.arange(M) < N % M).astype(np.intp)


@dataclass(frozen=True)
class Simplex:
    """Shares drawn uniformly from the simplex, above `floor` rows that every party gets."""

    name: ClassVar[str] = "simplex"
    auxiliary: float | None = None
    floor: int = 1

    def sizes(self, N: int, M: int, rng: Generator) -> Index:
        check_each("floor", self.floor, N, M)
        # uniform on the simplex above the floor: an affine image of the whole simplex
        return self.floor + whole_rows(rng.standard_exponential(M), N - self.floor * M)


@dataclass(frozen=True)
class Fractions:
    """Shares as listed: ``partition.fractions=[.5,.3,.2]``. They must be positive and sum to 1; they are its name."""

    drawn: ClassVar[bool] = False

    auxiliary: float | None = None
    fractions: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        return "/".join(f"{share:g}" for share in self.fractions)

    def sizes(self, N: int, M: int, rng: Generator) -> Index:
        shares = np.asarray(self.fractions, dtype=float)
        if len(shares) != M or not np.all(shares > 0) or not np.isclose(shares.sum(), 1):
            raise UserError(
                f"partition.fractions must be M={M} positive numbers that sum to 1, got {list(self.fractions)}."
            )
        return check_floor(whole_rows(shares, N), f"partition.fractions={list(self.fractions)}")


@dataclass(frozen=True)
class TwoGroup:
    """Two halves of the parties, equal sizes inside each; a party of the second has `u` times the rows of the first."""

    name: ClassVar[str] = "two_group"
    drawn: ClassVar[bool] = False
    auxiliary: float | None = None
    u: float = 2.0

    def sizes(self, N: int, M: int, rng: Generator) -> Index:
        if not self.u >= 1:
            raise UserError(f"partition.u, the ratio of the largest to the smallest party, must be >= 1, got {self.u}.")
        shares = np.where(np.arange(M) < (M + 1) // 2, 1.0, self.u)
        return check_floor(whole_rows(shares, N), f"partition.u={self.u}")


@dataclass(frozen=True)
class PerParty:
    """`n` rows for every party; the rows that are left over are not used."""

    name: ClassVar[str] = "per_party"
    drawn: ClassVar[bool] = False
    auxiliary: float | None = None
    n: int = 10

    def sizes(self, N: int, M: int, rng: Generator) -> Index:
        check_each("n", self.n, N, M)
        return np.full(M, self.n, dtype=np.intp)


@dataclass(frozen=True)
class PowerLaw:
    """Sizes in proportion to rank^-a, party 0 the largest; who would have fewer than `smallest` rows has that many."""

    name: ClassVar[str] = "power_law"
    drawn: ClassVar[bool] = False
    auxiliary: float | None = None
    a: float = 1.0
    smallest: int = 1

    def sizes(self, N: int, M: int, rng: Generator) -> Index:
        if not 0 <= self.a < math.inf:
            raise UserError(f"partition.a, the exponent of rank^-a, must be a number >= 0, got {self.a}.")
        check_each("smallest", self.smallest, N, M)
        shares = np.arange(1, M + 1, dtype=float) ** -self.a
        # what the first h parties share when all others have `smallest`, and what the last of them then gets
        left = N - self.smallest * np.arange(M - 1, -1, -1)
        last = left * shares / np.cumsum(shares)
        h = int(np.flatnonzero(last >= self.smallest)[-1]) + 1
        return np.concatenate([whole_rows(shares[:h], int(left[h - 1])), np.full(M - h, self.smallest)])
