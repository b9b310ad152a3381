"""Finds the tokens that mark structure (``<|im_end|>``, ``<tool_call>``) in text, and breaks their look-alikes.

The cost of a search depends on the text and on the number of *lengths* of the markers, not on the number of markers
(Gemma has 6,249): candidates are found by a marker's first two characters, then looked up as a whole.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple


class Marker(NamedTuple):
    """One marker: its id, and which white space beside it belongs to it (from tokenizer.json's added tokens)."""

    id: int
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False


class Match(NamedTuple):
    """A marker found at characters [start, end) of a text."""

    start: int
    end: int
    id: int


class _Index:
    """Texts by their first two characters, longest first."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = frozenset(texts)
        lengths: dict[str, set[int]] = {}
        for text in self.texts:
            lengths.setdefault(text[:2], set()).add(len(text))
        self._lengths = {start: sorted(found, reverse=True) for start, found in lengths.items()}
        first = "".join(sorted({text[0] for text in self.texts}))
        self._candidates = re.compile(f"[{re.escape(first)}]" if first else r"(?!)")

    def at(self, text: str, position: int) -> Iterator[int]:
        """Ends of the texts that begin at `position`, longest first."""
        for length in self._lengths.get(text[position : position + 2], ()):
            if text[position : position + length] in self.texts:
                yield position + length

    def starts(self, text: str) -> Iterator[int]:
        """Positions at which one of the texts might begin."""
        return (match.start() for match in self._candidates.finditer(text))


class Markers:
    """The markers of one vocabulary.

    Args:
        markers: text of each marker. A single character cannot be distinguished from text, so such entries are left
            out.
    """

    def __init__(self, markers: Mapping[str, Marker]) -> None:
        self._markers = {text: marker for text, marker in markers.items() if len(text) > 1}

    @property
    def ids(self) -> frozenset[int]:
        """The ids of the markers."""
        return frozenset(marker.id for marker in self._markers.values())

    def below(self, rows: int) -> Markers:
        """The markers whose id is less than `rows`."""
        return Markers({text: marker for text, marker in self._markers.items() if marker.id < rows})

    def __contains__(self, text: str) -> bool:
        return text in self._markers

    def __iter__(self) -> Iterator[str]:
        return iter(self._markers)

    @cached_property
    def _exact(self) -> _Index:
        return _Index(self._markers)

    @cached_property
    def _folded(self) -> _Index:
        return _Index(fold(text) for text in self._markers)

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self._folded.texts)

    def find(self, text: str) -> Iterator[Match]:
        """Markers in `text`, leftmost and then longest first, without overlap."""
        end = 0
        for start in self._exact.starts(text):
            if start < end:
                continue
            for stop in self._exact.at(text, start):
                marker = self._markers[text[start:stop]]
                if marker.single_word and not _stands_alone(text, start, stop):
                    continue
                left = len(text[end:start].rstrip()) + end if marker.lstrip else start
                end = stop + len(text[stop:]) - len(text[stop:].lstrip()) if marker.rstrip else stop
                yield Match(left, end, marker.id)
                break

    def lookalikes(self, text: str) -> list[int]:
        """Starts of everything that is a marker in upper or lower case, or could become one at the end, ascending."""
        folded = fold(text)
        found = {start for start in self._folded.starts(folded) if next(self._folded.at(folded, start), None)}
        longest = len(max(self._folded.texts, key=len, default=""))
        for start in range(max(0, len(folded) - longest + 1), len(folded)):
            if self._begins(folded[start:]):
                found.add(start)
        return sorted(found)

    def _begins(self, text: str) -> bool:
        """Whether some marker begins with `text`."""
        place = bisect_left(self._sorted, text)
        return place < len(self._sorted) and self._sorted[place].startswith(text)


def fold(text: str) -> str:
    """Lower case, character by character, so that positions do not change."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(small if len(small := character.lower()) == 1 else character for character in text)


def _stands_alone(text: str, start: int, stop: int) -> bool:
    before = start == 0 or not (text[start - 1].isalnum() or text[start - 1] == "_")
    after = stop == len(text) or not (text[stop].isalnum() or text[stop] == "_")
    return before and after
