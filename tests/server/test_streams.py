"""Streams: equal to the whole reply, with usage on request, and without any part of a stop."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.driving import Worth
from server.serving import CHAT, COMPLETIONS, HELLO, Running, config_for, running

pytestmark = pytest.mark.models


def joined(chunks: list[Any], choice: int = 0) -> tuple[str, str | None]:
    """Content and finish reason of one choice."""
    mine = [c for chunk in chunks for c in chunk["choices"] if c["index"] == choice]
    text = "".join(c["delta"].get("content", "") if "delta" in c else c["text"] for c in mine)
    reasons = [c["finish_reason"] for c in mine if c["finish_reason"] is not None]
    assert len(reasons) == 1 and mine[-1]["finish_reason"] == reasons[0], "the reason stands once, in the last chunk"
    return text, reasons[0]


@pytest.mark.parametrize("fields", [
    {"max_tokens": 12, "temperature": 0}, {"max_tokens": 8, "seed": 5, "n": 3, "temperature": 1.0},
    {"max_tokens": 12, "temperature": 0, "stop": ["o"]},
    {"max_tokens": 4, "logprobs": True, "top_logprobs": 2, "seed": 1},
])  # fmt: skip
def test_a_stream_is_the_whole_in_pieces(smol: Running, fields: dict[str, Any]) -> None:
    whole = smol.ok(CHAT, messages=HELLO, **fields)
    chunks = smol.chunks(CHAT, messages=HELLO, **fields)
    assert len({chunk["id"] for chunk in chunks}) == 1
    for choice in whole["choices"]:
        assert joined(chunks, choice["index"]) == (choice["message"]["content"], choice["finish_reason"])
        first = next(c for chunk in chunks for c in chunk["choices"] if c["index"] == choice["index"])
        assert first["delta"]["role"] == "assistant"
        if choice["logprobs"]:
            told = [c["logprobs"]["content"] for k in chunks for c in k["choices"] if c["logprobs"]]
            assert [entry for entries in told for entry in entries] == choice["logprobs"]["content"]


def test_usage_comes_when_asked_for(smol: Running) -> None:
    """C13."""
    fields = {"messages": HELLO, "max_tokens": 3, "temperature": 0}
    whole = smol.ok(CHAT, **fields)["usage"]
    chunks = smol.chunks(CHAT, **fields, stream_options={"include_usage": True})
    assert chunks[-1]["choices"] == [] and chunks[-2]["choices"][0]["finish_reason"] == "length"
    usage = chunks[-1]["usage"]
    assert {k: usage[k] for k in ("prompt_tokens", "completion_tokens", "total_tokens")} == {
        k: whole[k] for k in ("prompt_tokens", "completion_tokens", "total_tokens")
    }
    assert all(chunk.get("usage") is None for chunk in chunks[:-1])
    assert all("usage" not in c for c in smol.chunks(CHAT, **fields, stream_options={"include_usage": False}))


@pytest.mark.parametrize("stop", [["DEFGHIJ"], ["O P Q"], ["EF"], ["never comes"]])
def test_a_stop_never_leaks(smol: Running, stop: list[str]) -> None:
    """C11."""
    fields = {"prompt": "Here is the alphabet: ABC", "temperature": 0, "max_tokens": 12, "stop": stop}
    whole = smol.ok(COMPLETIONS, **fields)["choices"][0]
    free = smol.ok(COMPLETIONS, **(fields | {"stop": None}))["choices"][0]["text"]
    at = free.find(stop[0])
    assert whole["text"] == (free if at < 0 else free[:at])
    assert whole["finish_reason"] == ("length" if at < 0 else "stop")
    assert whole["stop_reason"] == (None if at < 0 else stop[0])
    assert joined(smol.chunks(COMPLETIONS, **fields)) == (whole["text"], whole["finish_reason"])


def test_half_a_character_is_never_sent(smol: Running) -> None:
    """C10: an emoji of three tokens, whole and cut off."""
    for count, text in ((9, "😀"), (2, "\ufffd")):
        fields: dict[str, Any] = {"prompt": "x", "temperature": 0, "max_tokens": count, "choice": ["😀"]}
        assert smol.ok(COMPLETIONS, **fields)["choices"][0]["text"] == text
        assert [c["text"] for k in smol.chunks(COMPLETIONS, **fields) for c in k["choices"] if c["text"]] == [text]


def test_prompt_lists_are_indexed_by_prompt_and_choice(smol: Running) -> None:
    """C49."""
    prompts = ["1 2", "a b", "x"]
    fields = {"prompt": prompts, "n": 2, "echo": True, "max_tokens": 3, "seed": 7}
    whole = smol.ok(COMPLETIONS, **fields)
    assert [c["index"] for c in whole["choices"]] == list(range(6))
    for choice in whole["choices"]:
        assert choice["text"].startswith(prompts[choice["index"] // 2])
    assert whole["usage"]["completion_tokens"] <= 18
    chunks = smol.chunks(COMPLETIONS, **fields, stream_options={"include_usage": True})
    for choice in whole["choices"]:
        assert joined(chunks, choice["index"])[0] == choice["text"]
    assert (
        chunks[-1]["usage"]["prompt_tokens"]
        == whole["usage"]["prompt_tokens"]
        == sum(len(smol.ok("/tokenize", prompt=p)["tokens"]) for p in prompts)
    )


@pytest.mark.parametrize(("max_tokens", "logprobs"), [(0, 1), (1, 1), (2, 0)])
def test_echo_with_logprobs_tells_of_the_prompt(smol: Running, max_tokens: int, logprobs: int) -> None:
    """C26."""
    fields = {"prompt": "1 2 3 4 5", "echo": True, "logprobs": logprobs, "max_tokens": max_tokens, "temperature": 0}
    choice = smol.ok(COMPLETIONS, **fields)["choices"][0]
    told = choice["logprobs"]
    assert choice["text"].startswith("1 2 3 4 5") and len(told["tokens"]) == 9 + max_tokens
    assert told["token_logprobs"][0] is None and all(p < 0 for p in told["token_logprobs"][1:])
    assert "".join(told["tokens"]) == choice["text"]
    assert [choice["text"][at:] for at in told["text_offset"]][-1] == told["tokens"][-1]
    assert told["top_logprobs"][0] is None and all(entry for entry in told["top_logprobs"][1:])
    chunks = smol.chunks(COMPLETIONS, **fields)
    pieces = [c["logprobs"] for k in chunks for c in k["choices"] if c["logprobs"]]
    for key, values in told.items():
        assert [v for piece in pieces for v in piece[key]] == values
    assert joined(chunks) == (choice["text"], choice["finish_reason"])
    # teacher forcing: the same tokens as the continuation of a shorter prompt have the same log-probability
    ids = smol.ok("/tokenize", prompt="1 2 3 4 5")["tokens"]
    last = smol.ok(COMPLETIONS, prompt=ids[:-1], max_tokens=1, logprobs=1, allowed_token_ids=[ids[-1]])
    assert last["choices"][0]["logprobs"]["token_logprobs"] == [told["token_logprobs"][8]]


def test_prompt_logprobs_without_echo(smol: Running) -> None:
    """In vLLM's shape: by token id, with the token's rank, the token of the prompt among them."""
    fields: dict[str, Any] = {"prompt": "1 2 3", "max_tokens": 1, "prompt_logprobs": 2}
    told = smol.ok(COMPLETIONS, **fields)["choices"][0]["prompt_logprobs"]
    ids = smol.ok("/tokenize", prompt="1 2 3")["tokens"]
    assert told[0] is None and len(told) == len(ids)
    for token, entry in zip(ids[1:], told[1:], strict=True):
        own = entry[str(token)]
        assert set(own) == {"logprob", "rank", "decoded_token"}
        assert sorted(e["rank"] for e in entry.values()) == sorted({1, 2, own["rank"]})
        assert own["decoded_token"] == smol.ok("/detokenize", tokens=[token])["prompt"]
        ranked = sorted(entry.values(), key=lambda e: int(e["rank"]))
        assert [e["logprob"] for e in ranked] == sorted((e["logprob"] for e in ranked), reverse=True)
    (ended,) = [c for k in smol.chunks(COMPLETIONS, **fields) for c in k["choices"] if c["finish_reason"]]
    assert ended["prompt_logprobs"] == told
    chat = {"messages": HELLO, "max_tokens": 1, "prompt_logprobs": 1}
    whole = smol.ok(CHAT, **chat)["prompt_logprobs"]
    assert whole[0] is None and all({1} <= {e["rank"] for e in entry.values()} for entry in whole[1:])
    assert [k["prompt_logprobs"] for k in smol.chunks(CHAT, **chat) if "prompt_logprobs" in k] == [whole]


def test_logprobs_0_of_completions_are_the_chosen_tokens(smol: Running) -> None:
    fields: dict[str, Any] = {"prompt": "1 2 3", "max_tokens": 3, "logprobs": 0, "temperature": 0}
    told = smol.ok(COMPLETIONS, **fields)["choices"][0]["logprobs"]
    expected = [{t: p} for t, p in zip(told["tokens"], told["token_logprobs"], strict=True)]
    assert told["top_logprobs"] == expected
    chunks = [c["logprobs"] for k in smol.chunks(COMPLETIONS, **fields) for c in k["choices"] if c["logprobs"]]
    assert [entry for piece in chunks for entry in piece["top_logprobs"]] == expected
    echoed = smol.ok(COMPLETIONS, **fields, echo=True)["choices"][0]["logprobs"]
    assert echoed["top_logprobs"][0] is None and all(len(entry) == 1 for entry in echoed["top_logprobs"][1:])


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_usage_in_every_chunk(smol: Running, path: str) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    given: dict[str, Any] = {"messages": HELLO} if path == CHAT else {"prompt": "1 2 3"}
    given |= {"max_tokens": 4, "ignore_eos": True, "temperature": 0}
    chunks = smol.chunks(path, **given, stream_options=options)
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks]
    assert counts == sorted(counts) and counts[-1] == 4 and len(set(counts)) > 2
    assert len({chunk["usage"]["prompt_tokens"] for chunk in chunks}) == 1
    without = smol.chunks(path, **given, stream_options={"include_usage": True})
    assert [("usage" in chunk) for chunk in without] == [False] * (len(without) - 1) + [True]


def test_both_usages_of_a_stream_of_messages_split_alike(smol: Running) -> None:
    asked = {"messages": [{"role": "user", "content": "Say hello to everybody who reads this. " * 3}], "max_tokens": 2}
    for _ in range(2):  # the second time it comes from the cache
        events = [json.loads(event) for event in smol.events("/v1/messages", **asked)]
        assert events[0]["type"] == "message_start"
        begun, ended = events[0]["message"]["usage"], next(e for e in events if e["type"] == "message_delta")["usage"]
        assert {**begun, "output_tokens": 2} == ended
    assert ended["cache_read_input_tokens"] > 0
    assert ended == smol.ok("/v1/messages", **asked)["usage"] | {
        key: ended[key] for key in ("input_tokens", "cache_read_input_tokens")
    }


def test_speculation_gives_the_same_answer_and_is_counted(
    smol: Running, smollm2_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the server's default or the request's own word. Drafts are made to pay here, whatever else runs."""
    fields: dict[str, Any] = {
        "prompt": "one two three four five six\n" * 6 + "one two", "max_tokens": 24, "temperature": 0, "logprobs": 2,
        "timings": True,
    }  # fmt: skip
    plain = smol.ok(COMPLETIONS, **fields)
    config = config_for(smollm2_path)
    with running(replace(config, models=(replace(config.models[0], speculate="ngram"),))) as server:
        server.core("smol").cost = Worth()
        guessed = server.ok(COMPLETIONS, **fields)
        metrics = server.client.get("/metrics").text
        for said in ("off", False):
            told = server.ok(COMPLETIONS, **fields, speculate=said)
            assert (told["timings"]["drafted"], told["choices"]) == (0, plain["choices"])
    monkeypatch.setattr(smol.core("smol"), "cost", Worth())
    asked = smol.ok(COMPLETIONS, **fields, speculate="ngram")
    assert asked["timings"]["accepted"] > 0 and asked["choices"] == plain["choices"]
    assert guessed["choices"] == plain["choices"]
    assert plain["timings"]["drafted"] == 0
    assert 0 < guessed["timings"]["accepted"] <= guessed["timings"]["drafted"]
    (drafted,) = (line for line in metrics.splitlines() if line.startswith("vllm:spec_decode_num_draft_tokens_total{"))
    assert float(drafted.split()[-1]) == guessed["timings"]["drafted"]


@pytest.mark.parametrize("most", [3, 200])
def test_what_a_response_did_not_end_is_incomplete(smol: Running, most: int) -> None:
    asked = {"input": "Say hello.", "max_output_tokens": most, "temperature": 0, "stop": ["!"]}
    events = [json.loads(event) for event in smol.events("/v1/responses", **asked)]
    whole, streamed = smol.ok("/v1/responses", **asked), events[-1]["response"]
    expected = "incomplete" if most == 3 else "completed"
    assert events[-1]["type"] == f"response.{expected}"
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    for told in (whole["output"], streamed["output"], done):
        assert [item["status"] for item in told] == [expected]
        assert told[0]["content"] == whole["output"][0]["content"]
