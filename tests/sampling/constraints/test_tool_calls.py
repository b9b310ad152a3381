"""The grammar of answers with tools: what comes out can be read, and obeys the tool's schema."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from cutaway.errors import ParameterError
from cutaway.sampling import SamplingParams, compile_constraint
from cutaway.sampling.constraints.tool_calls import ToolConstraint, moved, tool_constraint
from cutaway.text.tools.formats import TOOL_FORMATS
from cutaway.text.tools.parser import parse_tools
from sampling.generating import accepts, answer, closers
from sampling.small_tokenizer import marker, small_tokenizer

ADD = {
    "type": "object",
    "properties": {"a": {"type": "integer", "minimum": 0}, "unit": {"$ref": "#/$defs/unit"}},
    "required": ["a", "unit"],
    "additionalProperties": False,
    "$defs": {"unit": {"enum": ["m", "km"]}},
}
EMPTY = {"type": "object", "properties": {}, "additionalProperties": False}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "add", "parameters": ADD}},
    {"type": "function", "function": {"name": "ping", "parameters": EMPTY}},
    {"name": "now"},
]
SCHEMAS = {"add": ADD, "ping": EMPTY, "now": EMPTY}


def constraint(format: str, **options: Any) -> ToolConstraint:
    return tool_constraint(format, TOOLS, small_tokenizer(), **options)


def generated(format: str, seed: int, **options: Any) -> str | None:
    made = constraint(format, **options)
    params = SamplingParams(grammar=made.grammar, visible_tokens=made.visible_tokens)
    return answer(params, seed=seed, lift=closers(), most=1500)


@pytest.mark.parametrize("format", TOOL_FORMATS)
@pytest.mark.parametrize(
    "options", [{"choice": "required"}, {"choice": "required", "parallel": False}, {"name": "ping"}]
)
def test_required_and_named_calls(format: str, options: dict[str, Any]) -> None:
    ended = 0
    for seed in range(6):
        text = generated(format, seed, **options)
        if text is None:
            continue
        ended += 1
        told = parse_tools(text, format, names=list(SCHEMAS))
        assert told.content == ""
        assert told.warnings == ()
        assert len(told.calls) == 1 if len(options) > 1 or "name" in options else told.calls
        for call in told.calls:
            jsonschema.validate(json.loads(call.arguments), SCHEMAS[call.name])
            assert call.name == options.get("name", call.name)
    assert ended


@pytest.mark.parametrize("parameters", [None, {"properties": {}}, {"type": "object", "properties": {}, "required": []}])
@pytest.mark.parametrize("format", TOOL_FORMATS)
def test_a_function_without_parameters_is_called_with_none(format: str, parameters: Any) -> None:
    """C39. A schema that leaves further properties open would let a weak model make some up."""
    tool = {"name": "ping"} | ({} if parameters is None else {"parameters": parameters})
    made = tool_constraint(format, [tool], small_tokenizer(), choice="required", parallel=False)
    params = SamplingParams(grammar=made.grammar, visible_tokens=made.visible_tokens)
    texts = [answer(params, seed=seed, lift=closers(), most=300) for seed in range(3)]
    told = [parse_tools(text, format, names=["ping"]) for text in texts if text is not None]
    assert told and all(json.loads(one.calls[0].arguments) == {} for one in told)


def test_parameters_that_say_more_than_that_stay_open() -> None:
    tool = {"name": "f", "parameters": {"type": "object", "properties": {}, "additionalProperties": True}}
    grammar = tool_constraint("hermes", [tool], small_tokenizer(), choice="required").grammar
    assert accepts("grammar", grammar, '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>')
    assert accepts("grammar", grammar, '<tool_call>{"name": "f", "arguments": {}}</tool_call>')


CALL = '<tool_call>{"name": "add", "arguments": {"a": 1, "unit": "km"}}</tool_call>'


def test_auto_is_any_text_until_the_marker() -> None:
    grammar = constraint("hermes").grammar
    for text in ("Hello < there", "", "a <tool", CALL, f"Sure.\n{CALL}\n{CALL}", f"{CALL} done"):
        assert accepts("grammar", grammar, text), text
    for text in (
        "x <tool_call>y",
        '<tool_call>{"name": "other"',
        '<tool_call>{"name": "add", "arguments": {}',
        CALL[:-3],
    ):
        assert not accepts("grammar", grammar, text), text
    one = constraint("hermes", parallel=False).grammar
    assert accepts("grammar", one, f"Sure. {CALL}")
    assert not accepts("grammar", one, CALL + CALL)


def test_auto_where_the_marker_is_a_token_that_the_model_likes() -> None:
    for format, name in (("hermes", "<tool_call>"), ("mistral", "[TOOL_CALLS]"), ("mistral_args", "[TOOL_CALLS]")):
        made = constraint(format, parallel=False)
        params = SamplingParams(grammar=made.grammar, visible_tokens=made.visible_tokens)
        text = answer(params, seed=4, lift={**closers(), marker(name): 30.0}, most=3000)
        assert text is not None
        told = parse_tools(text, format, names=list(SCHEMAS))
        assert told.calls
        assert not told.warnings


def test_auto_of_a_format_without_markers() -> None:
    grammar = constraint("llama3").grammar
    call = '{"name": "ping", "parameters": {}}'
    for text, right in [("Hello {", True), (call, True), (f"{call}; {call}", True), ('{"x": 1}', False), ("", True)]:
        assert accepts("grammar", grammar, text) is right


def test_control_markers_are_made_visible() -> None:
    made = constraint("mistral_args", choice="required")
    assert set(made.visible_tokens) == {marker("[TOOL_CALLS]"), marker("[ARGS]")}
    assert constraint("hermes").visible_tokens == ()


def test_none_needs_nothing() -> None:
    assert constraint("hermes", choice="none") == ToolConstraint(None, (), ())


@pytest.mark.parametrize(
    ("tools", "options", "said"),
    [
        ([], {"choice": "required"}, "tools is empty"),
        (TOOLS, {"name": "nowhere"}, "'nowhere', which is not in tools"),
        (TOOLS, {"choice": "maybe"}, "must be auto, required, none, or"),
        ([{"function": 5}], {}, r"tools\[0\] must be an object"),
        ([{"function": {"name": ""}}], {}, "name is ''"),
        ([{"name": "f", "strict": True, "parameters": {"type": "array"}}], {}, "an object"),
        ([{"name": "f", "strict": True, "parameters": {"properties": {"a": {"uniqueItems": True}}}}], {},
         r"tools\[0\].function.parameters at #/properties/a: uniqueItems"),
        ([{"name": "f", "strict": True, "parameters": {"properties": {"a": {"pattern": "(?=a)"}}}}], {},
         r"tools\[0\].function.parameters at #/properties/a cannot be enforced: look-around"),
    ],
)  # fmt: skip
def test_refused(tools: list[Any], options: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        tool_constraint("hermes", tools, small_tokenizer(), **options)


@pytest.mark.parametrize("strict", [{}, {"strict": False}, {"strict": None}])
def test_not_strict_says_so(strict: dict[str, Any]) -> None:
    tool = {"name": "f", **strict, "parameters": {"properties": {"a": {"uniqueItems": True}}}}
    made = tool_constraint("hermes", [tool], small_tokenizer(), name="f")
    assert "uniqueItems" in made.warnings[0]
    assert accepts("grammar", made.grammar, '<tool_call>{"name":"f","arguments":{"a":[1,1]}}</tool_call>')


def test_references_move_with_their_schema() -> None:
    schema = {
        "properties": {"$ref": {"$ref": "#/$defs/x"}},
        "const": {"$ref": "#"},
        "anyOf": [{"$ref": "#"}],
        "minimum": 3,
    }
    assert moved(schema, "#/$defs/t0") == {
        "properties": {"$ref": {"$ref": "#/$defs/t0/$defs/x"}}, "const": {"$ref": "#"},
        "anyOf": [{"$ref": "#/$defs/t0"}], "minimum": 3,
    }  # fmt: skip


@pytest.mark.parametrize("format", TOOL_FORMATS)
def test_every_grammar_compiles(format: str) -> None:
    for options in ({}, {"parallel": False}, {"choice": "required"}, {"name": "add"}):
        compile_constraint("grammar", constraint(format, **options).grammar, small_tokenizer())
