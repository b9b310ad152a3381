"""The table of routes: one line serves, describes and names an endpoint, and errors speak its API."""

from __future__ import annotations

from typing import Any

import pytest

from cutaway.server.route import Route, RouteTable
from cutaway.server.routes import ROUTES
from server.serving import HELLO, Running

pytestmark = pytest.mark.models
TABLE = RouteTable(ROUTES)
WITH_BODY = [route for route in ROUTES if route.schema is not None]


def ids(routes: list[Route]) -> list[str]:
    return [f"{route.method} {route.path}" for route in routes]


def test_every_path_finds_its_route() -> None:
    paths = [path for route in ROUTES for path in route.paths]
    assert len(paths) == len(set(paths))
    for route in ROUTES:
        for path in route.paths:
            assert TABLE.find(path.replace("{name:path}", "a/b")) is route
    assert TABLE.find("/v2/models") is None and TABLE.find("/v1/messages/x") is None
    assert TABLE.dialect("/v1/messages/x").error is not TABLE.dialect("/v2/models").error


def error_of(route: Route, body: Any) -> str:
    """The message, from the shape that this API's clients read."""
    if route.dialect.namespace == "/v1/messages":
        assert body["type"] == "error" and body["request_id"] and set(body["error"]) == {"type", "message"}
        return str(body["error"]["message"])
    assert set(body) == {"error"}
    if route.dialect.namespace == "/api/":
        assert isinstance(body["error"], str)
        return str(body["error"])
    if route.dialect.namespace == "/infill":
        assert set(body["error"]) == {"code", "message", "type"} and 400 <= body["error"]["code"] < 500
        return str(body["error"]["message"])
    assert set(body["error"]) == {"message", "type", "param", "code"}
    return str(body["error"]["message"])


@pytest.mark.parametrize("route", WITH_BODY, ids=ids(WITH_BODY))
def test_a_wrong_body_is_refused_in_the_shape_of_the_api(smol: Running, route: Route) -> None:
    for path in route.paths:
        reply = smol.client.request(route.method, path, content=b"[1]")
        assert reply.status_code == 400 and "must be a JSON object" in error_of(route, reply.json()), path
        reply = smol.client.request(route.method, path, json={"model": 5})
        assert reply.status_code == 400 and error_of(route, reply.json()), path
    reply = smol.client.request("PUT", route.path, json={})
    assert reply.status_code == 405 and "PUT" in error_of(route, reply.json())


def test_paths_without_the_version_are_the_same_routes(smol: Running) -> None:
    chat: dict[str, Any] = {"messages": HELLO, "max_tokens": 3, "temperature": 0}
    long, short = smol.ok("/v1/chat/completions", **chat), smol.ok("/chat/completions", **chat)
    assert long["choices"] == short["choices"]
    assert smol.chunks("/completions", prompt="1 2 3", max_tokens=2)
    assert smol.ok("/responses", input="Hi.", max_output_tokens=2)["object"] == "response"
    assert smol.ok("/messages", messages=HELLO, max_tokens=2)["type"] == "message"
    assert smol.client.get("/models").json() == smol.client.get("/v1/models").json()
    assert smol.client.get("/models/smol").json()["id"] == "smol"


def test_the_input_has_the_name_that_its_api_has_for_it(smol: Running) -> None:
    """Too long for the context: each API's error names its own field."""
    words = "word " * 600
    message = [{"role": "user", "content": words}]
    for path, said in {
        "/v1/chat/completions": {"messages": message}, "/v1/completions": {"prompt": words},
        "/v1/responses": {"input": words}, "/responses": {"input": words},
    }.items():  # fmt: skip
        (param,) = said
        error = smol.refused(path, **said)
        assert (error["code"], error["param"]) == ("context_length_exceeded", param), path


def test_the_description_is_made_of_the_table(smol: Running) -> None:
    description = smol.client.get("/openapi.json").json()
    assert {path: set(methods) for path, methods in description["paths"].items()} == {
        route.template: {route.method.lower()} for route in ROUTES
    }
    for route in ROUTES:
        operation = description["paths"][route.template][route.method.lower()]
        assert operation["summary"] and ("requestBody" in operation) == (route.schema is not None)
        assert (route.dialect.media_type in operation["responses"]["200"]["content"]) == bool(route.operation)
