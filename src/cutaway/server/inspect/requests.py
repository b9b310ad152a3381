"""GET /x/requests and /x/requests/{id}: the last requests, one's own or, for the admin, everybody's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from cutaway.assemble import Engine
from cutaway.errors import ParameterError
from cutaway.server.inspect.access import not_yours, shown, viewer
from cutaway.server.inspect.query import digits, query_of
from cutaway.server.state import request_id, service_of
from cutaway.server.transport.errors import ApiError, bad_request
from cutaway.xray.record import RequestRecord
from cutaway.xray.record_json import record_json
from cutaway.xray.request_list import Wanted, listed, parse_since

_KNOWN = frozenset({"failed", "slow", "model", "since", "request", "limit"})


async def list_requests(request: Request) -> Response:
    """The last requests, the latest first, figures only. Query: failed, slow, model, since, request, limit."""
    service, who = service_of(request), viewer(request)
    wanted = _wanted(query_of(request, _KNOWN))
    seen = (record for record in service.flights.heads() if who.may_see(record.caller))
    return shown({"requests": listed(seen, wanted), "kept": kept_json(service.flights)})


async def show_request(request: Request) -> Response:
    """The record of one answer, by its own id or the latest one with an x-request-id."""
    return shown(record_json(await found(request, request.path_params["id"])))


async def found(request: Request, name: str) -> RequestRecord:
    """The record of that name which the caller may see. Raises ApiError: 404."""
    service, who = service_of(request), viewer(request)
    record = await service.in_thread(service.flights.find, name, who.may_see)
    if record is None:
        raise not_yours("record", name)
    return record


@asynccontextmanager
async def engine_of(request: Request, record: RequestRecord) -> AsyncIterator[Engine]:
    """The engine of the model that answered, loaded if need be. Raises ApiError: 409 where its file has changed."""
    async with service_of(request).roster.lease(record.system.model, request_id(request)) as lease:
        if record.system.sha256 and lease.served.sha256 != record.system.sha256:
            raise ApiError(409, f"{record.system.model} is not the file any more that answered", code="model_changed")
        yield lease.engine


def kept_json(flights: Any) -> dict[str, Any]:
    """What the server keeps: level, and the bounds in bytes, seconds and records."""
    bounds = flights.bounds
    return {"level": flights.level or "off", "bytes": bounds.size, "seconds": bounds.seconds, "count": bounds.count}


def _wanted(query: dict[str, str]) -> Wanted:
    """Raises ApiError."""
    flags: dict[str, bool] = {}
    for name in ("failed", "slow"):
        if query.get(name, "false") not in ("true", "false"):
            raise bad_request(f"{name} must be true or false", name, "parameter_invalid")
        flags[name] = query.get(name) == "true"
    limit = digits(query.get("limit", "50"))
    if limit is None:
        raise bad_request("limit must be a number", "limit", "parameter_invalid")
    try:
        since = parse_since(query["since"]) if "since" in query else None
        return Wanted(
            model=query.get("model"), since=since, request=query.get("request"), limit=limit, **flags
        )
    except ParameterError as error:
        raise bad_request(str(error), code=error.code) from None
