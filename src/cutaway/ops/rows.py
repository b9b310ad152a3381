"""The rows that a step gave, where the backend keeps them: one can be looked at, and tokens are drawn there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cutaway.native import _native
from cutaway.ops.protocol import F32

Draw = tuple[int, float, int, float, float, int]
"""Row, 1 / temperature (0: the best token), top_k, top_p, min_p, 53 random bits."""


class Rows(Protocol):
    """Logits of a step, good until the next one."""

    def __len__(self) -> int: ...

    def row(self, index: int) -> F32:
        """float32 [vocab]. It may be the backend's own memory: copy what must last, and change nothing in place."""
        ...

    def draw(self, draws: Sequence[Draw]) -> list[int]:
        """A token for each, or the fault of its row, below 0 (csrc/kernels/select.h): a row that fails fails alone."""
        ...


@dataclass(frozen=True, slots=True)
class HostRows:
    """Rows in this process's memory. values: float32 [rows, width]. team: the threads that draw; None: the caller's."""

    values: F32
    team: Any = None

    def __len__(self) -> int:
        return len(self.values)

    def row(self, index: int) -> F32:
        row: F32 = self.values[index]
        return row

    def draw(self, draws: Sequence[Draw]) -> list[int]:
        return list(_native.draw_rows(self.team, np.ascontiguousarray(self.values, np.float32), list(draws)))
