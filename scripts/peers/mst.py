"""MST (McKenna, Miklau & Sheldon 2021) of the library smartnoise-synth, and a linear model of its synthetic rows.

All code that reads private rows is the library's: the choice of marginals, the size of their noise, and the budget.
Only the Gaussian numbers are NumPy's, because those of opendp take a third of a millisecond each and have no seed. The
code after the noise differs from the library in three places. (1) smartnoise-synth 1.0.8 divides the merged count of
rare values by a root, but the estimate ignores this. Here the count is multiplied back, and has the noise of the sum.
(2) mbi 1.1.0 sorts the rows of a parent's value for each child, so the children are almost functions of each other
(corrected in mbi 2, which the library does not support). Here `Tree.draw` shuffles the rows. (3) mbi compiles every
tree anew, which takes half a minute. Here `fit` is the same mirror descent.

It uses the raw columns, with the ranges of the training rows, which no budget accounts for, as in all programs here.
Synthetic rows get the preprocessing of our rows. scikit-learn fits the model to them, with its default ridge.

The noise is for one added or removed row, with a public number of rows. A replaced row is two such changes, so it gets
eps/2 and delta/(1 + exp(eps/2)).
"""
# /// script
# requires-python = ">=3.11"
# dependencies = ["smartnoise-synth==1.0.8", "mbi==1.1.0", "scikit-learn", "numpy"]
# ///

import math
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import snsynth.mst.mst as library
from mbi import Dataset, Domain, LinearMeasurement
from numpy.typing import NDArray
from rows import DELTA, DRAWS, EPS, SEEDS, Array, Data, Row, load, on_every_set, run
from sklearn.linear_model import LogisticRegression, Ridge

Index = NDArray[np.intp]
Edge = tuple[str, str]  # parent and child

NAME = "MST"
BINS = (8, 16, 32)
MANY = 100_000  # entries of a table of training rows; larger tables have one draw per seed


# ---- the model of the noisy marginals


class Measured(NamedTuple):
    """Noisy counts, and the deviation of their noise: one number, or one for each count of a column."""

    counts: Array
    width: Any


@dataclass(frozen=True)
class Alone:
    """An estimate with independent columns, from marginals of single columns."""

    marginals: dict[str, Array]
    total: float

    def project(self, columns: Sequence[str]) -> SimpleNamespace:
        """Return the counts of values of two columns, in the form that the library expects."""
        first, second = (self.marginals[name] for name in columns)
        return SimpleNamespace(datavector=lambda: np.outer(first, second).ravel() / self.total)


def nearest(y: Array, width: Any, total: float) -> Array:
    """Return the counts of at least 0 with this total that minimise sum ((counts - y) / width)^2."""

    def counts(level: float) -> Array:
        return np.maximum(y - level * width**2, 0.0)

    low, high = float(((y - total) / width**2).min()), float((y / width**2).max())
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if counts(middle).sum() > total else (low, middle)
    found = counts(low)
    return np.asarray(found * total / found.sum())


@dataclass(frozen=True)
class Tree:
    """A distribution in which every column depends on one other: edges (parent, child), the root's first.

    Attributes:
        joint: for every edge, the counts of the values of parent and child, (n parent, n child).
    """

    domain: Domain
    edges: Sequence[Edge]
    joint: Sequence[Array]

    def rows(self, count: int, rng: np.random.Generator) -> Dataset:
        """Return rows that are drawn from the distribution."""
        root = self.edges[0][0]
        columns = {root: self.draw(self.joint[0].sum(axis=1)[None], np.zeros(count, np.intp), rng)}
        for (parent, child), joint in zip(self.edges, self.joint, strict=True):
            columns[child] = self.draw(joint, columns[parent], rng)
        return Dataset(columns, self.domain)

    def draw(self, joint: Array, parent: Index, rng: np.random.Generator) -> Index:
        """Return a child's value for every row; among rows of a parent's value, shares are exact up to rounding."""
        found = np.empty(len(parent), np.intp)
        for value in np.unique(parent):
            rows = rng.permutation(np.flatnonzero(parent == value))
            places = (np.arange(len(rows)) + rng.random(len(rows))) / len(rows)
            until = joint[value].cumsum()
            found[rows] = np.minimum(np.searchsorted(until / until[-1], places, side="right"), len(until) - 1)
        return found


