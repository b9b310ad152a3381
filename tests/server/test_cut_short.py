"""What a limit cuts off, or a prefill leaves open, is still a call or reasoning: by every API, whole and streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.scripted import Scripted
from server.serving import CHAT, HELLO, Running, config_for, running

pytestmark = pytest.mark.models
RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
TEMPLATE = (
    "{{ tools | tojson if tools }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
FUNCTION: dict[str, Any] = {
    "name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}  # fmt: skip
TOOLS = [{"type": "function", "function": FUNCTION}]
BODY = '[{"name": "weather", "arguments": {"city": "Rome"}}]'
CALL = f"<tool_call>{BODY}</tool_call>"


@pytest.fixture(scope="module")
def scripted(smollm2_path: Path) -> Iterator[Scripted]:
    with running(config_for(smollm2_path)) as server:
        yield Scripted(server, template=TEMPLATE)


Told = tuple[str, str, list[tuple[str, str]]]


def chat(server: Running, **fields: Any) -> tuple[Told, list[str]]:
    """Reasoning, content and calls, the same whole and streamed; and the warnings."""
    asked = {"messages": HELLO, "temperature": 0} | fields
    reply = server.ok(CHAT, **asked)
    said = reply["choices"][0]["message"]
    calls = [(c["function"]["name"], c["function"]["arguments"]) for c in said.get("tool_calls", [])]
    whole = (said.get("reasoning_content", ""), said["content"] or "", calls)
    text = {"reasoning_content": "", "content": ""}
    streamed: list[list[str]] = []
    for chunk in server.chunks(CHAT, **asked):
        for delta in (told["delta"] for told in chunk["choices"]):
            for name in text:
                text[name] += delta.get(name) or ""
            for call in delta.get("tool_calls", []):
                if "id" in call:
                    streamed.append([call["function"]["name"], ""])
                streamed[call["index"]][1] += call["function"]["arguments"]
    assert (text["reasoning_content"], text["content"], [(a, b) for a, b in streamed]) == whole
    return whole, reply.get("warnings", [])


def items(server: Running, path: str, **fields: Any) -> Told:
    """The same of the two APIs that have items or blocks."""
    whole = server.ok(path, **fields)
    last = [json.loads(event) for event in server.events(path, **fields)]
    if path == RESPONSES:
        made = _of_items(whole["output"])
        assert _of_items(last[-1]["response"]["output"]) == made
        return made
    made = ("", "", [])
    for block in whole["content"]:
        if block["type"] == "tool_use":
            cut = block["input"]
            made[2].append((block["name"], cut.get("cut_off", "") or (json.dumps(cut) if cut else "")))
        else:
            made = (made[0] + block.get("thinking", ""), made[1] + block.get("text", ""), made[2])
    deltas = [event["delta"] for event in last if event["type"] == "content_block_delta"]
    names = ("thinking", "text", "partial_json")
    thinking, text, partial = ("".join(delta.get(name, "") for delta in deltas) for name in names)
    assert (thinking, text) == made[:2] and partial in ("", "{", *[arguments for _, arguments in made[2]])
    return made


def _of_items(output: list[dict[str, Any]]) -> Told:
    text = {
        kind: "".join(part["text"] for item in output if item["type"] == kind for part in item["content"])
        for kind in ("reasoning", "message")
    }
    calls = [(item["name"], item["arguments"]) for item in output if item["type"] == "function_call"]
    return text["reasoning"], text["message"], calls


def test_a_call_cut_anywhere_is_never_content(scripted: Scripted) -> None:
    scripted.asked(HELLO, tools=TOOLS)
    scripted.says(CALL)
    length = len(scripted.script)
    for most in range(1, length):
        (reasoning, content, calls), warnings = chat(scripted.server, tools=TOOLS, max_tokens=most)
        assert (reasoning, content) == ("", ""), most
        assert calls or any("left out" in warning for warning in warnings)
        if calls:
            (name, arguments) = calls[0]
            assert name == "weather" and '{"city": "Rome"}'.startswith(arguments)
    assert calls == [("weather", '{"city": "Rome"}')]


@pytest.mark.parametrize("most", [2, 5, 12, 16])
def test_a_cut_call_by_the_other_apis(scripted: Scripted, most: int) -> None:
    responses = [FUNCTION | {"type": "function"}]
    scripted.asked(HELLO, tools=[{"type": "function", "function": FUNCTION}])
    scripted.says(CALL)
    expected = chat(scripted.server, tools=TOOLS, max_tokens=most)[0]
    told = items(scripted.server, RESPONSES, input=HELLO, tools=responses, max_output_tokens=most, temperature=0)
    assert told == expected
    tool = {"name": "weather", "input_schema": FUNCTION["parameters"]}
    told = items(scripted.server, MESSAGES, messages=HELLO, tools=[tool], max_tokens=most, temperature=0)
    assert told[:2] == expected[:2] and [name for name, _ in told[2]] == [name for name, _ in expected[2]]


def test_reasoning_cut_anywhere_is_never_content(scripted: Scripted) -> None:
    scripted.asked(HELLO)
    scripted.says("<think>\nLet me see.\n</think>\nYes.")
    for most in range(1, len(scripted.script)):
        (reasoning, content, _), _ = chat(scripted.server, max_tokens=most)
        assert "Let me see.".startswith(reasoning) and "Yes.".startswith(content), most
        told = items(scripted.server, RESPONSES, input=HELLO, max_output_tokens=most, temperature=0)
        assert told[:2] == (reasoning, content)
        told = items(scripted.server, MESSAGES, messages=HELLO, max_tokens=most, temperature=0)
        assert told[:2] == (reasoning, content)


def test_a_repeated_marker_is_left_out(scripted: Scripted) -> None:
    scripted.asked(HELLO)
    scripted.says("<think>\n<think>\nLet me <think>see.\n</think>\n</think>\nYes.")
    told, warnings = chat(scripted.server)
    assert told[:2] == ("Let me see.", "Yes.") and any("'<think>' again" in warning for warning in warnings)
    assert items(scripted.server, RESPONSES, input=HELLO, temperature=0)[:2] == told[:2]
    assert items(scripted.server, MESSAGES, messages=HELLO, max_tokens=60, temperature=0)[:2] == told[:2]


CONTINUED = {"continue_final_message": True}


@pytest.mark.parametrize(
    ("begun", "rest", "reasoning", "content"),
    [
        ("<think>\nLet me", " see.\n</think>\nYes.", "see.", "Yes."),
        ("<think>\nLet me see.\n</think>\nYes", ", sure <think>.", "", ", sure <think>."),
        ("Yes", ", sure.", "", ", sure."),
    ],
)
def test_a_prefill_inside_or_behind_the_reasoning(
    scripted: Scripted, begun: str, rest: str, reasoning: str, content: str
) -> None:
    messages = [*HELLO, {"role": "assistant", "content": begun}]
    scripted.asked(messages, **CONTINUED)
    scripted.says(rest)
    told, _ = chat(scripted.server, messages=messages, **CONTINUED)
    assert (told[0].strip(), told[1]) == (reasoning, content)
    told = items(scripted.server, MESSAGES, messages=messages, max_tokens=60, temperature=0)
    assert (told[0].strip(), told[1]) == (reasoning, content)


@pytest.mark.parametrize("place", [4, 12, len("<tool_call>") + 10, len(CALL) // 2, len(CALL) - 14])
def test_a_prefill_inside_a_call(scripted: Scripted, place: int) -> None:
    """What comes is the whole call: half of one would be none."""
    messages = [*HELLO, {"role": "assistant", "content": f"Sure. {CALL[:place]}"}]
    scripted.asked(messages, tools=TOOLS, **CONTINUED)
    scripted.says(CALL[place:])
    told, warnings = chat(scripted.server, messages=messages, tools=TOOLS, **CONTINUED)
    if place < len("<tool_call>"):
        assert told[2] == []  # half a marker says nothing of what follows
        return
    assert told == ("", "", [("weather", '{"city": "Rome"}')])
    assert any("without its schema" in warning for warning in warnings)


def test_a_message_with_calls_or_two_flags_cannot_be_continued(scripted: Scripted) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    messages = [*HELLO, {"role": "assistant", "content": "x", "tool_calls": [call]}]
    for path in (CHAT, "/apply-template", "/tokenize"):
        assert "tool_calls" in scripted.server.refused(path, messages=messages, **CONTINUED)["message"]
        both = {"messages": [*HELLO, {"role": "assistant", "content": "x"}], "add_generation_prompt": True, **CONTINUED}
        assert "cannot be combined" in scripted.server.refused(path, **both)["message"]
