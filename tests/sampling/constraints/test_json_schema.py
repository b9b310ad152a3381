"""What is refused before llguidance sees it, and with which words."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from cutaway.errors import ParameterError
from cutaway.sampling import compile_constraint
from cutaway.sampling.constraints.json_schema import ANNOTATIONS, ENFORCED, REFUSED, enforceable
from cutaway.sampling.constraints.loosen import loosened
from cutaway.sampling.constraints.subschemas import subschemas
from sampling.generating import accepts
from sampling.small_tokenizer import small_tokenizer


@pytest.mark.parametrize("keyword", sorted(REFUSED))
def test_keywords_that_cannot_be_enforced_are_named_with_their_place(keyword: str) -> None:
    says = {"minContains": 2, "maxContains": 2, "dependentRequired": {"a": ["b"]}}.get(keyword, {"type": "null"})
    # Some say something only beside others.
    beside: dict[str, Any] = {"if": {"then": {"type": "null"}}, "then": {"if": {}}, "else": {"if": {}}}.get(keyword, {})
    beside |= {"contains": {}} if keyword in ("minContains", "maxContains") else {}
    with pytest.raises(ParameterError) as caught:
        enforceable({"items": {"properties": {"a/b": {keyword: says, **beside}}}})
    assert f"at #/items/properties/a~1b: {keyword} cannot be enforced" in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"uniqueItems": True}, "uniqueItems cannot be enforced"),
        ({"type": "string", "format": "uri-reference"}, "format 'uri-reference' cannot be enforced.*uuid"),
        ({"format": "foo"}, "format 'foo'"),
        ({"maximum": 2**53 + 1}, "64-bit floating point"),
        ({"type": "integer", "maximum": 2**70}, r"below 2\^63"),
        ({"maximum": 2**60}, r"below 2\^53"),
        ({"maximum": 10**400}, "64-bit floating point"),
        ({"const": [{"a": 2**53 + 1}]}, "const: 9007199254740993"),
        ({"const": 1e300}, "64-bit floating point"),
        ({"enum": ["a\x01"]}, "enum.*control character"),
        ({"const": {"a\x7f": 1}}, "control character"),
        ({"minProperties": 2}, "minProperties 2 cannot be enforced: 0 are required"),
        ({"items": {"$id": "http://x.y"}}, r"\$id"),
        ({"properties": [1]}, "properties is"),
        ({"items": 5}, "#/items: 5 is not a schema"),
        ({"type": 5}, "at #: type is 5; it must be one of"),
        ({"items": {"type": "myobject"}}, "#/items: type is 'myobject'"),
        ({"type": ["object", []]}, "type is"),
        ({"type": []}, "type is"),
        ({"format": ["date"]}, "format is"),
        ({"anyOf": [{"allOf": [3]}]}, "#/anyOf/0/allOf/0: 3 is not a schema"),
        ({"a": {1, 2}}, "not valid JSON.*set"),
        ({"const": float("nan")}, "not valid JSON"),
        ({"x": "y" * (1 << 20)}, "characters; at most"),
        ("{", "not valid JSON"),
        ([], "must be an object"),
    ],
)
def test_refused(schema: Any, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        enforceable(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"minProperties": 1},
        {"required": ["a", "b"], "minProperties": 2},
        {"uniqueItems": False},
        {"type": "integer", "minimum": -(2**60)},
        {"properties": {"not": {"type": "string"}, "$ref": True}, "additionalProperties": True},
        {"$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"},
        {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
        {"const": "\u65e5\n\t"},
    ],
)
def test_taken(schema: dict[str, Any]) -> None:
    made, warnings = enforceable(schema)
    assert warnings == ()
    assert made == {key: value for key, value in schema.items() if key != "uniqueItems"}


def test_what_is_narrower_than_the_schema_as_the_docs_say() -> None:
    ordered = {"type": "object", "properties": {"a": True, "b": True}, "required": ["a", "b"]}
    assert accepts("json_schema", ordered, '{"a":1,"b":2}') and not accepts("json_schema", ordered, '{"b":2,"a":1}')
    for text in ('"\x7f"', '"\\u007f"', '"\\u0041"'):
        assert not accepts("json_schema", {"type": "string"}, text)
    assert accepts("json_schema", {"type": "string"}, '"\\n\x80"')


def test_what_never_ends() -> None:
    needed = {"type": "object", "properties": {"x": {"$ref": "#/$defs/a"}}, "required": ["x"]}
    for a in (
        needed,
        {"type": "array", "items": {"$ref": "#/$defs/a"}, "minItems": 1},
        {"allOf": [{"$ref": "#/$defs/a"}]},
    ):
        with pytest.raises(ParameterError, match="endless cycle"):
            enforceable({"$defs": {"a": a}, "$ref": "#/$defs/a"})
    either = {"anyOf": [needed, {"type": "null"}]}
    enforceable({"$defs": {"a": either}, "$ref": "#/$defs/a"})


def test_many_references_are_no_trap() -> None:
    def both(next: str) -> dict[str, Any]:
        return {"type": "array", "prefixItems": [{"$ref": next}], "allOf": [{"$ref": next}, {"$ref": next}]}

    chain = {f"d{i}": both(f"#/$defs/d{i + 1}") for i in range(60)}
    enforceable({"$defs": {**chain, "d60": {"type": "array"}}, "$ref": "#/$defs/d0"})
    loops = {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{j}"} for j in range(40)]} for i in range(40)}
    with pytest.raises(ParameterError, match=r"references|endless cycle"):
        enforceable({"$defs": loops, "$ref": "#/$defs/d0"})


def test_keywords_that_do_not_constrain_are_told() -> None:
    _, warnings = enforceable({"maxLenght": 3, "title": "t", "type": "integer", "format": "int32", "x-guidance": {}})
    assert len(warnings) == 2
    assert "'maxLenght' at #" in warnings[0]
    assert "int32" in warnings[1]


def test_subschemas() -> None:
    schema = {"items": [{"not": {}}, True], "properties": {"a": {"additionalProperties": {"type": "null"}}}}
    assert [place for place, _ in subschemas(schema)] == [
        "#", "#/items/0", "#/properties/a", "#/properties/a/additionalProperties"
    ]  # fmt: skip


WRONG: list[Any] = [5, -1, 1e300, True, None, "(", "x", [], {}, [5], [[]], {"a": 5}, {"(": {}}]


@pytest.mark.parametrize("keyword", sorted(ENFORCED | REFUSED | ANNOTATIONS))
def test_a_value_of_a_wrong_kind_is_refused_or_compiled(keyword: str) -> None:
    """And where a schema may be loosened, it is, or it is refused: nothing else is raised."""
    for value in WRONG:
        for beside in ({}, {"type": ["array", "string"]}):
            schema: dict[str, Any] = {"properties": {"a": {**beside, keyword: value}}}
            with contextlib.suppress(ParameterError):
                compile_constraint("json_schema", schema, small_tokenizer())
            with contextlib.suppress(ParameterError):
                loosened(schema, small_tokenizer(), "parameters")
