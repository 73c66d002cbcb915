"""Types of arrays, and matrix algebra that returns the same bits on every processor.

`@`, `np.einsum` and `np.linalg` call libraries that sum in another order, or fuse products and sums, on other
processors. Answers computed with these libraries would differ between computers. The functions of this module use only
operations that IEEE 754 rounds exactly. They are made for small matrices. `eim_ros.solver` has sin, cos, acos, atan2,
exp and log.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def product(first: FloatArray, *others: FloatArray) -> FloatArray:
    """Return the product of two or more matrices, such as (..., n, m) and (..., m, l), from left to right."""
    for other in others:
        terms = first[..., :, :, None] * other[..., None, :, :]
        first = np.asarray(np.add.reduce(terms, axis=-2))
    return first


def transformed(matrix: FloatArray, vectors: FloatArray) -> FloatArray:
    """Return the products (..., n) of matrices (..., n, m) with vectors (..., m)."""
    return np.asarray(np.add.reduce(matrix * vectors[..., None, :], axis=-1))


def length(vectors: FloatArray) -> FloatArray:
    """Return the Euclidean lengths (...) of vectors (..., n)."""
    return np.asarray(np.sqrt(np.add.reduce(vectors * vectors, axis=-1)))


def orthonormal_rows(matrices: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return an orthonormal basis (..., n, m) of the rows of matrices (..., n, m), n <= m, and lengths (..., n).

    The projection of each row onto the rows above it is subtracted (Gram-Schmidt, done twice because of rounding).
    `lengths` contains the lengths of the resulting rows before they are normalised. Their product is the product of the
    singular values. If a row depends linearly on the rows above it, its length is 0 up to rounding.
    """
    basis, lengths = np.array(matrices, dtype=np.float64), np.empty(matrices.shape[:-1])
    for i in range(matrices.shape[-2]):
        row = basis[..., i, :]
        for _ in range(2):
            for j in range(i):
                along = np.add.reduce(row * basis[..., j, :], axis=-1)
                row -= along[..., None] * basis[..., j, :]
        lengths[..., i] = length(row)
        row /= np.where(lengths[..., i] > 0.0, lengths[..., i], 1.0)[..., None]
    return basis, lengths
