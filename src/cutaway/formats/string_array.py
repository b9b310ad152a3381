"""String arrays of GGUF metadata: a vocabulary of 150,000 tokens must not cost a Python loop.

A string is a little-endian uint64 length and that many bytes, so the place of each depends on the one before. Almost
every string is 1 to 255 bytes without NULs; then its length is one byte followed by seven NULs, and every run of seven
NULs is the inside of a length. Those runs are found with a few passes of NumPy, and the chain they form is checked
against the lengths it claims, which makes it exactly the chain a loop would walk. Otherwise the loop walks.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cutaway.errors import FormatError

U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]

_HEADER = 8
_WINDOW = 1 << 22


def locate_strings(data: U8, start: int, count: int, field: str) -> I64:
    """Where each string's length lies, and where the array ends: int64 [count + 1], offsets into `data`.

    data: uint8, the whole file. start: offset of the first string. count: at most (len(data) - start) / 8, checked by
    the caller. Raises FormatError for a string that does not end within the file.
    """
    found = _locate_by_zero_runs(data, start, count)
    return _locate_by_loop(data, start, count, field) if found is None else found


def _locate_by_zero_runs(data: U8, start: int, count: int) -> I64 | None:
    """The chain of lengths if all are 1 to 255 and no string holds a run of NULs; None otherwise."""
    parts: list[I64] = []
    missing, begin = count, start
    while missing > 0:
        end = min(begin + _WINDOW, len(data))
        runs = _zero_runs(data[begin:end])[:missing]
        if len(runs) == 0:
            return None
        heads = runs + (begin - 1)
        if parts and len(parts[-1]) and not _chained(data, np.concatenate([parts[-1][-1:], heads[:1]])):
            return None
        if (not parts and heads[0] != start) or not _chained(data, heads):
            return None
        parts.append(heads)
        missing -= len(heads)
        begin = int(heads[-1]) + _HEADER
    if not parts:
        return np.array([start], np.int64)
    last = int(parts[-1][-1])
    stop = last + _HEADER + int(data[last])
    return np.concatenate([*parts, [stop]]) if stop <= len(data) else None


def _zero_runs(window: U8) -> I64:
    """Offsets at which seven NULs follow one another."""
    if len(window) < 7:
        return np.empty(0, np.int64)
    zero = window == 0
    two = zero[:-1] & zero[1:]
    four = two[:-2] & two[2:]
    return np.flatnonzero(four[:-3] & four[3:])


def _chained(data: U8, heads: I64) -> bool:
    """Whether each length leads exactly to the next one."""
    return bool(np.array_equal(heads[1:], heads[:-1] + _HEADER + data[heads[:-1]]))


def _locate_by_loop(data: U8, start: int, count: int, field: str) -> I64:
    offsets = np.empty(count + 1, np.int64)
    view, size, at = memoryview(data), len(data), start
    for index in range(count):
        offsets[index] = at
        if at + _HEADER > size:
            raise FormatError(f"{field}[{index}] at byte {at}: the file ends inside a string length")
        length = int.from_bytes(view[at : at + _HEADER], "little")
        at += _HEADER + length
        if at > size:
            raise FormatError(
                f"{field}[{index}] at byte {int(offsets[index])}: a string of {length} bytes runs past the end of the file"
            )
    offsets[count] = at
    return offsets


def decode_strings(data: U8, offsets: I64, field: str) -> list[str]:
    """The strings of an array that `locate_strings` found. Raises FormatError where one is not UTF-8."""
    heads, start = offsets[:-1], int(offsets[0])
    block = data[start : int(offsets[-1])].copy()
    keep = np.ones(len(block), np.bool_)
    heads = heads - start
    # Each length shrinks to one NUL; then the whole is decoded and split at once.
    for byte in range(1, _HEADER):
        keep[heads + byte] = False
    block[heads] = 0
    try:
        strings = block[keep].tobytes().decode().split("\0")
    except UnicodeDecodeError:
        return _decode_by_loop(data, offsets, field)
    # The array begins with a separator. More pieces than strings: some string holds a NUL of its own.
    return strings[1:] if len(strings) == len(offsets) else _decode_by_loop(data, offsets, field)


def _decode_by_loop(data: U8, offsets: I64, field: str) -> list[str]:
    strings = []
    for index, (head, end) in enumerate(pairwise(offsets.tolist())):
        try:
            strings.append(data[head + _HEADER : end].tobytes().decode())
        except UnicodeDecodeError as error:
            raise FormatError(f"{field}[{index}] at byte {head + _HEADER + error.start}: not UTF-8") from error
    return strings
