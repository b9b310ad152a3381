"""Matrices of model files as packed weights of the CPU backend (csrc/kernels/layout.h, pack.h)."""

from __future__ import annotations

from typing import Any

import numpy as np

from cutaway.errors import UnsupportedError
from cutaway.formats import decompose, dequantize
from cutaway.native import _native
from cutaway.ops.protocol import F32, Matrix

# GGUF's numbers of the types that csrc/kernels/pack.h moves block by block. Other types are converted to codes.
TYPE_NUMBERS = {
    "F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8, "Q2_K": 10, "Q3_K": 11, "Q4_K": 12,
    "Q5_K": 13, "Q6_K": 14, "BF16": 30,
}  # fmt: skip


class PackedWeight:
    """A packed matrix."""

    __slots__ = ("packed", "type")

    def __init__(self, packed: Any, type: str) -> None:
        self.packed = packed
        self.type = type

    @property
    def rows(self) -> int:
        return int(self.packed.rows)

    @property
    def inputs(self) -> int:
        return int(self.packed.inputs)

    @property
    def nbytes(self) -> int:
        return int(self.packed.nbytes)


def pack(team: Any, matrix: Matrix, bias: F32 | None) -> PackedWeight:
    """Move a matrix's blocks into panels without loss."""
    bias = None if bias is None else np.ascontiguousarray(bias, np.float32)
    if matrix.type in TYPE_NUMBERS:
        raw = np.ascontiguousarray(matrix.raw).reshape(-1)
        packed = _native.pack(team, TYPE_NUMBERS[matrix.type], raw, matrix.rows, matrix.inputs, bias)
    elif matrix.type == "F64":
        values = dequantize("F64", matrix.raw, (matrix.rows, matrix.inputs))
        packed = _native.pack(team, 0, values.reshape(-1).view(np.uint8), matrix.rows, matrix.inputs, bias)
    else:
        packed = pack_codes(team, matrix, bias)
    return PackedWeight(packed, matrix.type)


def pack_codes(team: Any, matrix: Matrix, bias: F32 | None) -> Any:
    """Pack a type without a layout of its own: signed codes, through a table of 16 if there are that few, and float
    scales."""
    parts = decompose(matrix.type, matrix.raw, (matrix.rows, matrix.inputs))
    if parts.minimum is not None or parts.group % 16:
        raise UnsupportedError(f"tensor type {matrix.type} has no kernel layout")
    group = 16 if parts.group % 32 else 32
    scales = np.repeat(parts.scale, parts.group // group, axis=1) if parts.group > group else parts.scale
    unsigned = (parts.codes.astype(np.int16) + 128).astype(np.uint8)
    values, table = np.flatnonzero(np.bincount(unsigned.reshape(-1), minlength=256)), None
    if len(values) <= 16:
        table = np.resize(values.astype(np.uint8), 16)
        index = np.zeros(256, np.uint8)
        index[values] = np.arange(len(values), dtype=np.uint8)
        unsigned = index[unsigned]
    return _native.pack_codes(team, -1, unsigned, np.ascontiguousarray(scales), table, bias)
