"""Separates the text of an answer, as it arrives, into reasoning, content and tool calls."""

from __future__ import annotations

from dataclasses import dataclass, field

from cutaway.server.generation.tools_or_text import FormOrCalls
from cutaway.text.chat.reasoning import ReasoningParser
from cutaway.text.tools.events import Arguments, CallEnded, CallStarted, Content, ParseWarning, ToolEvent
from cutaway.text.tools.parser import ToolParser

CallEvent = CallStarted | Arguments | CallEnded


@dataclass(frozen=True, slots=True)
class Told:
    """A piece of an answer. calls: in order, after `content`."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[CallEvent, ...] = ()

    def __add__(self, other: Told) -> Told:
        return Told(self.content + other.content, self.reasoning + other.reasoning, self.calls + other.calls)

    def __bool__(self) -> bool:
        return bool(self.content or self.reasoning or self.calls)


@dataclass(slots=True)
class Reader:
    """The parser of one answer, for streamed and whole replies. The joined pieces do not depend on how the text was
    split.

    reason: OpenAI's finish reason of an answer with tool calls. called: whether it has one.
    """

    reasoning: ReasoningParser | None = None
    tools: ToolParser | FormOrCalls | None = None
    reason: str = "tool_calls"
    called: bool = False
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.reasoning is not None:
            self.reasoning.warnings = self.warnings

    def push(self, text: str) -> Told:
        """Parse the next piece of the text."""
        if not text:
            return Told()
        if self.reasoning is None:
            return self._content(text)
        piece = self.reasoning.push(text)
        return Told(reasoning=piece.reasoning) + self._content(piece.content)

    def finish(self, *, cut: bool = False) -> Told:
        """Parse the text that was held back. cut: the answer was ended by a limit or a stop, not by itself."""
        told = Told()
        if self.reasoning is not None:
            piece = self.reasoning.finish(cut=cut)
            told = Told(reasoning=piece.reasoning) + self._content(piece.content)
        return told if self.tools is None else told + self._read(self.tools.finish(cut=cut))

    def _content(self, text: str) -> Told:
        if self.tools is None or not text:
            return Told(text)
        return self._read(self.tools.push(text))

    def _read(self, events: list[ToolEvent]) -> Told:
        content: list[str] = []
        calls: list[CallEvent] = []
        for event in events:
            if isinstance(event, Content):
                content.append(event.text)
            elif isinstance(event, ParseWarning):
                self.warnings.append(event.message)
            else:
                self.called = True
                calls.append(event)
        return Told("".join(content), calls=tuple(calls))
