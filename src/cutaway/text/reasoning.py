"""Reasoning kept apart from the answer: `<think>` … `</think>`, and what other models write for it."""

from __future__ import annotations

from dataclasses import dataclass

from cutaway.errors import ParameterError


@dataclass(frozen=True, slots=True)
class ReasoningFormat:
    """The markers between which a model reasons."""

    start: str = "<think>"
    end: str = "</think>"

    def __post_init__(self) -> None:
        if not (self.start and self.end):
            raise ParameterError("the markers of reasoning must not be empty")


@dataclass(frozen=True, slots=True)
class ReasoningPiece:
    """Text that was just told apart: reasoning, and content. One of them is often ""."""

    reasoning: str
    content: str


class ReasoningParser:
    """Splits a growing text: `push(text)` and `finish()` give pieces; joined they are the same however it was cut.

    format: the markers. open: the prompt has already opened the reasoning (see `opens_reasoning`), so that the text
    begins inside it. Markers are left out, and the blanks next to them.
    """

    def __init__(self, format: ReasoningFormat, *, open: bool = False) -> None:
        self._format = format
        self._open = open

    def push(self, text: str) -> ReasoningPiece:
        """The next piece of the text."""
        raise NotImplementedError

    def finish(self) -> ReasoningPiece:
        """The text is over: what was held back."""
        raise NotImplementedError


def detect_reasoning(template_source: str) -> ReasoningFormat | None:
    """The markers that a chat template knows, or None for a model that does not reason."""
    raise NotImplementedError


def opens_reasoning(prompt_end: str, format: ReasoningFormat) -> bool:
    """Whether a rendered prompt ends inside the reasoning. prompt_end: its last few hundred characters."""
    raise NotImplementedError


def split_reasoning(text: str, format: ReasoningFormat, *, open: bool = False) -> ReasoningPiece:
    """The whole of a whole text."""
    parser = ReasoningParser(format, open=open)
    pieces = [parser.push(text), parser.finish()]
    return ReasoningPiece("".join(p.reasoning for p in pieces), "".join(p.content for p in pieces))