def estimate(
    domain: Domain, measurements: Sequence[LinearMeasurement], *, known_total: float, iters: int, **_: Any
) -> Alone | Tree:
    """Return the distribution with the nearest marginals to the measured ones; it replaces the library's function."""
    measured = {
        tuple(each.clique): Measured(np.asarray(each.noisy_measurement, float), each.stddev) for each in measurements
    }
    single = {key[0]: each for key, each in measured.items() if len(key) == 1}
    if len(single) == len(measured):
        return Alone({name: nearest(*each, known_total) for name, each in single.items()}, known_total)
    edges = from_root(domain.attrs[0], [key for key in measured if len(key) == 2])
    pairs = []
    for parent, child in edges:
        key = (parent, child) if (parent, child) in measured else (child, parent)
        counts = measured[key].counts.reshape(domain.size(key[:1]), domain.size(key[1:]))
        pairs.append(Measured(counts if key[0] == parent else counts.T, measured[key].width))
    return Tree(domain, edges, fit(edges, pairs, single, known_total, iters))


def from_root(root: str, pairs: Sequence[Edge]) -> list[Edge]:
    """Return the edges of a tree as (parent, child), edges closer to the root first."""
    edges: list[Edge] = []
    reached = [root]
    for parent in reached:  # it grows
        for pair in pairs:
            if parent in pair and (child := pair[pair[0] == parent]) not in reached:
                edges.append((parent, child))
                reached.append(child)
    return edges


def marginals(theta: Sequence[Array], edges: Sequence[Edge], total: float) -> tuple[list[Array], dict[str, Array]]:
    """Return the marginals of the tree with potentials `theta`: of all edges, and of all columns."""
    up: dict[str, Any] = defaultdict(float)  # logarithms of messages to a column from its children
    shares = []
    for (parent, child), potential in zip(reversed(edges), reversed(theta), strict=True):
        joint = potential + up[child]
        top = joint.max(axis=1, keepdims=True)
        weights = np.exp(joint - top)
        sums = weights.sum(axis=1, keepdims=True)
        shares.append(weights / sums)
        up[parent] = up[parent] + (top + np.log(sums))[:, 0]
    root = edges[0][0]
    weights = np.exp(up[root] - up[root].max())
    pairs, single = [], {root: total * weights / weights.sum()}
    for (parent, child), share in zip(edges, reversed(shares), strict=True):
        pairs.append(share * single[parent][:, None])
        single[child] = pairs[-1].sum(axis=0)
    return pairs, single


def fit(
    edges: Sequence[Edge], pairs: Sequence[Measured], single: Mapping[str, Measured], total: float, iters: int
) -> list[Array]:
    """Return counts of pairs of values of all edges, by mirror descent with the first step and line search of mbi."""

    def loss(found: Sequence[Array], columns: Mapping[str, Array]) -> tuple[float, list[Array]]:
        """Return half the sum of ((marginal - measured) / width)^2, and its derivatives by the edges' marginals."""
        off = [(x - y) / width for x, (y, width) in zip(found, pairs, strict=True)]
        alone = {name: (columns[name] - y) / width for name, (y, width) in single.items()}
        by_column = {name: each / single[name].width for name, each in alone.items()}
        slopes = [x / pair.width + by_column[child] for x, pair, (_, child) in zip(off, pairs, edges, strict=True)]
        slopes[0] += by_column[edges[0][0]][:, None]
        return 0.5 * sum(float((each**2).sum()) for each in (*off, *alone.values())), slopes

    steepest = []  # for each edge, an upper bound on the largest eigenvalue of the Hessian
    for k, ((parent, child), pair) in enumerate(zip(edges, pairs, strict=True)):
        rows, columns = pair.counts.shape
        root = columns / np.min(single[parent].width) ** 2 if k == 0 else 0.0
        steepest.append(1 / pair.width**2 + rows / np.min(single[child].width) ** 2 + root)
    step = 2 / (max(steepest) * total)
    theta = [np.zeros(pair.counts.shape) for pair in pairs]
    counts, columns = marginals(theta, edges, total)
    value, slopes = loss(counts, columns)
    for _ in range(iters):
        tried = [here - step * slope for here, slope in zip(theta, slopes, strict=True)]
        others, columns = marginals(tried, edges, total)
        found, after = loss(others, columns)
        fall = sum(float((slope * (x - y)).sum()) for slope, x, y in zip(slopes, counts, others, strict=True))
        if value - found >= 0.5 * step * fall:
            theta, value, counts, slopes, step = tried, found, others, after, 1.01 * step
        else:
            step *= 0.5
    return counts


