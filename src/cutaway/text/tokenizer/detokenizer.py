"""Token ids to text, one at a time."""

from __future__ import annotations

import codecs
from collections.abc import Callable


class Detokenizer:
    """Converts tokens to text as they arrive: characters are never split, nothing is lost, and joined pieces equal the
    whole decoded text.

    Args:
        token_bytes: bytes that a token adds to the text.
        strip_space: drop the text's first space, which is the prefix that encoding adds (SentencePiece).
    """

    __slots__ = ("_decoder", "_strip_space", "_token_bytes")

    def __init__(self, token_bytes: Callable[[int], bytes], *, strip_space: bool = False) -> None:
        self._token_bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._strip_space = strip_space

    def push(self, id: int) -> str:
        """The characters that this token completes, possibly none."""
        return self._emit(self._decoder.decode(self._token_bytes(id)))

    def flush(self) -> str:
        """The rest at the end: the bytes of an incomplete character as one U+FFFD, otherwise ""."""
        text = self._emit(self._decoder.decode(b"", final=True))
        self._decoder.reset()
        return text

    def _emit(self, text: str) -> str:
        if not (self._strip_space and text):
            return text
        self._strip_space = False
        return text.removeprefix(" ")
