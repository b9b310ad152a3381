"""The last requests as a list: one line a record, and which of them are wanted."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cutaway.errors import ParameterError
from cutaway.text.chat.clock import parse_date
from cutaway.xray.record import RequestRecord

MOST = 1000
_AGO = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True, slots=True)
class Wanted:
    """failed: those alone that came to no end of their own. slow: the slowest first, else the latest. model: of this
    one. since: that began then or later, in seconds since 1970. request: with this x-request-id. limit: at most."""

    failed: bool = False
    slow: bool = False
    model: str | None = None
    since: float | None = None
    request: str | None = None
    limit: int = 50

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= MOST:
            raise ParameterError(f"limit is {self.limit}; it must be 1 to {MOST}")

    def takes(self, record: RequestRecord) -> bool:
        return (
            (record.failed or not self.failed)
            and self.model in (None, record.system.model)
            and self.request in (None, record.request)
            and (self.since is None or record.began >= self.since)
        )


def listed(records: Iterable[RequestRecord], wanted: Wanted) -> list[dict[str, Any]]:
    """records: the latest first; their lists may be empty."""
    found = [record for record in records if wanted.takes(record)]
    if wanted.slow:
        found.sort(key=lambda record: -(record.figures.total_ms or 0.0))
    return [summary(record) for record in found[: wanted.limit]]


def summary(record: RequestRecord) -> dict[str, Any]:
    """Figures only; no text of prompt or answer. Times in milliseconds from submission, began in seconds since 1970."""
    figures, end = record.figures, record.end
    return {
        "id": record.id, "request": record.request, "caller": record.caller, "began": record.began,
        "path": record.path, "model": record.system.model, "prompt": record.prompt, "choice": record.choice,
        "prompt_tokens": record.prompt_tokens, "cached": figures.cached, "tokens": record.tokens,
        "queued_ms": figures.queued_ms, "ttft_ms": figures.ttft_ms, "total_ms": figures.total_ms,
        "preemptions": figures.preemptions, "pages": figures.pages, "end": end.kind, "status": end.status,
        "error": end.error, "failed": record.failed, "level": record.level,
    }  # fmt: skip


def parse_since(text: str) -> float:
    """Seconds since 1970 of "90s", "10m", "2h", "1d" ago, or of a date or moment. Raises ParameterError."""
    if found := _AGO.fullmatch(text.strip()):
        return time.time() - float(found[1]) * _SECONDS[found[2]]
    try:
        return parse_date(text)
    except ParameterError:
        raise ParameterError(f"since is {text!r}; it must be like 90s, 10m, 2h, 1d, or a date") from None
