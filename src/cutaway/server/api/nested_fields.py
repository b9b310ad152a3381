"""Finds unknown keys inside the objects of a request, which are reported like unknown fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from cutaway.server.api.schemas import CountTokens, Fields

_FORMAT = frozenset({"type", "json_schema", "schema", "name", "description", "strict"})
_KNOWN: Mapping[str, frozenset[str]] = {
    "response_format": _FORMAT,
    "response_format.json_schema": frozenset({"name", "schema", "strict", "description"}),
    "text": frozenset({"format", "verbosity"}),
    "text.format": _FORMAT,
    "output_config": frozenset({"format", "effort"}),
    "output_config.format": _FORMAT,
    "output_format": _FORMAT,
    "thinking": frozenset({"type", "budget_tokens", "display"}),
    "reasoning": frozenset({"effort", "summary", "generate_summary", "context"}),
    "tool_choice": frozenset({"type", "name", "function", "disable_parallel_tool_use"}),
}
"""The keys of each object that are used, or that are known to have no effect."""
_ANTHROPIC_TOOL = frozenset(
    {"type", "name", "description", "input_schema", "strict", "cache_control", "eager_input_streaming"}
)


def unknown_inside(fields: Fields) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Each unknown key: the path of its object, the key, and the keys that the object may have.

    The tools of OpenAI's APIs are not checked, because their functions are passed to the model unchanged.
    """
    for name in type(fields).model_fields:
        value = getattr(fields, name)
        if isinstance(value, BaseModel):
            yield from ((name, key, tuple(type(value).model_fields)) for key in value.model_extra or {})
        elif isinstance(value, Mapping):
            yield from _unknown(name, value)
    if isinstance(fields, CountTokens):
        for number, tool in enumerate(fields.tools or ()):
            yield from ((f"tools.{number}", key, tuple(_ANTHROPIC_TOOL)) for key in tool.keys() - _ANTHROPIC_TOOL)


def _unknown(path: str, value: Mapping[str, Any]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    known = _KNOWN.get(path)
    if known is None:
        return
    for key, inner in value.items():
        if key not in known and inner is not None:
            yield path, key, tuple(known)
        elif isinstance(inner, Mapping):
            yield from _unknown(f"{path}.{key}", inner)
