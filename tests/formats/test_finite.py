"""A NaN or an infinity is found in the bytes of every type, where dequantizing would show it first."""

from __future__ import annotations

import numpy as np
import pytest

from cutaway.formats import BLOCKS, dequantize, first_not_finite
from cutaway.formats.block_codes import SPLITS
from tiny import sane_blocks

FLOATS = ("F32", "F16", "BF16", "F64", "F8_E4M3", "F8_E5M2")
SCALED = sorted(SPLITS.keys() - {"MXFP4", "NVFP4"})


@pytest.mark.parametrize("type", SCALED)
def test_blocks(type: str) -> None:
    """Random bytes put in at random places: what is found is the first block whose values are not all finite."""
    rng = np.random.default_rng(5)
    elements, size = BLOCKS[type]
    seen = 0
    for _ in range(30):
        blocks = sane_blocks(type, 40, rng)
        assert first_not_finite(type, blocks.reshape(-1)) is None
        first, second = rng.choice(40, 2, replace=False)
        blocks[first] = 0xFF  # every half of it is a NaN
        blocks[second] = rng.integers(0, 256, size, dtype=np.uint8)
        values = dequantize(type, blocks.reshape(-1), (40, elements))
        bad = ~np.isfinite(values).all(1)
        assert bad.any() and first_not_finite(type, blocks.reshape(-1)) == int(bad.argmax()) * elements
        seen += int(bad.sum())
    assert seen >= 30


@pytest.mark.parametrize("type", ["MXFP4", "NVFP4"])
def test_small_floats(type: str) -> None:
    """NVFP4's scales have no NaN; E8M0 has one, 255, which MXFP4's definition calls so."""
    elements = BLOCKS[type][0]
    blocks = sane_blocks(type, 40, np.random.default_rng(5))
    assert first_not_finite(type, blocks.reshape(-1)) is None
    blocks[7, 0] = 255
    expected = 7 * elements if type == "MXFP4" else None
    assert first_not_finite(type, blocks.reshape(-1)) == expected


@pytest.mark.parametrize("type", FLOATS)
def test_floats(type: str) -> None:
    """Every pattern of the small ones; the largest, the infinities and NaNs of the others."""
    size = BLOCKS[type][1]
    if size <= 2:
        words = np.arange(256**size, dtype=f"<u{size}")
    else:
        kind = np.dtype(f"<f{size}")
        most = np.finfo(kind).max
        words = np.array([0, -0.0, most, -most, np.inf, -np.inf, np.nan, -np.nan], kind)
    for word in words:
        raw = np.concatenate([np.zeros(3, words.dtype), [word]]).astype(words.dtype).view(np.uint8)
        with np.errstate(all="ignore"):
            finite = bool(np.isfinite(raw.view("<f8")).all() if type == "F64" else np.isfinite(
                dequantize(type, raw, (4,))).all())  # fmt: skip
        assert first_not_finite(type, raw) == (None if finite else 3), hex(int(word)) if size <= 2 else word


def test_integers_are_finite_and_no_values_too() -> None:
    assert first_not_finite("I32", np.full(8, 255, np.uint8)) is None
    for type in ("F32", "Q8_0", "IQ1_M"):
        assert first_not_finite(type, np.zeros(0, np.uint8)) is None