# ---- the mechanism


class Rows(Dataset):
    """The library's rows, but counted by NumPy: JAX would compile the counts anew for every size."""

    def project(self, cols: Sequence[str]) -> Dataset:
        """Return the rows' values of these columns."""
        return Dataset({name: self._data[name] for name in cols}, self.domain.project(cols))


class MST(library.MSTSynthesizer):
    """The library's synthesizer, with the merged counts of rare values in their original unit."""

    def compress_domain(self, data: Dataset, measurements: Sequence[LinearMeasurement]) -> Any:
        """Return the data with rare values of each column merged, their measurements, and the inverse map."""
        data, found, undo = super().compress_domain(data, measurements)
        for i, (before, after) in enumerate(zip(measurements, found, strict=True)):
            if after is not before:
                y = np.array(after.noisy_measurement, float)
                width = np.full(y.shape, before.stddev)
                merged = len(before.noisy_measurement) - len(y) + 1
                y[-1] *= math.sqrt(merged + 1)  # the library has divided by this root
                width[-1] *= math.sqrt(merged)  # noise of a sum of this many counts
                found[i] = LinearMeasurement(y, after.clique, width)
        return data, found, undo


library.estimation = SimpleNamespace(mirror_descent=estimate)
library.Dataset = Rows


# ---- rows into values and back


def coded(x: Array, levels: int, bins: int) -> tuple[Index, Array]:
    """Return each entry's value as a number, and the values: symbols, few whole numbers, or the centres of bins.

    Bins have equal width between the least and the largest entry.
    """
    if levels:
        return x.astype(np.intp), np.arange(float(levels))
    low, high = float(x.min()), float(x.max())
    if low == high or (high - low < bins and np.array_equal(x, np.round(x))):
        return (x - low).astype(np.intp), np.arange(low, high + 1)
    return np.minimum((x - low) / (high - low) * bins, bins - 1).astype(np.intp), (
        low + (np.arange(bins) + 0.5) * (high - low) / bins
    )


@dataclass(frozen=True)
class Steps:
    """The preprocessing of the experiments, fitted to the training rows: from raw columns to features."""

    data: Data

    @cached_property
    def plain(self) -> Array:
        """The raw training rows, with missing values replaced by the median; or else the preprocessed rows."""
        rows = self.data.X if self.data.plain is None else self.data.plain
        return np.where(np.isnan(rows), np.nanmedian(rows, axis=0), rows)

    @cached_property
    def levels(self) -> Index:
        """The number of values of each symbolic column, 0 for a numeric column."""
        found = self.data.levels
        return np.zeros(self.plain.shape[1], np.intp) if found is None else np.asarray(found, np.intp)

    def features(self, rows: Array) -> Array:
        """Return features: one-hot and scaled columns, a constant if the experiment has one, rows of length 1."""
        if self.data.plain is not None:
            numeric = self.plain[:, self.levels == 0]
            low, high = numeric.min(axis=0), numeric.max(axis=0)
            if self.data.name == "crime":  # max_abs instead of symmetric
                low, high = -np.abs(numeric).max(axis=0), np.abs(numeric).max(axis=0)
            scale = np.where(high > low, (high - low) / 2, 1.0)
            values = [np.eye(count)[rows[:, j].astype(int)] for j, count in enumerate(self.levels) if count]
            rows = np.hstack([(rows[:, self.levels == 0] - (low + high) / 2) / scale, *values])
            if rows.shape[1] < self.data.X.shape[1]:
                rows = np.column_stack([rows, np.ones(len(rows))])
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(rows / np.where(length > 0, length, 1.0))


