"""Regular expressions that stop an answer: the `regex` library, with a limit on time."""

from __future__ import annotations

from typing import Any

import regex  # type: ignore[import-untyped]

from cutaway.errors import EngineError

SECONDS = 0.5
"""The maximum time of one search. A pattern that backtracks longer ends its request with an error."""


class Pattern:
    """A compiled stop pattern. Raises ValueError if `source` is not a valid regular expression."""

    def __init__(self, source: str) -> None:
        self.source = source
        try:
            self._compiled = regex.compile(source)
        except regex.error as error:
            raise ValueError(f"not a valid regular expression: {error}") from None
        except RecursionError:
            raise ValueError("nested too deeply") from None

    def match_in(self, text: str, start: int, end: int) -> tuple[int, int] | None:
        """The span of the leftmost match in text[:end] that begins at `start` or later. The text before `start` is used
        for anchors and look-behind. Raises EngineError after SECONDS."""
        found = self._search(text, start, end, partial=False)
        return None if found is None else found.span()

    def hold_from(self, text: str, start: int, end: int) -> int:
        """The first place, from `start` on, at which a match could begin if text[:end] continued; `end` if there is
        none."""
        found = self._search(text, start, end, partial=True)
        return end if found is None else int(found.start())

    def _search(self, text: str, start: int, end: int, *, partial: bool) -> Any:
        try:
            return self._compiled.search(text, start, end, partial=partial, timeout=SECONDS)
        except TimeoutError:
            raise EngineError(
                f"the stop pattern {self.source!r} took longer than {SECONDS} s on {end - start} characters",
                hint="it backtracks too much; make it more specific",
                code="stop_pattern_slow",
            ) from None
