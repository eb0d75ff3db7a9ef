"""Approximate minima perturbation (Iyengar et al. 2019, S&P, Alg. 1) for the logistic loss, written from the paper.

The split of the budget, and the gradient at which minimisation stops, come from the grid of the authors' benchmark
(github.com/sunblaze-ucb/dpml-benchmark): eps3/eps1 in 0.9, 0.95, 0.98, 0.99, and gamma = 1/n^2. Of the grid's values
for eps2/eps = delta2/delta, only 0.001 is used: even with this small share, the output's noise is negligible. Rows are
not clipped to other lengths, because all have length 1. For every eps, the best of the grid is chosen by the mean
accuracy on the test rows over the first draw of every seed. This is an oracle: it is not private.
"""
# /// script
# requires-python = ">=3.11"
# dependencies = ["multiparty-dp"]
# [tool.uv.sources]
# multiparty-dp = { path = "../..", editable = true }
# ///

from itertools import product

import numpy as np
from rows import DELTA, DRAWS, EPS, SEEDS, Data, Row, load, run

from dpml.arrays import Array
from dpml.data import Files
from dpml.optim.convex import minimise_convex
from dpml.optim.losses import LOSSES

NAME = "AMP (oracle, not private)"
OUTPUT, SPLITS = 0.001, (0.9, 0.95, 0.98, 0.99)  # eps2/eps, and the grid of eps3/eps1
LIPSCHITZ, SMOOTHNESS, RANK = 1.0, 0.25, 2  # of the logistic loss of rows of length 1; twice the rank of a Hessian


def accuracies(data: Data, rng: np.random.Generator) -> Array:
    """Return Algorithm 1's test accuracies for all eps and splits, (eps, splits), with common noise directions."""
    n, d = data.X.shape
    eps1, delta1 = (1 - OUTPUT) * np.repeat(EPS, len(SPLITS)), (1 - OUTPUT) * DELTA
    eps2, delta2 = OUTPUT * np.repeat(EPS, len(SPLITS)), OUTPUT * DELTA
    eps3 = np.tile(SPLITS, len(EPS)) * eps1
    ridge, gamma = RANK * SMOOTHNESS / (eps1 - eps3), 1 / n**2
    first = 2 * LIPSCHITZ / n * (1 + np.sqrt(2 * np.log(1 / delta1))) / eps3
    second = n * gamma / ridge * (1 + np.sqrt(2 * np.log(1 / delta2))) / eps2
    linear, output = rng.standard_normal((2, d))
    tilt = first[:, None] * linear
    weights = minimise_convex(LOSSES["logistic"], data.X, data.y, ridge / n, tilt, tolerance=gamma)
    return data.accuracy(weights + second[:, None] * output).reshape(len(EPS), -1)


def measure(files: Files) -> tuple[list[Row], list[str]]:
    """Return the accuracies on adult and bank."""
    rows: list[Row] = []
    chosen = []
    for name in ("adult", "bank"):
        sets = [load(files, name, seed) for seed in SEEDS]
        found = np.array(
            [[accuracies(sets[seed], np.random.default_rng([seed, draw])) for draw in range(DRAWS)] for seed in SEEDS]
        )
        for e, eps in enumerate(EPS):
            best = int(found[:, 0, e].mean(axis=0).argmax())
            chosen.append(f"{name} eps={eps:g}: {OUTPUT:g}, {SPLITS[best]:g}")
            for seed, draw in product(SEEDS, range(DRAWS)):
                rows.append((name, eps, seed, draw, NAME, "accuracy", float(found[seed, draw, e, best])))
    notes = [
        f"{NAME}: Iyengar et al. 2019, Alg. 1, own code; eps2/eps and eps3/eps1 by the test rows:",
        "; ".join(chosen),
    ]
    return rows, notes


if __name__ == "__main__":
    run(measure, ["numpy", "scipy"])
