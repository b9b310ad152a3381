"""Checks which JSON schemas can be enforced completely. Others are refused, with keyword and place.

llguidance enforces most of JSON Schema 2020-12 (and older drafts where they agree) and refuses what it cannot. This
module handles what it accepts silently: keywords of older drafts, keys that could appear twice, numbers that a double
cannot represent, characters that cannot be written, references that never end. Limits: 1 MiB of schema, 64 levels.

The output is narrower than the schema, which is always allowed: properties are in the schema's order, and objects with
properties that do not mention further ones have none (`closing`); there are at most 8 characters of white space between
two parts of the JSON and none around it; there are no `\\uXXXX` escapes, so no U+007F either (llguidance treats it as a
control character); integers have no fraction or exponent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn
from urllib.parse import unquote

from cutaway.errors import ParameterError
from cutaway.sampling.constraints.closing import close_objects
from cutaway.sampling.constraints.schema_dialects import simplify
from cutaway.sampling.constraints.subschemas import MAPS, inner_schemas, subschemas

LONGEST, DEEPEST, MOST_REFERENCES = 1 << 20, 64, 10_000
FORMATS = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri")
)  # fmt: skip
ENFORCED = frozenset(
    """type enum const properties required additionalProperties patternProperties minProperties maxProperties items
    prefixItems additionalItems minItems maxItems minLength maxLength pattern format minimum maximum exclusiveMinimum
    exclusiveMaximum multipleOf allOf anyOf oneOf $ref $defs definitions uniqueItems""".split()  # noqa: SIM905
)
TYPES = frozenset(("string", "number", "integer", "boolean", "null", "object", "array"))
REFUSED = frozenset(
    """not if then else contains minContains maxContains dependentRequired dependentSchemas dependencies propertyNames
    unevaluatedProperties unevaluatedItems $dynamicRef $dynamicAnchor $recursiveRef $recursiveAnchor extends disallow
    divisibleBy""".split()  # noqa: SIM905
)
ANNOTATIONS = frozenset(
    """title description default examples example $comment $schema $id $anchor deprecated readOnly writeOnly
    contentEncoding contentMediaType contentSchema x-guidance""".split()  # noqa: SIM905
)
_POWERS = {2**63: "2^63", 2**53: "2^53 (2^63 where type is integer)"}
_SHORT_ESCAPES = "\b\t\n\f\r"


def enforceable(
    schema: Any, name: str = "json_schema", *, dropped: list[str] | None = None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A copy of the schema, ready for llguidance, and warnings about keywords that do not constrain.

    schema: a mapping, a bool or JSON text. name: its name in errors. dropped: if a list is given, keywords that cannot
    be enforced are removed, so that the schema accepts more, and each is added to the list with its place and the
    reason; without a list they are refused. Raises ParameterError.
    """
    plain = _plain(schema, name)
    if plain is True:
        return {}, ()
    if plain is False:
        raise ParameterError(f"{name} is false, which accepts no value")
    if not isinstance(plain, dict):
        raise ParameterError(f"{name} is {plain!r:.40}; it must be an object, true or JSON text of one")
    for _, inner in subschemas(plain):
        simplify(inner)
    close_objects(plain, ANNOTATIONS)
    check = _Check(name, plain, dropped)
    check.schema(plain, "#")
    try:
        ends = check.ends(plain, frozenset())
    except RecursionError:
        raise ParameterError(f"{name}: its references are nested too deeply") from None
    if not ends:
        raise ParameterError(f"{name}: $ref: the references form an endless cycle; no JSON is valid")
    for key in ("$schema", "$id", "x-guidance"):
        plain.pop(key, None)
    return plain, tuple(check.warnings)


_PARTNERS = {
    "patternProperties": ("additionalProperties",), "properties": ("additionalProperties", "patternProperties"),
    "prefixItems": ("items", "additionalItems"), "items": ("additionalItems",), "if": ("then", "else"),
    "contains": ("minContains", "maxContains"),
}  # fmt: skip
"""Keywords that have another, narrower meaning if another keyword is missing."""


