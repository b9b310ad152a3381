"""The events of a tool-call parser for a growing text.

The joined `Content.text` is the message's content; for each call, the joined `Arguments.text` is its arguments as JSON
text. The joined result does not depend on how the text was split.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Content:
    """Text of the answer outside of calls."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A call begins. index: 0 for the first; id: unique; name: of the tool, sent only here."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """The next piece of the arguments of call `index`, raw JSON text as the model wrote it."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallEnded:
    """The call is complete."""

    index: int


@dataclass(frozen=True, slots=True)
class ParseWarning:
    """Something that looks like a call could not be parsed; the part of it that was not sent yet follows as content."""

    message: str


ToolEvent = Content | CallStarted | Arguments | CallEnded | ParseWarning


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A complete call. arguments: JSON text of an object."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """A complete answer: its content, its calls in order, and warnings."""

    content: str
    calls: tuple[ToolCall, ...]
    warnings: tuple[str, ...]


def gathered(events: Iterable[ToolEvent]) -> ToolMessage:
    """The complete answer, from its events."""
    content: list[str] = []
    calls: list[tuple[CallStarted, list[str]]] = []
    warnings: list[str] = []
    for event in events:
        match event:
            case Content(text):
                content.append(text)
            case CallStarted():
                calls.append((event, []))
            case Arguments(index, text):
                calls[index][1].append(text)
            case ParseWarning(message):
                warnings.append(message)
            case CallEnded():
                pass
    made = tuple(ToolCall(start.id, start.name, "".join(pieces)) for start, pieces in calls)
    return ToolMessage("".join(content), made, tuple(warnings))
