"""Unpacking of small fields from blocks of bytes, [blocks, bytes], with the last axis free to grow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

I8 = NDArray[np.int8]
U8 = NDArray[np.uint8]
U16 = NDArray[np.uint16]
U32 = NDArray[np.uint32]
F32 = NDArray[np.float32]

# Shifts that bring the fields of a byte to its low end, lowest field first.
NIBBLES = np.array([0, 4], np.uint8)
PAIRS = np.array([0, 2, 4, 6], np.uint8)
BITS = np.arange(8, dtype=np.uint8)


def half(blocks: U8, at: int) -> F32:
    """The f16 at a byte of each block: [blocks, 1]."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)


def u16(packed: U8) -> U16:
    """Little-endian: [blocks, bytes / 2]."""
    return np.ascontiguousarray(packed).view("<u2")


def u32(packed: U8) -> U32:
    """Little-endian: [blocks, bytes / 4]."""
    return np.ascontiguousarray(packed).view("<u4")


def planes(packed: U8, run: int, shifts: U8, mask: int) -> U8:
    """Codes stored `len(shifts)` to a byte: a run of bytes holds the first code of each, then the second, ...

    packed: [blocks, bytes]; returns [blocks, bytes * len(shifts)].
    """
    runs = packed.reshape(len(packed), -1, 1, run) >> shifts[:, None]
    return (runs & np.uint8(mask)).reshape(len(packed), -1)


def nibbles(packed: U8) -> U8:
    """Consecutive nibbles, low first: [blocks, 2 * bytes]."""
    return planes(packed, 1, NIBBLES, 15)


def signed(codes: U8, offset: int) -> I8:
    """codes - offset."""
    return codes.view(np.int8) - np.int8(offset)
