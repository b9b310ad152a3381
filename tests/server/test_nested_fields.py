"""Keys inside the objects of a request are checked as the outer ones are."""

from __future__ import annotations

from typing import Any

import pytest

from server.serving import CHAT, COMPLETIONS, HELLO, Running

pytestmark = pytest.mark.models
SCHEMA = {"type": "object"}
TOOL = {"name": "f", "input_schema": SCHEMA}
CASES: list[tuple[str, dict[str, Any], str]] = [
    (CHAT, {"stream_options": {"include_usage": True, "usage": 1}}, "stream_options.usage"),
    (COMPLETIONS, {"stream_options": {"include_usag": True}}, "stream_options.include_usag"),
    (CHAT, {"response_format": {"type": "json_object", "schem": SCHEMA}}, "response_format.schem"),
    (CHAT, {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA, "nam": "x"}}},
     "response_format.json_schema.nam"),
    (CHAT, {"tools": [{"type": "function", "function": {"name": "f"}}],
            "tool_choice": {"type": "function", "function": {"name": "f"}, "nam": "f"}}, "tool_choice.nam"),
    ("/v1/responses", {"text": {"format": {"type": "text"}, "formt": 1}}, "text.formt"),
    ("/v1/responses", {"text": {"format": {"type": "json_schema", "schema": SCHEMA, "stric": True}}},
     "text.format.stric"),
    ("/v1/messages", {"tools": [TOOL | {"input_example": [{}]}]}, "tools.0.input_example"),
    ("/v1/messages", {"thinking": {"type": "disabled", "budget": 3}}, "thinking.budget"),
    ("/v1/messages", {"output_config": {"efort": "low"}}, "output_config.efort"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "fields", "named"), CASES)
def test_an_unknown_key_inside(smol: Running, path: str, fields: dict[str, Any], named: str) -> None:
    given = {CHAT: {"messages": HELLO}, COMPLETIONS: {"prompt": "a"}, "/v1/responses": {"input": "a"}}.get(
        path, {"messages": HELLO}
    )
    length = "max_output_tokens" if path == "/v1/responses" else "max_tokens"
    asked = given | fields | {length: 1}
    if "stream_options" in fields:
        told = [w for chunk in smol.chunks(path, **asked) for w in chunk.get("warnings", [])]
        asked["stream"] = True
    else:
        told = smol.ok(path, **asked)["warnings"]
    assert any(f"'{named}' was ignored" in warning for warning in told), told
    error = smol.refused(path, **asked, strict=True)
    assert f"'{named}'" in error["message"]
