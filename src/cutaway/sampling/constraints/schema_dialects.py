"""Converts keywords of older drafts of JSON Schema to 2020-12, and removes those without meaning."""

from __future__ import annotations

from typing import Any

_BOUNDS = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))
_ALL = ("propertyNames", "unevaluatedProperties", "unevaluatedItems", "additionalItems")
_EMPTY = ("dependentRequired", "dependentSchemas", "dependencies")


def simplify(schema: dict[str, Any]) -> None:
    """Change one schema, without those inside it, to one that accepts the same.

    Draft 4's `exclusiveMinimum: true` beside `minimum` becomes the number; keywords that constrain nothing are removed.
    """
    for exclusive, bound in _BOUNDS:
        if isinstance(schema.get(exclusive), bool) and schema.pop(exclusive) and bound in schema:
            schema[exclusive] = schema.pop(bound)
    for keyword in _ALL:
        if keyword in schema and _says_nothing(schema[keyword], keyword):
            del schema[keyword]
    for keyword in _EMPTY:
        if schema.get(keyword) == {}:
            del schema[keyword]
    if schema.get("uniqueItems") is False:
        del schema["uniqueItems"]
    if schema.get("not") is False:
        del schema["not"]
    if "contains" not in schema or (schema.get("minContains") == 0 and "maxContains" not in schema):
        for keyword in ("contains", "minContains", "maxContains"):
            schema.pop(keyword, None)
    _conditions(schema)


def _says_nothing(value: Any, keyword: str) -> bool:
    if value is True or value == {}:
        return True
    return keyword == "propertyNames" and value == {"type": "string"}  # keys are schemas


def _conditions(schema: dict[str, Any]) -> None:
    """`if` without `then` or `else`, and either without `if`."""
    told = [keyword for keyword in ("then", "else") if schema.get(keyword, True) not in (True, {})]
    if "if" not in schema or not told:
        for keyword in ("if", "then", "else"):
            schema.pop(keyword, None)
