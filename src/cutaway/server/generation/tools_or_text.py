"""Parses an answer that is either tool calls or a text of a given form, depending on its beginning.

A text of a given form may contain anything, even something that looks like a call (in a JSON string, for example), so
it is not parsed for calls.
"""

from __future__ import annotations

from typing import Literal

import regex  # type: ignore[import-untyped]

from cutaway.text.tools.events import Content, ToolEvent
from cutaway.text.tools.parser import ToolParser


class FormOrCalls:
    """Has the interface of the parser. opening: a pattern for the beginning of calls, without blanks. marked: calls
    have a marker, so that half of a marker is not yet text."""

    def __init__(self, parser: ToolParser, opening: str, *, marked: bool = True) -> None:
        self._parser = parser
        self._marked = marked
        self._opening = regex.compile(rf"\s*{opening}")
        self._held = ""
        self._state: Literal["undecided", "form", "calls"] = "undecided"

    def push(self, text: str) -> list[ToolEvent]:
        """Parse the next piece of the answer."""
        if self._state == "calls":
            return self._parser.push(text)
        if self._state == "form":
            return [Content(text)]
        self._held += text
        found = self._opening.match(self._held, partial=True)
        if found is not None and found.partial:
            return []
        self._state = "form" if found is None else "calls"
        held, self._held = self._held, ""
        return self.push(held)

    def finish(self, *, cut: bool = False) -> list[ToolEvent]:
        """End of the answer: return the text that was held back."""
        if self._state == "calls":
            return self._parser.finish(cut=cut)
        if cut and self._marked:
            return [*self._parser.push(self._held), *self._parser.finish(cut=True)]
        return [Content(self._held)] if self._held else []
