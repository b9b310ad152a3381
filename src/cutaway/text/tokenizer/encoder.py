"""Encodes plain text with the `tokenizers` library; markers are never read from the text."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, NamedTuple

from cutaway.errors import TokenizerError


class Place(IntEnum):
    """The place of a text, which decides whether SentencePiece's prefix space is put before it.

    START: at the start of a whole text. MARKER: directly after a control token. INSIDE: after other text, where nothing
    is inserted.
    """

    START = 0
    MARKER = 1
    INSIDE = 2


class Span(NamedTuple):
    """An id and the characters [start, end) of the text that it came from."""

    id: int
    start: int
    end: int


# Number of characters that `quick` encodes before the library is built.
QUICK = 1 << 14


class Encoder:
    """Encodes plain text. The library's tokenizer is built on first use, because building is costly and often not
    needed.

    Args:
        build: makes a `tokenizers.Tokenizer` for each `Place`; they share one model.
        prefix: put before a text at the start.
        marker_prefix: put before a text after a marker; None: the same.
        quick: the same ids for a short text without building; None if it cannot encode the text. It may discard the
            text.
    """

    def __init__(
        self,
        build: Callable[[], tuple[Any, Any, Any]],
        *,
        prefix: str = "",
        marker_prefix: str | None = None,
        quick: Callable[[str], list[int] | None] | None = None,
    ) -> None:
        self._prefixes = prefix, prefix if marker_prefix is None else marker_prefix, ""
        self._build: Callable[[], tuple[Any, Any, Any]] | None = build
        self._lock = threading.Lock()
        self._built: tuple[Any, Any, Any] | None = None
        self._quick = quick
        self._left = QUICK

    def prepare(self) -> tuple[Any, Any, Any]:
        """Build now (once, in the first thread that needs it)."""
        with self._lock:
            if self._built is None:
                assert self._build is not None
                with collector_paused():
                    self._built = self._build()
                self._build = self._quick = None  # with all that they were made from
            return self._built

    def ids(self, text: str, place: Place) -> list[int]:
        """Ids of `text`."""
        quick = self._quick
        if quick is not None and isinstance(text, str) and len(text) <= self._left:
            self._left -= len(text)
            if (ids := quick(text)) is not None:
                return ids
        return list(self._encoding(text, place).ids)

    def spans(self, text: str, place: Place) -> list[Span]:
        """Like `ids`, with the characters of each id."""
        encoding = self._encoding(text, place)
        shift = len(self._prefixes[place])
        return [
            Span(id, max(start - shift, 0), max(end - shift, 0))
            for id, (start, end) in zip(encoding.ids, encoding.offsets, strict=True)
        ]

    def words(self, text: str, place: Place) -> list[str]:
        """The words of `text` in the vocabulary's spelling; no token reaches beyond one."""
        library = (self._built or self.prepare())[place]
        text = self._prefixes[place] + text
        if library.normalizer is not None:
            text = library.normalizer.normalize_str(text)
        if library.pre_tokenizer is None:
            return [text] if text else []
        return [word for word, _ in library.pre_tokenizer.pre_tokenize_str(text)]

    def model(self) -> dict[str, Any]:
        """The library's model as `tokenizer.json` has it: "type", "vocab", and what belongs to the type."""
        found: dict[str, Any] = json.loads((self._built or self.prepare())[Place.START].to_str())["model"]
        return found

    def _encoding(self, text: str, place: Place) -> Any:
        library = (self._built or self.prepare())[place]
        try:
            return library.encode(self._prefixes[place] + text, add_special_tokens=False)
        except (UnicodeEncodeError, TypeError) as error:
            raise not_text(text) from error


def not_text(text: object) -> TokenizerError:
    """The error for a text that cannot be encoded as UTF-8."""
    if not isinstance(text, str):
        return TokenizerError(f"text to encode must be a string, not {type(text).__name__}")
    where = next((place for place, character in enumerate(text) if "\ud800" <= character <= "\udfff"), None)
    return TokenizerError(f"text to encode holds half a surrogate pair at character {where}")


@contextmanager
def collector_paused() -> Iterator[None]:
    """Disables garbage collection: building makes hundreds of thousands of objects, none of them garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
