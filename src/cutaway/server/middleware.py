"""The first steps of every request: an id, a caller, and errors in the format of its API."""

from __future__ import annotations

import re
import uuid
from time import time_ns

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cutaway.server.generation.respond import JsonReply
from cutaway.server.inspect.access import admit
from cutaway.server.observe.logs import Log
from cutaway.server.observe.tracing import Refusal
from cutaway.server.route import Route, RouteTable
from cutaway.server.state import service_of
from cutaway.server.transport.auth import OPEN_PATHS, AdminToken, Keys
from cutaway.server.transport.dialects import Dialect
from cutaway.server.transport.errors import ApiError, as_api_error
from cutaway.server.transport.hosts import Hosts, inspects
from cutaway.server.transport.sse import CLIENT_GONE, ClientGoneError

_ID = re.compile(r"[\w.-]{1,128}", re.ASCII)


class Gate:
    """Pure ASGI: nothing stands between a route and its socket."""

    def __init__(
        self, app: ASGIApp, *, keys: Keys, admin: AdminToken, hosts: Hosts, log: Log, table: RouteTable
    ) -> None:
        self._app = app
        self._admin = admin
        self._table = table
        self._keys = keys
        self._hosts = hosts
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        given = request.headers.get("x-request-id", "")
        scope["cutaway.id"] = given if _ID.fullmatch(given) else uuid.uuid4().hex
        scope["cutaway.caller"] = ""
        scope["cutaway.began"] = time_ns()
        self._locate(scope)
        started = False

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message["headers"], (b"x-request-id", scope["cutaway.id"].encode())]
            await send(message)

        try:
            private = inspects(scope)
            self._hosts.check(scope, private=private)
            self._locate(scope)  # again: an absolute target is a path now
            if private:
                scope["cutaway.caller"] = admit(request, self._keys, self._admin)
            elif scope["method"] != "OPTIONS" and scope["path"] not in OPEN_PATHS:
                scope["cutaway.caller"] = self._keys.caller(request)
            await self._app(scope, receive, send_with_id)
        except Exception as error:
            if started:
                raise
            await error_reply(request, error, self._log)(scope, receive, send_with_id)

    def _locate(self, scope: Scope) -> None:
        """Note the route of a path, and the dialect of its errors."""
        scope["cutaway.route"] = self._table.find(scope["path"])
        scope["cutaway.dialect"] = self._table.dialect(scope["path"])


def error_reply(request: HTTPConnection, error: Exception, log: Log) -> Response:
    """The reply to a failed request. An internal error is logged with its traceback."""
    if isinstance(error, ClientGoneError):
        return Response(status_code=CLIENT_GONE)
    route: Route | None = request.scope["cutaway.route"]
    told = as_api_error(error, route.names if route is not None else None)
    facts = {"id": request.scope["cutaway.id"], "path": request.scope["path"], "status": told.status}
    if told.code == "internal_error":
        log.error("fault", **facts, exc_info=error)
    else:
        log.info("refused", **facts, code=told.code, error=told.message)
        service_of(request).watching.refused(told, request.scope["cutaway.id"], request.scope["cutaway.caller"])
    _trace(request, told)
    dialect: Dialect = request.scope["cutaway.dialect"]
    return JsonReply(dialect.error(told, request.scope["cutaway.id"]), told.status, told.headers)


def _trace(request: HTTPConnection, error: ApiError) -> None:
    """A span for a request that has no run to report it."""
    telemetry, scope = service_of(request).telemetry, request.scope
    route: Route | None = scope["cutaway.route"]
    if telemetry is None or "cutaway.told" in scope:
        return
    telemetry.refused(
        Refusal(
            scope["cutaway.id"], scope["method"], route.template if route is not None else "", request.headers,
            scope["cutaway.began"], time_ns(), error.status, error.code or error.type,
        )
    )  # fmt: skip
