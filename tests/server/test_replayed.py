"""History that a client sends back: each field of it reaches the model, or the reply warns of it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutaway.text import ChatTemplate
from server.serving import CHAT, Running, config_for, running

pytestmark = pytest.mark.models
RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.THINK %}<think>{{ m.THINK }}</think>{% endif %}"
    "{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }}"
    "{{ c.function.arguments | tojson }}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WHY, ARGUMENTS = "I need the weather.", {"city": "Rome"}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": json.dumps(ARGUMENTS)}}


@pytest.fixture(scope="module")
def server(smollm2_path: Path) -> Iterator[Running]:
    config = config_for(smollm2_path)
    with running(replace(config, logging=replace(config.logging, prompts=True))) as made:
        engine = made.service.roster.models["smol"].engine
        assert engine is not None
        engine.template = ChatTemplate(TEMPLATE.replace("THINK", "reasoning_content"), engine.tokenizer)
        yield made


def chat_body(spelling: str = "reasoning_content") -> dict[str, Any]:
    turn = {"role": "assistant", "content": "Let me see.", spelling: WHY, "tool_calls": [CALL]}
    result = {"role": "tool", "tool_call_id": "c1", "content": "Sunny."}
    return {"messages": [{"role": "user", "content": "Weather?"}, turn, result]}


def messages_body() -> dict[str, Any]:
    blocks = [
        {"type": "thinking", "thinking": WHY, "signature": "s"}, {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "c1", "name": "weather", "input": ARGUMENTS},
    ]  # fmt: skip
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "Sunny."}]}
    return {"messages": [
        {"role": "user", "content": "Weather?"}, {"role": "assistant", "content": blocks},
        {"role": "user", "content": [result]},
    ]}  # fmt: skip


def responses_body() -> dict[str, Any]:
    return {"input": [
        {"type": "message", "role": "user", "content": "Weather?"},
        {"type": "reasoning", "id": "r1", "summary": [], "content": [{"type": "reasoning_text", "text": WHY}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me see."}]},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": json.dumps(ARGUMENTS)},
        {"type": "function_call_output", "call_id": "c1", "output": "Sunny."},
    ]}  # fmt: skip


def asked(server: Running, path: str, body: dict[str, Any]) -> tuple[str, list[str]]:
    """The prompt that the model got and the warnings; of a refusal, "" and its message."""
    length = "max_output_tokens" if path == RESPONSES else "max_tokens"
    reply = server.post(path, body | {length: 1, "temperature": 0})
    if reply.status_code == 400:
        return "", [reply.json()["error"]["message"]]
    assert reply.status_code == 200, reply.text
    logged = [line for line in server.log() if line.get("event", line.get("message")) == "request" or "prompts" in line]
    (prompt,) = logged[-1]["prompts"]
    return prompt, reply.json().get("warnings", [])


SPELLINGS: list[tuple[str, dict[str, Any]]] = [
    (CHAT, chat_body()), (CHAT, chat_body("reasoning")), (CHAT, chat_body("thinking")), (MESSAGES, messages_body()),
    (RESPONSES, responses_body()),
]  # fmt: skip


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_is_the_same_message_in_every_spelling(server: Running, name: str) -> None:
    """Whatever the APIs call it, and whatever the template does."""
    engine = server.service.roster.models["smol"].engine
    assert engine is not None
    before, engine.template = engine.template, ChatTemplate(TEMPLATE.replace("THINK", name), engine.tokenizer)
    try:
        prompts = {asked(server, path, body)[0] for path, body in SPELLINGS}
    finally:
        engine.template = before
    (prompt,) = prompts
    assert f"<think>{WHY}</think>Let me see.<tool_call>weather" in prompt and "Sunny." in prompt


def test_two_spellings_that_differ_are_refused(server: Running) -> None:
    body = chat_body()
    body["messages"][1]["reasoning"] = "Something else"
    assert "differ" in asked(server, CHAT, body)[1][0]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list) and value:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, key))
    else:
        yield path


TIES = {"type", "id", "role", "call_id", "tool_call_id", "tool_use_id", "status", "signature", "cache_control"}
"""What ties history together and says nothing to a model."""


def rich(path: str) -> dict[str, Any]:
    """A body with every field that clients of the API send back."""
    if path == CHAT:
        body = chat_body()
        body["messages"][0] |= {"name": "ann", "content": [{"type": "text", "text": "Weather?"}]}
        body["messages"][1] |= {
            "name": "bot", "refusal": "no", "annotations": [{"type": "url_citation", "url": "u"}],
            "audio": {"id": "a"}, "function_call": {"name": "g", "arguments": "{}"}, "thinking_blocks": ["t"],
            "prefix": True,
        }  # fmt: skip
        body["messages"][2] |= {"name": "weather"}
        return body
    if path == MESSAGES:
        body = messages_body()
        body["system"] = [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}]
        body["messages"][1]["content"][1]["citations"] = [{"cited_text": "c"}]
        body["messages"][1]["content"].insert(1, {"type": "redacted_thinking", "data": "d"})
        body["messages"][2]["content"][0]["is_error"] = False
        return body
    body = responses_body()
    body["instructions"] = "Be kind."
    body["input"][1] |= {"encrypted_content": "e", "summary": [{"type": "summary_text", "text": "s"}]}
    body["input"][2]["content"][0] |= {"annotations": [{"type": "file_citation"}], "logprobs": []}
    body["input"][2] |= {"status": "completed", "id": "m1", "phase": "final"}
    return body


def another(old: Any, field: str) -> Any:
    """Another value of the same kind."""
    if isinstance(old, bool):
        return not old
    if isinstance(old, list):
        return ["ZQ"]
    return '{"city": "ZQ"}' if field == "arguments" else f"{old}ZQ"


@pytest.mark.parametrize("path", [CHAT, MESSAGES, RESPONSES])
def test_every_field_reaches_the_model_or_is_warned_of(server: Running, path: str) -> None:
    body = rich(path)
    before, told = asked(server, path, body)
    assert before, told
    walked = 0
    for place in leaves(body):
        field = [key for key in place if isinstance(key, str)][-1]
        if field in TIES:
            continue
        changed = copy.deepcopy(body)
        holder = changed
        for key in place[:-1]:
            holder = holder[key]
        old = holder[place[-1]]
        holder[place[-1]] = another(old, field)
        prompt, warnings = asked(server, path, changed)
        keys = [key for key in place if isinstance(key, str)]
        warned = any(f".{key}" in w or f" {key} " in w or "redacted" in w for w in warnings for key in keys[1:])
        assert prompt != before or warned or set(warnings) != set(told), (place, warnings)
        walked += 1
    assert walked >= 6


def test_results_in_another_order_than_their_calls(server: Running) -> None:
    body = chat_body()
    second = {"id": "c2", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
    body["messages"][1]["tool_calls"] = [CALL, second]
    body["messages"].insert(2, {"role": "tool", "tool_call_id": "c2", "content": "Snow."})
    assert any("another order" in warning for warning in asked(server, CHAT, body)[1])
    body["messages"][2:4] = reversed(body["messages"][2:4])
    assert not any("another order" in warning for warning in asked(server, CHAT, body)[1])


def test_an_error_of_a_tool_reaches_the_model(server: Running) -> None:
    body = messages_body()
    body["messages"][2]["content"][0]["is_error"] = True
    assert "Error: Sunny." in asked(server, MESSAGES, body)[0]


def test_the_assistants_last_message_is_continued(server: Running) -> None:
    question = {"role": "user", "content": "Where is the Louvre?"}
    for content in ("It is in", [{"type": "text", "text": "It is in"}]):
        prompt, _ = asked(server, MESSAGES, {"messages": [question, {"role": "assistant", "content": content}]})
        assert prompt.endswith("assistant\nIt is in")
        count = server.ok("/v1/messages/count_tokens", messages=[question, {"role": "assistant", "content": content}])
        assert count["input_tokens"] == len(server.ok("/tokenize", content=prompt, parse_special=True)["tokens"])
    call = {"type": "tool_use", "id": "c1", "name": "weather", "input": {}}
    called = {"messages": [question, {"role": "assistant", "content": [call]}]}
    assert "tool_result" in asked(server, MESSAGES, called)[1][0]


def test_thinking_at_a_model_that_does_not_reason_is_ignored_with_a_warning(smol: Running) -> None:
    hello = [{"role": "user", "content": "Say hello."}]
    for thinking in ({"type": "enabled", "budget_tokens": 1024}, {"type": "adaptive"}):
        reply = smol.ok(MESSAGES, messages=hello, max_tokens=2, thinking=thinking)
        assert any("thinking was ignored" in warning for warning in reply["warnings"])
        assert not smol.ok(MESSAGES, messages=hello, max_tokens=2, thinking={"type": "disabled"}).get("warnings")
    assert smol.refused(CHAT, messages=hello, reasoning_budget=3)["code"] == "parameter_unsupported"
