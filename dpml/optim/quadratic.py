"""Minimisers of quadratics: free, in a ball, in a box, and with a trimmed spectrum."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

from dpml.arrays import Array
from dpml.errors import UserError
from dpml.optim import NotConvergedError
from dpml.optim.losses import Loss

_TINY = np.finfo(float).eps


def minimise_quadratic(A: Array, b: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Minimise ``w'Aw + b'w`` for a stack of symmetric A (..., d, d) and b (..., d).

    Where A is positive definite, that is ``-A^-1 b / 2``. Where it is not, the minimum does not exist: the spectrum is
    trimmed (Zhang et al. 2012, Sec. 6.2), that is, w is kept to the span of the eigenvectors with positive eigenvalue.

    Returns:
        w (..., d) and whether A was trimmed (...).
    """
    try:
        pivots = np.diagonal(np.linalg.cholesky(A), axis1=-2, axis2=-1) ** 2
        scale = np.abs(np.diagonal(A, axis1=-2, axis2=-1)).max(axis=-1)
        if np.all(pivots.min(axis=-1) > A.shape[-1] * _TINY * scale):
            return -np.linalg.solve(A, b[..., None])[..., 0] / 2, np.zeros(A.shape[:-2], dtype=bool)
    except np.linalg.LinAlgError:
        pass  # at least one of the stack is not positive definite
    values, vectors = np.linalg.eigh(A)
    keep = values > A.shape[-1] * _TINY * np.abs(values).max(axis=-1, keepdims=True)
    along = np.einsum("...ji,...j->...i", vectors, b)
    step = np.divide(along, values, out=np.zeros_like(along), where=keep)
    return -np.einsum("...ij,...j->...i", vectors, step) / 2, ~keep.all(axis=-1)


def minimise_quadratic_in_box(A: Array, b: Array, start: Array, bound: float = 1.0, sweeps: int = 20_000) -> Array:
    """A local minimiser of ``w'Aw + b'w`` over ``|w_j| <= bound`` for B problems, A (B, d, d) symmetric, b (B, d).

    Where A is positive definite the minimiser is exact: at once where it lies in the box, else as bounded least
    squares. The indefinite problems advance together by coordinate descent from `start` (d,), exact in each coordinate:
    the value never rises, and the end is a point that no single coordinate improves.

    Raises:
        NotConvergedError: some coordinate still moves by more than 1e-7 of the box after `sweeps` rounds.
    """
    values = np.linalg.eigvalsh(A)
    definite = values[:, 0] > A.shape[-1] * _TINY * values[:, -1]
    w = np.empty_like(b)
    w[definite] = -np.linalg.solve(A[definite], b[definite, :, None])[:, :, 0] / 2
    w[~definite] = _descend_in_box(A[~definite], b[~definite], start, bound, sweeps)
    for i in np.flatnonzero(np.any(np.abs(w) > bound, axis=1)):
        w[i] = minimise_least_squares_in_box(A[i], b[i], bound)
    return w


def _descend_in_box(A: Array, b: Array, start: Array, bound: float, sweeps: int) -> Array:
    w = np.broadcast_to(start, b.shape).copy()
    half_gradient = np.einsum("bij,bj->bi", A, w) + b / 2
    diagonal = np.einsum("bii->bi", A)
    for _ in range(sweeps):
        largest = 0.0
        for j in range(b.shape[1]):
            a, g, now = diagonal[:, j], half_gradient[:, j], w[:, j]
            with np.errstate(divide="ignore", invalid="ignore"):
                inside = np.clip(now - g / a, -bound, bound)
            # concave along this coordinate: the better of the two ends
            slope = g - a * now
            new = np.where(a > 0, inside, np.where(slope > 0, -bound, bound))
            change = new - now
            w[:, j] = new
            half_gradient += A[:, :, j] * change[:, None]
            largest = max(largest, float(np.abs(change).max(initial=0.0)))
        if largest < 1e-7 * bound:
            return w
    raise NotConvergedError(
        f"coordinate descent in the box still moves by {largest:.1e} after {sweeps} sweeps: set a larger algo.lam."
    )


def minimise_least_squares_in_box(A: Array, b: Array, bound: float = 1.0) -> Array:
    """The minimiser of ``w'Aw + b'w`` over ``|w_j| <= bound`` for one A (d, d) >= 0 with b in its range: exact, (d,).

    Written as ``||R w + R^-1 b/2||^2`` with R the square root of A, it is a bounded least squares problem.
    """
    values, vectors = np.linalg.eigh(A)
    root = np.sqrt(np.maximum(values, 0.0))
    target = np.divide(-(vectors.T @ b) / 2, root, out=np.zeros_like(b), where=root > 1e-7 * root.max())
    return lsq_linear(root[:, None] * vectors.T, target, bounds=(-bound, bound), method="bvls").x


def minimise_quadratic_in_ball(A: Array, b: Array, radius: float, shift: Array) -> Array:
    """Minimise ``w'(A + shift_i I)w + b_i'w`` over ``||w|| <= radius`` for B problems: (B, d).

    A (d, d) is positive semidefinite and shared; b (B, d) and shift (B,) >= 0 are each problem's own.

    One eigendecomposition serves all; the multiplier m of the constraint solves the secular equation
    ``||(A + (shift + m) I)^-1 b / 2|| = radius`` by bisection.
    """
    values, vectors = np.linalg.eigh(A)
    values = np.maximum(values, 0.0) + shift[:, None]
    along = b @ vectors / 2

    def norms(multiplier: Array) -> Array:
        shifted = values + multiplier[:, None]
        terms = np.divide(along, shifted, out=np.full_like(along, np.inf), where=shifted > 0)
        terms[along == 0] = 0.0
        return np.linalg.norm(terms, axis=1)

    low = np.zeros(len(b))
    outside = norms(low) > radius
    high = np.linalg.norm(along, axis=1) / radius  # (A + m I)^-1 has norm at most 1/m
    for _ in range(200):
        middle = (low + high) / 2
        too_long = norms(middle) > radius
        low, high = np.where(too_long, middle, low), np.where(too_long, high, middle)
    shifted = values + np.where(outside, high, 0.0)[:, None]
    step = np.divide(along, shifted, out=np.zeros_like(along), where=shifted > 0)
    return -step @ vectors.T


def box_minimiser(loss: Loss, X: Array, y: Array, lam: float) -> Array:
    """The minimiser of the loss's quadratic form + lam/2 ||w||^2 over the box [-1, 1]^d: (d,).

    Raises:
        UserError: the loss has no quadratic form.
    """
    if loss.quadratic is None:
        raise UserError(f"algo.variant=authors needs loss=squared or loss=logistic, not loss={loss.name}.")
    n, d = X.shape
    A = loss.quadratic.square * (X.T @ X) / n + lam / 2 * np.eye(d)
    b = loss.quadratic.linear(y) @ X / n
    return minimise_least_squares_in_box(A, b)
