"""What a file's rows must undergo to become ours.

All but the transpose move raw rows: a row is a run of whole quantization blocks, so this is lossless for every type.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cutaway.errors import UnsupportedError
from cutaway.ops.protocol import Matrix

_ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2, "F64": 8}


def row_range(matrix: Matrix, start: int, count: int) -> Matrix:
    """Rows start .. start + count - 1, a view."""
    assert start + count <= matrix.rows
    lines = matrix.raw.reshape(matrix.rows, -1)
    return Matrix(matrix.type, lines[start : start + count].reshape(-1), count, matrix.inputs)


def pick_rows(matrix: Matrix, order: NDArray[np.intp]) -> Matrix:
    """Rows in the given order, a copy."""
    if matrix.raw.strides == (0,):  # an outline's (formats/outline.py): one byte stands for all
        return Matrix(matrix.type, matrix.raw[: matrix.raw.size // matrix.rows * len(order)], len(order), matrix.inputs)
    lines = matrix.raw.reshape(matrix.rows, -1)
    return Matrix(matrix.type, lines[order].reshape(-1), len(order), matrix.inputs)


def half_order(heads: int, head_dim: int) -> NDArray[np.intp]:
    """Row order that undoes GGUF's permutation of the llama family's Q and K.

    There, rows 2j and 2j + 1 of a head are what should be rows j and j + head_dim / 2 (so that ggml can rotate
    neighbours). ours[r] = file[order[r]].
    """
    return np.arange(heads * head_dim).reshape(heads, head_dim // 2, 2).swapaxes(1, 2).reshape(-1)


def per_head_order(heads: int, head_dim: int, part: int) -> NDArray[np.intp]:
    """Rows of Q (part 0), K (1) or V (2) where a fused matrix lies as [heads, 3, head_dim] (BLOOM)."""
    return np.arange(heads * 3 * head_dim).reshape(heads, 3, head_dim)[:, part].reshape(-1)


def transpose(matrix: Matrix) -> Matrix:
    """[rows, inputs] -> [inputs, rows], for float types (GPT-2's Conv1D keeps its matrices the other way round)."""
    size = _ITEM_BYTES.get(matrix.type)
    if size is None:
        raise UnsupportedError(f"a matrix of type {matrix.type} cannot be transposed")
    items = matrix.raw.reshape(matrix.rows, matrix.inputs, size)
    turned = np.ascontiguousarray(items.swapaxes(0, 1)).reshape(-1)
    return Matrix(matrix.type, turned, matrix.inputs, matrix.rows)


def stack_member(matrix: Matrix, index: int, count: int) -> Matrix:
    """Member `index` of `count` equal matrices stacked along rows (experts), a view."""
    rows = matrix.rows // count
    return row_range(matrix, index * rows, rows)
