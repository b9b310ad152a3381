"""Admission of requests: limits on running answers, on waiting answers and on the rate. A refusal gives the numbers."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from time import monotonic

from cutaway.config import LimitsConfig
from cutaway.server.transport.errors import ApiError

MINUTE = 60.0


class Admission:
    """Counts answers per model and requests per caller. Used from the event loop only."""

    def __init__(self, limits: LimitsConfig) -> None:
        self.limits = limits
        self.refused: Counter[str] = Counter()  # by reason
        self._answers: Counter[str] = Counter()  # model -> answers in progress
        self._callers: Counter[str] = Counter()  # caller -> requests in progress
        self._recent: dict[str, deque[float]] = {}  # caller -> times of its latest requests
        self._seconds = 1.0  # of a request, decayed mean
        self._draining = False

    @property
    def in_flight(self) -> int:
        """The answers of all models."""
        return self._answers.total()

    @property
    def draining(self) -> bool:
        return self._draining

    def drain(self) -> None:
        """Admit no more requests."""
        self._draining = True

    @contextmanager
    def enter(self, caller: str, model: str, answers: int, at_once: int) -> Iterator[None]:
        """A place for a request until the end of the block. at_once: the number of answers that the model computes
        together.

        Raises ApiError: 429 if the caller exceeds its limits, 503 if the server is at its limit.
        """
        self._check_server(model, answers, at_once)
        self._check_caller(caller)
        began = monotonic()
        self._answers[model] += answers
        self._callers[caller] += 1
        try:
            yield
        finally:
            self._seconds += 0.1 * (monotonic() - began - self._seconds)
            self._answers[model] -= answers
            self._callers[caller] -= 1
            if not self._callers[caller]:
                del self._callers[caller]

    def _check_server(self, model: str, answers: int, at_once: int) -> None:
        if self._draining:
            raise self._refusal("draining", 503, "the server is shutting down", 5)
        if answers > self.limits.queue + at_once:
            raise ApiError(
                400, f"the request needs {answers} answers; this server holds at most {self.limits.queue + at_once}",
                code="limit_exceeded", param="n",
            )  # fmt: skip
        waiting = self._answers[model] + answers - at_once
        if waiting > self.limits.queue:
            raise self._refusal(
                "queue", 503,
                f"the queue is full: {self._answers[model]} answers run or wait, {at_once} at once and "
                f"{self.limits.queue} in the queue are allowed",
                round(self._seconds * self._answers[model] / (2 * at_once)),
                answers=self._answers[model], wanted=answers, at_once=at_once, queue=self.limits.queue,
            )  # fmt: skip

    def _check_caller(self, caller: str) -> None:
        at_once, per_minute = self.limits.requests_per_key, self.limits.requests_per_minute
        if at_once is not None and self._callers[caller] >= at_once:
            raise self._refusal(
                "key", 429, f"this key has {self._callers[caller]} requests running; {at_once} at once are allowed",
                round(self._seconds), running=self._callers[caller], at_once=at_once,
            )  # fmt: skip
        if per_minute is not None:
            now = monotonic()
            recent = self._recent.setdefault(caller, deque())
            while recent and recent[0] <= now - MINUTE:
                recent.popleft()
            if len(recent) >= per_minute:
                raise self._refusal(
                    "rate", 429, f"this key made {len(recent)} requests in the last minute; {per_minute} are allowed",
                    ceil(recent[0] + MINUTE - now), requests_last_minute=len(recent), requests_per_minute=per_minute,
                )  # fmt: skip
            recent.append(now)
            self._forget(now)

    def _forget(self, now: float) -> None:
        """Forget callers that sent nothing for a minute, if there are many."""
        if len(self._recent) > 10_000:
            self._recent = {c: times for c, times in self._recent.items() if times and times[-1] > now - MINUTE}

    def _refusal(self, reason: str, status: int, message: str, seconds: int, **figures: float) -> ApiError:
        self.refused[reason] += 1
        wait = min(max(1, seconds), 3600)
        return ApiError(status, message, code=_CODES[reason], retry_after=wait, figures={**figures, "retry_s": wait})


_CODES = {"queue": "queue_full", "key": "too_many_requests", "rate": "rate_limit_exceeded", "draining": "shutting_down"}
