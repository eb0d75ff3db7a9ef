"""The reference of the optimality gap."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from dpml.arrays import Array
from dpml.data.partition import Parties, remembered
from dpml.optim.convex import optimum
from dpml.optim.logistic import fit_all
from dpml.optim.losses import Loss, mean_loss


@remembered
def least(parties: Parties, loss: Loss, lam: float) -> float:
    """Return the minimum of mean loss + lam/2 ||w||^2 on the private rows, or its infimum if there is no minimum.

    Linearly separable labels have no minimiser for lam = 0: Newton's method then diverges until the gradient is less
    than 1e-9.
    """
    X, y, counts = parties.folded
    regularised = loss.name in ("logistic", "softmax") and lam > 0
    best = (fit_all(parties, lam) if regularised else optimum(loss, X, y, lam, counts))[None]
    return float(mean_loss(loss, X, y, best, counts)[0] + lam / 2 * np.sum(best * best))


def least_found(value: Callable[[Array], float], gradient: Callable[[Array], Array], d: int, restarts: int) -> float:
    """Return the least value of a function of d numbers found by descents from 0 and random starts."""
    rng = np.random.default_rng(0)  # not privacy noise: the starts of a search
    lengths = np.geomspace(0.1, 30, restarts - 1)
    starts = lengths[:, None] * rng.standard_normal((restarts - 1, d)) / np.sqrt(d)
    results = [
        minimize(value, w, jac=gradient, method="L-BFGS-B", options={"maxiter": 300}) for w in (np.zeros(d), *starts)
    ]
    return float(min(result.fun for result in results))
