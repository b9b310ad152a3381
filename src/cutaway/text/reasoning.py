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


REASONING_FORMATS = (
    ReasoningFormat(),
    ReasoningFormat("[THINK]", "[/THINK]"),
    ReasoningFormat("<seed:think>", "</seed:think>"),
    ReasoningFormat("<|START_THINKING|>", "<|END_THINKING|>"),
    ReasoningFormat("\u25c1think\u25b7", "\u25c1/think\u25b7"),
    ReasoningFormat("<reasoning>", "</reasoning>"),
)


@dataclass(frozen=True, slots=True)
class ReasoningPiece:
    """Text that was just told apart: reasoning, and content. Either may be ""."""

    reasoning: str
    content: str


class ReasoningParser:
    """Splits a growing text: `push(text)` and `finish()` give pieces; joined they are the same however it was cut.

    format: the markers. open: the prompt has already opened the reasoning (see `opens_reasoning`), so that the text
    begins inside it. The markers are left out, and the blanks next to them. Only reasoning with which the text begins
    is taken: a marker after other text is content. closed: the reasoning is over.
    """

    def __init__(self, format: ReasoningFormat, *, open: bool = False) -> None:
        self._format = format
        self._opens = "" if open else format.start  # what may still come
        self._inside = open
        self._buffer = ""
        self._trim = True  # blanks that come now stand next to a marker, or at the start
        self.closed = False

    def push(self, text: str) -> ReasoningPiece:
        """The next piece of the text."""
        self._buffer += text
        if self._opens and not self._begin():
            return ReasoningPiece("", "")
        reasoning = self._reason() if self._inside else ""
        return ReasoningPiece(reasoning, "" if self._inside else self._rest())

    def finish(self) -> ReasoningPiece:
        """The text is over: what was held back. Reasoning that was not closed loses its blanks at the end."""
        rest, self._buffer = self._buffer, ""
        if self._opens:
            return ReasoningPiece("", rest)
        return ReasoningPiece(rest.rstrip(), "") if self._inside else ReasoningPiece("", self._trimmed(rest))

    def _begin(self) -> bool:
        """Before anything was told: whether it is known how the text begins."""
        start = self._buffer.lstrip()
        if start.startswith(self._opens):
            self._buffer, self._inside = start[len(self._opens) :], True
        elif self._opens.startswith(start):
            return False
        else:
            self._trim, self.closed = False, True
        self._opens = ""
        return True

    def _reason(self) -> str:
        self._buffer = self._trimmed(self._buffer)
        end = self._buffer.find(self._format.end)
        if end >= 0:
            text, self._buffer = self._buffer[:end].rstrip(), self._buffer[end + len(self._format.end) :]
            self._inside, self._trim, self.closed = False, True, True
            return text
        hold = len(self._buffer)
        for start in range(max(0, hold + 1 - len(self._format.end)), hold):
            if self._format.end.startswith(self._buffer[start:]):
                hold = start
                break
        hold = len(self._buffer[:hold].rstrip())
        text, self._buffer = self._buffer[:hold], self._buffer[hold:]
        return text

    def _rest(self) -> str:
        text, self._buffer = self._trimmed(self._buffer), ""
        return text

    def _trimmed(self, text: str) -> str:
        if not self._trim:
            return text
        text = text.lstrip()
        self._trim = not text
        return text


def detect_reasoning(template_source: str | None) -> ReasoningFormat | None:
    """The markers that a chat template knows, or None for a model that does not reason."""
    source = template_source or ""
    return next((format for format in REASONING_FORMATS if format.end in source), None)


def opens_reasoning(prompt_end: str, format: ReasoningFormat) -> bool:
    """Whether a rendered prompt ends inside the reasoning, so that the answer begins there. prompt_end: at least its
    last few dozen characters. A template that opens it writes the marker last."""
    return prompt_end.rstrip().endswith(format.start)


def split_reasoning(text: str, format: ReasoningFormat, *, open: bool = False) -> ReasoningPiece:
    """The whole of a whole text."""
    parser = ReasoningParser(format, open=open)
    pieces = [parser.push(text), parser.finish()]
    return ReasoningPiece("".join(p.reasoning for p in pieces), "".join(p.content for p in pieces))
