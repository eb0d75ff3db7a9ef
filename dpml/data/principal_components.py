"""The leading principal components of rows, dense or sparse."""

from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from dpml.arrays import Array


def principal_components(A: Any, mean: Array, components: int) -> tuple[Array, Array]:
    """The leading right singular vectors (p, components) of A - mean (n, p), and the squares of their singular values.

    Lanczos iteration on the smaller Gram matrix. It uses products with A only, so A is not modified or copied.
    """
    n, p = A.shape
    transposed = A.T

    def forward(v: Array) -> Array:
        return np.asarray(A @ v - mean @ v)

    def back(u: Array) -> Array:
        return np.asarray(transposed @ u - mean * u.sum())

    def gram(x: Array) -> Array:
        x = x.ravel()
        return forward(back(x)) if n < p else back(forward(x))

    size = min(n, p)
    # the start vector is fixed: the same rows give bit-identical results
    start = np.random.default_rng(0).standard_normal(size)
    squares, vectors = eigsh(
        LinearOperator((size, size), matvec=gram, dtype=np.float64), components, v0=start, tol=1e-8
    )
    squares, vectors = np.maximum(squares[::-1], 0.0), vectors[:, ::-1]
    if n < p:
        lengths = np.sqrt(squares)
        # left singular vectors sum to zero, so that the mean drops out
        vectors = transposed @ (vectors / np.where(lengths > 1e-7 * lengths[0], lengths, np.inf))
    vectors = np.ascontiguousarray(vectors)
    # the sign of a direction is arbitrary: its entry of largest magnitude is made positive
    for column in vectors.T:
        column *= 1.0 if column.max() >= -column.min() else -1.0
    return vectors, squares
