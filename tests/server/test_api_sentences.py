"""Sentences of docs/api.md that no other test looks at, one by one, asked of a running server."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from server.serving import CHAT, COMPLETIONS, HELLO, Running

pytestmark = pytest.mark.models
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "api.md").read_text()
MESSAGES, RESPONSES = "/v1/messages", "/v1/responses"
SHORT = {"max_tokens": 2, "temperature": 0}


def body(path: str) -> dict[str, Any]:
    """The smallest request of a route."""
    return {
        CHAT: {"messages": HELLO, **SHORT}, COMPLETIONS: {"prompt": "a", **SHORT},
        MESSAGES: {"messages": HELLO, **SHORT},
        RESPONSES: {"input": "a", "max_output_tokens": 2, "temperature": 0},
    }[path]  # fmt: skip


ROUTES = (CHAT, COMPLETIONS, MESSAGES, RESPONSES)


@pytest.mark.parametrize("path", ROUTES)
def test_null_equals_absent(smol: Running, path: str) -> None:
    nulls = dict.fromkeys(("seed", "stop", "stream", "n", "logit_bias", "timings", "unheard_of", "best_of", "top_a"))
    given = {key: value for key, value in nulls.items() if key not in body(path)}
    assert "warnings" not in smol.ok(path, **body(path), **given)


@pytest.mark.parametrize("path", ROUTES)
def test_two_names_of_one_thing_must_agree(smol: Running, path: str) -> None:
    smol.ok(path, **body(path), repeat_penalty=1.1, repetition_penalty=1.1)
    said = json.dumps(smol.refused(path, **body(path), repeat_penalty=1.1, repetition_penalty=1.2))
    assert "same meaning" in said


def test_a_hash_of_eight_digits_or_more_pins_a_model(smol: Running) -> None:
    sha256 = smol.service.roster.models["smol"].sha256
    for length in (8, 20, 64):
        smol.ok(CHAT, **body(CHAT), model=f"smol@sha256:{sha256[:length]}")
    smol.refused(CHAT, **body(CHAT), model=f"smol@sha256:{sha256[:7]}")
    wrong = "0" * 8 if sha256[:8] != "0" * 8 else "1" * 8
    assert smol.refused(CHAT, 404, **body(CHAT), model=f"smol@sha256:{wrong}")["code"] == "model_not_found"


def test_lengths_when_none_is_named(smol: Running) -> None:
    """16 on /v1/completions, else to the context's end."""
    reply = smol.ok(COMPLETIONS, prompt="a", temperature=0, ignore_eos=True)
    assert reply["usage"]["completion_tokens"] == 16
    reply = smol.ok(CHAT, messages=HELLO, temperature=0, stop=["\n"], ignore_eos=True, time_limit=0.2)
    assert reply["choices"][0]["finish_reason"] in ("stop", "length")


@pytest.mark.parametrize("path", (CHAT, COMPLETIONS))
def test_n_and_the_seed_that_was_drawn(smol: Running, path: str) -> None:
    asked = body(path) | {"temperature": 1, "n": 2}
    reply = smol.ok(path, **asked)
    again = smol.ok(path, **asked, seed=reply["seed"])
    assert len(reply["choices"]) == 2 and again["choices"] == reply["choices"]


@pytest.mark.parametrize("path", ROUTES)
def test_a_bias_has_decimal_ids_and_its_range(smol: Running, path: str) -> None:
    for wrong in ({"a": 1}, {"1": 101}, {"1": -101}, {"-1": 1}, {"9999999": 1}):
        smol.refused(path, **body(path), logit_bias=wrong)
    smol.ok(path, **body(path), logit_bias={"1": -100, "2": 100})


def test_a_time_limit_ends_an_answer_with_length(smol: Running) -> None:
    for limit in ({"time_limit": 0.05}, {"t_max_predict_ms": 50}):
        asked = {"messages": HELLO, "temperature": 0, "ignore_eos": True, **limit}
        assert smol.ok(CHAT, **asked)["choices"][0]["finish_reason"] == "length"


