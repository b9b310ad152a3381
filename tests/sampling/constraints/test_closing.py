"""Objects that name their properties have no further ones, unless the schema says so; and no schema loses its sense."""

from __future__ import annotations

from typing import Any

import pytest

from cutaway.sampling.constraints.json_schema import enforceable
from cutaway.sampling.constraints.loosen import loosened
from sampling.generating import accepts
from sampling.small_tokenizer import small_tokenizer

A = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
B = {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]}
ONE, MORE = '{"a":1}', '{"a":1,"b":2}'


@pytest.mark.parametrize(
    ("schema", "inside"),
    [
        (A, "{}"),
        ({**A, "title": "T", "description": "d", "default": {}, "$schema": "x"}, "{}"),
        ({"type": "array", "items": A}, "[{}]"),
        ({"type": "array", "prefixItems": [A]}, "[{}]"),
        ({"type": "object", "properties": {"x": A}, "required": ["x"]}, '{{"x":{}}}'),
        ({"type": "object", "additionalProperties": A}, '{{"x":{}}}'),
        ({"anyOf": [A, {"type": "null"}]}, "{}"),
        ({"allOf": [A], "description": "d"}, "{}"),
        ({"$defs": {"A": A}, "$ref": "#/$defs/A"}, "{}"),
        ({"$defs": {"A": A}, "type": "array", "items": {"$ref": "#/$defs/A", "description": "d"}}, "[{}]"),
    ],
)
def test_an_object_that_names_its_properties_is_closed(schema: dict[str, Any], inside: str) -> None:
    shape = inside.replace("{}", "%s").replace("{{", "{").replace("}}", "}")
    assert accepts("json_schema", schema, shape % ONE)
    assert not accepts("json_schema", schema, shape % MORE)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({**A, "additionalProperties": True}, MORE),
        ({**A, "additionalProperties": {"type": "integer"}}, MORE),
        ({**A, "patternProperties": {"^b$": {"type": "integer"}}}, MORE),
        ({**A, "required": ["a", "b"]}, MORE),
        ({"type": "object"}, MORE),
        ({"allOf": [A, B]}, MORE),
        ({"$defs": {"A": A}, "allOf": [{"$ref": "#/$defs/A"}, B]}, MORE),
        ({"$defs": {"A": A}, "$ref": "#/$defs/A", "properties": {"b": {"type": "integer"}}, "required": ["b"]}, MORE),
        ({**A, "anyOf": [B]}, MORE),
    ],
)
def test_an_object_that_says_otherwise_stays_open(schema: dict[str, Any], text: str) -> None:
    assert accepts("json_schema", schema, text)


def test_branches_of_one_of_are_left_as_they_are() -> None:
    """Closed, {a} would no longer match what {a, b} matches too, and what matches both would be accepted."""
    inner = {"type": "object", "properties": {"k": {"const": 1}, "o": A}, "required": ["k", "o"]}
    for root in ({"oneOf": [inner, {"type": "null"}]}, {"$defs": {"I": inner}, "oneOf": [{"$ref": "#/$defs/I"}]}):
        assert enforceable(root)[0] == root


def test_what_is_dropped_from_a_tool_leaves_its_object_open() -> None:
    """A keyword that spoke of other keys and could not be enforced does not make them impossible."""
    spoken = {**A, "patternProperties": {"^(?=b)": {"type": "integer"}}}
    schema, dropped, _ = loosened(spoken, small_tokenizer(), "tool")
    assert dropped and accepts("json_schema", schema, MORE)
    schema, dropped, _ = loosened({**A, "propertyNames": {"pattern": "^[ab]$"}}, small_tokenizer(), "tool")
    assert dropped and accepts("json_schema", schema, MORE)


def test_closing_twice_changes_nothing() -> None:
    once, _ = enforceable({**A, "propertyNames": {"type": "string"}})
    assert once["additionalProperties"] is False and enforceable(once)[0] == once
