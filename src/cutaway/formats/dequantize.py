"""Values of a tensor from its raw bytes: all at once, or split into codes, scales and minimums.

The bits are those of the gguf Python package (NaNs: a NaN wherever it has one).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from cutaway.errors import FormatError, UnsupportedError
from cutaway.formats.bits import F32, I8, U8
from cutaway.formats.block_codes import SPLITS
from cutaway.formats.blocks import BLOCKS, tensor_bytes

# Elements unpacked at a time: temporaries stay in the cache and small.
_CHUNK = 1 << 17

# Types that NumPy reads as they are.
_PLAIN: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "F64": np.dtype("<f8"),
    "I8": np.dtype("i1"), "I16": np.dtype("<i2"), "I32": np.dtype("<i4"), "I64": np.dtype("<i8"),
    "U8": np.dtype("u1"), "U16": np.dtype("<u2"), "U32": np.dtype("<u4"), "U64": np.dtype("<u8"), "BOOL": np.dtype("?"),
}  # fmt: skip
# Types that ml_dtypes adds.
_SMALL = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}


@dataclass(frozen=True, slots=True)
class Codes:
    """A quantized matrix: value = scale * code - minimum, in float32 and in this order (exact: see block_codes).

    codes: int8 [rows, inputs]. scale: float32 [rows, inputs / group]. minimum: like scale, or None for none.
    group: consecutive inputs that share a scale.
    """

    codes: I8
    scale: F32
    minimum: F32 | None
    group: int


def decompose(type: str, raw: U8, shape: tuple[int, ...]) -> Codes:
    """Split a quantized tensor; leading axes of `shape` are flattened to rows.

    Raises UnsupportedError if the type has no codes, FormatError if `raw` does not fit the shape.
    """
    if type not in SPLITS:
        raise UnsupportedError(f"tensor type {type} has no codes")
    _check_size(type, raw, shape)
    elements, size = BLOCKS[type]
    with np.errstate(all="ignore"):
        codes, scale, minimum = SPLITS[type](np.ascontiguousarray(raw).reshape(-1, size))
    rows = prod(shape[:-1])
    return Codes(
        codes=codes.reshape(rows, shape[-1]),
        scale=scale.reshape(rows, -1),
        minimum=None if minimum is None else minimum.reshape(rows, -1),
        group=elements // scale.shape[1],
    )


def dequantize(type: str, raw: U8, shape: tuple[int, ...]) -> F32:
    """Values of a tensor: float32 of `shape` (row-major), a new array. raw: uint8 [bytes].

    F64 and 64-bit integers are rounded to float32. Raises UnsupportedError for an unknown type, FormatError if `raw`
    does not fit the shape.
    """
    _check_size(type, raw, shape)
    with np.errstate(all="ignore"):  # damaged scales may be infinite or NaN; the code that uses the values checks them
        if type not in SPLITS:
            return raw.view(_dtype(type)).astype(np.float32).reshape(shape)
        return _values(type, np.ascontiguousarray(raw)).reshape(shape)


def _dtype(type: str) -> np.dtype[Any]:
    if type in _PLAIN:
        return _PLAIN[type]
    import ml_dtypes  # here, because most files are quantized and a start should not wait for it

    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _SMALL[type]))
    return dtype


def _values(type: str, raw: U8) -> F32:
    elements, size = BLOCKS[type]
    split, blocks = SPLITS[type], raw.reshape(-1, size)
    values = np.empty((len(blocks), elements), np.float32)
    step = max(1, _CHUNK // elements)
    for begin in range(0, len(blocks), step):
        codes, scale, minimum = split(blocks[begin : begin + step])
        groups = (len(codes), scale.shape[1], -1)
        out = values[begin : begin + step].reshape(groups)
        np.multiply(scale[..., None], codes.reshape(groups), out=out)
        if minimum is not None:
            np.subtract(out, minimum[..., None], out=out)
    return values


def _check_size(type: str, raw: U8, shape: tuple[int, ...]) -> None:
    needed = tensor_bytes(type, shape)
    if raw.ndim != 1 or raw.size != needed:
        raise FormatError(f"{type} of shape {shape} needs {needed} bytes, there are {raw.size}")
