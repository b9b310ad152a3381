"""The vocabulary: each token's spelling, kind and bytes.

Two schemes spell tokens differently. *Byte-level* vocabularies write every byte as one printable character (by GPT-2's
table); *SentencePiece* vocabularies write text as it is, a space as U+2581, and single bytes as ``<0x0A>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cutaway.errors import TokenizerError
from cutaway.text.tokenizer.string_index import PackedStrings, StringIndex, is_packed

Scheme = Literal["byte_level", "sentencepiece"]

# The numbers of tokenizer.ggml.token_type (GGUF specification); 0 is "undefined", which readers treat as normal.
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
KINDS = ("normal", "normal", "unknown", "control", "user", "unused", "byte")

SPACE = "\u2581"
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")

# User-defined tokens that are plain text: Gemma's vocabulary contains these HTML tags as whole tokens.
_HTML = frozenset(
    """table caption thead tbody tfoot tr th td h1 h2 h3 h4 h5 h6 blockquote strong em b i u s sub sup code a html body
    img span bbox ul li div iframe footer""".split()  # noqa: SIM905
)
_BRACKETED = re.compile(r"[<\[{|].*[>\]}|]", re.DOTALL)


def byte_alphabet() -> list[str]:
    """The character that stands for each of the 256 bytes in a byte-level vocabulary (GPT-2's table)."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("\u00a1"), ord("\u00ac") + 1), *range(ord("\u00ae"), 256)}
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


BYTE_OF = {character: byte for byte, character in enumerate(byte_alphabet())}
_TO_BYTE = {ord(character): byte for character, byte in BYTE_OF.items()}


def is_structural(text: str) -> bool:
    """Whether a user-defined token marks structure (``<tool_call>``) rather than whole text (spaces, HTML tags)."""
    if not _BRACKETED.fullmatch(text):
        return False
    return text.strip("</>") not in _HTML


class Vocabulary:
    """Tokens by id.

    Args:
        tokens: spelling of each token, indexed by id. Strings that were left in the file become a list with `ids`.
        types: uint8 [vocab], GGUF's token types.
        scheme: how spellings are interpreted.

    Attributes:
        rows: the number of ids: at least the tokens, or more if the model's embedding is padded.
    """

    __slots__ = ("__dict__", "_bytes", "rows", "scheme", "tokens", "types")

    def __init__(self, tokens: Sequence[str] | PackedStrings, types: NDArray[np.uint8], scheme: Scheme) -> None:
        self.tokens = tokens
        self.types = types
        self.scheme = scheme
        self.rows = len(tokens)
        self._bytes: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def ids(self) -> dict[str, int]:
        """Id of each spelling."""
        self.tokens = list(self.tokens)  # code that needs all of them in one way needs them in others too
        return dict(zip(self.tokens, range(len(self.tokens)), strict=True))

    def find(self, spelling: str) -> int | None:
        """Id of a spelling, or None, without making a dict of all if they were left in the file."""
        if "ids" in self.__dict__ or not is_packed(self.tokens):
            return self.ids.get(spelling)
        return self.index.find(spelling.encode())

    @cached_property
    def index(self) -> StringIndex:
        """For tokens that were left in the file."""
        assert is_packed(self.tokens)
        return StringIndex(self.tokens)

    def check(self, token: int) -> int:
        """Return `token` if it is an id of this vocabulary. Raises TokenizerError otherwise."""
        if not 0 <= token < self.rows:
            raise TokenizerError(f"token id {token} is outside the vocabulary (0 to {self.rows - 1})")
        return token

    def kind(self, token: int) -> str:
        return KINDS[self.types[token]] if self.check(token) < len(self.tokens) else "unused"

    def of_type(self, *types: int) -> list[int]:
        """Ids of all tokens of these types, ascending."""
        return [int(token) for token in np.flatnonzero(np.isin(self.types, types))]

    def spelled_bytes(self, token: int) -> bytes:
        """The bytes of a token's text; for a control token those of its name, for an unused entry none."""
        found = self._bytes.get(token)
        if found is None:
            found = self._bytes[token] = self._read(self.check(token))
        return found

    def _read(self, token: int) -> bytes:
        if self.kind(token) == "unused":
            return b""
        spelling, kind = self.tokens[token], self.types[token]
        if kind in {CONTROL, USER, UNKNOWN}:
            return spelling.encode()
        if self.scheme == "byte_level":
            return read_byte_level(spelling)
        if kind == BYTE and (match := _BYTE_TOKEN.fullmatch(spelling)):
            return bytes([int(match[1], 16)])
        return spelling.replace(SPACE, " ").encode()


def read_byte_level(spelling: str) -> bytes:
    """Bytes of a byte-level spelling; one with characters outside the table is plain text."""
    try:
        return spelling.translate(_TO_BYTE).encode("latin-1")
    except UnicodeEncodeError:
        return spelling.encode()


def as_types(values: Iterable[int] | None, count: int) -> NDArray[np.uint8]:
    """Token types as uint8 [count]; if they are absent, all are normal.

    Raises:
        TokenizerError: the number of types differs from that of tokens, or a type does not exist.
    """
    if values is None:
        return np.full(count, NORMAL, np.uint8)
    types = np.asarray(values)
    if types.shape != (count,):
        raise TokenizerError(f"tokenizer.ggml.token_type has {types.size} entries for {count} tokens")
    if types.size and not (types.min() >= 0 and types.max() <= BYTE):
        raise TokenizerError(f"tokenizer.ggml.token_type holds a value outside 0..{BYTE}")
    return types.astype(np.uint8)


def byte_tokens(tokens: Sequence[str]) -> list[int]:
    """Ids of tokens spelled as single bytes, ``<0x00>`` to ``<0xFF>``."""
    return [token for token, spelling in enumerate(tokens) if _BYTE_TOKEN.fullmatch(spelling)]
