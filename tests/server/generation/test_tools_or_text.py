"""An answer that is either calls or a text of a form, however it is cut."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway.sampling.constraints.tool_calls import tool_constraint
from cutaway.server.generation.tools_or_text import FormOrCalls
from cutaway.text.tools.events import ToolMessage, gathered
from cutaway.text.tools.formats import TOOL_FORMATS
from cutaway.text.tools.parser import ToolParser
from sampling.small_tokenizer import small_tokenizer

TOOLS: list[dict[str, Any]] = [{"name": "add"}, {"name": 'say "hi"'}]
CALLS = {
    "hermes": '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>',
    "smollm": '<tool_call>[{"name": "add", "arguments": {"a": 1}}]</tool_call>',
    "llama3": ' {"name" : "add", "parameters": {"a": 1}}',
    "mistral": '[TOOL_CALLS][{"name": "add", "arguments": {"a": 1}}]',
    "mistral_args": '[TOOL_CALLS]add[ARGS]{"a": 1}',
    "phi": '<|tool_call|>[{"name": "add", "arguments": {"a": 1}}]<|/tool_call|>',
    "gemma": '{"name": "add", "parameters": {"a": 1}}',
}
TEXTS = [
    '{"x": "<tool_call>{\\"name\\": \\"add\\"}</tool_call> [TOOL_CALLS]"}  ', '["```tool_code\\nadd(a=1)```"]', "[1]",
    '{"name": "add", "age": 3}', '{"name": "Ann", "parameters": {}}', '{"name": "add", "parameters": [1]}', "", "  ",
    "<tool", "[TOOL", '{"name"', "plain", '\n {"parameters": {}, "name": "add"}', "<|tool_call", "functools[1]",
]  # fmt: skip


def read(format: str, text: str, cuts: list[int] | None = None) -> ToolMessage:
    opening = tool_constraint(format, TOOLS, small_tokenizer(), form=("json_object", True)).opening
    assert opening is not None
    numbers = iter(range(99))
    reader = FormOrCalls(
        ToolParser(format, names=[tool["name"] for tool in TOOLS], new_id=lambda: str(next(numbers))), opening
    )
    at = [0, *sorted(cuts or []), len(text)]
    events = [event for a, b in pairwise(at) for event in reader.push(text[a:b])]
    return gathered([*events, *reader.finish()])


@pytest.mark.parametrize("format", TOOL_FORMATS)
def test_calls_are_calls_and_texts_are_left_as_they_are(format: str) -> None:
    told = read(format, CALLS[format])
    assert told.content == "" and [(c.name, c.arguments) for c in told.calls] == [("add", '{"a": 1}')]
    for text in TEXTS:
        assert read(format, text) == ToolMessage(text, (), ())


@given(st.data())
def test_the_same_however_it_is_cut(data: st.DataObject) -> None:
    format = data.draw(st.sampled_from(TOOL_FORMATS))
    text = data.draw(st.sampled_from([*TEXTS, *CALLS.values(), CALLS[format] * 2, CALLS[format][:-9]]))
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=6))
    assert read(format, text, cuts) == read(format, text)


def test_a_text_is_told_as_soon_as_it_is_no_call() -> None:
    opening = tool_constraint("llama3", TOOLS, small_tokenizer(), form=("json_object", True)).opening
    reader = FormOrCalls(ToolParser("llama3"), opening or "")
    told = [bool(reader.push(character)) for character in '{"number": 1}']
    assert told == [False] * 3 + [True] * 10
