"""Where each character of a rendered chat came from: which message, tool or variable, the clock, or the template.

The template is rendered several times over the same input. Each string from outside has a number, and in rendering b
every character of those strings is marked whose number has bit b set; so the marks that a character of the result
carries, read across the renderings, are the number of the string that it came from. The marks are the noncharacters
that `guarded` puts in anyway, two in a row: templates do not see them, whatever they do with the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutaway.text.chat.clock import now
from cutaway.text.chat.guarded import Guard
from cutaway.text.chat.template import ChatTemplate
from cutaway.text.chat.unread_fields import unread
from cutaway.text.lost_text import warn_of_loss
from cutaway.text.tokenizer.special_tokens import Markers
from cutaway.text.tokenizer.tokenizer import Segment

CLOCK = "clock"
"""The source of what `strftime_now` gave."""
_NAMES = ("messages", "tools", "documents")
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)  # as JSON writes a character


class Origin(NamedTuple):
    """Characters [start, end) of a rendered chat that come from one source.

    source: a path ("messages[0].content", "tools[1].function.name", "clock", a variable's name); "" is the template's
    own text; None: not known.
    """

    start: int
    end: int
    source: str | None


class Traced(NamedTuple):
    """A rendered chat: the segments that `ChatTemplate.render` gives, and the origins of its characters, in order."""

    segments: list[Segment]
    origins: list[Origin]


def traced(template: ChatTemplate, messages: Sequence[Mapping[str, Any]], /, **options: Any) -> Traced:
    """As `ChatTemplate.render`, with origins. Costs one rendering, and one for each bit of the number of strings.

    Where a template treats a marked text otherwise (a filter that no rule here foresees), or reads a clock that moves
    on between the renderings, the origins of the whole text are not known.

    Raises and warns as `ChatTemplate.render`.
    """
    clock = _Clock()
    options = {"strftime_now": clock.text, **options}
    text, guard, chat = template.written(messages, **options)
    for what in unread(chat):
        warn_of_loss(what, stacklevel=3)
    segments, clean = template.segments(text, guard), guard.clean(text)
    numbers = np.zeros(len(clean), np.int64)
    labels: list[str] = []
    bit = 0
    while bit == 0 or len(labels) >> bit:
        again, marking = _marked(template, messages, bit, options, clock)
        if marking.clean(again) != clean:
            return Traced(segments, [Origin(0, len(clean), None)])
        labels = marking.labels
        numbers |= _flags(again, marking).astype(np.int64) << bit
        bit += 1
    return Traced(segments, list(_runs(_with_escapes(clean, numbers), labels)))


class _MarkingGuard(Guard):
    """Marks every character of the strings whose number has the bit set. labels: of the strings, number 1 first."""

    def __init__(self, markers: Markers, *values: Any, bit: int) -> None:
        super().__init__(markers, *values)
        self.labels = [CLOCK]
        for name, value in zip(_NAMES, values, strict=False):
            self.labels.extend(_paths(value, name))
        for name, value in values[len(_NAMES)].items():
            self.labels.extend(_paths(value, name))
        self._bit = bit
        self._number = 1  # the clock's

    def mark(self, text: str, number: int) -> str:
        """The text, every character marked if that is this string's turn."""
        if not number >> self._bit & 1:
            return super()._break(text)
        return self._text(text and (2 * self.character).join(text) + 2 * self.character)

    def _break(self, text: str) -> str:
        self._number += 1
        return self.mark(text, self._number)


class _Clock:
    """One time for all renderings, of which those that mark mark it."""

    def __init__(self) -> None:
        self._now = now()
        self.guard: _MarkingGuard | None = None

    def text(self, format: str) -> str:
        """What `strftime_now` gives."""
        text = self._now.strftime(format)
        return text if self.guard is None else self.guard.mark(text, 1)


def _marked(
    template: ChatTemplate, messages: Sequence[Mapping[str, Any]], bit: int, options: Mapping[str, Any], clock: _Clock
) -> tuple[str, _MarkingGuard]:
    """What the template writes with the marks of one bit."""

    def guarding(markers: Markers, *values: Any) -> Guard:
        clock.guard = _MarkingGuard(markers, *values, bit=bit)
        return clock.guard

    text, _, _ = template.written(messages, guarding, **options)
    assert clock.guard is not None
    return text, clock.guard


def _paths(value: Any, path: str) -> Iterator[str]:
    """The strings of a value in the order in which `Guard.protect` comes to them; keys have their item's path."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield f"{path}.{key}"
            yield from _paths(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _paths(item, f"{path}[{number}]")


def _flags(text: str, guard: _MarkingGuard) -> NDArray[np.bool_]:
    """For each character of the text without noncharacters, whether it is marked."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    places = np.flatnonzero(codes != ord(guard.character))
    return np.diff(places, append=len(codes)) > 2


def _with_escapes(text: str, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """A character that JSON wrote as an escape is marked at the escape's end only."""
    for match in _ESCAPE.finditer(text) if "\\" in text else ():
        inside = numbers[match.start() : match.end()]
        if not inside[:-1].any():
            inside[:] = inside[-1]
    return numbers


def _runs(numbers: NDArray[np.int64], labels: Sequence[str]) -> Iterator[Origin]:
    starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist()] if len(numbers) else []
    for start, end in zip(starts, [*starts[1:], len(numbers)], strict=True):
        number = int(numbers[start])
        yield Origin(start, end, labels[number - 1] if 0 < number <= len(labels) else None if number else "")
