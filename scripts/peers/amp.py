"""Approximate minima perturbation (Iyengar et al. 2019, S&P, Alg. 1) for the logistic loss, written from the paper.

The split of the budget, and the gradient at which minimisation stops, come from the grid of the authors' benchmark
(github.com/sunblaze-ucb/dpml-benchmark): eps3/eps1 in 0.9, 0.95, 0.98, 0.99, and gamma = 1/n^2. Of the grid's values
for eps2/eps = delta2/delta, only 0.001 is used: even with this small share, the output's noise is negligible. Rows are
not clipped to other lengths, because all have length 1. For every eps, the best of the grid is chosen by the mean
accuracy on the test rows over the first draw of every seed. This is an oracle: it is not private.
"""
# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy", "scipy"]
# ///

import math
from itertools import product
from pathlib import Path

import numpy as np
from rows import DELTA, DRAWS, EPS, SEEDS, Array, Data, Row, load, run
from scipy.special import expit

NAME = "AMP (oracle, not private)"
SPLITS = tuple(product((0.001,), (0.9, 0.95, 0.98, 0.99)))  # eps2/eps, eps3/eps1
LIPSCHITZ, SMOOTHNESS, RANK = 1.0, 0.25, 2  # of the logistic loss of rows of length 1; twice the rank of a Hessian


def released(data: Data, eps: float, split: tuple[float, float], rng: np.random.Generator) -> Array:
    """Return a model by Algorithm 1: the approximate minimiser of the perturbed objective, plus output noise."""
    n, d = data.X.shape
    eps2, delta2 = split[0] * eps, split[0] * DELTA
    eps1, delta1 = eps - eps2, DELTA - delta2
    eps3 = split[1] * eps1
    ridge = RANK * SMOOTHNESS / (eps1 - eps3)
    gamma = 1 / n**2
    first = 2 * LIPSCHITZ / n * (1 + math.sqrt(2 * math.log(1 / delta1))) / eps3
    second = n * gamma / ridge * (1 + math.sqrt(2 * math.log(1 / delta2))) / eps2
    linear, output = first * rng.standard_normal(d), second * rng.standard_normal(d)
    return minimiser(data.X * data.y[:, None], ridge / n, linear, gamma) + output


def minimiser(signed: Array, lam: float, linear: Array, gamma: float) -> Array:
    """w at which mean log(1 + exp(-u'w)) + lam/2 ||w||^2 + linear'w has a gradient of norm at most gamma, by Newton."""
    n, d = signed.shape
    w = np.zeros(d)

    def value(w: Array) -> float:
        return float(np.logaddexp(0, -signed @ w).mean() + lam / 2 * w @ w + linear @ w)

    for _ in range(100):
        slope = expit(-signed @ w)
        gradient = -signed.T @ slope / n + lam * w + linear
        if np.linalg.norm(gradient) <= gamma:
            return w
        hessian = signed.T @ (signed * (slope * (1 - slope))[:, None]) / n + lam * np.eye(d)
        step = np.linalg.solve(hessian, gradient)
        size, here = 1.0, value(w)
        while size > 1e-6 and value(w - size * step) > here - 0.1 * size * float(gradient @ step) + 1e-15:
            size /= 2
        w = w - size * step
    raise RuntimeError(f"no gradient of norm {gamma:g} was reached")


def measure(folder: Path) -> tuple[list[Row], list[str]]:
    """Accuracies on adult and bank."""
    rows: list[Row] = []
    chosen = []
    for name in ("adult", "bank"):
        sets = [load(folder, name, seed) for seed in SEEDS]

        def accuracy(eps: float, split: int, seed: int, draw: int, sets: list[Data] = sets) -> float:
            rng = np.random.default_rng([seed, draw])  # the splits share directions
            return float(sets[seed].accuracy(released(sets[seed], eps, SPLITS[split], rng)))

        for eps in EPS:
            tried = np.array([[accuracy(eps, s, seed, 0) for seed in SEEDS] for s in range(len(SPLITS))])
            best = int(tried.mean(axis=1).argmax())
            chosen.append(f"{name} eps={eps:g}: {SPLITS[best][0]:g}, {SPLITS[best][1]:g}")
            for seed, draw in product(SEEDS, range(DRAWS)):
                found = accuracy(eps, best, seed, draw) if draw else float(tried[best, seed])
                rows.append((name, eps, seed, draw, NAME, "accuracy", found))
    notes = [
        f"{NAME}: Iyengar et al. 2019, Alg. 1, own code; eps2/eps and eps3/eps1 by the test rows:",
        "; ".join(chosen),
    ]
    return rows, notes


if __name__ == "__main__":
    run(measure, ["numpy", "scipy"])
