"""String arrays of GGUF metadata: a vocabulary of 150,000 tokens must not cost a Python loop.

A string is a little-endian uint64 length and that many bytes, so the place of each depends on the one before. Almost
every string is 1 to 255 bytes without NULs; then its length is one byte followed by seven NULs, and every run of seven
NULs is the inside of a length. Those runs are found with a few passes of NumPy, and the chain they form is checked
against the lengths it claims, which makes it exactly the chain a loop would walk. Where it breaks (a long string, an
empty one, NULs inside) a loop walks on.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import overload

import numpy as np
from numpy.typing import NDArray

from cutaway.errors import FormatError

U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]

_HEADER = 8
_LENGTH = struct.Struct("<Q")
# Bytes looked at in one go: doubled while all is regular, so that an irregular string costs little. Never so many that
# the passes need fresh memory from the system, which costs more than they do in a process that just started.
_FIRST_WINDOW, _LAST_WINDOW = 1 << 12, 1 << 16
# Strings decoded in one go, for the same reason.
_DECODED = 1 << 11
# Strings walked after an irregular one: doubled while nothing is regular.
_FIRST_WALK, _LAST_WALK = 1 << 6, 1 << 16


class StringArray(Sequence[str]):
    """The strings of an array, left in the file; each is decoded on access. Equal to a list of the same strings.

    data: uint8, the whole file. offsets: int64 [count + 1], the places of the strings' lengths, and the end of the
    array. field: its name in errors. Reading a string that is not UTF-8 raises FormatError.
    """

    __slots__ = ("data", "field", "offsets")

    def __init__(self, data: U8, offsets: I64, field: str) -> None:
        self.data = data
        self.offsets = offsets
        self.field = field

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return list(self)[index]
        place = range(len(self))[index]
        return _decode_by_loop(self.data, self.offsets[place : place + 2], self.field, place)[0]

    def __iter__(self) -> Iterator[str]:
        return iter(decode_strings(self.data, self.offsets, self.field))

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, (list, StringArray)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


def locate_strings(data: U8, start: int, count: int, field: str) -> I64:
    """Where each string's length lies, and where the array ends: int64 [count + 1], offsets into `data`.

    data: uint8, the whole file. start: offset of the first string. count: strings in the array.
    Raises FormatError for a string that does not end within the file. Time is linear in the bytes, whatever they are.
    """
    pieces: list[I64] = []
    at, found, window, steps, regular = start, 0, _FIRST_WINDOW, _FIRST_WALK, True
    while found < count:
        if regular:
            heads, regular = _chain(data, at, window)
            window, steps = (min(2 * window, _LAST_WINDOW), _FIRST_WALK) if regular else (_FIRST_WINDOW, steps)
        else:
            heads, regular = _walk(data, at, min(count - found, steps), field, found), True
            steps = min(2 * steps, _LAST_WALK)
        heads = heads[: count - found]
        if len(heads) == 0:
            continue
        pieces.append(heads)
        found += len(heads)
        at = int(heads[-1])
        length = _LENGTH.unpack_from(data.data, at)[0]
        if length > len(data) - at - _HEADER:
            raise _too_long(field, found - 1, at, length)
        at += _HEADER + length
    return np.concatenate([*pieces, np.array([at], np.int64)])


def _chain(data: U8, at: int, window: int) -> tuple[I64, bool]:
    """The strings from `at` on whose lengths are found among the runs of NULs, and whether those were all runs."""
    part = data[at : at + window]
    if len(part) < _HEADER:
        return np.empty(0, np.int64), False
    zero = part == 0
    two = zero[:-1] & zero[1:]
    four = two[:-2] & two[2:]
    heads = np.flatnonzero(four[:-3] & four[3:]) - 1
    if len(heads) == 0 or heads[0] != 0:
        return np.empty(0, np.int64), False
    broken = np.flatnonzero(heads[1:] != heads[:-1] + _HEADER + part[heads[:-1]])
    good = int(broken[0]) + 1 if len(broken) else len(heads)
    return heads[:good] + at, good == len(heads)


def _walk(data: U8, at: int, count: int, field: str, first: int) -> I64:
    """The next strings, one by one."""
    heads = []
    view, size = data.data, len(data)
    for index in range(count):
        if at + _HEADER > size:
            raise FormatError(f"{field}[{first + index}] at byte {at}: the file ends inside a string length")
        heads.append(at)
        length = _LENGTH.unpack_from(view, at)[0]
        if length > size - at - _HEADER:
            raise _too_long(field, first + index, at, length)
        at += _HEADER + length
    return np.array(heads, np.int64)


def _too_long(field: str, index: int, at: int, length: int) -> FormatError:
    return FormatError(f"{field}[{index}] at byte {at}: a string of {length} bytes runs past the end of the file")


def decode_strings(data: U8, offsets: I64, field: str) -> list[str]:
    """The strings of an array that `locate_strings` found. Raises FormatError where one is not UTF-8."""
    strings: list[str] = []
    for first in range(0, len(offsets) - 1, _DECODED):
        strings += _decode_block(data, offsets[first : first + _DECODED + 1], field, first)
    return strings


def _decode_block(data: U8, offsets: I64, field: str, first: int) -> list[str]:
    start = int(offsets[0])
    heads = offsets[:-1] - start
    block = data[start : int(offsets[-1])].copy()
    keep = np.ones(len(block), np.bool_)
    # Each length shrinks to one NUL; then the whole is decoded and split at once.
    for byte in range(1, _HEADER):
        keep[heads + byte] = False
    block[heads] = 0
    try:
        strings = block[keep].tobytes().decode().split("\0")
    except UnicodeDecodeError:
        return _decode_by_loop(data, offsets, field, first)
    # The block begins with a separator. More pieces than strings: some string holds a NUL of its own.
    return strings[1:] if len(strings) == len(offsets) else _decode_by_loop(data, offsets, field, first)


def _decode_by_loop(data: U8, offsets: I64, field: str, first: int) -> list[str]:
    strings = []
    for index, (head, end) in enumerate(pairwise(offsets.tolist()), first):
        try:
            strings.append(data[head + _HEADER : end].tobytes().decode())
        except UnicodeDecodeError as error:
            raise FormatError(f"{field}[{index}] at byte {head + _HEADER + error.start}: not UTF-8") from error
    return strings
