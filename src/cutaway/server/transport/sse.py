"""Server-sent events: their format, and a response that notices when its client has disconnected."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

T = TypeVar("T")
DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"
CLIENT_GONE = 499  # a status that is never sent; it appears in logs and spans
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class ClientGoneError(Exception):
    """The client has disconnected before the answer."""


def to_json(value: Any) -> bytes:
    """UTF-8. Half a surrogate pair, which JSON can express and UTF-8 cannot, stays an escape."""
    try:
        return _ENCODER.encode(value).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def sse(value: Any, event: str | None = None) -> bytes:
    """One event."""
    named = b"" if event is None else b"event: " + event.encode() + b"\n"
    return named + b"data: " + to_json(value) + b"\n\n"


class EventStream(Response):
    """Sends events as they arrive.

    Since ASGI 2.4 a server reports a disconnected client only when something is written, so a silent prefill would
    continue for nothing. A second task therefore waits for the disconnect. When the stream ends for any reason, the
    iterator is closed and releases what it holds.

    keep_alive: seconds of silence, and what is sent after them. send_timeout: seconds within which the client must
    read. farewell: the last event if the server must end the stream.
    """

    def __init__(
        self,
        events: AsyncIterator[bytes],
        *,
        keep_alive: tuple[float, bytes],
        send_timeout: float,
        farewell: bytes,
        media_type: str = "text/event-stream",
    ) -> None:
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"}, media_type=media_type)
        del self.headers["content-length"]
        self.events = events
        self.keep_alive, self.comment = keep_alive
        self.send_timeout = send_timeout
        self.farewell = farewell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        pen = _Pen(send)
        writer = asyncio.create_task(self._write(pen))
        watchers = {asyncio.create_task(_gone(receive)), asyncio.create_task(self._watch(pen))}
        try:
            await asyncio.wait({writer, *watchers}, return_when=asyncio.FIRST_COMPLETED)
            if writer.done():
                writer.result()
        except asyncio.CancelledError:  # the server's grace period is over
            await _cancelled(writer)
            with contextlib.suppress(Exception):
                async with asyncio.timeout(self.send_timeout):
                    await pen.write(self.farewell, more=False)
            raise
        finally:  # if the client did not read, the connection is closed when this returns
            for task in (*watchers, writer):
                await _cancelled(task)
            await closed(self.events)

    async def _write(self, pen: _Pen) -> None:
        await pen.send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for event in self.events:
            await pen.write(event)
        await pen.write(b"", more=False)

    async def _watch(self, pen: _Pen) -> None:
        """Send comments during pauses; returns when the client does not read. One clock serves both and is checked
        rarely, because a task or a timer for every event would cost more than the event."""
        clock = asyncio.get_running_loop().time
        while True:
            due = self.send_timeout if pen.writing else self.keep_alive
            left = pen.since + due - clock()
            if left > 0:
                await asyncio.sleep(min(left, self.send_timeout))
            elif pen.writing:
                return
            else:
                try:
                    async with asyncio.timeout(self.send_timeout):
                        await pen.write(self.comment)
                except TimeoutError:
                    return


class _Pen:
    """Writes one event at a time. since: when the last write began, or ended if `writing` is false."""

    def __init__(self, send: Send) -> None:
        self.send = send
        self.writing = False
        self._clock = asyncio.get_running_loop().time
        self._lock = asyncio.Lock()
        self.since = self._clock()

    async def write(self, body: bytes, *, more: bool = True) -> None:
        async with self._lock:
            self.writing, self.since = True, self._clock()
            await self.send({"type": "http.response.body", "body": body, "more_body": more})
            self.writing, self.since = False, self._clock()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _cancelled(task: asyncio.Future[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def closed(events: AsyncIterator[bytes]) -> None:
    """Close an iterator that can be closed."""
    close = getattr(events, "aclose", None)
    if close is not None:
        await close()


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled when the client disconnects. Raises ClientGoneError in that case.

    The request's body must have been read.
    """
    task = asyncio.create_task(work)
    watcher = asyncio.create_task(_gone(request.receive))
    try:
        await asyncio.wait({task, watcher}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGoneError
        return task.result()
    finally:
        await _cancelled(watcher)
        await _cancelled(task)
