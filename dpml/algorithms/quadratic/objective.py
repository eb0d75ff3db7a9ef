"""What all releases of a quadratic objective's coefficients have in common: the message, and the model made of it.

The noisy L2 of an honest budget is mostly indefinite: of d = 104 eigenvalues, only those of a few directions stand out
of the noise's spectrum, which reaches from -edge to edge. Raising the eigenvalues of all others to `FLOOR` times the
edge (`optim.quadratic.minimise_floored`) keeps those few as they are, where a ridge would shrink them too. It reads the
released matrix and public numbers only, and so is post-processing.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpml.algorithms.defaults import QUADRATIC_NORM, SPECTRAL_FLOOR
from dpml.algorithms.quadratic.coefficients import Coefficients, CoefficientTerms, polynomial
from dpml.algorithms.quadratic.sensitivity import NO_NOISE, Scales, joint_sensitivity, tight_scales
from dpml.arrays import Array
from dpml.mechanism.algorithm import Release
from dpml.mechanism.carriers import Carrier
from dpml.mechanism.message import Sum
from dpml.optim.quadratic import minimise_floored

# Matrix entries per budget in a block of draws. A constant, so that the noise does not depend on the list of budgets.
_BLOCK = 1 << 18

SOURCE = "Gaussian DP of the joint view (quadratic.sensitivity)"

Minimise = Callable[[Array, Array, Array], tuple[Array, NDArray[np.bool_]]]
"""The models of polynomials ``w'Aw + b'w``, (budgets, draws, d, d) and (budgets, draws, d), given the edges (budgets,)
of the noise in A, and whether A had no minimum (budgets, draws). Of several classes (budgets, draws, 1, d, d) and
(budgets, draws, K, d)."""


def draws_together(d: int) -> int:
    """How many matrices (d, d) per budget are drawn at once."""
    return max(1, _BLOCK // d**2)


def split(of: Coefficients, d: int, mu: float, norm: float | None) -> Scales:
    """The noise on L1 and L2 that spends `mu` best for models of length `norm`; None: a typical length."""
    if math.isinf(mu):
        return NO_NOISE
    return tight_scales(of.quadratic, d, QUADRATIC_NORM[of.loss.name] if norm is None else norm, mu)


def coefficients_sum(of: Coefficients, scales: Scales, d: int) -> Sum:
    """The message: the sums of all coefficients with noise of these scales, in one vector."""
    constant = (scales.constant,) if of.constant else ()
    units = (*constant, scales.linear, scales.square, scales.square)
    return Sum(of, joint_sensitivity(of.quadratic, scales, d), 1.0, units)


def spectral_edge(d: int, variance: float = 0.5) -> float:
    """About the largest eigenvalue of noise on L2 with this variance beside the diagonal (the semicircle law's
    edge)."""
    return 2 * math.sqrt(variance * d)


def raised_to_floor(A: Array, b: Array, edges: Array) -> tuple[Array, NDArray[np.bool_]]:
    """The minimisers with the eigenvalues of A raised to the floor."""
    return minimise_floored(A, b, SPECTRAL_FLOOR * edges.reshape(-1, *(1,) * (A.ndim - 3)))


def units_in(carrier: Carrier, of: Coefficients) -> int:
    """How many units a sum is over."""
    sizes = carrier.mechanism.parties.sizes
    if of.last:
        return int(sizes[-1])
    return len(sizes) if of.unit == "party" else int(sizes.sum())


def minimised(carrier: Carrier, lam: float, minimise: Minimise = raised_to_floor, variance: float = 0.5) -> Release:
    """Ask for the coefficients, and minimise the noisy polynomial + lam/2 ||w||^2.

    `noisy_objective` is its value at the model. Where L0 is not released the exact one stands in: it moves no
    minimiser, and metrics are for the experimenter, not for publication. `trimmed` is 1 where there was a direction
    without positive curvature, which had to be cut off or raised to the floor.
    """
    of = carrier.statistic(0)
    assert isinstance(of, Coefficients)
    d, count = carrier.problem.d, units_in(carrier, of)
    noisy = carrier.by_budget(carrier.ask(0))
    b, A = polynomial(noisy, d, count, lam, of.classes)
    if of.classes > 1:
        b, A = b.reshape(*b.shape[:2], of.classes, d), A[:, :, None]
    squares = np.array([messages[0].units[-1] for messages in carrier.messages])
    w, trimmed = minimise(A, b, spectral_edge(d, variance) * squares / count * carrier.widening)
    value = np.sum(w * ((A @ w[..., None])[..., 0] + b), axis=tuple(range(2, b.ndim)))
    models, trimmed = w.reshape(*value.shape, -1), trimmed.reshape(value.shape)
    terms = carrier.mechanism.terms(of)
    assert isinstance(terms, CoefficientTerms)
    constant = (noisy[..., 0] if of.constant else terms.constant) / count
    return Release(models, {"noisy_objective": constant + value, "trimmed": trimmed.astype(float)})
