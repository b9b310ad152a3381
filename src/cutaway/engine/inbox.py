"""What others left in a queue for the engine's thread: requests, and calls, which it does between two steps, where
everything it writes stands still."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from cutaway.engine.request import Request
from cutaway.errors import CutawayError, EngineError

T = TypeVar("T")


class Call(Generic[T]):
    """Work for the engine's thread, and the future of what it returns."""

    def __init__(self, work: Callable[[], T]) -> None:
        self.future: Future[T] = Future()
        self._work = work

    def do(self) -> None:
        """In the engine's thread. What the work raises is the caller's, not the engine's."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            self.future.set_result(self._work())
        except Exception as error:
            self.future.set_exception(error)

    def refuse(self, error: CutawayError) -> None:
        """Nothing is done any more."""
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


Message = tuple[str | Call[Any], Sequence[Request]]
"""("submit", requests), ("cancel", requests), ("close", ()), ("wake", ()) or (call, ())."""


def drained(queue: SimpleQueue[T]) -> Iterator[T]:
    """All that is in it now, without waiting for more."""
    try:
        while True:
            yield queue.get_nowait()
    except Empty:
        return


def left_over(inbox: SimpleQueue[Message], error: CutawayError | None) -> list[Request]:
    """The requests that were submitted and that the engine, which has ended, did not take. Calls are refused. error:
    why it ended, if it failed."""
    found: list[Request] = []
    for word, requests in drained(inbox):
        if isinstance(word, Call):
            word.refuse(error or EngineError("the engine was closed"))
        elif word == "submit":
            found += requests
    return found
