"""MST (McKenna, Miklau & Sheldon 2021) of the library smartnoise-synth, and a linear model of its synthetic rows.

All code that reads private rows is the library's: the choice of marginals, the size of their noise, and the budget.
Only the Gaussian numbers are NumPy's, because those of opendp take a third of a millisecond each and have no seed. The
code after the noise differs from the library in three places. (1) smartnoise-synth 1.0.8 divides the merged count of
rare values by a root, but the estimate ignores this. Here the count is multiplied back, and has the noise of the sum.
(2) mbi 1.1.0 sorts the rows of a parent's value for each child, so the children are almost functions of each other
(corrected in mbi 2, which the library does not support). Here `Tree.draw` shuffles the rows. (3) mbi compiles every
tree anew, which takes half a minute. Here `estimate` solves the same problem with cvxpy.

It uses the raw columns, with the ranges of the training rows, which no budget accounts for, as in all programs here.
Synthetic rows get the preprocessing of our rows. scikit-learn fits the model to them, with its default ridge.

The noise is for one added or removed row, with a public number of rows. A replaced row is two such changes, so it gets
eps/2 and delta/(1 + exp(eps/2)).
"""
# /// script
# requires-python = ">=3.11"
# dependencies = ["multiparty-dp", "smartnoise-synth==1.0.8", "mbi==1.1.0", "cvxpy>=1.6", "scikit-learn"]
# [tool.uv.sources]
# multiparty-dp = { path = "../..", editable = true }
# ///

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import numpy as np
import snsynth.mst.mst as library
from mbi import Dataset, Domain, LinearMeasurement
from rows import DELTA, DRAWS, EPS, SEEDS, Data, Row, load, on_every_set, run
from scipy.sparse.csgraph import breadth_first_order
from sklearn.linear_model import LogisticRegression, Ridge

from dpml.arrays import Array, Index
from dpml.data import Files
from dpml.data.preprocess import apply_steps

NAME = "MST"
BINS = (8, 16, 32)
MANY = 100_000  # entries of a table of training rows; larger tables have one draw per seed


# ---- the model of the noisy marginals


@dataclass(frozen=True)
class Tree:
    """A distribution in which every column depends on at most one other.

    Attributes:
        shares: the shares of values, by column (a,), and of pairs of values, by pair of dependent columns (a, b).
    """

    domain: Domain
    shares: Mapping[tuple[str, ...], Array]
    total: float

    def project(self, columns: Sequence[str]) -> SimpleNamespace:
        """Return the counts of pairs that two independent columns would have, in the form that the library expects."""
        first, second = (self.shares[(name,)] for name in columns)
        return SimpleNamespace(datavector=lambda: self.total * np.outer(first, second).ravel())

    def rows(self, count: int, rng: np.random.Generator) -> Dataset:
        """Return rows that are drawn from the distribution."""
        names = self.domain.attrs
        joints = self.shares | {key[::-1]: joint.T for key, joint in self.shares.items() if len(key) == 2}
        order, parents = breadth_first_order([[(a, b) in joints for b in names] for a in names], 0)
        columns = {names[0]: self.draw(self.shares[names[:1]][None], np.zeros(count, np.intp), rng)}
        for place in order[1:]:
            parent, child = names[parents[place]], names[place]
            columns[child] = self.draw(joints[parent, child], columns[parent], rng)
        return Dataset(columns, self.domain)

    def draw(self, joint: Array, parent: Index, rng: np.random.Generator) -> Index:
        """Draw a child column from its parent; among rows of equal parent value, shares are exact up to rounding."""
        found = np.empty(len(parent), np.intp)
        for value in np.unique(parent):
            rows = rng.permutation(np.flatnonzero(parent == value))
            places = (np.arange(len(rows)) + rng.random(len(rows))) / len(rows)
            until = joint[value].cumsum()
            found[rows] = np.minimum(np.searchsorted(until / until[-1], places, side="right"), len(until) - 1)
        return found


