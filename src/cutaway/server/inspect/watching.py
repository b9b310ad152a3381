"""Snapshots of a server's engines, taken from threads of their own, so that a long step delays no other request."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import time
from typing import Any, TypeVar

from cutaway.assemble import Engine
from cutaway.engine import Look
from cutaway.server.transport.errors import ApiError
from cutaway.xray.owners import Owners
from cutaway.xray.waterfall import Waterfalls

T = TypeVar("T")
REFUSALS = 64
WANT_OF_ROOM = frozenset(
    {
        "context_length_exceeded", "memory_short", "queue_full", "too_many_requests", "rate_limit_exceeded",
        "limit_exceeded",
    }
)  # fmt: skip
LIVE = 8
"""Streams of /x/live that may be open at once; each is served twice a second."""


@dataclass(slots=True)
class Watching:
    """owners: of answers, written when they are submitted. refusals: the latest, with their figures. waterfalls: what
    requests waited for before their first token. live: streams of what moves that are open."""

    owners: Owners = field(default_factory=Owners)
    refusals: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=REFUSALS))
    waterfalls: Waterfalls = field(default_factory=Waterfalls)
    live: int = 0
    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(2, "cutaway-look"))

    async def look(self, engine: Engine) -> Look:
        """The engine at the end of the step that runs. Raises EngineError where it has ended."""
        return await self.run(engine.watch.look)

    async def run(self, work: Callable[[], T]) -> T:
        """What may take some milliseconds or wait for a step."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def refused(self, error: ApiError, request_id: str, caller: str) -> None:
        """Keep a refusal for want of room: of pages, of memory, of a place."""
        if error.code in WANT_OF_ROOM:
            self.refusals.append(
                {
                    "at": time(), "request": request_id, "caller": caller, "code": error.code, "status": error.status,
                    "message": error.message[:500], "figures": dict(error.figures),
                }
            )  # fmt: skip

    def close(self) -> None:
        self._threads.shutdown()
