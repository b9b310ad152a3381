"""What this machine can do at most, measured: reading memory, and multiply-adds of the instruction set in use.

Memory bandwidth drifts by the hour and with the neighbours, so a limit is only worth something beside a measurement:
work and limit are taken alternately (see `rates`).
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Literal

import numpy as np

from cutaway.native import _native
from cutaway.ops.native.backend import NativeBackend

Arithmetic = Literal["int8", "bf16", "f32"]
ARITHMETICS: tuple[Arithmetic, ...] = ("int8", "bf16", "f32")
SMALLEST_BUFFER = 32 << 20  # less would fit into a core's own cache
LARGEST_BUFFER = 1 << 30
_ROUNDS_OF_SECONDS = 0.004


@dataclass(frozen=True, slots=True)
class Limits:
    """All threads together. bandwidth: bytes a second; the others: operations a second, a multiply-add is two."""

    bandwidth: float
    int8: float
    bf16: float
    f32: float

    def rate(self, kind: Arithmetic) -> float:
        """Operations a second. bf16 never counts for less than float32, into which it can be widened."""
        return max(self.bf16, self.f32) if kind == "bf16" else float(getattr(self, kind))


class Meter:
    """Measures limits with the threads and the instruction set of a backend.

    bytes: how much a pass reads. Take what a step reads: a small model may live in a cache that others share, and then
    memory's own bandwidth would be the wrong limit.
    """

    def __init__(self, backend: NativeBackend, bytes: int = LARGEST_BUFFER) -> None:
        self.team = backend.team
        self.instruction_set = backend.instruction_set
        self.buffer = np.ones(min(max(bytes, SMALLEST_BUFFER), LARGEST_BUFFER), np.uint8)
        self.rounds = {kind: self._rounds(kind) for kind in ARITHMETICS}

    def bandwidth(self) -> float:
        """One pass over the buffer."""
        return float(_native.read_limit(self.team, self.instruction_set, self.buffer))

    def rate(self, kind: Arithmetic) -> float:
        """A few milliseconds of work. 0: the instruction set has no such arithmetic."""
        return float(_native.multiply_limit(self.team, self.instruction_set, kind, self.rounds[kind]))

    def once(self) -> Limits:
        """About as quick as can be: the first pass only brings the buffer back to where it lies in steady reading."""
        self.bandwidth()
        return Limits(median(self.bandwidth() for _ in range(3)), *(self.rate(kind) for kind in ARITHMETICS))

    def _rounds(self, kind: Arithmetic) -> int:
        """How many rounds take a few milliseconds."""
        operations = max(_native.multiply_limit(self.team, self.instruction_set, kind, 1000) for _ in range(3))
        per_round = _OPERATIONS[kind].get(self.instruction_set, _OPERATIONS[kind][""]) * self.team.threads
        return max(1, int(operations * _ROUNDS_OF_SECONDS / per_round))


# Operations of one round of csrc/kernels/limits.h.
_OPERATIONS: dict[str, dict[str, int]] = {
    "int8": {"amx": 131072, "avx512": 1536, "": 768},
    "bf16": {"amx": 65536, "": 768},
    "f32": {"amx": 384, "avx512": 384, "": 192},
}


def middle(all: list[Limits]) -> Limits:
    """The median of each."""
    return Limits(*(median(getattr(one, name) for one in all) for name in ("bandwidth", *ARITHMETICS)))
