"""Objects of a schema that name their properties and say nothing of further ones are closed.

JSON Schema then allows any further key, and a small model goes on inventing keys until its limit. Those who write such
a schema (pydantic, zod and the clients that use them write all of theirs so) mean the named ones. What is left accepts
less than the schema, and nothing else. `"additionalProperties": true` keeps an object open.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any

from cutaway.sampling.constraints.subschemas import inner_schemas, subschemas

_SPEAKS_OF_ITSELF = frozenset(("type", "properties", "required", "$defs", "definitions"))


def close_objects(root: dict[str, Any], annotations: Set[str]) -> None:
    """Change the schema in place. annotations: keywords that do not constrain.

    An object stays open where another keyword speaks of its keys, where a required key has no entry in `properties`,
    in a branch of `oneOf` (a narrower branch could make another one the only match), and everywhere if schemas are
    joined: two branches of allOf that close themselves leave nothing.
    """
    if any(_joins(schema, annotations) for _, schema in subschemas(root)):
        return
    for schema in _outside_one_of(root):
        properties, required = schema.get("properties"), schema.get("required", [])
        if not isinstance(properties, dict) or not isinstance(required, list):
            continue
        if schema.keys() - annotations <= _SPEAKS_OF_ITSELF and all(name in properties for name in required):
            schema["additionalProperties"] = False


def _joins(schema: dict[str, Any], annotations: Set[str]) -> bool:
    """Whether a value has to satisfy two schemas at once here. Also true where `oneOf` leads to definitions, which may
    stand elsewhere too."""
    beside = schema.keys() - annotations - {"$defs", "definitions", "type"}
    parts = schema.get("allOf")
    if isinstance(parts, list) and len(parts) > 1:
        return True
    if isinstance(schema.get("oneOf"), list) and "$ref" in str(schema["oneOf"]):
        return True
    return len(beside) > 1 and not beside.isdisjoint(("allOf", "anyOf", "oneOf", "$ref"))


def _outside_one_of(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    level: list[Any] = [schema]
    while level:
        found = [here for here in level if isinstance(here, dict)]
        yield from found
        level = [
            inner for here in found for key, inner in inner_schemas(here) if not key.startswith("oneOf/")
        ]
