"""Tool calls out of text: every format, every cut, and what happens to what is no call."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway.errors import ParameterError
from cutaway.text.tools.events import Arguments, CallStarted, Content, ParseWarning, ToolMessage, gathered
from cutaway.text.tools.formats import FORMATS, TOOL_FORMATS
from cutaway.text.tools.parser import ToolParser, new_call_id, parse_tools


def ids() -> Callable[[], str]:
    numbers = count()
    return lambda: f"id{next(numbers)}"


def told(message: ToolMessage) -> tuple[str, list[tuple[str, str]]]:
    return message.content, [(call.name, call.arguments) for call in message.calls]


def streamed(text: str, cuts: list[int], format: str, **options: bool) -> ToolMessage:
    parser = ToolParser(format, new_id=ids(), **options)
    events = []
    for start, end in pairwise(sorted({0, len(text), *cuts})):
        events += parser.push(text[start:end])
    return gathered([*events, *parser.finish()])


TWO = (
    'Sure.\n<tool_call>\n{"name": "add", "arguments": {"a": 2}}\n</tool_call>\n'
    '<tool_call>\n{"name": "none", "arguments": {}}\n</tool_call>'
)
READ = [
    ("hermes", TWO, "Sure.", [("add", '{"a": 2}'), ("none", "{}")]),
    ("hermes", '<tool_call>{"name":"f"}</tool_call>', "", [("f", "{}")]),
    ("hermes", '<tool_call>{"name":"f","arguments":null}</tool_call>', "", [("f", "{}")]),
    ("hermes", '<tool_call>{"arguments": {"x": "}"}, "name": "f"}</tool_call>', "", [("f", '{"x": "}"}')]),
    ("hermes", '<tool_call>{"name":"f","arguments":"{\\"a\\": 1}"}</tool_call>', "", [("f", '{"a": 1}')]),
    ("hermes", '<tool_call>{"name":"f","arguments":{"a":"</tool_call>"}}', "", [("f", '{"a":"</tool_call>"}')]),
    ("hermes", '<tool_call>{"name":"f","arguments":{"a":[1,-2.5e3,true,null,"\\u00e9\\\\"]}}</tool_call>', "",
     [("f", '{"a":[1,-2.5e3,true,null,"\\u00e9\\\\"]}')]),
    ("hermes", '<tool_call>{"name":"f","arguments":{}}</tool_call>\n\nDone.', "\n\nDone.", [("f", "{}")]),
    ("hermes", " a <tool b  ", " a <tool b  ", []),
    ("smollm", '<tool_call>[{"name":"f","arguments":{}},{"name":"g","arguments":{"b":1}}]</tool_call>', "",
     [("f", "{}"), ("g", '{"b":1}')]),
    ("llama3", '{"name":"f","parameters":{"a":1}}; {"name":"g","parameters":{}}', "", [("f", '{"a":1}'), ("g", "{}")]),
    ("llama3", '<|python_tag|>{"name":"f","parameters":{"a":1}}', "", [("f", '{"a":1}')]),
    ("llama3", '{"answer": 5}', '{"answer": 5}', []),
    ("llama3", 'It is {"name": "f"}', 'It is {"name": "f"}', []),
    ("mistral", '[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]', "",
     [("f", '{"a": 1}'), ("g", "{}")]),
    ("mistral_args", 'Ok[TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g[CALL_ID]abc[ARGS]{}', "Ok",
     [("f", '{"a": 1}'), ("g", "{}")]),
    ("mistral_args", '[TOOL_CALLS]f{"a": 1}', "", [("f", '{"a": 1}')]),
    ("phi", '<|tool_call|>[{"name":"f","arguments":{}}]<|/tool_call|>', "", [("f", "{}")]),
    ("phi", 'functools[{"name":"f","arguments":{}}]', "", [("f", "{}")]),
    ("phi", "functools.partial, functools[0]", "functools.partial, functools[0]", []),
    ("gemma", '[f(a=1, b="x]"), g()]', "", [("f", '{"a": 1, "b": "x]"}'), ("g", "{}")]),
    ("gemma", "```tool_code\nprint(f(a=[1, 'é']))\n```\nok", "\nok", [("f", '{"a": [1, "é"]}')]),
    ("gemma", '```json\n{"name":"f","parameters":{}}\n```', "", [("f", "{}")]),
    ("gemma", '```json\n{"a":1}\n```', '```json\n{"a":1}\n```', []),
    ("gemma", '{"name":"f","parameters":{"q":"x"}}', "", [("f", '{"q":"x"}')]),
    ("gemma", "[1, 2]", "[1, 2]", []),
]  # fmt: skip


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize(("format", "text", "content", "calls"), READ)
def test_read_whatever_the_cut(format: str, text: str, content: str, calls: list[tuple[str, str]], eager: bool) -> None:
    whole = parse_tools(text, format, eager=eager, new_id=ids())
    assert told(whole) == (content, calls)
    assert not whole.warnings
    for cuts in [[i] for i in range(len(text))] + [list(range(len(text)))]:
        assert streamed(text, cuts, format, eager=eager) == whole


BROKEN = [
    "<tool_call>nope</tool_call>",
    '<tool_call>{"name": "f", "arguments": [1]}</tool_call>',
    '<tool_call>{"arguments": {}}</tool_call>',
    '<tool_call>{"name": 5, "arguments": {}}</tool_call>',
    '<tool_call>{"name": "f", "arguments": {}, "arguments": {}}</tool_call>',
    '<tool_call>{"name": "f"',
    "x <tool_call>",
    "<tool_call>[]</tool_call>",
]


@pytest.mark.parametrize("text", BROKEN)
def test_what_cannot_be_read_stays_content_with_a_warning(text: str) -> None:
    whole = parse_tools(text, "hermes", eager=False)
    assert told(whole) == (text, [])
    assert len(whole.warnings) == 1
    for cut in range(len(text)):
        assert streamed(text, [cut], "hermes", eager=False) == whole


def test_arguments_that_break_off() -> None:
    text = '<tool_call>{"name": "f", "arguments": {"a": 1'
    eager = parse_tools(text, "hermes")
    assert told(eager) == ("", [("f", '{"a": 1')])
    assert "not whole" in eager.warnings[0]
    assert told(parse_tools(text, "hermes", eager=False)) == (text, [])
    broken = '<tool_call>{"name": "f", "arguments": {"a": x}}</tool_call>'
    assert told(parse_tools(broken, "hermes")) == ("x}}</tool_call>", [("f", '{"a": ')])
    assert told(parse_tools(broken, "hermes", eager=False)) == (broken, [])


def test_arguments_are_told_as_they_come() -> None:
    parser = ToolParser("hermes", new_id=ids())
    assert parser.push('Hm <tool_call>{"name": "f", "argum') == [Content("Hm")]
    assert parser.push('ents": {"a"') == [CallStarted(0, "id0", "f"), Arguments(0, '{"a"')]
    assert parser.push(": 1}") == [Arguments(0, ": 1}")]


def test_only_one_call_and_only_known_tools() -> None:
    one = parse_tools(TWO, "hermes", parallel=False)
    assert [call.name for call in one.calls] == ["add"]
    assert one.content == 'Sure.\n<tool_call>\n{"name": "none", "arguments": {}}\n</tool_call>'
    assert "parallel_tool_calls" in one.warnings[0]
    known = parse_tools(TWO, "hermes", names=["none"])
    assert [call.name for call in known.calls] == ["none"]
    assert known.warnings == ("what looks like a tool call cannot be read as one: there is no tool 'add'",)


LENIENT = [
    ('```json\n{\n "name": "f",\n "arguments": {"a": 1}\n}\n```', "", [("f", '{"a": 1}')], 1),
    ('{"name": "f", "arguments": {}}', "", [("f", "{}")], 1),
    ('Here: ```json\n{"name": "Ada"}\n```', 'Here: ```json\n{"name": "Ada"}\n```', [], 0),
    ('{"name": "f", "age"', '{"name": "f", "age"', [], 0),
    ('<tool_call>{"name": "f"}</tool_call>', "", [("f", "{}")], 0),
    ('[{"name": "f", "arguments": {}}, {"name": "f", "arguments": {"a": 1}}]', "", [("f", "{}"), ("f", '{"a": 1}')], 2),
    ('<tools>\n{"name": "f", "arguments": {"a": 1}}\n</tools>', "", [("f", '{"a": 1}')], 1),
    ('{"name": "f", "arguments": {}}\n{"name": "f", "arguments": {}}', "", [("f", "{}"), ("f", "{}")], 2),
    ('{"type": "function", "name": "f", "parameters": {"a": 1}}', "", [("f", '{"a": 1}')], 1),
    *((text, text, [], 0) for text in (
        '{"name": "f"}', '{"name": "f", "age": 3}', '{"name": "f", "arguments": null}',
        '{"name": "g", "arguments": {}}',
        '[1, 2, 3]', '[{"name": "Ada"}]', '[{"city": "Rome"}]', '{"city": "Rome"}', '{"arguments": {}, "x": 1}', "{}",
        "[]", 'In the <tools> section of the file.', '```json\n[1]\n```', '{"f": {"name": "f", "arguments": {}}}',
    )),
]  # fmt: skip


@pytest.mark.parametrize(("text", "content", "calls", "warned"), LENIENT)
def test_lenient_takes_calls_without_markers(
    text: str, content: str, calls: list[tuple[str, str]], warned: int
) -> None:
    for format in ("hermes", "smollm", "mistral"):
        if "tool_call>" in text and format == "mistral":
            continue
        whole = parse_tools(text, format, names=["f"], lenient=True, new_id=ids())
        assert told(whole) == (content, calls)
        assert len(whole.warnings) == warned
        for cut in range(len(text)):
            parser = ToolParser(format, names=["f"], lenient=True, new_id=ids())
            events = [*parser.push(text[:cut]), *parser.push(text[cut:]), *parser.finish()]
            assert gathered(events) == whole
    assert not parse_tools(text, "phi", names=["f"]).calls


def test_ids_are_distinct_and_as_the_template_wants_them() -> None:
    calls = parse_tools(TWO, "hermes").calls
    assert len({call.id for call in calls}) == 2
    assert all(call.id.startswith("call_") for call in calls)
    short = new_call_id("mistral")
    assert len(short) == 9
    assert short.isalnum()


def test_unknown_format() -> None:
    with pytest.raises(ParameterError, match="hermes"):
        ToolParser("xml")


markup = [text for format in FORMATS.values() for text in (*format.opens, *format.closes)]
noise = st.lists(
    st.sampled_from([*markup, "{", "}", "[", "]", '"name"', ":", '"f"', ",", '"arguments"', "{}", " ", "\n", "\\", "x",
                     '{"name": "f", "arguments": {"a": [1, "b"]}}', "f(a=1)", ";", "1", "-", "tru", "e"])
).map("".join)  # fmt: skip


@settings(max_examples=250, deadline=None)
@given(st.sampled_from(TOOL_FORMATS), noise, st.data(), st.booleans(), st.booleans())
def test_any_text_any_cut(format: str, text: str, data: st.DataObject, eager: bool, parallel: bool) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text))))
    whole = parse_tools(text, format, eager=eager, parallel=parallel, new_id=ids())
    assert streamed(text, cuts, format, eager=eager, parallel=parallel) == whole
    if not whole.calls:
        assert whole.content == text
    elif not whole.warnings:
        for call in whole.calls:
            assert isinstance(json.loads(call.arguments), dict)
    assert parallel or len(whole.calls) <= 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.dictionaries(st.text(), json_values, max_size=3), min_size=1, max_size=3), st.booleans())
def test_json_arguments_come_through_as_written(arguments: list[dict[str, object]], spaced: bool) -> None:
    written = [json.dumps(a, ensure_ascii=spaced, indent=1 if spaced else None) for a in arguments]
    text = "\n".join(f'<tool_call>{{"name": "t", "arguments": {a}}}</tool_call>' for a in written)
    assert [call.arguments for call in parse_tools(text, "hermes").calls] == written


def test_warnings_are_events() -> None:
    parser = ToolParser("hermes")
    events = [*parser.push("<tool_call>!"), *parser.finish()]
    assert isinstance(events[0], ParseWarning)
    assert events[1:] == [Content("<tool_call>!")]


def test_long_text_takes_linear_time() -> None:
    text = '[f(a="' + "\\\\" * 20_000 + '")]'
    assert len(parse_tools(text, "gemma").calls) == 1
    assert parse_tools("[" + " " * 100_000, "gemma").content == "[" + " " * 100_000
    assert parse_tools("<tool_call>" + "[" * 100_000, "hermes").calls == ()
