"""The reference of the optimality gap."""

import numpy as np

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
