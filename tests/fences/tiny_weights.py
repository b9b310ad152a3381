"""Weights that are the same on every machine: integers hashed by SplitMix64, scaled by exact operations.

No random generator and no vectorized mathematics of NumPy or torch takes part, whose results may differ between
processors and versions.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np

from cutaway.formats import BLOCKS, Tensor

# Per quantized type: where its float16 scale lies in a block, where its minimum lies (None: it has none), and the
# spread of a value whose scale is 1.
SCALES: dict[str, tuple[int, int | None, float]] = {
    "Q4_0": (0, None, 4.6),
    "Q4_1": (0, 2, 4.6),
    "Q5_0": (0, None, 9.2),
    "Q5_1": (0, 2, 9.2),
    "Q8_0": (0, None, 74.0),
    "Q2_K": (80, 82, 8.0),
    "Q3_K": (108, None, 42.0),
    "Q4_K": (0, 2, 150.0),
    "Q5_K": (0, 2, 300.0),
    "Q6_K": (208, None, 1300.0),
    "IQ4_NL": (0, None, 70.0),
    "IQ4_XS": (0, None, 1260.0),
}
MINIMUM = {"Q4_1": -7.5, "Q5_1": -15.5, "Q2_K": 1.5, "Q4_K": 7.5, "Q5_K": 15.5}  # times the scale


def bits(key: str, count: int) -> np.ndarray:
    """uint64 [count], a function of the key alone."""
    seed = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little")
    x = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def evenly(key: str, count: int, width: float, middle: float = 0.0) -> np.ndarray:
    """float32 [count], evenly spread over middle - width to middle + width."""
    unit = (bits(key, count) >> np.uint64(40)).astype(np.float64) / 2**23 - 1
    return (middle + width * unit).astype(np.float32)


def vector(name: str, shape: tuple[int, ...], middle: float, key: str) -> Tensor:
    """A norm's weight or a bias."""
    values = evenly(key, math.prod(shape), 0.5, middle)
    return Tensor(name, "F32", shape, values.view(np.uint8))


def matrix(name: str, type: str, shape: tuple[int, ...], key: str, gain: float = 1.0) -> Tensor:
    """A matrix whose rows multiply a vector of ones' size to one of `gain` times that size."""
    count, spread = math.prod(shape), gain * shape[-1] ** -0.5
    if type not in SCALES:
        values = evenly(key, count, spread * 3**0.5)
        return Tensor(name, type, shape, _as_float(values, type))
    elements, size = BLOCKS[type]
    blocks = bits(key, -(-(count // elements * size) // 8)).view(np.uint8)[: count // elements * size]
    blocks = blocks.reshape(-1, size).copy()
    place, least, unit = SCALES[type]
    scales = spread / unit * (1 + (bits(key + " scales", len(blocks)) >> np.uint64(61)).astype(np.float64) / 8)
    blocks[:, place : place + 2] = scales.astype(np.float16)[:, None].view(np.uint8)
    if least is not None:
        minimum = (MINIMUM[type] * scales).astype(np.float16)
        blocks[:, least : least + 2] = minimum[:, None].view(np.uint8)
    return Tensor(name, type, shape, blocks.reshape(-1))


def _as_float(values: np.ndarray, type: str) -> np.ndarray:
    if type == "F32":
        return values.view(np.uint8)
    if type == "F16":
        return values.astype(np.float16).view(np.uint8)
    assert type == "BF16"
    return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
