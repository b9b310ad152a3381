"""Hostile bodies: every field of every route with values of wrong kinds and sizes. None causes an internal error."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from cutaway.config import Config, LimitsConfig, LoggingConfig, ModelConfig, ServerConfig
from cutaway.server.route import Route
from cutaway.server.routes import ROUTES
from fences.served_model import write_model
from server.serving import CHAT, HELLO, Running, running

DEEP: Any = "x"
for _ in range(60):
    DEEP = [DEEP]
VALUES: list[Any] = [
    -1, 10**30, 1e308, -1e308, True, "", "x" * 3000, "\ud800", [], [None], [[]], [{}], [5], {}, {"a": None}, {"": {}},
    DEEP,
    {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}, [{"role": "user", "content": [{"type": "x"}]}],
    [{"role": "tool", "tool_calls": [5]}], [{"role": "assistant", "tool_calls": [{"function": {"name": []}}]}],
    [{"type": "function", "function": {"name": "f", "parameters": {"type": 5}}}], [{"filename": 5, "text": []}],
    {"temperature": "hot", "num_predict": 10**20, "top_k": 1e300, "stop": 5}, {"seed": -(10**40), "stop": [""]},
]  # fmt: skip
MOST = 2  # values that each field gets, drawn with its name as the seed
AGAIN = 0.2  # part of the fields that a route shares with chat and that are tried there, too
SCHEMAS: list[Any] = [
    {"type": 5}, {"type": "myobject"}, {"type": ["object", {}]}, {"type": "object", "required": 5},
    {"properties": {"a": {"format": []}}}, {"properties": {"a": {"type": "array", "minItems": "x"}}},
    {"properties": {"a": {"enum": 5}}}, {"properties": {"a": {"pattern": "("}}},
]  # fmt: skip
BARE: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": HELLO, "max_tokens": 2}, "/v1/completions": {"prompt": "a", "max_tokens": 2},
    "/v1/responses": {"input": "a", "max_output_tokens": 2}, "/v1/responses/input_tokens": {"input": "a"},
    "/v1/messages": {"messages": HELLO, "max_tokens": 2}, "/v1/messages/count_tokens": {"messages": HELLO},
    "/infill": {"input_prefix": "a", "input_suffix": "b", "max_tokens": 2},
    "/api/chat": {"messages": HELLO, "options": {"num_predict": 2}, "stream": False},
    "/api/generate": {"prompt": "a", "options": {"num_predict": 2}, "stream": False}, "/api/show": {},
    "/api/embed": {"input": "a"}, "/api/embeddings": {"prompt": "a"}, "/tokenize": {"prompt": "a"},
    "/detokenize": {"tokens": [5]}, "/apply-template": {"messages": HELLO},
}  # fmt: skip
WITH_BODY = [route for route in ROUTES if route.schema is not None]
CHAT_FIELDS = next(route.schema.model_fields for route in WITH_BODY if route.schema and route.path == CHAT)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("hostile") / "tiny.gguf"
    write_model(path)
    config = Config(
        models=(ModelConfig(str(path), name="tiny", context=256, contexts=3, threads=1),),
        server=ServerConfig(port=0), logging=LoggingConfig(format="json"), limits=LimitsConfig(tokens_per_request=8),
    )  # fmt: skip
    with running(config) as server:
        yield server


def test_every_route_is_asked() -> None:
    assert BARE.keys() == {route.path for route in WITH_BODY}


@pytest.mark.parametrize("route", WITH_BODY, ids=[route.path for route in WITH_BODY])
def test_no_value_of_any_field_is_a_fault(tiny: Running, route: Route) -> None:
    assert route.schema is not None
    for name in [*route.schema.model_fields, "unheard_of"]:
        draw = random.Random(route.path + name)
        if route.path != CHAT and name in CHAT_FIELDS and draw.random() > AGAIN:
            continue
        for value in draw.sample(VALUES, MOST):
            check(tiny, route.path, {name: value})
    assert tiny.post(route.path, **BARE[route.path]).status_code in (200, 400)  # it still answers
    assert not [line for line in tiny.log() if line["event"] == "fault"]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_schemas_of_tools_with_values_of_wrong_kinds(tiny: Running, schema: Any) -> None:
    """With strict: refused, and the place is named. Without: looser, with a warning."""
    function = {"name": "f", "parameters": schema}
    for path in ("/v1/chat/completions", "/api/chat"):
        reply = check(tiny, path, {"tools": [{"type": "function", "function": function | {"strict": True}}]})
        assert reply.status_code == 400 and "tools[0].function.parameters" in reply.text, reply.text
        reply = check(tiny, path, {"tools": [{"type": "function", "function": function}]})
        assert reply.status_code == 200, reply.text
        assert "tool 'f'" in reply.json()["warnings"][0]
    reply = check(tiny, "/v1/responses", {"tools": [{"type": "function", "strict": True, **function}]})
    assert reply.status_code == 400 and "tools[0]" in reply.text, reply.text
    check(tiny, "/v1/messages", {"tools": [{"name": "f", "input_schema": schema}]})


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_schemas_of_answers_with_values_of_wrong_kinds(tiny: Running, schema: Any) -> None:
    named = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    for path, fields in {
        "/v1/chat/completions": {"response_format": named}, "/api/chat": {"format": schema},
        "/api/generate": {"format": schema}, "/v1/completions": {"guided_json": schema},
        "/v1/responses": {"text": {"format": {"type": "json_schema", "name": "a", "schema": schema}}},
    }.items():  # fmt: skip
        reply = check(tiny, path, fields)
        assert reply.status_code == 400, (path, reply.text)


def check(server: Running, path: str, fields: dict[str, Any]) -> httpx.Response:
    body = ascii_json(BARE[path] | fields)
    reply = server.client.post(path, content=body, headers={"content-type": "application/json"})
    assert reply.status_code < 500, (path, repr(fields)[:120], reply.text[:300])
    return reply


def ascii_json(value: Any) -> bytes:
    """Half a surrogate pair is an escape, as a client may send it."""
    return json.dumps(value).encode("ascii")
