"""The state that all routes of a server share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import time
from typing import Any, ParamSpec, TypeVar

from starlette.requests import HTTPConnection, Request

from cutaway.config import Config, sampling_settings
from cutaway.server.inspect.turns import Turns
from cutaway.server.inspect.watching import Watching
from cutaway.server.models.pool import Roster
from cutaway.server.observe.logs import Log
from cutaway.server.observe.metrics import Metrics
from cutaway.server.observe.tracing import Telemetry
from cutaway.server.transport.admission import Admission
from cutaway.server.transport.auth import AdminToken, Keys
from cutaway.server.transport.body import Body, read_json
from cutaway.server.transport.replay import Tapes
from cutaway.xray.flight_recorder import FlightRecorder

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class Service:
    """Created once, when the server starts. began: seconds since 1970. admin: the key that sees everything under
    /x/."""

    config: Config
    roster: Roster
    admission: Admission
    keys: Keys
    metrics: Metrics
    log: Log
    tapes: Tapes
    telemetry: Telemetry | None = None
    flights: FlightRecorder = field(default_factory=lambda: FlightRecorder(None))
    admin: AdminToken = field(default_factory=AdminToken)
    began: float = field(default_factory=time)
    turns: Turns = field(default_factory=Turns)
    watching: Watching = field(default_factory=Watching)
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(4, "cutaway-prepare"))

    @property
    def sampling(self) -> dict[str, Any]:
        """The config's sampling parameters."""
        named = {} if self.config.sampling.preset is None else {"preset": self.config.sampling.preset}
        return sampling_settings(self.config) | named

    async def in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run long operations (templates, tokenizing, grammars) in a thread, so that they do not delay other
        streams."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, lambda: work(*args, **kwargs))

    async def body(self, request: Request) -> Body:
        """The body as an object. Raises ApiError."""
        server = self.config.server
        return await read_json(
            request, max_bytes=server.max_body, max_depth=server.max_depth, encodings=server.body_encodings
        )


def service_of(connection: HTTPConnection) -> Service:
    service: Service = connection.app.state.service
    return service


def request_id(connection: HTTPConnection) -> str:
    """The id of this request: the client's own x-request-id, or a generated one."""
    made: str = connection.scope["cutaway.id"]
    return made


def caller(connection: HTTPConnection) -> str:
    """The caller: a hash of its key, or its address."""
    name: str = connection.scope["cutaway.caller"]
    return name
