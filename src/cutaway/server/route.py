"""A route: the handler of a path, the schema of its body, and the API to which it belongs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from cutaway.server.api.schemas import Fields
from cutaway.server.api.validation import read_fields
from cutaway.server.state import service_of
from cutaway.server.transport.dialects import OPENAI, Dialect

Handler = Callable[[Request], Awaitable[Response]]
_VERSION = "/v1"


@dataclass(frozen=True, slots=True)
class Route:
    """One line of the table in routes.py.

    schema: the model that validates the body. prompt_field: the API's name of the input, for errors. operation:
    OpenTelemetry's name of the operation; "" if the route generates nothing.
    """

    method: str
    path: str
    handler: Handler
    schema: type[Fields] | None = None
    dialect: Dialect = OPENAI
    prompt_field: str = ""
    operation: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths that serve the route: also without /v1, for clients whose base URL lacks it."""
        short = self.path.removeprefix(_VERSION)
        return (self.path,) if short == self.path else (self.path, short)

    @property
    def template(self) -> str:
        """The path with named parameters, in the syntax of OpenAPI and OpenTelemetry."""
        return self.path.replace(":path}", "}")

    @property
    def names(self) -> dict[str, str]:
        """The name of the input in errors, mapped to its name in this API."""
        own = self.prompt_field
        return {name: own for name in ("prompt", "messages") if own and name != own}


class RouteTable:
    """Finds the route of a path before the framework does, because errors always need the format of its API."""

    def __init__(self, routes: Iterable[Route]) -> None:
        placed = [(path, route) for route in routes for path in route.paths]
        self._exact = {path: route for path, route in placed if "{" not in path}
        ends = [(path.partition("{")[0], path.rpartition("}")[2], route) for path, route in placed if "{" in path]
        self._ends = sorted(ends, key=lambda end: -len(end[1]))  # the longest text behind the parameter first
        spaces = {route.dialect.namespace: route.dialect for _, route in placed}
        self._spaces = sorted(spaces.items(), key=lambda space: -len(space[0]))

    def find(self, path: str) -> Route | None:
        """The route of a path, or None if the path is not served."""
        if path in self._exact:
            return self._exact[path]
        return next((r for before, behind, r in self._ends if path.startswith(before) and path.endswith(behind)), None)

    def dialect(self, path: str) -> Dialect:
        """The dialect of any path, served or not."""
        route = self.find(path)
        if route is not None:
            return route.dialect
        return next((dialect for space, dialect in self._spaces if path.startswith(space)), OPENAI)


def route_of(connection: HTTPConnection) -> Route:
    """The route that handles this request."""
    route: Route = connection.scope["cutaway.route"]
    return route


async def read_request(request: Request) -> tuple[Any, list[str]]:
    """The fields of the request's body, as an instance of its route's schema, and warnings. Raises ApiError."""
    service, schema = service_of(request), route_of(request).schema
    assert schema is not None
    return read_fields(schema, await service.body(request), strict=service.config.server.strict)
