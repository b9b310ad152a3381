"""Qwen2.5-Coder writes calls without the markers of its format: they are calls by every API, whole and streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from server.serving import CHAT, Running, config_for, running

pytestmark = pytest.mark.models

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "get_weather", "description": "Get the weather of a city", "parameters": PARAMETERS}
ASK = "What is the weather in Rome? Use the tool."
MARKER = "without the format's marker"
TOOLS = [{"type": "function", "function": FUNCTION}]


@pytest.fixture(scope="module")
def qwen(qwen_path: Path) -> Iterator[Running]:
    config = config_for(qwen_path)
    with running(replace(config, models=(replace(config.models[0], contexts=1),))) as server:
        yield server


def chat(server: Running, content: str, **more: Any) -> dict[str, Any]:
    fields = {"messages": [{"role": "user", "content": content}], "tools": TOOLS, "temperature": 0, "max_tokens": 80}
    return fields | more


def test_chat(qwen: Running) -> None:
    asked = chat(qwen, ASK)
    reply = qwen.ok(CHAT, **asked)
    (choice,) = reply["choices"]
    assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] is None
    (call,) = choice["message"]["tool_calls"]
    assert call["function"]["name"] == "get_weather" and json.loads(call["function"]["arguments"]) == {"city": "Rome"}
    assert any(MARKER in warning for warning in reply["warnings"])
    chunks = qwen.chunks(CHAT, **asked)
    deltas = [told["delta"] for chunk in chunks for told in chunk["choices"]]
    assert not "".join(delta.get("content") or "" for delta in deltas)
    calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
    assert calls[0]["function"]["name"] == "get_weather"
    assert json.loads("".join(call["function"]["arguments"] for call in calls)) == {"city": "Rome"}
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert any(MARKER in warning for warning in chunks[-1]["warnings"])


def test_responses(qwen: Running) -> None:
    asked = {"input": ASK, "tools": [{"type": "function", **FUNCTION}], "temperature": 0, "max_output_tokens": 80}
    reply = qwen.ok("/v1/responses", **asked)
    (item,) = reply["output"]
    assert item["type"] == "function_call" and json.loads(item["arguments"]) == {"city": "Rome"}
    events = [json.loads(event) for event in qwen.events("/v1/responses", **asked)]
    (streamed,) = events[-1]["response"]["output"]
    assert (streamed["name"], streamed["arguments"]) == (item["name"], item["arguments"])


def test_messages(qwen: Running) -> None:
    tool = {"name": "get_weather", "description": "Get the weather of a city", "input_schema": PARAMETERS}
    asked = {"messages": [{"role": "user", "content": ASK}], "tools": [tool], "temperature": 0, "max_tokens": 80}
    reply = qwen.ok("/v1/messages", **asked)
    (block,) = reply["content"]
    assert (block["type"], block["input"], reply["stop_reason"]) == ("tool_use", {"city": "Rome"}, "tool_use")
    events = [json.loads(event) for event in qwen.events("/v1/messages", **asked)]
    text = "".join(e["delta"]["partial_json"] for e in events if e["type"] == "content_block_delta")
    assert json.loads(text) == {"city": "Rome"}


def test_other_json_stays_content(qwen: Running) -> None:
    asked = chat(qwen, "Give me a JSON object with name and age of a person.", temperature=0.7, seed=1)
    reply = qwen.ok(CHAT, **asked)
    (choice,) = reply["choices"]
    assert choice["finish_reason"] == "stop" and "tool_calls" not in choice["message"]
    assert json.loads(choice["message"]["content"])["age"] == 30


def test_without_tools_or_with_none_it_is_content(qwen: Running) -> None:
    for more in ({"tool_choice": "none"}, {"tools": None}):
        text = '{"name": "get_weather", "arguments": {"city": "Rome"}}'
        reply = qwen.ok(CHAT, **chat(qwen, f"Say {text}", **more, choice=[text]))
        assert reply["choices"][0]["message"]["content"] == text