def synthetic(steps: Steps, eps: float, bins: int, seed: int) -> tuple[Array, Array]:
    """Return as many synthetic rows as training rows: features, and labels or targets."""
    data = steps.data
    table = np.column_stack([steps.plain, data.y > 0 if data.binary else data.y])
    columns = [coded(x, count, bins) for x, count in zip(table.T, [*steps.levels, 0], strict=True)]
    domain = Domain([f"c{i}" for i in range(len(columns))], [len(values) for _, values in columns])
    rng = np.random.default_rng(seed)
    library.gaussian_noise = lambda width, size: rng.normal(0.0, width, size)
    np.random.seed(seed)  # noqa: NPY002 - the library selects with it
    model = MST(eps / 2, DELTA / (1 + math.exp(eps / 2)))
    model.MST(Rows(np.column_stack([codes for codes, _ in columns]), domain), model.epsilon, model.delta)
    drawn = model.undo_compress_fn(model.synthesizer.rows(len(table), rng)).to_dict()
    found = np.column_stack([values[drawn[name]] for name, (_, values) in zip(domain.attrs, columns, strict=True)])
    return steps.features(found[:, :-1]), found[:, -1]


def fitted(steps: Steps, eps: float, bins: int, seed: int) -> Array:
    """Return the scores of the test rows."""
    data = steps.data
    X, y = synthetic(steps, eps, bins, seed)
    if not data.binary:
        return np.asarray(data.X_test @ Ridge(fit_intercept=False).fit(X, y).coef_)
    if len(np.unique(y)) == 1:
        return np.full(len(data.X_test), 2 * y[0] - 1)
    return np.asarray(data.X_test @ LogisticRegression(fit_intercept=False, max_iter=1000).fit(X, y).coef_[0])


def measure(folder: Path) -> tuple[list[Row], list[str]]:
    """Return the scores on every data set, with the number of bins that is best on Adult."""
    warnings.simplefilter("ignore")
    adult = [Steps(load(folder, "adult", seed)) for seed in SEEDS]

    def accuracy(bins: int) -> float:
        runs = product(EPS, enumerate(adult))
        scores = (steps.data.scored(fitted(steps, eps, bins, seed)) for eps, (seed, steps) in runs)
        return float(np.mean([each["accuracy"] for each in scores]))

    best = max(BINS, key=accuracy)

    def scores(data: Data, eps: float, seed: int, draw: int) -> Array:
        return fitted(Steps(data), eps, best, 1000 + len(SEEDS) * draw + seed)

    def draws(data: Data) -> int:
        return 1 if Steps(data).plain.size > MANY else DRAWS

    notes = [
        f"{NAME}: MSTSynthesizer of smartnoise-synth with its slips and mbi's mended (see the program), {best} bins of "
        "numeric columns, the best on Adult on average; on the synthetic rows LogisticRegression or Ridge of "
        "scikit-learn, without intercept, all else by default; one draw for tables of more than 100,000 entries; at "
        "eps/2 and delta/(1 + exp(eps/2)), for its noise is for a row more or fewer",
    ]
    return list(on_every_set(folder, NAME, scores, draws)), notes


if __name__ == "__main__":
    run(measure, ["smartnoise-synth", "mbi", "scikit-learn", "numpy"])
