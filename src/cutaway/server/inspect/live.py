"""GET /x/live: changes of pages and steps, as server-sent events, at most twice a second.

Clients read them with `fetch`, which can send the key in a header. The `type` of an event is one of:

    pages    of one model: first everything that /x/pages shows; later only the pages that changed, and `freed`
    steps    of one model: the steps since the previous event
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from time import monotonic
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from cutaway.assemble import Engine
from cutaway.engine import Look
from cutaway.server.generation.respond import event_stream
from cutaway.server.inspect.views import loaded, looks, number, page_bytes
from cutaway.server.inspect.watching import LIVE
from cutaway.server.state import Service, service_of
from cutaway.server.transport.errors import ApiError, bad_request
from cutaway.server.transport.sse import sse
from cutaway.xray.owners import Eyes
from cutaway.xray.page_view import COLUMNS, page_view
from cutaway.xray.step_view import step_json

APART_MS = 500
KINDS = ("pages", "steps")
_STILL = ("page", "idle_s", "victim")
"""Columns of a page that change by themselves, or name it."""


async def show_live(request: Request) -> Response:
    """What moves, as server-sent events: pages that changed, and new steps."""
    service = service_of(request)
    apart = number(request, "every_ms", APART_MS, 60_000)
    if apart < APART_MS:
        raise bad_request(f"every_ms is {apart}; it must be at least {APART_MS}", "every_ms")
    kinds = request.query_params.get("show", ",".join(KINDS)).split(",")
    if wrong := [kind for kind in kinds if kind not in KINDS]:
        raise bad_request(f"show is {wrong[0][:20]!r}; it may name {' and '.join(KINDS)}", "show")
    list(loaded(request))  # its errors belong before the stream
    if service.watching.live >= LIVE:
        what = f"{LIVE} such streams are open; no more are served"
        raise ApiError(429, what, code="too_many_requests", retry_after=5)
    return event_stream(request, Live(service, request, kinds, apart / 1000))


class Live:
    """The events. `aclose` frees the place among the open streams, even if no event was ever read."""

    def __init__(self, service: Service, request: Request, kinds: list[str], apart: float) -> None:
        self._service, self._request, self._kinds, self._apart = service, request, kinds, apart
        self._told: dict[str, Told] = {}
        self._events = self._made()
        self._open = True
        service.watching.live += 1

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._events)

    async def aclose(self) -> None:
        await self._events.aclose()
        self._service.watching.live -= self._open
        self._open = False

    async def _made(self) -> AsyncGenerator[bytes, None]:
        due = monotonic()
        while not self._service.admission.draining:
            if monotonic() >= due:
                due = monotonic() + self._apart
                async for eyes, engine, look in looks(self._request):
                    told = self._told.get(eyes.model)
                    if told is None or told.engine is not engine:  # the model was loaded again
                        told = self._told[eyes.model] = Told(engine)
                    for event in told.events(look, self._kinds, eyes) if isinstance(look, Look) else ():
                        yield sse(event)
            await asyncio.sleep(min(APART_MS / 1000, max(0.01, due - monotonic())))


class Told:
    """What a reader knows of one model."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._step: int | None = None
        self._groups: list[dict[int, tuple[Any, ...]]] | None = None
        self._requests: Any = None

    def events(self, look: Look, kinds: list[str], eyes: Eyes) -> list[dict[str, Any]]:
        """What is new."""
        found = [self._steps(look, eyes)] if "steps" in kinds else []
        return [event for event in (*found, self._pages(look, eyes) if "pages" in kinds else None) if event]

    def _steps(self, look: Look, eyes: Eyes) -> dict[str, Any] | None:
        new = [step for step in look.log if self._step is None or step.number > self._step]
        self._step = look.steps
        steps = [step_json(step, eyes) for step in new if eyes.all or any(eyes.sees(c.id) for c in step.chunks)]
        return {"type": "steps", "model": eyes.model, "at": look.at, "steps": steps} if steps else None

    def _pages(self, look: Look, eyes: Eyes) -> dict[str, Any] | None:
        view = page_view(look, page_bytes(self.engine), eyes)
        before, now = self._groups, [_by_page(group) for group in view["groups"]]
        self._groups, requests = now, [{**one, "age_s": None} for one in view["requests"]]
        changed = requests != self._requests or now != before
        self._requests = requests
        if before is None:
            return {"type": "pages", "whole": True, **view}
        if not changed:
            return None
        groups = [_delta(group, old, new) for group, old, new in zip(view["groups"], before, now, strict=True)]
        return {"type": "pages", "whole": False, **view, "groups": groups}


def _by_page(group: dict[str, Any]) -> dict[int, tuple[Any, ...]]:
    """What of each page does not change by itself."""
    columns = [group[name] for name in COLUMNS if name not in _STILL]
    rows = [tuple(map(_plain, row)) for row in zip(*columns, strict=True)]
    return dict(zip(group["page"], rows, strict=True))


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _delta(
    group: dict[str, Any], before: dict[int, tuple[Any, ...]], now: dict[int, tuple[Any, ...]]
) -> dict[str, Any]:
    """The group with only those of its pages that changed; freed: pages that are free now."""
    kept = [i for i, page in enumerate(group["page"]) if before.get(page) != now[page]]
    columns = {name: [group[name][i] for i in kept] for name in COLUMNS}
    rest = {name: group[name] for name in ("window", "page_bytes", "counts")}
    return {**rest, **columns, "freed": sorted(before.keys() - now.keys())}
