"""Writes src/cutaway/formats/grids.py from the tables of the gguf package: python tests/formats/make_grids.py.

A grid of the IQ types is a list of points with 4 or 8 coordinates out of 3 or 8 values. Each coordinate is stored as
its index among the values, 2 or 4 bits, first coordinate in the low bits; the bytes are written as base 85.
"""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
from gguf import quants

GRIDS = ("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S")
TARGET = Path(__file__).parents[2] / "src/cutaway/formats/grids.py"

HEAD = '''"""The code points of the IQ types, facts of the file format. Written by tests/formats/make_grids.py.

A grid is int8 [points, coordinates]. A coordinate is stored as its index into the values, 2 bits (4 when there are 8
values), the first in the low bits, the bytes as base 85.
"""

from __future__ import annotations

import base64
from functools import cache

import numpy as np
from numpy.typing import NDArray

# fmt: off
'''
TAIL = '''# fmt: on


@cache
def grid(type: str) -> NDArray[np.int8]:
    """The code points of an IQ type: int8 [points, coordinates]."""
    coordinates, values, text = GRIDS[type]
    bits = 2 if len(values) <= 4 else 4
    packed = np.frombuffer(base64.b85decode(text), np.uint8)
    indexes = (packed[:, None] >> np.arange(0, 8, bits, dtype=np.uint8)) & np.uint8((1 << bits) - 1)
    points: NDArray[np.int8] = np.array(values, np.int8)[indexes.reshape(-1, coordinates)]
    return points
'''


def packed(grid: np.ndarray, values: list[int]) -> bytes:
    """Indexes of the coordinates among the values, 2 or 4 bits each."""
    bits = 2 if len(values) <= 4 else 4
    indexes = np.searchsorted(values, grid.reshape(-1, 8 // bits).astype(int))
    return bytes((indexes << np.arange(0, 8, bits)).sum(axis=1).astype(np.uint8))


def source() -> str:
    """The text of the module."""
    lines = ["GRIDS: dict[str, tuple[int, tuple[int, ...], str]] = {"]
    for name in GRIDS:
        kind = getattr(quants, name)
        kind.init_grid()
        values = sorted(int(value) for value in kind.grid_map)
        text = base64.b85encode(packed(kind.grid, values)).decode()
        lines += [f'    "{name}": (', f"        {kind.grid_shape[1]},", f"        {tuple(values)},"]
        lines += [f'        "{text[at : at + 110]}"' for at in range(0, len(text), 110)]
        lines += ["    ),"]
    return HEAD + "\n".join([*lines, "}"]) + "\n" + TAIL


if __name__ == "__main__":
    TARGET.write_text(source())