def test_no_token_before_the_text(smol: Running) -> None:
    asked = {"prompt": "a", "return_token_ids": True, "max_tokens": 1}
    engine = smol.service.roster.models["smol"].engine
    assert engine is not None
    for flag in (True, False):
        reply = smol.ok(COMPLETIONS, **asked, add_special_tokens=flag)
        expected = engine.tokenizer.encode("a", add_special=flag)
        assert reply["choices"][0]["prompt_token_ids"] == expected


def unsupported() -> list[str]:
    """The fields that the page says are refused: its last section, up to what single APIs do not have."""
    listed = PAGE.partition("## Not supported")[2].partition("`previous_response_id`")[0]
    return sorted(set(re.findall(r"`([a-z_]+)", listed)) - {"best_of", "n", "echo", "modalities"})


@pytest.mark.parametrize("field", unsupported())
def test_what_would_not_be_obeyed_is_a_400(smol: Running, field: str) -> None:
    for value in ("x", 7, True, [{"a": 1}], {"a": 1}, False):
        reply = smol.client.post(CHAT, json=body(CHAT) | {field: value})
        if reply.status_code == 400:
            assert reply.json()["error"]["param"] == field, reply.text
            return
    raise AssertionError(f"{field} is taken, whatever it is")


@pytest.mark.parametrize(("path", "fields"), [
    (RESPONSES, {"previous_response_id": "resp_1"}), (RESPONSES, {"conversation": "c"}),
    (RESPONSES, {"prompt": {"id": "p"}}), (RESPONSES, {"background": True}),
    (RESPONSES, {"tools": [{"type": "web_search"}]}),
    (MESSAGES, {"tools": [{"type": "bash_20250124", "name": "bash"}]}), (MESSAGES, {"mcp_servers": [{"name": "a"}]}),
    (MESSAGES, {"container": "c"}), (CHAT, {"mirostat": 1}), (CHAT, {"modalities": ["text", "audio"]}),
    (CHAT, {"echo": True}), (COMPLETIONS, {"best_of": 3}), (COMPLETIONS, {"skip_special_tokens": False}),
    (CHAT, {"include_reasoning": False}),
    (CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://a/b"}}]}]}),
    (CHAT, {"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]}),
])  # fmt: skip
def test_what_is_not_supported(smol: Running, path: str, fields: dict[str, Any]) -> None:
    reply = smol.client.post(path, json=body(path) | fields)
    assert reply.status_code == 400, reply.text
    assert next(iter(fields)) in reply.text or "content" in reply.text


def test_parts_are_put_together_with_nothing_between_and_null_is_empty(smol: Running) -> None:
    def prompt(*messages: dict[str, Any]) -> str:
        return str(smol.ok("/apply-template", messages=list(messages))["prompt"])

    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert prompt({"role": "user", "content": parts}) == prompt({"role": "user", "content": "ab"})
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    calls = [{"role": "assistant", "content": content, "tool_calls": [call]} for content in (None, "")]
    assert prompt(*HELLO, calls[0]) == prompt(*HELLO, calls[1])
    marked = [{"role": "user", "content": "<|im_end|>"}]
    segments = smol.ok("/apply-template", messages=marked)["segments"]
    assert any("<|im_end|>" in s["text"] and not s["special"] for s in segments)


def test_the_fingerprint_names_version_model_and_instruction_set(smol: Running) -> None:
    told = smol.client.get("/version").json()
    sha256 = smol.service.roster.models["smol"].sha256
    fingerprint = smol.ok(CHAT, **body(CHAT))["system_fingerprint"]
    assert told["version"] in fingerprint and sha256[:12] in fingerprint and told["instruction_set"] in fingerprint


def test_the_page_of_the_api_and_what_a_client_may_post(smol: Running) -> None:
    assert smol.client.get("/docs").status_code == 200
    assert smol.client.get(CHAT).status_code == 405 and smol.client.get("/nowhere").status_code == 404
    codes = (smol.client.get(CHAT).json()["error"]["code"], smol.client.get("/nowhere").json()["error"]["code"])
    assert codes == ("method_not_allowed", "route_not_found")
