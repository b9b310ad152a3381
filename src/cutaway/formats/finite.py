"""Where a tensor holds a NaN or an infinity, found in its raw bytes: in floats themselves, else in scales of blocks.

Source: ggml's block structs (block_codes.py has them in words).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.formats.bits import U8
from cutaway.formats.blocks import BLOCKS

# Floats -> (the same as unsigned integers, bits of the exponent).
_EXPONENT: dict[str, tuple[str, int]] = {
    "F32": ("<u4", 0x7F800000), "F16": ("<u2", 0x7C00), "BF16": ("<u2", 0x7F80), "F64": ("<u8", 0x7FF << 52),
    "F8_E5M2": ("<u1", 0x7C), "F8_E4M3": ("<u1", 0x7F),  # the latter has no infinity, and one NaN of each sign
}  # fmt: skip
# Type -> where in a block its halves (f16) stand. Other types have scales that are always finite.
_HALVES: dict[str, tuple[int, ...]] = {
    "Q1_0": (0,), "Q2_0": (0,), "Q4_0": (0,), "Q5_0": (0,), "Q8_0": (0,), "IQ4_NL": (0,), "IQ4_XS": (0,),
    "Q4_1": (0, 2), "Q5_1": (0, 2), "Q4_K": (0, 2), "Q5_K": (0, 2),
    "Q2_K": (80, 82), "Q3_K": (108,), "Q6_K": (208,), "TQ1_0": (52,), "TQ2_0": (64,),
    "IQ1_S": (0,), "IQ2_XXS": (0,), "IQ2_XS": (0,), "IQ2_S": (0,), "IQ3_XXS": (0,), "IQ3_S": (0,),
}  # fmt: skip
_CHUNK = 1 << 20


def first_not_finite(type: str, raw: U8) -> int | None:
    """The element (for blocks: the first of its block) that is the first to be NaN or infinite; None: all are finite.

    raw: uint8 [bytes], whole blocks.
    """
    elements, size = BLOCKS[type]
    if type in _EXPONENT:
        name, exponent = _EXPONENT[type]
        return _first(raw.view(name), exponent)
    if type == "MXFP4":
        found = _first(np.ascontiguousarray(raw.reshape(-1, size)[:, 0]), 0xFF)  # the NaN of E8M0
        return None if found is None else found * elements
    if type == "IQ1_M":
        found = _first(_iq1_m_scales(raw.reshape(-1, size)), 0x7C00)
        return None if found is None else found * elements
    places = [_first(_column(raw.reshape(-1, size), at), 0x7C00) for at in _HALVES.get(type, ())]
    found = min((place for place in places if place is not None), default=None)
    return None if found is None else found * elements


def _first(words: NDArray[np.unsignedinteger[Any]], exponent: int) -> int | None:
    mask = words.dtype.type(exponent)
    for begin in range(0, len(words), _CHUNK):
        bits = words[begin : begin + _CHUNK] & mask
        if bits.max() == mask:
            return begin + int((bits == mask).argmax())
    return None


def _column(blocks: U8, at: int) -> NDArray[np.uint16]:
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<u2")[:, 0]


def _iq1_m_scales(blocks: U8) -> NDArray[np.uint16]:
    """Its half is spread over the top four bits of four words."""
    words = np.ascontiguousarray(blocks[:, 48:56]).view("<u2")
    nibbles = words >> np.uint16(12) << np.array([0, 4, 8, 12], np.uint16)
    half: NDArray[np.uint16] = np.bitwise_or.reduce(nibbles, axis=1)
    return half
