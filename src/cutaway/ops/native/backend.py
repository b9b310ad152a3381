"""The CPU backend: the decoder runs once to record it, then a step is one call into C++ (csrc/runtime).

Recording and driving use the same C++ operations. A recorded step runs them all in one call with the GIL released; the
Python-driven path (`drive`) adds and runs one operation at a time, so that every value between them can be inspected.
Weight layouts, rounding and the order of every sum: csrc/kernels/layout.h, tile.h, attention.h.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any

import numpy as np

from cutaway.errors import ParameterError, UnsupportedError
from cutaway.native import _native
from cutaway.ops.backend import Description, StepLimits
from cutaway.ops.host_memory import available_memory
from cutaway.ops.native.outline import NativeOutline
from cutaway.ops.native.packing import TYPE_NUMBERS, pack, pack_codes
from cutaway.ops.native.recording import Observer, RecordedStep, Recording, Value
from cutaway.ops.protocol import F32, Forward, KVLayout, Matrix, Step, Weight
from cutaway.ops.smt_gain import siblings_gain
from cutaway.ops.thread_count import Threads, choose_threads

KV_NUMBERS = {"f32": 0, "bf16": 1, "int8": 2, "fp8": 3}

LIMITS = StepLimits()


class NativeBackend:
    """The backend.

    threads: the maximum number that take part in a step (default: see thread_count.py). adapts: fewer take part while
    other programs need the cores (bits never depend on it). max_tokens, max_rows: the largest step. instruction_set:
    "avx512", "avxvnni", "avx2" or "plain"; default: $CUTAWAY_ISA, otherwise the best that the machine has.
    """

    name = "native"

    def __init__(
        self,
        *,
        threads: int | Threads | None = None,
        adapts: bool = True,
        max_tokens: int = LIMITS.tokens,
        max_rows: int = LIMITS.rows,
        instruction_set: str | None = None,
    ) -> None:
        asked = os.environ.get("CUTAWAY_ISA", "") if instruction_set is None else instruction_set
        try:
            self.instruction_set: str = _native.instruction_set(asked)
        except ValueError as error:
            raise ParameterError(
                f"instruction set {asked!r}: {error}", hint="unset CUTAWAY_ISA to use the best there is"
            ) from None
        if isinstance(threads, int):
            threads = Threads(threads, "as requested")
        if threads is not None and threads.count < 1:
            raise ParameterError(f"threads is {threads.count}; it must be at least 1")
        self.limits = StepLimits(max_tokens, max_rows)
        self._chosen, self._adapts = threads, adapts

    @cached_property
    def threads(self) -> Threads:
        """The maximum number of threads in a step. If it is not given, this may measure for about 50 ms."""
        return self._chosen or choose_threads(gain=siblings_gain)

    @cached_property
    def team(self) -> Any:
        """The threads, started on first use."""
        return _native.Team(self.threads.count, self._adapts)

    def describe(self) -> Description:
        return Description(self.instruction_set, self.threads)

    def free_memory(self) -> int | None:
        return available_memory()

    def weight(self, matrix: Matrix, bias: F32 | None = None) -> Weight:
        return pack(self.team, matrix, bias)

    def table(self, matrix: Matrix) -> Any:
        if matrix.type in TYPE_NUMBERS and matrix.raw.flags.c_contiguous:
            return _native.table(TYPE_NUMBERS[matrix.type], matrix.raw.reshape(-1), matrix.rows, matrix.inputs)
        return _native.table_of(pack_codes(self.team, matrix, None))

    def open_cache(self, layout: KVLayout) -> list[Any]:
        if layout.head_dim % 2:
            raise UnsupportedError(f"head_dim {layout.head_dim} is odd: the CPU backend stores keys in pairs")
        if layout.page_size % 16:
            raise ParameterError(f"page_size is {layout.page_size}; it must be a multiple of 16")
        layers: dict[int, Any] = {}
        for index, group in enumerate(layout.groups):
            pool = _native.PagePool(
                index, group.pages, len(group.layers), layout.kv_heads, layout.head_dim, layout.page_size,
                KV_NUMBERS[layout.key_type], KV_NUMBERS[layout.value_type],
            )  # fmt: skip
            layers |= {layer: _native.Pages(pool, place) for place, layer in enumerate(group.layers)}
        return [layers[i] for i in range(len(layers))]

    def outline(self) -> NativeOutline:
        return NativeOutline(self.team, self._program, self.open_cache)

    def record(self, forward: Forward) -> RecordedStep:
        recording = Recording(self._program())
        out: Value = forward(recording, _NO_STEP)
        return RecordedStep(recording, out, self.team)

    def drive(self, forward: Forward, step: Step, observe: Observer | None = None) -> F32:
        """One step, operation by operation from Python, for inspection: slower, same bits. Returns logits, float32
        [rows, vocab]."""
        recording = Recording(self._program(), step, observe)
        out: Value = forward(recording, step)
        return np.array(recording.program.view(out.buffer, len(step.rows)))

    def _program(self) -> Any:
        return _native.Program(self.team, self.instruction_set, self.limits.tokens, self.limits.rows)


_NOTHING = np.zeros(0, np.int32)
_NO_STEP = Step(_NOTHING, _NOTHING, _NOTHING, (), _NOTHING)
