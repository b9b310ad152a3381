"""The reference as a backend: weights as float32, keys and values as float32 arrays, a step in plain NumPy calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cutaway.formats import dequantize
from cutaway.ops.backend import Description, StepLimits
from cutaway.ops.host_memory import available_memory
from cutaway.ops.outline import Packed, Scratch, add_packed
from cutaway.ops.protocol import F32, Forward, KVLayout, Matrix, Step
from cutaway.ops.reference import ReferenceOps, ReferencePages, ReferenceWeight
from cutaway.ops.rounding import ROUND
from cutaway.ops.rows import HostRows
from cutaway.ops.thread_count import Threads


@dataclass(slots=True)
class ReferenceBackend(ReferenceOps):
    """quantize_cache: store keys and values in the layout's types; None: as quantize_activations, else everything is
    float32. It computes each step as it comes, so it is its own recording."""

    quantize_cache: bool | None = None
    name: str = field(default="reference", init=False)
    limits: StepLimits = field(default=StepLimits(), init=False)

    def weight(self, matrix: Matrix, bias: F32 | None = None) -> ReferenceWeight:
        values = dequantize(matrix.type, matrix.raw, (matrix.rows, matrix.inputs))
        return ReferenceWeight(matrix.type, values, bias)

    def table(self, matrix: Matrix) -> Matrix:
        return matrix

    def open_cache(self, layout: KVLayout) -> list[ReferencePages]:
        rounds = self.quantize_activations if self.quantize_cache is None else self.quantize_cache
        round_key, round_value = (ROUND[t if rounds else "f32"] for t in (layout.key_type, layout.value_type))
        layers: dict[int, ReferencePages] = {}
        for index, group in enumerate(layout.groups):
            shape = (group.pages, layout.page_size, layout.kv_heads, layout.head_dim)
            for layer in group.layers:
                keys, values = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
                layers[layer] = ReferencePages(keys, values, index, round_key, round_value)
        return [layers[i] for i in range(len(layers))]

    def record(self, forward: Forward) -> Callable[[Step], HostRows]:
        def run(step: Step) -> HostRows:
            return HostRows(np.asarray(forward(self, step.without_adapters()), dtype=np.float32))

        return run

    def outline(self) -> ReferenceOutline:
        return ReferenceOutline(self.limits.tokens, self.limits.rows)

    def free_memory(self) -> int | None:
        return available_memory()

    def describe(self) -> Description:
        return Description("reference", Threads(1, "as NumPy does"))


@dataclass(frozen=True, slots=True)
class _Shape:
    """A weight that has no values."""

    type: str
    rows: int
    inputs: int

    @property
    def nbytes(self) -> int:
        return 4 * self.rows * self.inputs


@dataclass(slots=True)
class ReferenceOutline:
    """Weights are float32; what a step holds is up to NumPy: the widest rows that live at once are counted."""

    tokens: int
    rows: int
    packed: dict[str, Packed] = field(default_factory=dict)
    bias_bytes: int = 0
    copies: int = 1
    pool_bytes: int = 0
    _widest: int = 0
    _vocab: int = 0

    def weight(self, matrix: Matrix, bias: F32 | None = None) -> _Shape:
        made = _Shape(matrix.type, matrix.rows, matrix.inputs)
        add_packed(self.packed, matrix, made.nbytes)
        self.bias_bytes += 0 if bias is None else bias.nbytes
        if matrix.rows != self._vocab:
            self._widest = max(self._widest, matrix.rows, matrix.inputs)
        return made

    def table(self, matrix: Matrix) -> Matrix:
        self._vocab = matrix.rows
        return matrix

    def open_cache(self, layout: KVLayout) -> list[Any]:
        return [None for group in layout.groups for _ in group.layers]

    def record(self, forward: Forward) -> Callable[[int], Scratch]:
        values = 4 * (self.tokens * 8 * self._widest + self.rows * self._vocab)
        return lambda tokens: Scratch(values, 0, 0, 4 * self._vocab)
