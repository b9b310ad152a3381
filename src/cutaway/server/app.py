"""The application: its routes, its middleware, and the objects that live as long as it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TextIO

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

import cutaway
from cutaway.config import Config, RecordConfig, parse_bytes
from cutaway.errors import ConfigError
from cutaway.server.generation.respond import resumable
from cutaway.server.middleware import Gate, error_reply
from cutaway.server.models.pool import Roster, served_models
from cutaway.server.observe.logs import Log
from cutaway.server.observe.metrics import Metrics
from cutaway.server.observe.tracing import INSTALL, Telemetry, make_telemetry, wanted
from cutaway.server.openapi import describe_routes
from cutaway.server.route import RouteTable
from cutaway.server.routes import ROUTES
from cutaway.server.state import Service
from cutaway.server.transport.admission import Admission
from cutaway.server.transport.auth import read_keys
from cutaway.server.transport.errors import ApiError
from cutaway.server.transport.hosts import Hosts, inspects
from cutaway.server.transport.replay import Tapes
from cutaway.trace import NULL, Recorder
from cutaway.xray.flight_recorder import Bounds, FlightRecorder


def create_app(
    config: Config, *, log_stream: TextIO | None = None, failed: Callable[[], None] | None = None,
    recorder: Recorder = NULL,
) -> FastAPI:
    """The application for a config. Its models are loaded when it starts (the ASGI lifespan), not here.

    recorder: receives records of the steps and requests of all models; those of a request have its x-request-id.
    failed: called when a model of the start cannot be loaded; `app.state.service.roster.failed` has the reason. Raises
    ConfigError, ModelNotFoundError.
    """
    service = make_service(config, log_stream, recorder)
    app = FastAPI(title="cutaway", version=cutaway.__version__, lifespan=_lifespan(service, failed))
    app.state.service = service
    for route in ROUTES:
        for path in route.paths:
            app.add_route(path, resumable(route.handler) if route.operation else route.handler, methods=[route.method])
    describe_routes(app, ROUTES)
    _answer_errors(app, service.log)
    app.add_middleware(
        Gate, keys=service.keys, admin=service.admin, hosts=Hosts(config.server), log=service.log,
        table=RouteTable(ROUTES),
    )  # fmt: skip
    if config.server.cors_origins:  # outside the gate, so that a page can read why it was refused
        app.add_middleware(
            PublicCors, allow_origins=list(config.server.cors_origins), allow_methods=["GET", "POST"],
            allow_headers=["*"], expose_headers=["x-request-id", "retry-after"],
        )  # fmt: skip
    return app


class PublicCors(CORSMiddleware):
    """CORS for pages of other origins, but never under /x/."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and inspects(scope):
            await self.app(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def make_service(config: Config, log_stream: TextIO | None = None, recorder: Recorder = NULL) -> Service:
    """The state that the routes share. Raises ConfigError, ModelNotFoundError."""
    log = Log(config.logging, log_stream)
    models, names = served_models(config, recorder)
    roster = Roster(models, names, config, log.info)
    admission = Admission(config.limits)
    metrics = Metrics(roster, admission, log)
    return Service(
        config, roster, admission, read_keys(config.server), metrics, log, Tapes(config.server.resume),
        _telemetry(config, log), _flights(config.record, log),
    )  # fmt: skip


def _flights(config: RecordConfig, log: Log) -> FlightRecorder:
    """Raises ConfigError where its folder cannot be used."""
    bounds = Bounds(parse_bytes(config.memory, "record.memory"), config.seconds, config.count)
    level = None if config.level == "off" else config.level
    folder = Path(config.folder).expanduser() if config.folder is not None and level is not None else None
    try:
        return FlightRecorder(
            level, bounds, folder, failed=lambda why: log.warning("records are not written to disk", reason=why)
        )
    except OSError as error:
        raise ConfigError(f"record.folder {folder} cannot be used: {error.strerror or error}") from None


def _telemetry(config: Config, log: Log) -> Telemetry | None:
    """Telemetry, if it is configured. The environment is set for many programs, so a missing dependency of its
    telemetry is only a warning."""
    if not wanted(config.telemetry):
        return None
    try:
        return make_telemetry(config.telemetry)
    except ConfigError as error:
        if config.telemetry.endpoint is not None:
            raise
        log.warning("no telemetry, though the environment names a collector", reason=error.message, install=INSTALL)
        return None


Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def _lifespan(service: Service, failed: Callable[[], None] | None) -> Lifespan:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        loading = asyncio.create_task(_load(service, failed))
        yield
        loading.cancel()
        await asyncio.gather(loading, return_exceptions=True)
        await service.tapes.close()
        await service.roster.close()
        await asyncio.to_thread(service.flights.close)
        if service.telemetry is not None:
            await asyncio.to_thread(service.telemetry.close)
        service.turns.close()
        service.threads.shutdown()
        service.watching.close()
        await asyncio.to_thread(service.log.flush)

    return lifespan


async def _load(service: Service, failed: Callable[[], None] | None) -> None:
    """Load the models while the server already answers /health."""
    await service.roster.start()
    if service.roster.failed is not None and failed is not None:
        failed()
        return
    await service.roster.look()


def _answer_errors(app: FastAPI, log: Log) -> None:
    """Every error in the API's own format, including those of the framework."""

    async def ours(request: Request, error: Exception) -> Response:
        return error_reply(request, error, log)

    async def framework(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        message, code = {
            404: (f"there is no {request.url.path}", "route_not_found"),
            405: (f"{request.url.path} does not take {request.method}", "method_not_allowed"),
        }.get(error.status_code, (str(error.detail), None))
        return error_reply(request, ApiError(error.status_code, message, code=code, headers=error.headers), log)

    app.add_exception_handler(HTTPException, framework)
    app.add_exception_handler(ApiError, ours)
