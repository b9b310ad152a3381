"""Keeps streams for some time after their client has disconnected, so that it can resume them (`Last-Event-ID`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from cutaway.server.transport.errors import ApiError
from cutaway.server.transport.sse import closed


class Tape:
    """The events of one stream, kept while it runs and for a grace period afterwards."""

    def __init__(self, id: str, events: AsyncIterator[bytes]) -> None:
        self.id = id
        self.events: list[bytes] = []
        self.ended = False
        self.readers = 0
        self._grown = asyncio.Condition()
        self._source = events
        self._task = asyncio.create_task(self._record(events))

    async def _record(self, events: AsyncIterator[bytes]) -> None:
        try:
            async for event in events:
                self.events.append(f"id: {self.id}:{len(self.events)}\n".encode() + event)
                await self._tell()
        finally:
            self.ended = True
            await self._tell()

    async def _tell(self) -> None:
        async with self._grown:
            self._grown.notify_all()

    async def read(self, at: int) -> AsyncIterator[bytes]:
        """The events from number `at` on, as they arrive."""
        self.readers += 1
        try:
            while True:
                while at < len(self.events):
                    at += 1
                    yield self.events[at - 1]
                if self.ended:
                    return
                async with self._grown:
                    await self._grown.wait_for(lambda: at < len(self.events) or self.ended)  # noqa: B023
        finally:
            self.readers -= 1

    async def stop(self) -> None:
        """Cancel what still runs."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await closed(self._source)


class Tapes:
    """All tapes of a server. seconds: how long a tape is kept without a reader; 0: none are kept."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._tapes: dict[tuple[str, str], Tape] = {}  # by caller and id, so that callers cannot find the ids of others
        self._removals: set[asyncio.Task[None]] = set()

    def record(self, id: str, caller: str, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The same events, recorded; reading may stop and start again."""
        if not self.seconds:
            return events
        while (caller, id) in self._tapes:  # clients may choose the ids of their requests
            id += "."
        tape = self._tapes[caller, id] = Tape(id, events)
        return self._watched(caller, tape, 0)

    def resume(self, last: str, caller: str) -> AsyncIterator[bytes]:
        """The events after the one with the id `last`. Raises ApiError: 404 for a stream that does not exist (any more)
        or belongs to another caller."""
        id, _, number = last.rpartition(":")
        tape = self._tapes.get((caller, id))
        at = int(number) + 1 if number.isdecimal() and len(number) < 10 else 0
        if tape is None or not 0 < at <= len(tape.events):
            kept = f"they are kept for {self.seconds:g} s" if self.seconds else "this server keeps none (server.resume)"
            raise ApiError(404, f"no stream can be resumed after event {last[:100]!r}; {kept}", code="stream_not_found")
        return self._watched(caller, tape, at)

    async def _watched(self, caller: str, tape: Tape, at: int) -> AsyncIterator[bytes]:
        try:
            async for event in tape.read(at):
                yield event
        finally:
            task = asyncio.create_task(self._remove_later(caller, tape))
            self._removals.add(task)
            task.add_done_callback(self._removals.discard)

    async def _remove_later(self, caller: str, tape: Tape) -> None:
        await asyncio.sleep(self.seconds)
        if not tape.readers:
            await self._remove(caller, tape)

    async def _remove(self, caller: str, tape: Tape) -> None:
        self._tapes.pop((caller, tape.id), None)
        await tape.stop()

    async def close(self) -> None:
        """Stop all streams."""
        for task in list(self._removals):
            task.cancel()
        for (caller, _), tape in list(self._tapes.items()):
            await self._remove(caller, tape)
