"""Finds strings by content in an array of a file, without making a `str` of each.

Every string has a key of 64 bits from its first and last eight bytes and its length; the keys are sorted, and
candidates are compared. That takes a few passes of NumPy: 10 ms for 150,000 strings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]

_HEADER = 8  # bytes of a string's length, before the string
_FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
_64_BITS = (1 << 64) - 1
# The bytes of byte-level spellings: printable ASCII, and U+00A1 to U+0143 in UTF-8, less what `is_byte_level` looks at.
_SPELLING = bytes([0, *range(0x21, 0x7F), *range(0x80, 0xC0), 0xC2, 0xC3, 0xC4, 0xC5])


class PackedStrings(Protocol):
    """Strings as in a GGUF file: a length of 8 bytes, then the text.

    data: uint8, the file. offsets: int64 [count + 1], the places of the lengths, and the end of the array.
    """

    data: NDArray[np.uint8]
    offsets: I64

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> str: ...
    def __iter__(self) -> Iterator[str]: ...


def is_packed(strings: object) -> TypeGuard[PackedStrings]:
    """Whether strings were left in the file."""
    return hasattr(strings, "offsets")


class StringIndex:
    """Places of strings in an array, by content."""

    def __init__(self, strings: PackedStrings) -> None:
        self._strings = strings
        keys = _keys(strings)
        self._order = np.argsort(keys).astype(np.int32)
        self._keys = keys[self._order]

    def find(self, text: bytes) -> int | None:
        """The place of `text` (the last one, if it occurs several times), or None."""
        key = np.uint64(_key(text))
        place = int(np.searchsorted(self._keys, key))
        found = None
        while place < len(self._keys) and self._keys[place] == key:
            candidate = int(self._order[place])
            if (found is None or candidate > found) and self._text(candidate) == text:
                found = candidate
            place += 1
        return found

    def _text(self, place: int) -> bytes:
        start, end = self._strings.offsets[place : place + 2].tolist()
        return self._strings.data[start + _HEADER : end].tobytes()


def _key(text: bytes) -> int:
    first, last = (int.from_bytes(part, "little") for part in (text[:8], text[-8:]))
    a, b, c = _FACTORS
    return (first * a ^ last * b ^ len(text) * c) & _64_BITS


def _keys(strings: PackedStrings) -> U64:
    """The key of each string (see `_key`): uint64 [count]."""
    offsets = strings.offsets
    begin = int(offsets[0])
    part = np.append(strings.data[begin : int(offsets[-1])], np.zeros(_HEADER, np.uint8))
    words: U64 = np.ndarray((max(len(part) - _HEADER + 1, 0),), "<u8", part, strides=(1,))  # eight bytes from any place
    heads, ends = offsets[:-1] - begin, offsets[1:] - begin
    lengths = ends - heads - _HEADER
    missing = (8 * np.maximum(8 - lengths, 0)).astype(np.uint64)  # bits of eight bytes that are not part of the string
    mask = np.where(missing < 64, np.uint64(_64_BITS) >> np.minimum(missing, np.uint64(63)), np.uint64(0))
    first = words[heads + _HEADER] & mask
    last = np.where(missing < 64, words[ends - _HEADER] >> np.minimum(missing, np.uint64(63)), np.uint64(0))
    a, b, c = (np.uint64(factor) for factor in _FACTORS)
    keys: U64 = first * a ^ last * b ^ lengths.astype(np.uint64) * c
    return keys


def _texts(strings: PackedStrings) -> NDArray[np.uint8]:
    """The strings with NULs in place of their lengths: uint8, a copy."""
    begin = int(strings.offsets[0])
    part = strings.data[begin : int(strings.offsets[-1])].copy()
    words = np.ndarray((max(len(part) - _HEADER + 1, 0),), "<u8", part, strides=(1,))
    words[strings.offsets[:-1] - begin] = 0
    return part


def count_spaces(strings: PackedStrings) -> int:
    """The number of spaces in all strings."""
    return int((_texts(strings) == ord(" ")).sum())


def is_byte_level(strings: PackedStrings) -> bool:
    """Whether every character of every string is one that spells a byte (`byte_alphabet`); they are UTF-8 then."""
    texts = _texts(strings)
    if texts.tobytes().translate(None, _SPELLING) or int((texts == 0).sum()) != _HEADER * len(strings):
        return False
    leads, follows = texts[:-1] >= 0xC0, (texts[1:] & 0xC0) == 0x80
    if not (leads == follows).all() or (len(texts) and texts[-1] >= 0xC0):
        return False
    at = np.flatnonzero((texts == 0xC2) | (texts == 0xC5))
    lead, next_ = texts[at], texts[at + 1]
    return not (np.where(lead == 0xC2, (next_ < 0xA1) | (next_ == 0xAD), next_ > 0x83)).any()
