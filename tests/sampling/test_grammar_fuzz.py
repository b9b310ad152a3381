"""Random schemas: what a random model writes under one is always accepted by it."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from cutaway.errors import EngineError, ParameterError
from cutaway.sampling import SamplingParams
from sampling.generating import answer, closers

small = st.integers(0, 4)
names = st.sampled_from(["a", "b", "ab", "c d", 'q"', "\u00e9", "a/b", ""])
texts = st.sampled_from(["", "a", "ab", "x/y", 'q"q', "\n", "\u65e5\u672c", "\U0001f600", "1"])
numbers = st.sampled_from([-12, -1, 0, 1, 3, 7.5, 99, 105, 0.1, 2**53, -(2**60), 10**25, 1e300])


def some(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=keywords)


def typed(kind: str, **keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return some(**keywords).map(lambda schema: {"type": kind, **schema})


values = st.recursive(
    st.none() | st.booleans() | texts | numbers,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=2),
    max_leaves=4,
)
strings = typed(
    "string", minLength=small, maxLength=st.integers(0, 9),
    pattern=st.sampled_from(["^a+$", "b", "^[a-z0-9]{2,}$", "^$"]),
    format=st.sampled_from(["date", "uuid", "ipv4", "email", "time"]),
)  # fmt: skip
bounded: dict[str, st.SearchStrategy[Any]] = {
    "minimum": numbers, "maximum": numbers, "exclusiveMinimum": numbers, "exclusiveMaximum": numbers,
}  # fmt: skip
leaves = (
    strings
    | typed("integer", multipleOf=st.sampled_from([1, 3, 7]), **bounded)
    | typed("number", **bounded)
    | st.sampled_from([{"type": "boolean"}, {"type": "null"}, True, {}, {"type": ["string", "null"]}, {"minLength": 2}])
    | st.sampled_from([{"$ref": "#/$defs/list"}, {"$ref": "#/$defs/leaf"}])
    | st.builds(lambda value: {"const": value}, values)
    | st.builds(lambda listed: {"enum": listed}, st.lists(values, min_size=1, max_size=3))
)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    arrays = typed("array", items=inner, prefixItems=st.lists(inner, max_size=2), minItems=small, maxItems=small,
                   uniqueItems=st.booleans())  # fmt: skip
    objects = typed(
        "object", properties=st.dictionaries(names, inner, max_size=3),
        required=st.lists(names, max_size=2, unique=True),
        additionalProperties=st.booleans() | inner, minProperties=small, maxProperties=small,
        patternProperties=st.dictionaries(st.sampled_from(["^a", "b$", "c"]), inner, max_size=1),
        dependentRequired=st.just({"a": ["b"]}),
    )  # fmt: skip
    joined = some(anyOf=st.lists(inner, min_size=1, max_size=2), allOf=st.lists(inner, min_size=1, max_size=2),
                  oneOf=st.lists(inner, min_size=1, max_size=2), **bounded)  # fmt: skip
    return arrays | objects | joined


LIST = {
    "type": "object",
    "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/list"}]}},
    "required": ["v", "next"],
    "additionalProperties": False,
}
schemas = st.recursive(leaves, containers, max_leaves=6).filter(lambda schema: isinstance(schema, dict))


@settings(max_examples=300, deadline=None)
@given(schemas, st.integers(0, 2**31))
def test_what_is_written_is_accepted(schema: dict[str, Any], seed: int) -> None:
    schema = {**schema, "$defs": {"list": LIST, "leaf": {"type": "integer", "minimum": 0}}}
    params = SamplingParams(json_schema=schema, temperature=1.0)
    try:
        text = answer(params, seed=seed, lift=closers())
    except ParameterError:
        event("refused")
        assume(False)
    except EngineError as error:
        event(f"failed: {error}")
        assert error.code == "constraint_failed"  # a contradiction that was not seen before: an error, not bad output
        return
    event("ended" if text is not None else "did not end")
    if text is not None:
        check(text, schema)


def check(text: str, schema: dict[str, Any]) -> None:
    validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    problem = jsonschema.exceptions.best_match(validator.iter_errors(json.loads(text)))
    if problem is not None:
        pytest.fail(f"{text!r}: {problem.message}")
