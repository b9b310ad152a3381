"""How many explanations are computed at once: few, for each takes a thread and a share of an engine's time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TypeVar

from starlette.requests import Request

from cutaway.server.transport.errors import ApiError

T = TypeVar("T")
AT_ONCE = 2
LOOKS = 0.5  # seconds between two looks at whether the client is still there


class Turns:
    """At most AT_ONCE computations in all and one for each caller, used from the event loop only. A further request is
    refused with 429, since its result can be computed at any later time."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()
        self._threads = ThreadPoolExecutor(AT_ONCE, "cutaway-explain")

    async def run(self, request: Request, caller: str, work: Callable[[Callable[[], bool]], T]) -> T:
        """work: the computation, run in a thread; its argument is a function that returns whether the client has left.
        Raises ApiError: 429."""
        if self._running[caller] or self._running.total() >= AT_ONCE:
            whose = "of this caller " if self._running[caller] else ""
            raise ApiError(429, f"an explanation {whose}is being computed", code="explaining", retry_after=5)
        self._running[caller] += 1
        gone = Event()
        task = asyncio.get_running_loop().run_in_executor(self._threads, work, gone.is_set)
        task.add_done_callback(lambda _: self._end(caller))
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=LOOKS)
                if not task.done() and await request.is_disconnected():
                    gone.set()
            return task.result()
        finally:
            gone.set()

    def _end(self, caller: str) -> None:
        self._running[caller] -= 1
        if not self._running[caller]:
            del self._running[caller]

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
