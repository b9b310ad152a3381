"""Ollama's protocol and fill in the middle, over the socket, with a real model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import cutaway
from cutaway.server.api.infill import Gap
from cutaway.server.api.ollama_request import OllamaChat, OllamaFields, chat_dialogue, chosen
from cutaway.server.transport.errors import ApiError
from server.serving import HELLO, Running

TOOL = {
    "type": "function",
    "function": {
        "name": "weather", "description": "A forecast.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}  # fmt: skip
GREEDY = {"temperature": 0, "num_predict": 6}


def lines(server: Running, path: str, **fields: Any) -> list[Any]:
    with server.client.stream("POST", path, json=fields) as reply:
        assert reply.status_code == 200 and reply.headers["content-type"].startswith("application/x-ndjson")
        return [json.loads(line) for line in reply.iter_lines()]


def test_options_are_parameters_and_others_are_warned_of() -> None:
    given: dict[str, Any] = {"num_predict": 7.0, "top_k": 5.0, "temperature": 0, "stop": ["x"], "num_ctx": 99}
    given |= {"repeat_last_n": 64, "zz": 1}
    options, warnings = chosen(OllamaFields(model="a:latest", options=given))
    assert (options.model, options.max_tokens, options.top_k, options.stop) == ("a", 7, 5, ["x"])
    assert [any(name in said for said in warnings) for name in ("num_ctx", "repeat_last_n", "zz")] == [True] * 3
    assert chosen(OllamaFields(options={"num_predict": -1}))[0].max_tokens is None
    for wrong in ({"num_predict": "7"}, {"top_k": 1.5}, {"num_predict": -3}):
        with pytest.raises(ApiError):
            chosen(OllamaFields(options=wrong))


def test_messages_become_openais() -> None:
    call = {"function": {"name": "weather", "arguments": {"city": "Rome"}}}
    chat = [
        {"role": "user", "content": "Rome?"}, {"role": "assistant", "thinking": "hm", "tool_calls": [call, call]},
        {"role": "tool", "content": "sun", "tool_name": "weather"}, {"role": "tool", "content": "rain"},
    ]  # fmt: skip
    _, asked, first, second = chat_dialogue(OllamaChat(messages=chat)).messages
    ids = [made["id"] for made in asked["tool_calls"]]
    assert len(set(ids)) == 2 and [first["tool_call_id"], second["tool_call_id"]] == ids
    assert json.loads(asked["tool_calls"][0]["function"]["arguments"]) == {"city": "Rome"}
    assert asked["reasoning_content"] == "hm" and first["name"] == "weather"
    with pytest.raises(ApiError, match="images"):
        chat_dialogue(OllamaChat(messages=[{"role": "user", "content": "x", "images": ["aaaa"]}]))


@pytest.mark.models
def test_chat_streamed_is_the_chat_whole(smol: Running) -> None:
    whole = smol.ok("/api/chat", model="smol:latest", messages=HELLO, stream=False, options=GREEDY)
    told = lines(smol, "/api/chat", model="smol:latest", messages=HELLO, options=GREEDY)
    assert "".join(line["message"]["content"] for line in told) == whole["message"]["content"] != ""
    assert [line["done"] for line in told] == [False] * (len(told) - 1) + [True]
    openai = smol.ok("/v1/chat/completions", messages=HELLO, temperature=0, max_tokens=6)
    assert openai["choices"][0]["message"]["content"] == whole["message"]["content"]
    for end in (whole, told[-1]):
        assert end["done_reason"] in ("stop", "length") and end["eval_count"] <= 6 and end["model"] == "smol:latest"
        assert end["total_duration"] >= end["prompt_eval_duration"] + end["eval_duration"] > 0
        assert 0 <= end["load_duration"] <= end["total_duration"]
        assert end["prompt_eval_count"] == openai["usage"]["prompt_tokens"]


@pytest.mark.models
def test_generate_templates_unless_raw(smol: Running) -> None:
    asked = {"prompt": "Say hello.", "stream": False, "options": GREEDY}
    chat = smol.ok("/api/chat", messages=HELLO, stream=False, options=GREEDY)
    assert smol.ok("/api/generate", **asked)["response"] == chat["message"]["content"]
    raw = smol.ok("/api/generate", **asked, raw=True)
    assert raw["prompt_eval_count"] < chat["prompt_eval_count"]
    formed = smol.ok("/api/generate", **asked | {"options": {"temperature": 0, "num_predict": 60}}, format={
        "type": "object", "properties": {"a": {"type": "integer", "maximum": 9}}, "required": ["a"],
        "additionalProperties": False,
    })  # fmt: skip
    assert set(json.loads(formed["response"])) == {"a"}
    for field, value in {"images": ["aa"], "template": "x", "context": [1], "suffix": "x", "format": "yaml"}.items():
        assert isinstance(smol.refused("/api/generate", **asked | {field: value}), str), field


@pytest.mark.models
def test_models_are_told_of(smol: Running) -> None:
    (listed,) = smol.client.get("/api/tags").json()["models"]
    (loaded,) = smol.client.get("/api/ps").json()["models"]
    served = smol.service.roster.models["smol"]
    assert listed["name"] == loaded["name"] == "smol" and listed["digest"] == served.sha256
    assert listed["size"] == served.found.path.stat().st_size and loaded["context_length"] == served.context  # type: ignore[union-attr]
    shown = smol.ok("/api/show", model="smol:latest")
    assert "tools" in shown["capabilities"] and "insert" not in shown["capabilities"] and "{%" in shown["template"]
    assert shown["model_info"]["llama.context_length"] == served.context
    assert smol.client.get("/api/version").json() == {"version": "0.9.0", "cutaway": cutaway.__version__}
    for details in (listed["details"], loaded["details"], shown["details"]):
        assert (details["family"], details["format"]) == ("llama", "gguf")
        assert (details["parameter_size"], details["quantization_level"]) == ("134.52M", "Q4_1")
    assert shown["model_info"]["general.parameter_count"] == 134_515_008
    assert smol.ok("/api/generate", model="smol")["done_reason"] == "load"
    assert "cannot compute embeddings" in smol.refused("/api/embed", model="smol", input="x")
    assert "the served models are: smol" in smol.refused("/api/chat", 404, model="llama3", messages=HELLO)


@pytest.mark.models
def test_a_model_without_markers_says_so(smol: Running) -> None:
    said = smol.refused("/v1/completions", prompt="a", suffix="b")
    assert (said["code"], said["param"]) == ("infill_unsupported", "suffix")
    assert "fill-in-the-middle" in smol.refused("/infill", input_prefix="a", input_suffix="b")["message"]
    with pytest.raises(AssertionError):
        smol.ok("/v1/completions", prompt=["a", "b"], suffix="c")


@pytest.mark.models
def test_a_gap_is_written_with_the_models_markers(qwen_path: Path) -> None:
    from cutaway.formats import open_model
    from cutaway.text import fill_markers, load_tokenizer

    with open_model(qwen_path) as file:
        tokenizer = load_tokenizer(file.path, file.metadata)
    markers = fill_markers(tokenizer)
    assert markers is not None
    text = tokenizer.decode(Gap("a = ", "\n", [("b.py", "x")])._tokens(tokenizer, markers))
    files = "<|repo_name|>myproject\n<|file_sep|>b.py\nx<|file_sep|>filename\n"
    assert text == f"{files}<|fim_prefix|>a = <|fim_suffix|>\n<|fim_middle|>"
    hidden = Gap("<|fim_middle|>", "")._tokens(tokenizer, markers)
    assert hidden.count(markers.middle) == 1
