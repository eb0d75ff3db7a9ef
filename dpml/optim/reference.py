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
    """The minimum of mean loss + lam/2 ||w||^2 on the private rows, or its infimum where it has none.

    Where the labels are linearly separable there is no minimiser for lam = 0: Newton's method then runs towards
    infinity until the gradient is less than 1e-9.
    """
    X, y, counts = parties.folded
    regularised = loss.name in ("logistic", "softmax") and lam > 0
    best = (fit_all(parties, lam) if regularised else optimum(loss, X, y, lam, counts))[None]
    return float(mean_loss(loss, X, y, best, counts)[0] + lam / 2 * np.sum(best * best))


def least_found(value: Callable[[Array], float], gradient: Callable[[Array], Array], d: int, restarts: int) -> float:
    """The least value of a function of d numbers that descents from 0 and random places find: at least its minimum."""
    rng = np.random.default_rng(0)  # not privacy noise: the starts of a search
    lengths = np.geomspace(0.1, 30, restarts - 1)
    starts = lengths[:, None] * rng.standard_normal((restarts - 1, d)) / np.sqrt(d)
    found = [
        minimize(value, w, jac=gradient, method="L-BFGS-B", options={"maxiter": 300}) for w in (np.zeros(d), *starts)
    ]
    return float(min(result.fun for result in found))
