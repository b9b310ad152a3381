"""What a request waited for before its first token: parts that follow one another and add up.

    arrive   reading the body, and the model, if it had to be loaded
    prepare  the template, tokenizing, compiling a grammar
    queue    until the first step it had part in
    prefill  from there until the first token was chosen, with what others had in those steps
    deliver  from the engine's thread to the server's
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Lock
from time import time
from typing import Any

LATEST = 128
SLOWEST = 32
AGE = 3600.0
"""Seconds that slow requests are kept."""
PARTS = ("arrive", "prepare", "queue", "prefill", "deliver")
MARKS = {"arrive": "a", "prepare": "p", "queue": ".", "prefill": "#", "deliver": "d"}


@dataclass(frozen=True, slots=True)
class Waterfall:
    """at: when the request came, seconds since 1970. parts: milliseconds, by name, in order. broke_by: why no more of
    the prompt was found in the prefix cache, as the engine noted it."""

    request: str
    caller: str
    model: str
    at: float
    parts: dict[str, float]
    prompt_tokens: int
    cached_tokens: int
    preemptions: int = 0
    broke_by: str | None = None

    @property
    def ttft_ms(self) -> float:
        """From arrival to the first token, in the server."""
        return sum(self.parts.values())

    def json(self) -> dict[str, Any]:
        return {
            "request": self.request, "caller": self.caller, "model": self.model, "at": self.at,
            "ttft_ms": round(self.ttft_ms, 3), "parts_ms": {name: round(ms, 3) for name, ms in self.parts.items()},
            "prompt_tokens": self.prompt_tokens, "cached_tokens": self.cached_tokens,
            "preemptions": self.preemptions, "broke_by": self.broke_by,
        }  # fmt: skip


def waterfall_parts(began: float, entered: float, submitted: float, first: float, queued: float, prefill: float) -> (
    dict[str, float]
):
    """began, entered, submitted, first: moments in seconds; queued, prefill: seconds. Never below 0, and together from
    `began` to `first`."""
    spans = {
        "arrive": entered - began, "prepare": submitted - entered, "queue": queued, "prefill": prefill,
    }  # fmt: skip
    parts = {name: max(0.0, span * 1e3) for name, span in spans.items()}
    return {**parts, "deliver": max(0.0, (first - began) * 1e3 - sum(parts.values()))}


@dataclass(slots=True)
class Waterfalls:
    """The latest, and the slowest of the last hour. From any thread."""

    _latest: deque[Waterfall] = field(default_factory=lambda: deque(maxlen=LATEST))
    _slow: list[tuple[float, int, Waterfall]] = field(default_factory=list)  # a heap, the least slow first
    _count: int = 0
    _lock: Lock = field(default_factory=Lock)

    def add(self, one: Waterfall) -> None:
        with self._lock:
            self._latest.append(one)
            self._count += 1
            if self._slow and min(w.at for _, _, w in self._slow) < time() - AGE:
                self._slow = [entry for entry in self._slow if entry[2].at >= time() - AGE]
                heapq.heapify(self._slow)
            heapq.heappush(self._slow, (one.ttft_ms, self._count, one))
            if len(self._slow) > SLOWEST:
                heapq.heappop(self._slow)

    def slowest(self, sees: Callable[[str], bool]) -> list[Waterfall]:
        """Of the callers that may be seen, the slowest first."""
        with self._lock:
            return [one for _, _, one in sorted(self._slow, reverse=True) if sees(one.caller)]

    def latest(self, sees: Callable[[str], bool], request: str | None = None) -> Iterator[Waterfall]:
        """The latest first; of one x-request-id, if it is given."""
        with self._lock:
            kept = [*reversed(self._latest), *(one for _, _, one in self._slow)]
        found: dict[int, Waterfall] = {id(one): one for one in kept}
        return (one for one in found.values() if sees(one.caller) and request in (None, one.request))


def picture(parts: dict[str, float], longest: float, width: int = 40) -> str:
    """A bar: a character for each `longest / width` milliseconds, by what they were spent on."""
    bar, reached, drawn = "", 0.0, 0
    for name, ms in parts.items():
        reached += ms
        upto = round(reached / longest * width) if longest > 0 else 0
        bar += MARKS[name] * (upto - drawn)
        drawn = upto
    return bar
