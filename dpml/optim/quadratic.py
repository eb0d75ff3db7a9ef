"""Minimise convex and indefinite quadratic functions, without constraints or in a ball."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from dpml.arrays import Array

_TINY = np.finfo(float).eps


def minimise_quadratic(A: Array, b: Array, ridge: Array | float = 0.0) -> tuple[Array, NDArray[np.bool_]]:
    """Minimise ``w'Bw + b'w`` with B = A + ridge I, for many symmetric A (..., d, d), b (..., d) and ridges (...).

    If B is not positive definite, w is restricted to the span of the eigenvectors with positive eigenvalues (Zhang et
    al. 2012, Sec. 6.2). Return the models w (..., d), and a mask (...) of the restricted models.
    """
    d, stack = A.shape[-1], A.shape[:-2]
    ridges = np.broadcast_to(ridge, stack).reshape(-1)
    matrices, vectors = A.reshape(-1, d, d), b.reshape(-1, d)
    w, trimmed = np.empty_like(vectors), np.zeros(len(vectors), dtype=bool)
    for k, matrix in enumerate(matrices):
        shifted = np.array(matrix.T, order="F")  # a copy that LAPACK may overwrite; A is symmetric
        diagonal = shifted.ravel(order="K")[:: d + 1]
        diagonal += ridges[k]
        scale = abs(diagonal).max()
        _, w[k], failed = dposv(shifted, vectors[k], overwrite_a=True)
        trimmed[k] = failed or diagonal.min() ** 2 <= d * _TINY * scale  # `diagonal` is now the Cholesky factor's
    w /= -2
    if trimmed.any():
        shifted = matrices[trimmed] + ridges[trimmed, None, None] * np.eye(d)
        w[trimmed], trimmed[trimmed] = minimise_floored(shifted, vectors[trimmed], np.zeros(len(shifted)))
    return w.reshape(b.shape), trimmed.reshape(stack)


def minimise_floored(A: Array, b: Array, floor: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Minimise ``w'Aw + b'w`` after raising the eigenvalues of A that are below `floor` to `floor`.

    A (..., d, d) is symmetric; b is (..., d), and `floor` (...). Eigenvectors with eigenvalues still <= 0 are left out.
    Return the models w (..., d), and a mask (...) of the matrices A with an eigenvalue <= 0 up to rounding.
    """
    values, vectors = np.linalg.eigh(A)
    least = A.shape[-1] * _TINY * np.abs(values).max(axis=-1, keepdims=True)
    raised = np.maximum(values, floor[..., None])
    along = np.einsum("...ji,...j->...i", vectors, b)
    step = np.divide(along, raised, out=np.zeros_like(along), where=raised > least)
    return -np.einsum("...ij,...j->...i", vectors, step) / 2, (values <= least).any(axis=-1)


def minimise_quadratic_in_ball(A: Array, b: Array, radius: float, shift: Array) -> Array:
    """Return the minimisers (B, d) of B functions ``w'(A + shift_i I)w + b_i'w`` of w over ``||w|| <= radius``.

    All problems share the positive semidefinite A (d, d); b is (B, d), and shift (B,) >= 0.
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
