"""The gain from two threads per core over one."""

from __future__ import annotations

from functools import cache

import numpy as np

from cutaway.native import _native


@cache
def siblings_gain(few: int, many: int) -> float:
    """How much faster many threads are than few, at reading memory and at multiplying: a measurement of about 50 ms."""
    buffer = np.ones(1 << 26, np.uint8)

    def speed(threads: int) -> float:
        team, isa = _native.Team(threads, False), _native.instruction_set()
        reading = max(_native.read_limit(team, isa, buffer) for _ in range(2))
        multiplying = max(_native.multiply_limit(team, isa, "int8", 100_000) for _ in range(2))
        return float((reading * multiplying) ** 0.5)

    return speed(many) / speed(few)
