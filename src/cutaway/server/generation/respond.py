"""From a run to a reply, streamed or whole; the same for every API."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response

from cutaway.errors import CutawayError
from cutaway.server.generation.completed import Message, gathered
from cutaway.server.generation.generation import Piece, Run
from cutaway.server.models.visit import Visit
from cutaway.server.route import Handler, route_of
from cutaway.server.state import Service, caller, request_id, service_of
from cutaway.server.transport.dialects import Dialect
from cutaway.server.transport.errors import ApiError, as_api_error
from cutaway.server.transport.sse import CLIENT_GONE, ClientGoneError, EventStream, to_json, while_connected


class Teller(Protocol):
    """Formats a run for an API: as the events of a stream, or as one reply."""

    def begin(self) -> list[dict[str, Any]]: ...
    def piece(self, piece: Piece) -> list[dict[str, Any]]: ...
    def end(self) -> list[dict[str, Any]]: ...
    def whole(self, messages: list[Message]) -> dict[str, Any]: ...


class JsonReply(Response):
    """A reply with a JSON object."""

    media_type = "application/json"

    def __init__(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        super().__init__(to_json(value), status, headers)


@asynccontextmanager
async def entered(request: Request, service: Service, model: str | None, answers: int) -> AsyncIterator[Visit]:
    """A visit, which is closed if the block fails. Otherwise the owner that it is given to (a Run) closes it."""
    visit = await while_connected(request, Visit.enter(request, service, model, answers))
    try:
        yield visit
    except BaseException as error:
        visit.close()
        if isinstance(error, CutawayError):
            raise as_api_error(error, visit.names) from error
        raise


async def answer(request: Request, run: Run, teller: Teller, *, stream: bool) -> Response:
    """Start the run and reply. In every case the run is closed: here, or at the end of the stream."""
    try:
        await while_connected(request, run.start())
        if not stream:
            messages = await while_connected(request, gathered(run))
            reply = JsonReply(teller.whole(messages))
            run.close()
            return reply
    except BaseException as error:
        failed = error if isinstance(error, Exception) and not _is_gone(error) else None
        run.close(failed, status=CLIENT_GONE if failed is None else as_api_error(failed).status)
        request.scope["cutaway.told"] = True
        raise
    events: AsyncIterator[bytes] = Telling(run, teller, route_of(request).dialect)
    if route_of(request).dialect.resumable:
        events = run.visit.service.tapes.record(run.visit.id, caller(request), events)
    return event_stream(request, events)


def event_stream(request: Request, events: AsyncIterator[bytes]) -> EventStream:
    """A stream in the dialect of the request's route."""
    server, dialect = service_of(request).config.server, route_of(request).dialect
    leaving = ApiError(503, "the server is shutting down", code="shutting_down")
    return EventStream(
        events,
        keep_alive=(server.keep_alive, dialect.keep_alive),
        send_timeout=server.send_timeout,
        farewell=dialect.error_event(leaving, request_id(request)),
        media_type=dialect.media_type,
    )


def resumable(endpoint: Handler) -> Handler:
    """The endpoint, which for a request with `Last-Event-ID` sends the rest of the stream with that event."""

    async def endpoint_or_rest(request: Request) -> Response:
        last = request.headers.get("last-event-id")
        if last is None:
            return await endpoint(request)
        return event_stream(request, service_of(request).tapes.resume(last, caller(request)))

    return endpoint_or_rest


def _is_gone(error: Exception) -> bool:
    return isinstance(error, ClientGoneError)


class Telling:
    """A run as the events of a stream. `aclose` ends the run even if no event was ever requested."""

    def __init__(self, run: Run, teller: Teller, dialect: Dialect) -> None:
        self._run = run
        self._events = _events(run, teller, dialect)

    def __aiter__(self) -> Telling:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._events)

    async def aclose(self) -> None:
        await self._events.aclose()
        self._run.close()


async def _events(run: Run, teller: Teller, dialect: Dialect) -> AsyncGenerator[bytes, None]:
    """The teller's events, an error event if something fails, and the end of the run."""
    failed: Exception | None = None
    try:
        for event in teller.begin():
            yield dialect.event(event)
        async for piece in run.pieces():
            for event in teller.piece(piece):
                yield dialect.event(event)
        for event in teller.end():
            yield dialect.event(event)
        if dialect.done:
            yield dialect.done
    except Exception as error:
        failed = error
        yield dialect.error_event(as_api_error(error), run.visit.id)
    finally:
        run.close(failed)