def drop(schema: dict[str, Any], keyword: str) -> str:
    """Remove a keyword from a schema so that it accepts more, and never less. Returns what was removed, by name."""
    gone = [name for name in (keyword, *_PARTNERS.get(keyword, ())) if name in schema]
    for name in gone:
        del schema[name]
    if "properties" in schema:
        schema.setdefault("additionalProperties", True)  # the schema must not become closed by the lack of a keyword
    return ", ".join(gone)


def _plain(schema: Any, name: str) -> Any:
    """The schema as JSON values, with its size checked."""
    try:
        text = schema if isinstance(schema, str) else json.dumps(schema, default=_mapping, allow_nan=False)
        if len(text) > LONGEST:
            raise ParameterError(f"{name} has {len(text)} characters; at most {LONGEST} are allowed")
        plain = json.loads(text)
        if _depth(plain) > DEEPEST:
            raise ParameterError(f"{name} is nested more than {DEEPEST} levels deep")
        return plain
    except RecursionError:
        raise ParameterError(f"{name} is nested more than {DEEPEST} levels deep") from None
    except (ValueError, TypeError) as error:
        raise ParameterError(f"{name} is not valid JSON: {error}") from None


def _mapping(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"it holds a {type(value).__name__}")


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level:
        depth += 1
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return depth


