"""The limits of this machine, measured: memory bandwidth, and multiply-adds of the instruction set in use.

Memory bandwidth changes by the hour and with the load of other virtual machines, so a limit is only meaningful next to
a measurement: workloads and limits are measured alternately (see `rates`).
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
    """All threads together. bandwidth: bytes per second. The others: operations per second; a multiply-add counts as
    two."""

    bandwidth: float
    int8: float
    bf16: float
    f32: float

    def rate(self, kind: Arithmetic) -> float:
        """Operations per second. bf16 counts at least as much as float32, to which it can be widened."""
        return max(self.bf16, self.f32) if kind == "bf16" else float(getattr(self, kind))


class Meter:
    """Measures limits with the threads and the instruction set of a backend.

    bytes: read in one pass. Use the bytes of a step: a small model may fit into a cache that others share, and then the
    bandwidth of memory would be the wrong limit.
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
        """The fastest pass. The first pass only restores the buffer to its state in steady reading."""
        self.bandwidth()
        return Limits(median(self.bandwidth() for _ in range(3)), *(self.rate(kind) for kind in ARITHMETICS))

    def _rounds(self, kind: Arithmetic) -> int:
        """The number of rounds that take a few milliseconds."""
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
