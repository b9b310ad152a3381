"""Answers that are cut inside a call: the beginning of a call is never content, wherever the cut falls."""

from __future__ import annotations

import json
from itertools import count

import pytest

from cutaway.text.tools.events import ToolMessage, gathered
from cutaway.text.tools.parser import ToolParser

WHOLE = {
    "hermes": 'Sure.\n<tool_call>\n{"name": "f", "arguments": {"a": "Rome"}}\n</tool_call>',
    "smollm": 'Sure.\n<tool_call>[{"name": "f", "arguments": {"a": "Rome"}}]</tool_call>',
    "mistral": 'Sure.\n[TOOL_CALLS][{"name": "f", "arguments": {"a": "Rome"}}]',
    "mistral_args": 'Sure.\n[TOOL_CALLS]f[ARGS]{"a": "Rome"}',
    "phi": 'Sure.\n<|tool_call|>[{"name": "f", "arguments": {"a": "Rome"}}]<|/tool_call|>',
    "llama3": '{"name": "f", "parameters": {"a": "Rome"}}',
    "gemma": '{"name": "f", "parameters": {"a": "Rome"}}',
}


def cut_off(text: str, format: str, *, eager: bool = True, lenient: bool = False) -> ToolMessage:
    numbers = count()
    parser = ToolParser(format, names=["f"], eager=eager, lenient=lenient, new_id=lambda: str(next(numbers)))
    pushed = [event for character in text for event in parser.push(character)]
    return gathered([*pushed, *parser.finish(cut=True)])


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize("format", WHOLE)
def test_half_a_call_is_never_content(format: str, eager: bool) -> None:
    whole = WHOLE[format]
    said = "Sure." if whole.startswith("Sure") else ""
    for length in range(len(said), len(whole) + 1):
        told = cut_off(whole[:length], format, eager=eager)
        # A call that has not closed yet leaves the line break before its marker undecided.
        assert told.content.rstrip() == said, whole[:length]
        if told.calls:
            assert '{"a": "Rome"}'.startswith(told.calls[0].arguments)
            begun = whole[:length].index("{", whole.index('"f"')) if '"f"' in whole else whole.index("{")
            assert told.calls[0].arguments == whole[begun:length][: len('{"a": "Rome"}')]
        if not told.calls and length > len(said) + 1:
            assert any(whole[len(said) : length].strip() in json.loads(f'"{_plain(w)}"') for w in told.warnings)


def _plain(warning: str) -> str:
    """The text that a warning quotes, as JSON would have it inside a string."""
    quoted = warning.partition("left out: ")[2]
    text: str = eval(quoted, {"__builtins__": {}})  # a literal that repr has written
    return json.dumps(text)[1:-1]


@pytest.mark.parametrize("text", ["if a <", "a [", "see <tool", "<|tool_"])
def test_what_began_a_marker_is_in_the_warning(text: str) -> None:
    format = "mistral" if "[" in text else "phi" if "|" in text else "hermes"
    told = cut_off(text, format)
    (warning,) = told.warnings
    assert text == told.content + (" " if " " in text and not told.content.endswith(" ") else "") + _plain(warning)


def test_an_answer_that_ended_by_itself_keeps_what_it_says() -> None:
    for text in ("if a <", "see <tool_ca", "[TOOL"):
        parser = ToolParser("mistral" if "[" in text else "hermes", names=["f"])
        told = gathered([*parser.push(text), *parser.finish()])
        assert told == ToolMessage(text, (), ())


def test_json_without_a_marker_is_a_call_once_its_arguments_have_begun() -> None:
    whole = '{"name": "f", "arguments": {"a": "Rome"}}'
    for length in range(1, len(whole) + 1):
        told = cut_off(whole[:length], "hermes", lenient=True)
        begun = whole.index("{", 1)
        if length <= begun:
            assert told.content == whole[:length] and not told.calls
        else:
            assert told.content == "" and told.calls[0].arguments == whole[begun:length][:13]
            assert "marker" in told.warnings[0]


def test_python_of_gemma() -> None:
    assert cut_off("[f(a='Ro", "gemma").content == ""
    assert cut_off("```tool_code\nf(a='Ro", "gemma").content == ""
    for text in ("[1, 2, 3 and more", "[see (1)"):
        assert cut_off(text, "gemma").content == text
