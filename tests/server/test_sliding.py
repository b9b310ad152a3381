"""`truncation: slide`: answers that go on when the context is full, over the API."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.serving import CHAT, COMPLETIONS, Running, config_for, running


@pytest.fixture(scope="module")
def smol(smollm2_path: Path) -> Iterator[Running]:
    with running(config_for(smollm2_path)) as server:  # a context of 512
        yield server


def chat(turns: int) -> list[dict[str, Any]]:
    asked = [{"role": "system", "content": "You are terse."}]
    for turn in range(turns):
        asked += [{"role": "user", "content": f"Question {turn}: " + "name a river and a city. " * 4},
                  {"role": "assistant", "content": "The Rhine, Basel. " * 4}]  # fmt: skip
    return [*asked, {"role": "user", "content": "And the sea?"}]


def test_a_chat_goes_on_beyond_the_context_and_says_what_went(smol: Running) -> None:
    asked = {"messages": chat(6), "temperature": 0, "ignore_eos": True, "max_tokens": 300}
    reply = smol.ok(CHAT, **asked, truncation="slide", return_token_ids=True)
    assert reply["usage"]["completion_tokens"] == 300 and reply["choices"][0]["finish_reason"] == "length"
    assert any("after" in w and "oldest" in w and "in all" in w for w in reply["warnings"]), reply["warnings"]
    cut = smol.ok(CHAT, **asked, return_token_ids=True)
    assert cut["usage"]["completion_tokens"] < 300
    one = [{"role": "user", "content": "word " * 600}]
    assert smol.refused(CHAT, messages=one, truncation="slide")["code"] == "context_length_exceeded"
    smol.idle("smol")


def test_a_text_keeps_its_head_and_goes_on_as_a_fresh_request_would(smol: Running) -> None:
    engine = smol.service.roster.models["smol"].engine
    assert engine is not None
    tokens = engine.tokenizer.encode("The river runs to the sea and the city lies by the river. " * 40)[:380]
    asked = {"temperature": 0, "ignore_eos": True, "return_token_ids": True}
    reply = smol.ok(COMPLETIONS, prompt=tokens, **asked, max_tokens=150, truncation="slide")
    answer = reply["choices"][0]["token_ids"]
    assert len(answer) == 150 and any("after 132 tokens" in w for w in reply["warnings"]), reply["warnings"]
    kept = tokens[:128] + tokens[-(512 - 132 - 128 - 128) :]
    again = smol.ok(COMPLETIONS, prompt=kept + answer[:132], **asked, max_tokens=18)
    assert again["choices"][0]["token_ids"] == answer[132:]
    long = smol.ok(COMPLETIONS, prompt=tokens + tokens, **asked, max_tokens=4, truncation="slide")
    assert any("to fit 760 tokens" in w for w in long["warnings"])
    smol.refused(COMPLETIONS, prompt=tokens + tokens, **asked, max_tokens=4)


def test_every_api_of_chats_goes_on(smol: Running) -> None:
    system, *turns = chat(6)
    asked = {"temperature": 0, "ignore_eos": True, "truncation": "slide"}
    whole = smol.ok(CHAT, messages=[system, *turns], max_tokens=190, **asked)
    told = smol.ok("/v1/messages", model="smol", system=system["content"], messages=turns, max_tokens=190, **asked)
    assert told["usage"]["output_tokens"] == 190 and told["stop_reason"] == "max_tokens"
    assert told["content"][0]["text"] == whole["choices"][0]["message"]["content"]
    assert told["warnings"] == whole["warnings"] and len(told["warnings"]) == 2
    reply = smol.ok("/v1/responses", input=[system, *turns], max_output_tokens=190, **asked)
    assert reply["output"][0]["content"][0]["text"] == told["content"][0]["text"] and reply["truncation"] == "slide"


def test_system_message_tools_and_the_newest_turn_are_kept(smol: Running) -> None:
    """What the engine is given each time that the context is full is read."""
    kept: list[str] = []
    core, engine = smol.core("smol"), smol.service.roster.models["smol"].engine
    assert engine is not None
    submit = core.submit

    def looked_at(*args: Any, shorten: Any, **options: Any) -> Any:
        def shorter(most: int) -> tuple[list[int], str]:
            tokens, what = shorten(most)
            kept.append(engine.tokenizer.decode(tokens))
            return tokens, what

        return submit(*args, shorten=shorter, **options)

    tool = {"type": "function", "function": {"name": "tide_of", "parameters": {"type": "object", "properties": {}}}}
    core.submit = looked_at  # type: ignore[method-assign]
    try:
        asked = {"messages": chat(5), "tools": [tool], "temperature": 0, "ignore_eos": True, "max_tokens": 260}
        smol.ok(CHAT, **asked, truncation="slide")
    finally:
        del core.submit
    assert kept
    for text in kept:
        assert "You are terse." in text and "tide_of" in text and "And the sea?" in text and "Question 0" not in text


def test_a_form_holds_across_the_place_where_the_context_slid(smol: Running) -> None:
    fields = {"messages": chat(6), "temperature": 0, "max_tokens": 400, "truncation": "slide"}
    reply = smol.ok(CHAT, **fields, regex="([a-f]{3}-){60}end")
    assert any("in all" in warning for warning in reply["warnings"]), reply["warnings"]
    text = reply["choices"][0]["message"]["content"]
    assert re.fullmatch("([a-f]{3}-){60}end", text), text


def test_streams_and_text_offsets_are_those_of_the_whole_answer(smol: Running) -> None:
    prompt = "The river runs to the sea and the city lies by the river. " * 33
    asked = {"prompt": prompt, "temperature": 0, "ignore_eos": True, "max_tokens": 140, "logprobs": 1}
    asked["truncation"] = "slide"
    (choice,) = smol.ok(COMPLETIONS, **asked)["choices"]
    lists = choice["logprobs"]
    assert len(lists["tokens"]) == 140 and "".join(lists["tokens"]) == choice["text"]
    joined = [len("".join(lists["tokens"][:at])) for at in range(140)]
    assert lists["text_offset"] == joined
    chunks = smol.chunks(COMPLETIONS, **asked)
    assert "".join(c["choices"][0]["text"] for c in chunks if c["choices"]) == choice["text"]
    assert "cannot be combined" in smol.refused(COMPLETIONS, **asked, echo=True)["message"]
    smol.refused(COMPLETIONS, prompt="a", suffix="b", truncation="slide")
