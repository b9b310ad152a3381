"""The clock that templates see: the machine's, or a fixed moment, so that the same messages give the same prompt."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime

from cutaway.errors import ParameterError


@dataclass(slots=True)
class Clock:
    """fixed: the moment that it shows, in seconds since 1970; None: the present. seen: the moment that was read, which
    does not move afterwards; None: no template has read it."""

    fixed: float | None = None
    seen: float | None = None

    def now(self) -> float:
        if self.seen is None:
            self.seen = time.time() if self.fixed is None else self.fixed
        return self.seen


_CURRENT: ContextVar[Clock | None] = ContextVar("cutaway.clock", default=None)


@contextmanager
def clock(fixed: float | None = None) -> Iterator[Clock]:
    """What templates that are rendered in this block, and in this thread, see as now: the clock of a block around it,
    if there is one, which then shows the fixed moment if it has none of its own and was not read yet."""
    outer = _CURRENT.get()
    if outer is None:
        with showing(Clock(fixed)) as made:
            yield made
    else:
        if outer.fixed is None and outer.seen is None:
            outer.fixed = fixed
        yield outer


@contextmanager
def showing(made: Clock) -> Iterator[Clock]:
    """This clock in this block, and in this thread."""
    token = _CURRENT.set(made)
    try:
        yield made
    finally:
        _CURRENT.reset(token)


def now() -> datetime:
    """Of the clock of this block, in local time."""
    current = _CURRENT.get()
    return datetime.fromtimestamp(time.time() if current is None else current.now()).astimezone()


def parse_date(text: str) -> float:
    """Seconds since 1970 of an ISO 8601 date or moment; local time unless it names a zone. Raises ParameterError."""
    try:
        found = datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        found = -1.0
    if found < 0:
        raise ParameterError(f"date is {text!r}; it must be like 2026-12-01 or 2026-12-01T09:30, from 1970 on")
    return found
