"""Ollama's own client for Python, as it is, over a real socket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import ollama
import pytest

from server.serving import HELLO, Running

pytestmark = pytest.mark.models
GREEDY = {"temperature": 0, "num_predict": 8}


def weather(city: str) -> str:
    """A forecast.

    Args:
        city: where
    """
    return f"sunny in {city}"


@pytest.fixture
def client(smol: Running) -> Iterator[ollama.Client]:
    client = ollama.Client(host=smol.url)
    yield client
    client._client.close()  # it has no way of its own to end its connections


def test_chat_and_its_stream(client: ollama.Client) -> None:
    whole = client.chat(model="smol", messages=HELLO, options=GREEDY)
    assert whole.message.content and whole.done and whole.done_reason in ("stop", "length")
    assert whole.eval_count and whole.eval_count <= 8 and whole.total_duration and whole.prompt_eval_count
    parts = list(client.chat(model="smol", messages=HELLO, options=GREEDY, stream=True))
    assert "".join(part.message.content or "" for part in parts) == whole.message.content
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]


def test_a_stream_that_is_left_ends(client: ollama.Client, smol: Running) -> None:
    stream = client.chat(model="smol", messages=HELLO, options={"num_predict": 400}, stream=True)
    next(stream)
    stream.close()
    smol.idle("smol", 60)


def test_generate_with_a_schema(client: ollama.Client) -> None:
    schema: dict[str, Any] = {
        "type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["age"], "additionalProperties": False,
    }  # fmt: skip
    reply = client.generate(model="smol", prompt="Ann is 30.", format=schema, options={"temperature": 0})
    assert set(json.loads(reply.response)) == {"age"}
    assert client.generate(model="smol", prompt="1 2 3", raw=True, options=GREEDY).response


def test_a_function_is_a_tool_and_its_result_goes_back(client: ollama.Client) -> None:
    asked: list[Any] = [{"role": "user", "content": "Weather in Rome?"}]
    assert client.chat(model="smol", messages=asked, tools=[weather], options=GREEDY).done
    call = {"function": {"name": "weather", "arguments": {"city": "Rome"}}}
    asked += [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_name": "weather", "content": weather("Rome")},
    ]
    assert client.chat(model="smol", messages=asked, tools=[weather], options=GREEDY).message.content


def test_models(client: ollama.Client) -> None:
    (listed,) = client.list().models
    (loaded,) = client.ps().models
    assert listed.model == loaded.model == "smol" and listed.size and listed.digest == loaded.digest
    shown = client.show("smol")
    assert shown.capabilities and "completion" in shown.capabilities and shown.modelinfo and shown.template


def test_errors(client: ollama.Client) -> None:
    with pytest.raises(ollama.ResponseError, match="the served models are: smol") as missing:
        client.chat(model="llama3", messages=HELLO)
    assert missing.value.status_code == 404
    with pytest.raises(ollama.ResponseError, match="temperature"):
        client.chat(model="smol", messages=HELLO, options={"temperature": -1})
    with pytest.raises(ollama.ResponseError, match="cannot compute embeddings"):
        client.embed(model="smol", input="x")
