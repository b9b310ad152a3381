"""Schemas of tools that cannot be enforced whole: looser arguments of that tool, a warning, and never narrower."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway.errors import ParameterError
from cutaway.sampling.constraints.compile import compile_constraint
from cutaway.sampling.constraints.json_schema import enforceable
from cutaway.sampling.constraints.subschemas import subschemas
from cutaway.sampling.constraints.tool_calls import tool_constraint
from sampling.generating import accepts
from sampling.small_tokenizer import small_tokenizer

SAYS: dict[str, tuple[dict[str, Any], Any]] = {
    "propertyNames": ({"type": "object", "propertyNames": {"pattern": "^a"}}, {"a": 1}),
    "not": ({"type": "string", "not": {"const": "a"}}, "b"),
    "if": ({"if": {"type": "string"}, "then": {"minLength": 1}, "else": {"minimum": 1}}, 2),
    "contains": ({"type": "array", "contains": {"const": 1}}, [1]),
    "minContains": ({"type": "array", "contains": {"const": 1}, "minContains": 2, "maxContains": 3}, [1, 1]),
    "uniqueItems": ({"type": "array", "uniqueItems": True}, [1, 2]),
    "dependentRequired": ({"type": "object", "dependentRequired": {"a": ["b"]}}, {"a": 1, "b": 2}),
    "dependentSchemas": ({"type": "object", "dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1, "b": 2}),
    "dependencies": ({"type": "object", "dependencies": {"a": ["b"]}}, {"a": 1, "b": 2}),
    "unevaluatedProperties": ({"type": "object", "unevaluatedProperties": False}, {}),
    "unevaluatedItems": ({"type": "array", "unevaluatedItems": False}, []),
    "format": ({"type": "string", "format": "uri-reference"}, "a/b"),
    "$ref": ({"$ref": "https://example.org/a.json"}, {"x": 1}),
    "$dynamicRef": ({"$dynamicRef": "#node"}, 1),
    "$id": ({"$id": "https://example.org/b", "type": "string"}, "a"),
    "extends": ({"extends": {"type": "string"}}, "a"),
    "disallow": ({"disallow": "string"}, 1),
    "divisibleBy": ({"type": "integer", "divisibleBy": 3}, 3),
    "multipleOf": ({"type": "number", "multipleOf": "0.1"}, 1),
    "maximum": ({"type": "integer", "maximum": 2**70}, 7),
    "const": ({"const": 2**53 + 1}, 2**53 + 1),
    "enum": ({"enum": ["a\x01", "b"]}, "b"),
    "minProperties": ({"type": "object", "minProperties": 3}, {"a": 1, "b": 2, "c": 3}),
    "pattern": ({"type": "string", "pattern": "(?=a)a+"}, "aa"),
    "patternProperties": (
        {"type": "object", "patternProperties": {"(?!b)a": {"type": "integer"}}, "additionalProperties": False},
        {"a": 1},
    ),
    "items": ({"type": "array", "items": 5}, [1]),
    "type": ({"type": "strange"}, "a"),
    "properties": ({"type": "object", "properties": [1], "additionalProperties": False}, {"a": 1}),
}  # fmt: skip
"""By keyword: a schema of one property that cannot be enforced, and a value that must be accepted for it."""


def of(schema: Any, **more: Any) -> dict[str, Any]:
    properties = {"x": schema, "y": {"type": "integer"}}
    parameters = {"type": "object", "properties": properties, "required": ["x", "y"], "additionalProperties": False}
    return {"type": "function", "function": {"name": "odd", "parameters": parameters, **more}}


GOOD = {"type": "function", "function": of({"type": "string"})["function"] | {"name": "good"}}


def call(name: str, arguments: Any) -> str:
    text = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    return f'<tool_call>{{"name":"{name}","arguments":{text}}}</tool_call>'


@pytest.mark.parametrize("keyword", SAYS)
def test_the_arguments_are_looser_and_a_warning_names_tool_and_keyword(keyword: str) -> None:
    schema, value = SAYS[keyword]
    made = tool_constraint("hermes", [GOOD, of(schema)], small_tokenizer(), choice="required")
    assert made.grammar is not None
    assert made.warnings and all("'odd'" in warning for warning in made.warnings)
    assert any(keyword in warning and "#/properties/x" in warning for warning in made.warnings), made.warnings
    assert accepts("grammar", made.grammar, call("odd", {"x": value, "y": 1}))
    assert not accepts("grammar", made.grammar, call("odd", {"x": value, "y": "no"}))  # the rest is enforced
    assert not accepts("grammar", made.grammar, call("good", {"x": 1, "y": 1}))  # and the other tool


@pytest.mark.parametrize("keyword", SAYS)
def test_strict_is_refused(keyword: str) -> None:
    with pytest.raises(ParameterError, match=r"tools\[1\]"):
        tool_constraint("hermes", [GOOD, of(SAYS[keyword][0], strict=True)], small_tokenizer(), choice="required")


SILENT: list[dict[str, Any]] = [
    {"propertyNames": {"type": "string"}}, {"propertyNames": True}, {"propertyNames": {}}, {"not": False},
    {"if": {"type": "string"}}, {"then": {"type": "string"}}, {"if": {}, "then": {}, "else": True},
    {"minContains": 2}, {"contains": {"const": 1}, "minContains": 0}, {"uniqueItems": False},
    {"dependentRequired": {}}, {"dependentSchemas": {}}, {"dependencies": {}}, {"unevaluatedProperties": True},
    {"unevaluatedItems": {}}, {"minimum": 1, "exclusiveMinimum": False}, {"contentEncoding": "base64"},
    {"contentMediaType": "text/html", "contentSchema": {"type": "string"}}, {"title": "a", "$comment": "b"},
]  # fmt: skip


@pytest.mark.parametrize("strict", [{}, {"strict": True}])
@pytest.mark.parametrize("schema", SILENT, ids=str)
def test_what_says_nothing_needs_no_warning(schema: dict[str, Any], strict: dict[str, Any]) -> None:
    made = tool_constraint("hermes", [of(schema, **strict)], small_tokenizer(), choice="required")
    assert made.warnings == () and made.grammar is not None
    assert accepts("grammar", made.grammar, call("odd", {"x": [1], "y": 1}))


def test_the_booleans_of_draft_4_are_enforced() -> None:
    schema = {"type": "integer", "minimum": 1, "exclusiveMinimum": True, "maximum": 4, "exclusiveMaximum": True}
    made = tool_constraint("hermes", [of(schema, strict=True)], small_tokenizer(), choice="required")
    assert made.warnings == () and made.grammar is not None
    taken = [x for x in range(6) if accepts("grammar", made.grammar, call("odd", {"x": x, "y": 1}))]
    assert taken == [2, 3]


def test_several_keywords_at_several_places() -> None:
    schema = {
        "type": "object", "properties": {"a": SAYS["pattern"][0], "b": {"pattern": r"(a)\1"}, "c": SAYS["not"][0]},
        "uniqueItems": True,
    }  # fmt: skip
    made = tool_constraint("hermes", [of(schema)], small_tokenizer(), choice="required")
    assert len(made.warnings) == 4
    assert accepts("grammar", made.grammar or "", call("odd", {"x": {"a": "aa", "b": "aa", "c": "b"}, "y": 1}))


def test_what_cannot_even_be_loosened_is_any_object() -> None:
    for parameters in ({"type": "array"}, [1], {"$ref": "#"}, {"x": "y" * (1 << 20)}):
        tool = {"name": "odd", "parameters": parameters}
        made = tool_constraint("hermes", [tool], small_tokenizer(), choice="required")
        assert "any object" in made.warnings[0] and "'odd'" in made.warnings[0]
        assert accepts("grammar", made.grammar or "", call("odd", {"z": 1}))
        with pytest.raises(ParameterError):
            tool_constraint("hermes", [tool | {"strict": True}], small_tokenizer(), choice="required")


PARTS = st.sampled_from([{key: schema[key]} for schema, _ in SAYS.values() for key in schema] + SILENT)
VALUES = st.recursive(
    st.sampled_from([1, 2, 3, "a", "aa", "b", None, True]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip


@given(st.lists(PARTS, min_size=1, max_size=3), VALUES)
def test_dropping_never_makes_a_schema_narrower(parts: list[dict[str, Any]], value: Any) -> None:
    schema: dict[str, Any] = {}
    for part in parts:
        schema |= part
    dropped: list[str] = []
    plain, _ = enforceable(schema, dropped=dropped)
    if any(key in str(schema) for key in ("$ref", "$dynamicRef", "strange", "'items': 5", "'properties': [1]")):
        return  # jsonschema cannot judge these
    if jsonschema.Draft202012Validator(_sound(schema)).is_valid(value):
        assert jsonschema.Draft202012Validator(plain).is_valid(value), (plain, dropped)


def _sound(schema: dict[str, Any]) -> dict[str, Any]:
    """Without what the validator of this draft would not take."""
    return {key: value for key, value in schema.items() if key not in ("exclusiveMinimum", "multipleOf")}


def test_no_subschema_is_left_unchecked() -> None:
    dropped: list[str] = []
    plain, _ = enforceable({"anyOf": [{"items": {"not": {}}}], "$defs": {"a": {"uniqueItems": True}}}, dropped=dropped)
    assert len(dropped) == 2 and not any({"not", "uniqueItems"} & set(inner) for _, inner in subschemas(plain))
    compile_constraint("json_schema", plain, small_tokenizer())