class _Check:
    def __init__(self, name: str, root: dict[str, Any], dropped: list[str] | None = None) -> None:
        self.warnings: list[str] = []
        self._dropped = dropped
        self._name = name
        self._root = root
        self._ending: set[str] = set()
        self._steps = 0

    def schema(self, schema: Any, place: str) -> None:
        """A schema and everything inside it; keywords without meaning are removed."""
        if isinstance(schema, bool):
            return
        if not isinstance(schema, dict):
            self._refuse(place, f"{schema!r:.40} is not a schema; it must be an object, true or false")
        for keyword, value in list(schema.items()):
            try:
                self._keyword(schema, keyword, value, place)
            except ParameterError as error:
                if self._dropped is None:
                    raise
                if keyword in schema:
                    self._dropped.append(f"{drop(schema, keyword)} at {place}: {str(error).partition(': ')[2]}")
        for key, inner in list(inner_schemas(schema)):
            if not isinstance(inner, dict | bool) and self._dropped is not None:
                drop(schema, key.partition("/")[0])
                self._dropped.append(f"{key} at {place}: {inner!r:.40} is not a schema")
                continue
            self.schema(inner, f"{place}/{key}")

    def _keyword(self, schema: dict[str, Any], keyword: str, value: Any, place: str) -> None:
        if keyword in REFUSED or keyword == "uniqueItems":
            self._refuse(place, f"{keyword} cannot be enforced")
        elif keyword == "type":
            self._type(value, place)
        elif keyword == "format":
            self._format(schema, value, place)
        elif keyword == "$ref" and not (isinstance(value, str) and value.startswith("#")):
            self._refuse(place, f"$ref is {value!r}; only references within the schema (#...) can be followed")
        elif keyword == "$id" and place != "#":
            self._refuse(place, "$id inside a schema cannot be enforced")
        elif keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"):
            if isinstance(value, bool) or not isinstance(value, int | float):
                self._refuse(place, f"{keyword} is {value!r}; it must be a number")
            self._number(keyword, value, place)
            limit = 2**63 if schema.get("type") == "integer" else 2**53
            if abs(value) >= limit:
                self._refuse(place, f"{keyword}: {value} cannot be enforced; bounds must be below {_POWERS[limit]}")
        elif keyword == "minProperties":
            self._least(schema, value, place)
        elif keyword in ("const", "enum"):
            self._literal(keyword, value, place)
        elif keyword in MAPS and not isinstance(value, dict):
            self._refuse(place, f"{keyword} is {value!r:.40}; it must be an object")
        elif keyword not in ENFORCED and keyword not in ANNOTATIONS:
            self.warnings.append(f"{self._name}: {keyword!r} at {place} does not constrain the output")

    def _type(self, value: Any, place: str) -> None:
        kinds = value if isinstance(value, list) else [value]
        if not kinds or not all(isinstance(kind, str) and kind in TYPES for kind in kinds):
            known = ", ".join(sorted(TYPES))
            self._refuse(place, f"type is {value!r:.40}; it must be one of {known}, or a list of these")

    def _format(self, schema: dict[str, Any], value: Any, place: str) -> None:
        if not isinstance(value, str):
            self._refuse(place, f"format is {value!r:.40}; it must be a text")
        if value in FORMATS:
            return
        types = schema.get("type", "string")
        if "string" in (types if isinstance(types, list) else [types]):
            known = ", ".join(sorted(FORMATS))
            self._refuse(place, f"format {value!r} cannot be enforced (these can: {known})")
        self.warnings.append(f"{self._name}: format {value!r} at {place} applies to strings only and was not enforced")

    def _number(self, keyword: str, value: int | float, place: str) -> None:
        """Numbers are enforced as doubles."""
        try:
            exact = math.isfinite(value) and float(value) == value
            # Written out, a large float has more digits than it means.
            exact = exact and not (keyword in ("const", "enum") and isinstance(value, float) and abs(value) >= 2**53)
        except OverflowError:
            exact = False
        if not exact:
            self._refuse(place, f"{keyword}: {value} cannot be enforced; a 64-bit floating point number cannot hold it")

    def _least(self, schema: dict[str, Any], value: Any, place: str) -> None:
        required = schema.get("required")
        named = len(set(map(str, required))) if isinstance(required, list) else 0
        if isinstance(value, int) and value > max(1, named):
            self._refuse(
                place, f"minProperties {value} cannot be enforced: {named} are required, and further keys may repeat"
            )

    def _literal(self, keyword: str, value: Any, place: str) -> None:
        if isinstance(value, str):
            if any(c == "\x7f" or (c < " " and c not in _SHORT_ESCAPES) for c in value):
                self._refuse(place, f"{keyword} {value!r} cannot be enforced: it holds a control character")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            self._number(keyword, value, place)
        elif isinstance(value, list | dict):
            for inner in value if isinstance(value, list) else [*value, *value.values()]:
                self._literal(keyword, inner, place)

    def ends(self, schema: Any, within: frozenset[str]) -> bool:
        """Whether some JSON of finite size is accepted, as far as references decide it. within: the references that are
        being followed."""
        if not isinstance(schema, dict):
            return schema is not False
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in self._ending:
            self._steps += 1
            if self._steps > MOST_REFERENCES:
                raise ParameterError(f"{self._name} follows more than {MOST_REFERENCES} references")
            if reference in within or not self.ends(self._target(reference), within | {reference}):
                return False
            self._ending.add(reference)
        for key in ("anyOf", "oneOf"):
            if isinstance(schema.get(key), list) and not any(self.ends(inner, within) for inner in schema[key]):
                return False
        return all(self.ends(inner, within) for inner in self._needed(schema))

    def _needed(self, schema: dict[str, Any]) -> Iterator[Any]:
        """The schemas that every value must satisfy somewhere in it."""
        if isinstance(schema.get("allOf"), list):
            yield from schema["allOf"]
        properties, required = schema.get("properties"), schema.get("required")
        if schema.get("type") == "object" and isinstance(properties, dict) and isinstance(required, list):
            yield from (properties[name] for name in required if isinstance(name, str) and name in properties)
        least = schema.get("minItems")
        if schema.get("type") == "array" and isinstance(least, int) and least > 0:
            first = schema.get("prefixItems")
            yield first[0] if isinstance(first, list) and first else schema.get("items", True)

    def _target(self, reference: str) -> Any:
        """The target of a reference; True if llguidance must resolve it."""
        target: Any = self._root
        if reference != "#" and not reference.startswith("#/"):
            return True
        for part in reference.split("/")[1:]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict) and key in target:
                target = target[key]
            elif isinstance(target, list) and key.isdigit() and int(key) < len(target):
                target = target[int(key)]
            else:
                return True
        return target

    def _refuse(self, place: str, what: str) -> NoReturn:
        raise ParameterError(f"{self._name} at {place}: {what}")
