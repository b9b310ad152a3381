"""Records which fields of a chat's messages a template has read, so that unread fields cause a warning."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, Sequence, ValuesView
from typing import Any

PLUMBING = frozenset({"role", "id", "type", "index", "status", "tool_call_id", "cache_control"})
"""Fields that link messages and have no meaning for a model. The order of messages expresses `tool_call_id`."""


class Watched(dict[str, Any]):
    """A message that records which of its fields were read."""

    def __init__(self, message: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None, /) -> Any:
        self.read.add(key)
        return super().get(key, default)

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        self.read.update(self)
        return super().items()

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        self.read.update(self)
        return super().values()


def unread(messages: Sequence[Watched]) -> Iterator[str]:
    """Warnings about fields that a template did not read; the same field of several messages has one warning."""
    found: dict[str, list[int]] = {}
    for number, message in enumerate(messages, 1):
        for field, value in dict.items(message):
            if field not in PLUMBING and field not in message.read and value not in (None, "", [], {}, False):
                found.setdefault(str(field), []).append(number)
    for field, numbers in found.items():
        which = ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
        where = f"message{'s' if len(numbers) > 1 else ''} {which}"
        yield f"{where}: {field} is not shown to the model; its chat template does not read it"
    yield from _misordered(messages)


def _misordered(messages: Sequence[Watched]) -> Iterator[str]:
    """A warning if results of tools are in another order than their calls and the template shows no ids."""
    called: list[Any] = []
    results: list[Any] = []
    for number, message in enumerate((*messages, Watched({})), 1):
        if dict.get(message, "role") == "tool":
            if "tool_call_id" not in message.read:
                results.append(dict.get(message, "tool_call_id"))
            continue
        if [id for id in results if id in called] != [id for id in called if id in results]:
            yield (
                f"messages before {number}: the results of tools stand in another order than their calls, and the chat "
                "template shows no ids; the model may take one for the other"
            )
        calls = dict.get(message, "tool_calls") or []
        called, results = [call.get("id") for call in calls if call.get("id") is not None], []
