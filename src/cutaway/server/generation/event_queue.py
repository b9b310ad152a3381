"""Transfers the engine's events from its thread to the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from cutaway.engine import Event


class SlowReaderError(Exception):
    """Too many events wait for a reader that does not read them."""


class Mailbox:
    """Events of several prompts in order. Written by the engine's thread, read by one task of the event loop.

    At most one wake-up of the loop is pending, however many events arrive meanwhile. At most `most` events wait. Later
    ones are dropped, and the reader gets a SlowReaderError, so that the buffer of a slow reader is bounded.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int) -> None:
        self._loop = loop
        self._most = most
        self._events: deque[tuple[int, Event]] = deque()
        self._filled = asyncio.Event()
        self._told = False
        self._full = False

    def slot(self, prompt: int) -> Slot:
        """The sink for the events of one prompt."""
        return Slot(self, prompt)

    def put(self, prompt: int, event: Event) -> None:
        """Add an event. May be called from any thread; never waits."""
        if len(self._events) >= self._most:
            self._full = True
        else:
            self._events.append((prompt, event))
        if not self._told:
            self._told = True
            try:
                self._loop.call_soon_threadsafe(self._filled.set)
            except RuntimeError:  # the loop has ended and nothing reads any more
                self._full = True

    async def take(self) -> AsyncIterator[tuple[int, Event]]:
        """Events in order, with the number of their prompt. Does not end by itself. Raises SlowReaderError."""
        while True:
            while self._events:
                yield self._events.popleft()
            if self._full:
                raise SlowReaderError(f"{self._most} tokens are waiting for a client that does not read them")
            self._filled.clear()
            self._told = False
            if not self._events and not self._full:
                await self._filled.wait()


class Slot:
    """The sink of one prompt."""

    __slots__ = ("_mailbox", "_prompt")

    def __init__(self, mailbox: Mailbox, prompt: int) -> None:
        self._mailbox = mailbox
        self._prompt = prompt

    def put(self, event: Event, /) -> None:
        self._mailbox.put(self._prompt, event)