def estimate(domain: Domain, measurements: Sequence[LinearMeasurement], *, known_total: float, **_: Any) -> Tree:
    """Return the distribution whose marginals are nearest to the measured ones (in place of the library's function).

    Its marginals minimise the sum of ((marginal - measured) / width)^2. A tree can have any consistent marginals.
    """
    shares, errors, rules = {}, [], []
    for each in measurements:
        shares[tuple(each.clique)] = x = cp.Variable([domain.size((name,)) for name in each.clique], nonneg=True)
        measured = np.asarray(each.noisy_measurement, float).reshape(x.shape) / known_total
        errors.append(cp.sum_squares(cp.multiply(x - measured, np.full(x.shape, known_total / each.stddev))))
    for key, x in shares.items():
        if len(key) == 1:
            rules.append(cp.sum(x) == 1)
        else:
            rules += [cp.sum(x, axis=1) == shares[key[:1]], cp.sum(x, axis=0) == shares[key[1:]]]
    cp.Problem(cp.Minimize(cp.sum(errors)), rules).solve(solver=cp.CLARABEL)
    return Tree(domain, {key: np.maximum(x.value, 0.0) for key, x in shares.items()}, known_total)


# ---- the mechanism


class Rows(Dataset):
    """The library's rows, but NumPy counts them, because JAX would compile the counting anew for every size."""

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
    """Return each entry's code, and the value of every code: a symbol, a whole number if few, or a bin's centre.

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


def synthetic(data: Data, eps: float, bins: int, seed: int) -> tuple[Array, Array]:
    """Return as many synthetic rows as training rows: features, and labels or targets."""
    table = np.column_stack([data.plain, data.y > 0 if data.binary else data.y])
    columns = [coded(x, count, bins) for x, count in zip(table.T, [*data.levels, 0], strict=True)]
    domain = Domain([f"c{i}" for i in range(len(columns))], [len(values) for _, values in columns])
    rng = np.random.default_rng(seed)
    library.gaussian_noise = lambda width, size: rng.normal(0.0, width, size)
    np.random.seed(seed)  # noqa: NPY002 - the library selects with it
    model = MST(eps / 2, DELTA / (1 + math.exp(eps / 2)))
    model.MST(Rows(np.column_stack([codes for codes, _ in columns]), domain), model.epsilon, model.delta)
    drawn = model.undo_compress_fn(model.synthesizer.rows(len(table), rng)).to_dict()
    found = np.column_stack([values[drawn[name]] for name, (_, values) in zip(domain.attrs, columns, strict=True)])
    return apply_steps(data.steps, data.plain, found[:, :-1], data.levels)[1], found[:, -1]


def fitted(data: Data, eps: float, bins: int, seed: int) -> Array:
    """Return the scores of the test rows."""
    X, y = synthetic(data, eps, bins, seed)
    if not data.binary:
        return np.asarray(data.X_test @ Ridge(fit_intercept=False).fit(X, y).coef_)
    if len(np.unique(y)) == 1:
        return np.full(len(data.X_test), 2 * y[0] - 1)
    return np.asarray(data.X_test @ LogisticRegression(fit_intercept=False, max_iter=1000).fit(X, y).coef_[0])


def measure(files: Files) -> tuple[list[Row], list[str]]:
    """Return the scores on every data set, with the number of bins that is best on Adult."""
    warnings.simplefilter("ignore")
    adult = [load(files, "adult", seed) for seed in SEEDS]

    def accuracy(bins: int) -> float:
        runs = product(EPS, enumerate(adult))
        scores = (data.scored(fitted(data, eps, bins, seed)) for eps, (seed, data) in runs)
        return float(np.mean([each["accuracy"] for each in scores]))

    best = max(BINS, key=accuracy)

    def scores(data: Data, eps: float, seed: int, draw: int) -> Array:
        return fitted(data, eps, best, 1000 + len(SEEDS) * draw + seed)

    def draws(data: Data) -> int:
        return 1 if data.plain.size > MANY else DRAWS

    notes = [
        f"{NAME}: MSTSynthesizer of smartnoise-synth with its slips and mbi's mended (see the program), {best} bins of "
        "numeric columns, the best on Adult on average; on the synthetic rows LogisticRegression or Ridge of "
        "scikit-learn, without intercept, all else by default; one draw for tables of more than 100,000 entries; at "
        "eps/2 and delta/(1 + exp(eps/2)), for its noise is for a row more or fewer",
    ]
    return list(on_every_set(files, NAME, scores, draws)), notes


if __name__ == "__main__":
    run(measure, ["smartnoise-synth", "mbi", "cvxpy", "scikit-learn", "numpy"])
