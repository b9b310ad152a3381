"""Tools and a form of the answer in one request: either calls and nothing else, or a text of the form."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema
import pytest
import regex

from cutaway.errors import ParameterError
from cutaway.sampling import SamplingParams, compile_constraint
from cutaway.sampling.constraints.tool_calls import ToolConstraint, tool_constraint
from cutaway.sampling.params import ConstraintKind
from cutaway.text.tools.formats import TOOL_FORMATS
from cutaway.text.tools.parser import parse_tools
from sampling.generating import accepts, answer, closers
from sampling.small_tokenizer import small_tokenizer

ADD = {
    "type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["a"],
    "additionalProperties": False,
}  # fmt: skip
TOOLS: list[dict[str, Any]] = [{"name": "add", "parameters": ADD}, {"name": "ping", "parameters": {"properties": {}}}]
SCHEMA = {
    "type": "object", "properties": {"x": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["x"],
    "additionalProperties": False,
}  # fmt: skip
FORMS: dict[ConstraintKind, Any] = {
    "json_schema": SCHEMA,
    "json_object": True,
    "regex": "a/[bc]{2}",
    "choice": ["yes", "n}o", "/"],
    "grammar": 'start: "(" body ")"\nbody: /[0-9]+/ | "{" body "}"',  # a name that ours has, too
}
FITTING = {"json_schema": '{"x": 3}', "json_object": '{"x": {"y": [3]}}', "regex": "a/bc", "choice": "n}o",
           "grammar": "({{12}})"}  # fmt: skip
OTHER = {"json_schema": '{"x": 30}', "json_object": "[3]", "regex": "a/bcb", "choice": "no", "grammar": "({12)"}


def call(format: str, name: str = "add", arguments: str = '{"a": 1}') -> str:
    """As each format writes it."""
    key = "parameters" if format in ("llama3", "gemma") else "arguments"
    one = f'{{"name": "{name}", "{key}": {arguments}}}'
    return {
        "hermes": f"<tool_call>{one}</tool_call>", "smollm": f"<tool_call>[{one}]</tool_call>", "llama3": one,
        "mistral": f"[TOOL_CALLS][{one}]", "mistral_args": f"[TOOL_CALLS]{name}[ARGS]{arguments}",
        "phi": f"<|tool_call|>[{one}]<|/tool_call|>", "gemma": one,
    }[format]  # fmt: skip


@cache
def made(format: str, kind: ConstraintKind, **options: Any) -> ToolConstraint:
    return tool_constraint(format, TOOLS, small_tokenizer(), form=(kind, FORMS[kind]), **options)


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("format", TOOL_FORMATS)
def test_either_calls_or_the_form(format: str, kind: ConstraintKind) -> None:
    grammar = made(format, kind).grammar
    assert accepts("grammar", grammar, FITTING[kind])
    assert not accepts("grammar", grammar, OTHER[kind])
    assert not accepts("grammar", grammar, "Hello.")
    assert not accepts("grammar", grammar, "")
    if not format.startswith("mistral"):  # whose markers are control tokens here, which bytes do not spell
        assert accepts("grammar", grammar, call(format))
        assert not accepts("grammar", grammar, call(format, "sub")) or kind == "json_object"
        assert not accepts("grammar", grammar, FITTING[kind] + call(format))
        assert not accepts("grammar", grammar, call(format) + FITTING[kind])


@pytest.mark.parametrize("format", TOOL_FORMATS)
def test_what_is_generated_is_one_of_the_two_and_the_opening_tells_which(format: str) -> None:
    found = {"calls": 0, "form": 0}
    constraint = made(format, "json_schema", parallel=False)
    assert constraint.opening is not None
    params = SamplingParams(grammar=constraint.grammar, visible_tokens=constraint.visible_tokens)
    for seed in range(40):
        text = answer(params, seed=seed, lift=closers(), most=1500)
        if text is None:
            continue
        if regex.match(rf"\s*{constraint.opening}", text):
            told = parse_tools(text, format, names=["add", "ping"])
            assert (told.content, told.warnings, len(told.calls)) == ("", (), 1)
            found["calls"] += 1
        else:
            jsonschema.validate(json.loads(text), SCHEMA)
            found["form"] += 1
    assert found["form"] and sum(found.values()) > 20
    assert found["calls"] or format in ("llama3", "gemma")  # where a call is long and the form short, few come about


@pytest.mark.parametrize("kind", FORMS)
def test_a_call_that_must_be_made_leaves_no_room_for_the_form(kind: ConstraintKind) -> None:
    for options in ({"choice": "required"}, {"name": "add"}):
        constraint = made("hermes", kind, **options)
        assert constraint.opening is None
        assert constraint.grammar == tool_constraint("hermes", TOOLS, small_tokenizer(), **options).grammar


def test_what_of_the_form_cannot_be_enforced_is_said_as_without_tools() -> None:
    with pytest.raises(ParameterError, match="uniqueItems"):
        tool_constraint("hermes", TOOLS, small_tokenizer(), form=("json_schema", {"uniqueItems": True}))
    with pytest.raises(ParameterError, match="grammar"):
        tool_constraint("hermes", TOOLS, small_tokenizer(), form=("grammar", "start: ("))
    told = tool_constraint("hermes", TOOLS, small_tokenizer(), form=("json_schema", {"maxLenght": 3}))
    assert told.warnings == compile_constraint("json_schema", {"maxLenght": 3}, small_tokenizer()).warnings
    assert told.warnings


@pytest.mark.parametrize("schema", [True, {}, {"$defs": {"t0": {"const": 5}}, "$ref": "#/$defs/t0"}, False])
def test_schemas_of_every_kind_can_stand_beside_tools(schema: Any) -> None:
    if schema is False:
        with pytest.raises(ParameterError):
            tool_constraint("hermes", TOOLS, small_tokenizer(), form=("json_schema", schema))
        return
    grammar = tool_constraint("hermes", TOOLS, small_tokenizer(), form=("json_schema", schema)).grammar
    assert accepts("grammar", grammar, "5") and accepts("grammar", grammar, call("hermes"))
    assert accepts("grammar", grammar, "6") is (schema in (True, {}))


def test_gbnf_can_stand_beside_tools() -> None:
    form: tuple[ConstraintKind, str] = ("grammar", 'root ::= "<" [0-9]+ ">"')
    grammar = tool_constraint("hermes", TOOLS, small_tokenizer(), form=form).grammar
    assert accepts("grammar", grammar, "<12>") and accepts("grammar", grammar, call("hermes"))
