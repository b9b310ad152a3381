"""What others left in a queue for the engine's thread."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")


def drained(queue: SimpleQueue[T]) -> Iterator[T]:
    """All that is in it now, without waiting for more."""
    try:
        while True:
            yield queue.get_nowait()
    except Empty:
        return
