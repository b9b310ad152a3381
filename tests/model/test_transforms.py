"""Row transforms on raw bytes, against the same on numbers, for types whose rows are whole blocks."""

from __future__ import annotations

import numpy as np
import pytest

from cutaway.errors import UnsupportedError
from cutaway.formats import BLOCKS, dequantize
from cutaway.model.transforms import half_order, per_head_order, pick_rows, row_range, stack_member, transpose
from cutaway.ops.protocol import Matrix

TYPES = ["F32", "F16", "BF16", "Q4_0", "Q5_1", "Q8_0", "Q4_K", "Q6_K", "IQ4_XS", "MXFP4"]


def random_matrix(type: str, rows: int, inputs: int) -> Matrix:
    elements, size = BLOCKS[type]
    raw = np.random.default_rng(rows).integers(0, 60, rows * inputs // elements * size, dtype=np.uint8)
    return Matrix(type, raw, rows, inputs)


def numbers(matrix: Matrix) -> np.ndarray:
    return dequantize(matrix.type, matrix.raw, (matrix.rows, matrix.inputs))


@pytest.mark.parametrize("type", TYPES)
def test_rows_move_losslessly(type: str) -> None:
    matrix = random_matrix(type, 24, 256)
    order = np.random.default_rng(0).permutation(24)
    np.testing.assert_array_equal(numbers(pick_rows(matrix, order)), numbers(matrix)[order])
    np.testing.assert_array_equal(numbers(row_range(matrix, 5, 7)), numbers(matrix)[5:12])
    np.testing.assert_array_equal(numbers(stack_member(matrix, 2, 3)), numbers(matrix)[16:24])


def test_ranges_are_views() -> None:
    matrix = random_matrix("Q8_0", 24, 32)
    assert np.shares_memory(row_range(matrix, 5, 7).raw, matrix.raw)


@pytest.mark.parametrize(("heads", "head_dim"), [(1, 2), (3, 8), (5, 10)])
def test_half_order_undoes_the_converters_permutation(heads: int, head_dim: int) -> None:
    rows = np.arange(heads * head_dim)
    permuted = rows.reshape(heads, 2, head_dim // 2).swapaxes(1, 2).reshape(-1)
    np.testing.assert_array_equal(permuted[half_order(heads, head_dim)], rows)


def test_half_order_brings_neighbours_apart() -> None:
    """In the file, 2j and 2j + 1 of a head turn together; here j and j + half do."""
    assert half_order(2, 6).tolist() == [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]


def test_per_head_order() -> None:
    assert per_head_order(2, 2, 0).tolist() == [0, 1, 6, 7]
    assert per_head_order(2, 2, 2).tolist() == [4, 5, 10, 11]


@pytest.mark.parametrize("type", ["F32", "F16", "BF16"])
def test_transpose(type: str) -> None:
    matrix = random_matrix(type, 6, 10)
    turned = transpose(matrix)
    assert (turned.rows, turned.inputs) == (10, 6)
    np.testing.assert_array_equal(numbers(turned), numbers(matrix).T)


def test_a_quantized_matrix_cannot_be_transposed() -> None:
    with pytest.raises(UnsupportedError, match="Q8_0"):
        transpose(random_matrix("Q8_0", 32, 32))
