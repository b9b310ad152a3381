"""The official clients, as they are, over a real socket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from pydantic import BaseModel

from server.serving import HELLO, Running

pytestmark = pytest.mark.models

WEATHER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 12},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "weather", "description": "A forecast.", "parameters": WEATHER},
}


class Person(BaseModel):
    name: str
    age: int


@pytest.fixture
def client(smol: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{smol.url}/v1", api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture
def claude(smol: Running) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=smol.url, api_key="none", max_retries=0) as made:
        yield made


def test_openai_chat(client: openai.OpenAI) -> None:
    reply = client.chat.completions.create(model="smol", messages=HELLO, max_completion_tokens=8, temperature=0)
    assert reply.choices[0].message.content and reply.usage and reply.usage.completion_tokens <= 8
    assert reply.system_fingerprint and "cutaway" in reply.system_fingerprint
    stream = client.chat.completions.create(
        model="smol",
        messages=HELLO,
        max_completion_tokens=8,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == reply.choices[0].message.content
    assert chunks[-1].usage and chunks[-1].usage.completion_tokens == reply.usage.completion_tokens


def test_openai_errors(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="gpt-9", messages=HELLO)
    assert missing.value.code == "model_not_found" and "smol" in missing.value.message
    with pytest.raises(openai.BadRequestError) as wrong:
        client.chat.completions.create(model="smol", messages=HELLO, temperature=-1)
    assert wrong.value.param == "temperature"


def test_openai_models_and_completions(client: openai.OpenAI) -> None:
    (model,) = client.models.list().data
    assert model.id == "smol" and client.models.retrieve("smol").id == "smol"
    reply = client.completions.create(model="smol", prompt="1 2 3", max_tokens=4, logprobs=2, temperature=0)
    assert reply.choices[0].logprobs and reply.choices[0].logprobs.tokens
    assert reply.usage and reply.usage.completion_tokens == 4


def test_openai_parse_with_pydantic(client: openai.OpenAI) -> None:
    reply = client.chat.completions.parse(
        model="smol",
        messages=[{"role": "user", "content": "Ann is 30."}],
        response_format=Person,
        temperature=0,
        max_tokens=60,
    )
    assert isinstance(reply.choices[0].message.parsed, Person)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}])
def test_openai_tools(client: openai.OpenAI, choice: Any) -> None:
    """C39, C41: forced calls follow the schema; streamed they are the same."""
    asked: dict[str, Any] = {
        "model": "smol", "messages": [{"role": "user", "content": "Weather in Rome?"}], "tools": [TOOL], "seed": 3,
        "tool_choice": choice, "temperature": 0, "max_tokens": 80, "parallel_tool_calls": False,
    }  # fmt: skip
    reply = client.chat.completions.create(**asked)
    (call,) = reply.choices[0].message.tool_calls or []
    assert call.type == "function" and call.function.name == "weather"
    assert set(json.loads(call.function.arguments)) == {"city", "days"}
    assert reply.choices[0].finish_reason == ("tool_calls" if choice == "required" else "stop")
    deltas = [c.choices[0] for c in client.chat.completions.create(stream=True, **asked) if c.choices]
    calls = [t for d in deltas for t in d.delta.tool_calls or []]
    assert calls[0].id and calls[0].function and calls[0].function.name == "weather"
    assert all(t.id is None and t.function and t.function.name is None for t in calls[1:])
    assert "".join((t.function.arguments or "") for t in calls if t.function) == call.function.arguments
    assert [d.finish_reason for d in deltas if d.finish_reason] == [reply.choices[0].finish_reason]


def test_openai_a_tool_without_parameters(client: openai.OpenAI) -> None:
    """C39."""
    tool = {
        "type": "function",
        "function": {"name": "now", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}},
    }
    asked: dict[str, Any] = {
        "model": "smol", "messages": HELLO, "tools": [tool], "tool_choice": "required", "temperature": 0,
        "max_tokens": 40,
        "parallel_tool_calls": False,
    }  # fmt: skip
    (call,) = client.chat.completions.create(**asked).choices[0].message.tool_calls or []
    assert call.type == "function" and json.loads(call.function.arguments) == {}


def test_openai_tool_choice_none_and_wrong_ones(client: openai.OpenAI) -> None:
    """C41."""
    asked: dict[str, Any] = {"model": "smol", "messages": HELLO, "max_tokens": 6, "temperature": 0}
    for stream in (False, True):
        reply = client.chat.completions.create(**asked, tools=[TOOL], tool_choice="none", stream=stream)
        choices = [c.choices[0] for c in reply] if stream else reply.choices
        assert all(not (c.delta if stream else c.message).tool_calls for c in choices)
    for wrong in (
        {"tools": [], "tool_choice": "required"},
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "x"}}},
    ):
        with pytest.raises(openai.BadRequestError, match="tool_choice"):
            client.chat.completions.create(**asked, **wrong)


def test_openai_responses(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "smol", "input": "Say hello.", "max_output_tokens": 8, "temperature": 0}
    reply = client.responses.create(**asked, instructions="You are brief.", store=False)
    assert reply.output_text and reply.usage and reply.usage.output_tokens <= 8
    assert reply.status in ("completed", "incomplete")
    assert client.responses.create(**asked | {"max_output_tokens": 1}).incomplete_details
    asked |= {"max_output_tokens": 40, "extra_body": {"stop": ["!", "."]}}  # the client's stream wants a whole answer
    whole = client.responses.create(**asked)
    with client.responses.stream(**asked) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert final.output_text == whole.output_text
    assert [e.sequence_number for e in events] == list(range(len(events)))
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == whole.output_text
    assert events[-1].type == f"response.{whole.status}"
    with pytest.raises(openai.BadRequestError, match="does not store responses"):
        client.responses.create(**asked, previous_response_id="resp_1")


def test_openai_responses_tools_and_parse(client: openai.OpenAI) -> None:
    tool = {"type": "function", "name": "weather", "parameters": WEATHER, "strict": True}
    asked: dict[str, Any] = {
        "model": "smol", "input": [{"role": "user", "content": [{"type": "input_text", "text": "Rome?"}]}],
        "tools": [tool], "tool_choice": "required", "temperature": 0, "max_output_tokens": 80,
        "parallel_tool_calls": False,
    }  # fmt: skip
    (call,) = client.responses.create(**asked).output
    assert call.type == "function_call" and set(json.loads(call.arguments)) == {"city", "days"}
    with client.responses.stream(**asked) as stream:
        (streamed,) = stream.get_final_response().output
    assert streamed.type == "function_call" and streamed.arguments == call.arguments
    history = [
        *asked["input"],
        call.model_dump(),
        {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"},
    ]
    assert client.responses.create(model="smol", input=history, max_output_tokens=4, temperature=0).output_text
    parsed = client.responses.parse(
        model="smol", input="Ann is 30.", text_format=Person, temperature=0, max_output_tokens=60
    )
    assert isinstance(parsed.output_parsed, Person)


def test_anthropic_messages(claude: anthropic.Anthropic) -> None:
    # the client has no temperature of its own any more
    asked: dict[str, Any] = {
        "model": "smol",
        "max_tokens": 8,
        "messages": HELLO,
        "system": "You are brief.",
        "extra_body": {"temperature": 0},
    }
    reply = claude.messages.create(**asked)
    assert reply.content[0].type == "text" and reply.content[0].text
    assert reply.usage.output_tokens <= 8 and reply.stop_reason in ("end_turn", "max_tokens")
    with claude.messages.stream(**asked) as stream:
        assert "".join(stream.text_stream) == reply.content[0].text
        final = stream.get_final_message()
    assert final.stop_reason == reply.stop_reason and final.usage.output_tokens == reply.usage.output_tokens
    counted = claude.messages.count_tokens(model="smol", messages=HELLO, system="You are brief.")
    assert counted.input_tokens == reply.usage.input_tokens + (reply.usage.cache_read_input_tokens or 0)
    stopped = claude.messages.create(**asked | {"stop_sequences": [reply.content[0].text[3:5]]})
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", reply.content[0].text[3:5])


def test_anthropic_tools(claude: anthropic.Anthropic) -> None:
    tools = [{"name": "weather", "description": "A forecast.", "input_schema": WEATHER}]
    asked: dict[str, Any] = {
        "model": "smol", "max_tokens": 80, "extra_body": {"temperature": 0}, "tools": tools,
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        "messages": [{"role": "user", "content": "Rome?"}],
    }  # fmt: skip
    reply = claude.messages.create(**asked)
    (call,) = reply.content
    assert call.type == "tool_use" and set(call.input) == {"city", "days"} and reply.stop_reason == "tool_use"
    with claude.messages.stream(**asked) as stream:
        (streamed,) = stream.get_final_message().content
    assert streamed.type == "tool_use" and streamed.input == call.input
    history = [
        *asked["messages"], {"role": "assistant", "content": [call.model_dump()]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}]},
    ]  # fmt: skip
    assert claude.messages.create(
        model="smol", max_tokens=4, messages=history, tools=tools, tool_choice={"type": "none"}
    ).content


def test_anthropic_errors(claude: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError) as missing:
        claude.messages.create(model="claude", max_tokens=3, messages=HELLO)
    assert missing.value.body["error"]["type"] == "not_found_error"
    image = [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "http://x/y.png"}}]}]
    with pytest.raises(anthropic.BadRequestError, match="image"):
        claude.messages.create(model="smol", max_tokens=3, messages=image)
