"""GET /x/pages and /x/steps: what lies in the cache, and what the latest steps computed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from cutaway.assemble import Engine
from cutaway.engine import Look
from cutaway.errors import EngineError
from cutaway.server.inspect.access import not_yours, shown, viewer
from cutaway.server.inspect.query import digits
from cutaway.server.state import Service, service_of
from cutaway.server.transport.errors import bad_request
from cutaway.xray.owners import Eyes
from cutaway.xray.page_view import page_view
from cutaway.xray.step_view import step_view

MOST_STEPS = 256


async def show_pages(request: Request) -> Response:
    """The pages of keys and values of each loaded model: who holds them, what lies in them, which go next."""
    return shown(
        {
            "models": [
                page_view(look, page_bytes(engine), eyes) if isinstance(look, Look) else gone(eyes, look)
                async for eyes, engine, look in looks(request)
            ]
        }
    )


async def show_steps(request: Request) -> Response:
    """The latest steps of each loaded model since watching began: batch, parts, times."""
    last = number(request, "last", 64, MOST_STEPS)
    return shown(
        {
            "models": [
                step_view(look, eyes, last=last) if isinstance(look, Look) else gone(eyes, look)
                async for eyes, _, look in looks(request)
            ]
        }
    )


async def looks(request: Request) -> AsyncIterator[tuple[Eyes, Engine, Look | EngineError]]:
    """Each of these engines as it stands, or why it cannot be looked at."""
    for eyes, engine in loaded(request):
        try:
            yield eyes, engine, await service_of(request).watching.look(engine)
        except EngineError as error:
            yield eyes, engine, error


def gone(eyes: Eyes, error: EngineError) -> dict[str, Any]:
    """In the place of a view of an engine that has ended."""
    return {"model": eyes.model, "error": {"code": error.code, "message": str(error)}}


def loaded(request: Request) -> Iterator[tuple[Eyes, Engine]]:
    """The engines that run, or that of `?model=`, and the eyes of who looks. Raises ApiError: 404."""
    service, who, named = service_of(request), viewer(request), request.query_params.get("model")
    if named is not None and named not in service.roster.models:
        raise not_yours("model", named)
    for name, served in list(service.roster.models.items()):
        if served.engine is not None and named in (None, name):
            yield eyes_of(service, name, None if who.admin else who.caller), served.engine


def eyes_of(service: Service, model: str, caller: str | None) -> Eyes:
    """caller: None for an admin."""
    return Eyes(model, service.watching.owners, caller)


def page_bytes(engine: Engine) -> list[int]:
    """Of a page of each group."""
    return [group.page_bytes for group in engine.memory.groups]


def number(request: Request, name: str, default: int, most: int) -> int:
    """A whole number of the query, from 1 on. Raises ApiError: 400."""
    given = request.query_params.get(name)
    if given is None:
        return default
    found = digits(given)
    if found is None or not 1 <= found <= most:
        raise bad_request(f"{name} is {given[:20]!r}; it must be a whole number from 1 to {most}", name)
    return found
