"""Results computed from rows of logits, handed from the engine's thread to the reader of a known text."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from time import perf_counter
from types import TracebackType
from typing import Generic, Self, TypeVar

from cutaway.engine.failure import as_ours
from cutaway.errors import CutawayError
from cutaway.ops.protocol import F32

T = TypeVar("T")
AHEAD = 16  # results that may lie here and are not yet taken
_DECAY = 0.9  # a row's weight in the mean time halves after 7 more


def copied(row: F32) -> F32:
    """The row itself, to be kept."""
    return row.copy()


class RowStream(Generic[T]):
    """An iterator over `count` results, one a row. Memory is bounded: the engine computes no more while AHEAD of them
    lie here. Iterate from one thread; leaving it (close, `with`) ends the reading.

    look: makes the result of a row, float32 [vocab], which is good only as long as it runs. The engine's thread calls
    it, between two steps, since beside a step it would take a core from it; so its time is known, and counted.
    tokens: that were computed; computing_us, looking_us: microseconds of the engine's steps, and of `look`; others_us:
    of both, by how much steps of requests were longer (for computing by the engine's own prediction).
    An iteration raises the error with which the engine or `look` ended, if one did.
    """

    def __init__(self, count: int, look: Callable[[F32], T], wake: Callable[[], None]) -> None:
        """wake: signals to the engine that there is room again, or that no more results are wanted."""
        self.count = self.left = count  # left: rows that are not computed yet; the engine's thread writes it
        self.tokens = self.computing_us = self.looking_us = self.others_us = 0
        self.closed = False
        self.microseconds = 0.0  # that `look` takes for one row, the mean of the last ones; 0: unknown
        self._look = look
        self._results: SimpleQueue[tuple[T | None, CutawayError | None]] = SimpleQueue()
        self._wake = wake
        self._untaken = count

    # --- the engine's thread ----------------------------------------------------------------------------------------
    @property
    def room(self) -> int:
        """Rows that may be computed now: one until it is known what `look` takes; none until half of what may lie here
        is free, so that steps are not tiny."""
        free = AHEAD - self._results.qsize()
        if free < min(self.left, AHEAD // 2):
            return 0
        return min(free, self.left, AHEAD if self.microseconds else 1)

    def put(self, row: F32) -> int:
        """Looks at the next row. Returns the microseconds that it took."""
        if self.closed or not self.left:
            return 0
        began = perf_counter()
        try:
            self._results.put((self._look(row), None))
        except Exception as error:
            self.fail(as_ours(error, "a row could not be looked at"))
        took = (perf_counter() - began) * 1e6
        self.microseconds += (took - self.microseconds) * (1 - _DECAY if self.microseconds else 1.0)
        self.left = max(0, self.left - 1)
        self.looking_us += int(took)
        return int(took)

    def fail(self, error: CutawayError) -> None:
        """No more rows come, because of this."""
        self.left = 0
        self._results.put((None, error))

    # --- the asker's ------------------------------------------------------------------------------------------------
    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        if self.closed or not self._untaken:
            raise StopIteration
        result, error = self._results.get()
        self._untaken -= 1
        if error is not None:
            self.closed = True
            raise error
        if self.room:
            self._wake()
        return result  # type: ignore[return-value]

    def close(self) -> None:
        """End the reading: no more results are wanted. A second call does nothing."""
        if not self.closed:
            self.closed = True
            self._wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
