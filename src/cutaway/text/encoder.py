"""The part that the `tokenizers` library does: plain text to ids, with no marker ever read from the text."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from cutaway.errors import TokenizerError


class Span(NamedTuple):
    """An id and the characters [start, end) of the text that it came from."""

    id: int
    start: int
    end: int


class Encoder:
    """Encodes plain text, built when first needed (building is what costs, and a file's other facts do not need it).

    Args:
        build: makes two `tokenizers.Tokenizer` that share one model: for text at the very start, and for text after a
            marker (SentencePiece adds its prefix space only at the start).
    """

    def __init__(self, build: Callable[[], tuple[Any, Any]]) -> None:
        self._build: Callable[[], tuple[Any, Any]] | None = build
        self._lock = threading.Lock()
        self._built: tuple[Any, Any] | None = None

    def prepare(self) -> tuple[Any, Any]:
        """Build now (once, from whichever thread comes first)."""
        with self._lock:
            if self._built is None:
                assert self._build is not None
                with collector_paused():
                    self._built = self._build()
                self._build = None  # with all that it was built from
            return self._built

    def ids(self, text: str, *, first: bool) -> list[int]:
        """Ids of `text`; `first`: it stands at the very start."""
        try:
            return list(self._choose(first).encode(text, add_special_tokens=False).ids)
        except (UnicodeEncodeError, TypeError) as error:
            raise not_text(text) from error

    def spans(self, text: str, *, first: bool) -> list[Span]:
        """As `ids`, with the characters each id came from."""
        try:
            encoding = self._choose(first).encode(text, add_special_tokens=False)
        except (UnicodeEncodeError, TypeError) as error:
            raise not_text(text) from error
        return [Span(id, *offsets) for id, offsets in zip(encoding.ids, encoding.offsets, strict=True)]

    def _choose(self, first: bool) -> Any:
        return (self._built or self.prepare())[0 if first else 1]


def not_text(text: object) -> TokenizerError:
    """What to say of something that cannot be encoded as UTF-8."""
    if not isinstance(text, str):
        return TokenizerError(f"text to encode must be a string, not {type(text).__name__}")
    where = next((place for place, character in enumerate(text) if "\ud800" <= character <= "\udfff"), None)
    return TokenizerError(f"text to encode holds half a surrogate pair at character {where}")


@contextmanager
def collector_paused() -> Iterator[None]:
    """No garbage collection inside: building makes hundreds of thousands of objects, none of them garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
