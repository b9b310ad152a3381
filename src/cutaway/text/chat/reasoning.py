"""Separates reasoning from the answer: `<think>` … `</think>`, and the markers of other models."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

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
    """Newly separated text: reasoning and content. Either may be ""."""

    reasoning: str
    content: str


class ReasoningParser:
    """Splits a growing text. `push(text)` and `finish()` return pieces; joined they do not depend on how it was split.

    format: the markers. open: the prompt has already opened the reasoning (see `opens_reasoning`), so that the text
    begins inside it. The markers are removed, with the white space next to them. Only reasoning at the beginning of the
    text is recognized: a marker after other text is content. A repeated marker (an opening one inside the reasoning, a
    closing one right after it) is removed; reasoning that opens again before any content continues. closed: the
    reasoning is complete. warnings: about removed text other than the expected markers.
    """

    def __init__(self, format: ReasoningFormat, *, open: bool = False) -> None:
        self._format = format
        self._state: Literal["before", "inside", "after", "content"] = "inside" if open else "before"
        self._buffer = ""
        self._trim = True  # white space that follows is next to a marker, or at the start
        self._between = ""  # separates two runs of reasoning
        self._said = False  # there was reasoning
        self._begun = False  # there was reasoning since the last opening marker
        self.closed = False
        self.warnings: list[str] = []

    def push(self, text: str) -> ReasoningPiece:
        """Split the next piece of the text."""
        self._buffer += text
        reasoning, content = "", ""
        while self._buffer and self._state != "content":
            if self._state == "inside":
                told, more = self._reason()
                reasoning += told
            else:
                more = self._look()
            if not more:
                break
        if self._state == "content":
            content, self._buffer = self._buffer, ""
        return ReasoningPiece(reasoning, content)

    def finish(self, *, cut: bool = False) -> ReasoningPiece:
        """End of the text: return what was held back. Reasoning that was not closed loses its white space at the end.
        cut: the text was ended by a limit or a stop; then the beginning of a marker at its end is removed."""
        rest, self._buffer = self._buffer, ""
        held = begun(rest, self._markers())
        if cut and held < len(rest):
            self.warnings.append(f"the answer was cut inside a marker of its reasoning; left out: {rest[held:]!r}")
            rest = rest[:held]
        if self._state == "inside":
            return ReasoningPiece(self._joined(rest.rstrip()), "")
        return ReasoningPiece("", rest if self._state == "before" else rest.lstrip())

    def _markers(self) -> tuple[str, ...]:
        return (self._format.start,) if self._state == "before" else (self._format.start, self._format.end)

    def _look(self) -> bool:
        """Before the reasoning, or after it and before any content. Returns whether there may be more to process."""
        start = self._buffer.lstrip()
        for marker in self._markers():
            if start.startswith(marker):
                self._take(marker, start[len(marker) :])
                return True
            if marker.startswith(start):
                return False
        if self._state == "after":
            self._buffer = start
        self._state, self.closed = "content", True
        return False

    def _take(self, marker: str, rest: str) -> None:
        """The marker with which the remaining text begins."""
        self._buffer = rest
        if marker == self._format.end:
            self._repeated(marker)
        else:
            self._state, self._trim, self._begun = "inside", True, False
            self._between = "\n\n" if self._said else ""

    def _reason(self) -> tuple[str, bool]:
        """Inside: the reasoning up to the next marker or the possible beginning of one, and whether a marker was
        removed."""
        if self._trim:
            self._buffer = self._buffer.lstrip()
            self._trim = not self._buffer
        found = [(at, marker) for marker in self._markers() if (at := self._buffer.find(marker)) >= 0]
        if not found:
            hold = len(self._buffer[: begun(self._buffer, self._markers())].rstrip())
            text, self._buffer = self._buffer[:hold], self._buffer[hold:]
            return self._joined(text), False
        at, marker = min(found)
        text, self._buffer = self._buffer[:at], self._buffer[at + len(marker) :]
        if marker == self._format.end:
            self._state, self._trim, self.closed = "after", True, True
            return self._joined(text.rstrip()), True
        self._repeated(marker)
        self._trim = not text and not self._begun
        return self._joined(text), True

    def _joined(self, text: str) -> str:
        if text:
            text, self._between, self._said, self._begun = self._between + text, "", True, True
        return text

    def _repeated(self, marker: str) -> None:
        warning = f"the model wrote the marker {marker!r} again; it was left out"
        if warning not in self.warnings:
            self.warnings.append(warning)


def begun(text: str, markers: Collection[str]) -> int:
    """The start of the longest end of `text` that is the beginning of a marker but not a whole one; its length if there
    is none."""
    for start in range(max(0, len(text) + 1 - max(map(len, markers))), len(text)):
        if any(marker.startswith(text[start:]) for marker in markers):
            return start
    return len(text)


def detect_reasoning(template_source: str | None) -> ReasoningFormat | None:
    """The markers that a chat template uses, or None for a model that does not reason."""
    source = template_source or ""
    return next((format for format in REASONING_FORMATS if format.end in source), None)


def opens_reasoning(prompt_end: str, format: ReasoningFormat) -> bool:
    """Whether a rendered prompt ends inside the reasoning, so that the answer begins there. prompt_end: at least its
    last few dozen characters. A template that opens the reasoning writes the marker last."""
    return prompt_end.rstrip().endswith(format.start)


def continued_reasoning(text: str, format: ReasoningFormat) -> Literal["open", "closed", "none"]:
    """The state of the reasoning in a message that is continued: it is open, it is complete (its text is given), or
    nothing of the message was written yet."""
    begins = text.lstrip()
    if not begins:
        return "none"
    opened = begins.startswith(format.start) and begins.rfind(format.start) > begins.rfind(format.end)
    return "open" if opened else "closed"


def split_reasoning(text: str, format: ReasoningFormat, *, open: bool = False) -> ReasoningPiece:
    """The split of a whole text."""
    parser = ReasoningParser(format, open=open)
    pieces = [parser.push(text), parser.finish()]
    return ReasoningPiece("".join(p.reasoning for p in pieces), "".join(p.content for p in pieces))
