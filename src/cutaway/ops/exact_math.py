"""Functions and sums that are equal on every processor: evaluated in float64 and rounded to float32 once.

NumPy chooses its exp and tanh, and BLAS the order of its sums, by the processor. In float32 the results differ in their
last bit, and the rounding of an activation or a key to a code can make that as large as the step between two codes. In
float64 they differ by 1e-16, which a rounding to float32 shows about once in 10^8 values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.ops.protocol import F32

_ROWS = 4096  # of a matrix, turned to float64 at once


def exp(x: NDArray[Any]) -> F32:
    """e^x; inf where it is larger than any float32."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return np.asarray(np.exp(_wide(x)).astype(np.float32))


def tanh(x: NDArray[Any]) -> F32:
    return np.asarray(np.tanh(_wide(x)).astype(np.float32))


def mean(x: NDArray[Any]) -> F32:
    """Over the last axis, which is kept."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(_wide(x).mean(-1, keepdims=True).astype(np.float32))


def total(x: NDArray[Any]) -> F32:
    """The sum over the last axis, which is kept."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(_wide(x).sum(-1, keepdims=True).astype(np.float32))


def multiply(x: F32, matrix: F32) -> F32:
    """x [tokens, inputs] times matrix [rows, inputs]: [tokens, rows]."""
    wide, out = _wide(x), np.empty((len(x), len(matrix)), np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(matrix), _ROWS):
            out[:, start : start + _ROWS] = wide @ _wide(matrix[start : start + _ROWS]).T
    return out


def contract(subscripts: str, a: F32, b: F32) -> F32:
    """np.einsum of two arrays."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.einsum(subscripts, _wide(a), _wide(b)).astype(np.float32))


def _wide(x: Any) -> NDArray[np.float64]:
    return np.asarray(x, np.float64)
