"""The schemas inside a schema, and their places in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_SCHEMAS = ("additionalProperties", "additionalItems")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
MAPS = ("properties", "patternProperties", "$defs", "definitions")


def subschemas(schema: Any, place: str = "#") -> Iterator[tuple[str, dict[str, Any]]]:
    """A schema and all schemas in it that are objects, each with its JSON pointer, outer ones first."""
    level = [(place, schema)]
    while level:
        found = [(at, here) for at, here in level if isinstance(here, dict)]
        yield from found
        level = [(f"{at}/{key}", inner) for at, here in found for key, inner in inner_schemas(here)]


def inner_schemas(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The schemas inside a schema, each with its place."""
    for key in _SCHEMAS:
        if key in schema:
            yield key, schema[key]
    items = schema.get("items", True)
    if not isinstance(items, list):
        yield "items", items
    for key in (*_LISTS, "items"):
        if isinstance(schema.get(key), list):
            yield from ((f"{key}/{i}", inner) for i, inner in enumerate(schema[key]))
    for key in MAPS:
        if isinstance(schema.get(key), dict):
            yield from ((f"{key}/{_escaped(name)}", inner) for name, inner in schema[key].items())


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
