"""The CPU backend's outline: real ops are recorded, over weights that csrc/runtime/weight.h only shapes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from cutaway.formats import BLOCKS, decompose
from cutaway.native import _native
from cutaway.ops.native.packing import TYPE_NUMBERS, PackedWeight
from cutaway.ops.native.recording import Recording, Value
from cutaway.ops.outline import Packed, Scratch, add_packed
from cutaway.ops.protocol import F32, Forward, KVLayout, Matrix, Step

_NOTHING = np.zeros(0, np.int32)
_NO_STEP = Step(_NOTHING, _NOTHING, _NOTHING, (), _NOTHING)


class NativeOutline:
    """See ops/outline.py. open_cache: as the backend's own."""

    copies = 2  # the decoder's arrays, and the vectors of the recorded ops
    pool_bytes = 64  # a pool ends with a line that readers may ask for

    def __init__(self, team: Any, program: Any, open_cache: Any) -> None:
        self.packed: dict[str, Packed] = {}
        self.bias_bytes = 0
        self._team, self._program, self._open_cache = team, program, open_cache

    def weight(self, matrix: Matrix, bias: F32 | None = None) -> PackedWeight:
        made = self._outline(matrix, bias is not None)
        add_packed(self.packed, matrix, int(made.held))
        self.bias_bytes += int(made.bias_bytes)
        return PackedWeight(made, matrix.type)

    def table(self, matrix: Matrix) -> Any:
        made = self._outline(matrix, False)
        if matrix.type not in TYPE_NUMBERS:  # such rows are not read in the file, but from codes (see backend.py)
            add_packed(self.packed, matrix, int(made.held))
        return _native.table_of(made)

    def open_cache(self, layout: KVLayout) -> list[Any]:
        return list(self._open_cache(layout))

    def record(self, forward: Forward) -> Callable[[int], Scratch]:
        recording = Recording(self._program())
        out: Value = forward(recording, _NO_STEP)
        row = 4 * int(recording.program.width(out.buffer))

        def scratch(tokens: int) -> Scratch:
            values, shared, worker = recording.program.scratch_plan(tokens)
            return Scratch(values, shared, worker * self._team.threads, row)

        return scratch

    def _outline(self, matrix: Matrix, biased: bool) -> Any:
        kind = "F32" if matrix.type == "F64" else matrix.type
        number, sub = TYPE_NUMBERS.get(kind, -1), 0 if kind in TYPE_NUMBERS else group_of(kind)
        return _native.outline(self._team, number, sub, matrix.rows, matrix.inputs, biased)


@cache
def group_of(type: str) -> int:
    """Inputs that share a scale where a type is packed as codes through a table: 16 or 32 (packing.pack_codes)."""
    elements, size = BLOCKS[type]
    group = decompose(type, np.zeros(size, np.uint8), (1, elements)).group
    return 16 if group % 32 else 32
