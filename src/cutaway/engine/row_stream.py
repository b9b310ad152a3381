"""Rows of logits on their way from the engine's thread to whoever looks at a text that is known already."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from time import perf_counter
from types import TracebackType
from typing import Self

from cutaway.errors import CutawayError
from cutaway.ops.protocol import F32

AHEAD_BYTES = 16 << 20  # of rows that were computed and are not yet taken
AHEAD_ROWS = 16  # at most, for what lies here is looked at at once, whoever has come meanwhile
_DECAY = 0.9  # a row's weight in the mean time halves after 7 more


class RowStream:
    """An iterator over `count` rows, float32 [vocab] each, a copy of its own. Memory is bounded: the engine computes
    no more while AHEAD_BYTES of rows wait here. Iterate from one thread; leaving it (close, `with`) ends the reading.

    tokens: that were computed for it; computing_us: microseconds of the engine's steps, by its own prediction;
    others_us: those of them by which steps of requests were longer.
    An iteration raises the error with which the engine ended, if it did.
    """

    def __init__(self, count: int, row_bytes: int, wake: Callable[[], None]) -> None:
        """wake: tells the engine that there is room again, or that nobody wants more."""
        self.ahead = max(1, min(AHEAD_ROWS, count, AHEAD_BYTES // max(1, row_bytes)))
        self.count = count
        self.tokens = self.computing_us = self.others_us = 0  # what it has cost; the engine's thread writes it
        self.left = count  # rows that are not computed yet; the engine's thread writes it
        self.closed = False
        self.microseconds = 0.0  # that the asker takes for one row, the mean of the last ones
        self._rows: SimpleQueue[F32 | CutawayError] = SimpleQueue()
        self._wake = wake
        self._untaken = count
        self._taken: float | None = None

    # --- the engine's thread ----------------------------------------------------------------------------------------
    @property
    def room(self) -> int:
        """Rows that may be computed now: none until half of what may lie here is free, so that steps are not tiny."""
        free = self.ahead - self._rows.qsize()
        return min(free, self.left) if free >= min(self.left, -(-self.ahead // 2)) else 0

    @property
    def single(self) -> int:
        """Rows that may be computed beside requests: one, when all others were looked at."""
        return min(1, self.left) if self._rows.empty() else 0

    def put(self, row: F32) -> None:
        """Takes the next row, which is copied."""
        self.left -= 1
        self._rows.put(row.copy())

    def fail(self, error: CutawayError) -> None:
        """No more rows come, because of this."""
        self.left = 0
        self._rows.put(error)

    # --- the asker's ------------------------------------------------------------------------------------------------
    def __iter__(self) -> Self:
        return self

    def __next__(self) -> F32:
        self._note()
        if self.closed or not self._untaken:
            raise StopIteration
        row = self._rows.get()
        self._untaken -= 1
        if isinstance(row, CutawayError):
            self.closed = True
            raise row
        if self.left:
            self._wake()
        self._taken = perf_counter()
        return row

    def _note(self) -> None:
        if self._taken is not None:
            took = (perf_counter() - self._taken) * 1e6
            self.microseconds += (took - self.microseconds) * (1 - _DECAY if self.microseconds else 1.0)
            self._taken = None

    def close(self) -> None:
        """Nobody wants more of them. Twice is harmless."""
        if not self.closed:
            self.closed = True
            self._wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
