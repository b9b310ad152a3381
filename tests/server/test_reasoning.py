"""Reasoning end to end: streamed it is what the whole reply has, with a budget and without, by every API.

The model is scripted: whatever was chosen, its logits at a position prefer the script's token there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.scripted import Scripted
from server.serving import CHAT, HELLO, Running, config_for, running

pytestmark = pytest.mark.models

THOUGHT = "First I add one to two. Then I 看 whether it is right: <b>, </ thinks, 🙂."
ANSWER = "The sum is three. </think> is no marker here."
FORM = {"type": "json_schema", "json_schema": {"schema": {"enum": ["one", "two"]}}}


@pytest.fixture(scope="module", params=["the model opens it", "the template opens it"])
def scripted(smollm2_path: Path, request: pytest.FixtureRequest) -> Iterator[Scripted]:
    with running(config_for(smollm2_path)) as server:
        yield Scripted(server, request.param.startswith("the template"))


def chat(server: Running, **fields: Any) -> tuple[str, str, int]:
    """Reasoning, content and tokens of reasoning; streamed they must be the same."""
    asked = {"messages": HELLO, "temperature": 0} | fields
    reply = server.ok(CHAT, **asked)
    message = reply["choices"][0]["message"]
    chunks = server.chunks(CHAT, **asked, stream_options={"include_usage": True})
    deltas = [told["delta"] for chunk in chunks for told in chunk["choices"]]
    joined = ["".join(delta.get(name) or "" for delta in deltas) for name in ("reasoning_content", "content")]
    assert joined == [message.get("reasoning_content", ""), message["content"]]
    tokens = reply["usage"]["completion_tokens_details"]["reasoning_tokens"]
    assert chunks[-1]["usage"]["completion_tokens_details"]["reasoning_tokens"] == tokens
    assert len([delta for delta in deltas if delta.get("reasoning_content")]) > 1 or tokens < 2
    return joined[0], joined[1], int(tokens)


def test_reasoning_is_apart_from_the_answer(scripted: Scripted) -> None:
    scripted.says(f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}")
    reasoning, content, _ = chat(scripted.server)
    assert (reasoning, content) == (THOUGHT, ANSWER)


@pytest.mark.parametrize("budget", [0, 1, 5, 9, 10, 11, 12])
def test_a_budget_ends_it(scripted: Scripted, budget: int) -> None:
    scripted.says(f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}")
    said = [chat(scripted.server, **{name: budget}) for name in ("reasoning_budget", "thinking_token_budget")]
    assert said[0] == said[1]
    reasoning, content, tokens = said[0]
    assert THOUGHT.startswith(reasoning)  # the script goes on, but no character is cut
    assert tokens <= budget + 3 and (reasoning if budget > 1 else len(reasoning) < 6)
    assert content and "<think>" not in content


def test_reasoning_that_max_tokens_cuts_off_has_no_answer(scripted: Scripted) -> None:
    scripted.says(f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}")
    reasoning, content, _ = chat(scripted.server, max_tokens=9)
    assert THOUGHT.startswith(reasoning) and content == ""


def test_a_form_is_kept_after_the_reasoning(scripted: Scripted) -> None:
    """The script goes on reasoning; the budget ends it, and then the form holds. Where the model would have to open it
    (here by several tokens), a form leaves no room for that."""
    scripted.says(f"<think>\n{THOUGHT * 3}")
    reasoning, content, _ = chat(scripted.server, reasoning_budget=6, response_format=FORM)
    assert bool(reasoning) == scripted.opens and THOUGHT.startswith(reasoning)
    assert json.loads(content) in ("one", "two")


def test_messages_and_responses_tell_the_same(scripted: Scripted) -> None:
    scripted.says(f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}")
    server = scripted.server
    asked: dict[str, Any] = {
        "messages": HELLO, "max_tokens": 200, "temperature": 0, "thinking": {"type": "enabled", "budget_tokens": 8},
    }  # fmt: skip
    expected = chat(server, reasoning_budget=8, max_tokens=200)[:2]
    thinking, text = server.ok("/v1/messages", **asked)["content"]
    assert (thinking["thinking"], text["text"]) == expected
    deltas = [json.loads(event).get("delta", {}) for event in server.events("/v1/messages", **asked)]
    assert tuple("".join(d.get(name, "") for d in deltas) for name in ("thinking", "text")) == expected

    expected = chat(server, max_tokens=200)[:2]
    asked = {"input": "Say hello.", "temperature": 0}
    items = server.ok("/v1/responses", **asked)["output"]
    assert tuple("".join(part["text"] for part in item["content"]) for item in items) == expected
    events = [json.loads(event) for event in server.events("/v1/responses", **asked)]
    kinds = ("response.reasoning_text.delta", "response.output_text.delta")
    assert tuple("".join(e["delta"] for e in events if e["type"] == kind) for kind in kinds) == expected
