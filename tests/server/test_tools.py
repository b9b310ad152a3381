"""Tools end to end: with a form of the answer beside them, and on a real model that knows how to call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import jsonschema
import pytest

from server.serving import CHAT, HELLO, Running, config_for, running

pytestmark = pytest.mark.models

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 12, "description": "The city"},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "weather", "description": "Tells the weather forecast of a city.", "parameters": PARAMETERS},
}
ANSWER: dict[str, Any] = {
    "type": "object", "properties": {"answer": {"type": "string", "maxLength": 20}}, "required": ["answer"],
    "additionalProperties": False,
}  # fmt: skip
FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "schema": ANSWER}}
WEATHER = [{"role": "user", "content": "What will the weather be in Rome for the next 3 days?"}]


def whole(server: Running, **fields: Any) -> dict[str, Any]:
    """The choice of a reply; its stream must tell the same."""
    choice = server.ok(CHAT, **fields)["choices"][0]
    message: dict[str, Any] = {"content": "", "calls": []}
    reason = None
    for chunk in server.chunks(CHAT, **fields):
        for told in chunk["choices"]:
            delta = told["delta"]
            message["content"] += delta.get("content") or ""
            for call in delta.get("tool_calls", []):
                if "id" in call:
                    assert call["index"] == len(message["calls"])
                    message["calls"].append({"name": call["function"]["name"], "arguments": ""})
                message["calls"][call["index"]]["arguments"] += call["function"]["arguments"]
            reason = told["finish_reason"] or reason
    said = choice["message"]
    calls = [{key: call["function"][key] for key in ("name", "arguments")} for call in said.get("tool_calls", [])]
    assert message == {"content": said["content"] or "", "calls": calls}
    assert reason == choice["finish_reason"]
    made: dict[str, Any] = choice
    return made


def called(choice: dict[str, Any]) -> list[Any]:
    return [json.loads(call["function"]["arguments"]) for call in choice["message"].get("tool_calls", [])]


class TestWithAForm:
    """tools and response_format in one request, on a small model that obeys nothing but grammars."""

    ASKED: ClassVar[dict[str, Any]] = {"tools": [TOOL], "response_format": FORMAT, "max_tokens": 60, "temperature": 0}

    def test_auto_is_either_the_form_or_a_call(self, smol: Running) -> None:
        found = set()
        for seed in range(4):
            fields = self.ASKED | {"messages": HELLO, "temperature": 1.0, "seed": seed}
            choice = whole(smol, **fields)
            found.add(choice["finish_reason"])
            if choice["finish_reason"] == "stop":
                jsonschema.validate(json.loads(choice["message"]["content"]), ANSWER)
                assert "tool_calls" not in choice["message"]
            elif choice["finish_reason"] == "tool_calls":
                assert choice["message"]["content"] is None
                for arguments in called(choice):
                    jsonschema.validate(arguments, PARAMETERS)
        assert found & {"stop", "tool_calls"}

    def test_none_is_the_form(self, smol: Running) -> None:
        choice = whole(smol, messages=HELLO, **self.ASKED, tool_choice="none")
        jsonschema.validate(json.loads(choice["message"]["content"]), ANSWER)

    @pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}])
    def test_a_call_that_must_be_made_is_a_call(self, smol: Running, choice: Any) -> None:
        told = whole(smol, messages=WEATHER, **self.ASKED, tool_choice=choice, parallel_tool_calls=False)
        assert told["message"]["content"] is None
        jsonschema.validate(called(told)[0], PARAMETERS)

    def test_what_looks_like_a_call_inside_the_form_is_text(self, smol: Running) -> None:
        text = '{"a": "<tool_call>[{\\"name\\": \\"weather\\"}]</tool_call>"}'
        fields: dict[str, Any] = {"messages": HELLO, "tools": [TOOL], "choice": [text], "max_tokens": 80}
        told = (whole(smol, **fields, temperature=1.0, seed=seed) for seed in range(10))
        choice = next(choice for choice in told if choice["finish_reason"] == "stop")
        assert choice["message"]["content"] == text and "tool_calls" not in choice["message"]

    def test_what_cannot_be_enforced_is_a_400_that_names_it(self, smol: Running) -> None:
        format = {"type": "json_schema", "json_schema": {"schema": {"uniqueItems": True}}}
        asked = self.ASKED | {"response_format": format}
        assert "uniqueItems" in smol.refused(CHAT, messages=HELLO, **asked)["message"]

    def test_the_other_routes(self, smol: Running) -> None:
        function = TOOL["function"] | {"type": "function"}
        reply = smol.ok(
            "/v1/responses", input="Say hello.", tools=[function], max_output_tokens=60, temperature=0,
            text={"format": {"type": "json_schema", "name": "answer", "schema": ANSWER}},
        )  # fmt: skip
        (item,) = reply["output"]
        if item["type"] == "message":
            jsonschema.validate(json.loads(item["content"][0]["text"]), ANSWER)
        else:
            jsonschema.validate(json.loads(item["arguments"]), PARAMETERS)


@pytest.fixture(scope="module")
def qwen(qwen_path: Path) -> Iterator[Running]:
    config = config_for(qwen_path)
    with running(replace(config, models=(replace(config.models[0], contexts=1),))) as server:
        yield server


class TestOnQwen:
    ASKED: ClassVar[dict[str, Any]] = {"messages": WEATHER, "tools": [TOOL], "max_tokens": 60, "temperature": 0}

    def test_required(self, qwen: Running) -> None:
        choice = whole(qwen, **self.ASKED, tool_choice="required", parallel_tool_calls=False)
        assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] is None
        (arguments,) = called(choice)
        assert "Rome" in arguments["city"] and arguments["days"] == 3

    def test_auto(self, qwen: Running) -> None:
        choice = whole(qwen, **self.ASKED)
        for arguments in called(choice):
            jsonschema.validate(arguments, PARAMETERS)
        assert called(choice) or choice["message"]["content"]

    def test_auto_with_a_form(self, qwen: Running) -> None:
        choice = whole(qwen, **self.ASKED, response_format=FORMAT)
        if not called(choice):
            jsonschema.validate(json.loads(choice["message"]["content"]), ANSWER)
        said = whole(qwen, **self.ASKED | {"messages": [{"role": "user", "content": "Who are you?"}]},
                     response_format=FORMAT)  # fmt: skip
        assert called(said) or json.loads(said["message"]["content"])["answer"]
