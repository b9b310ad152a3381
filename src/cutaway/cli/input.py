"""Text that comes from outside: an argument, a file, standard input. What is not UTF-8 is detected, and said."""

from __future__ import annotations

import codecs
import os
import sys
from pathlib import Path

from cutaway.cli.terminal import warn
from cutaway.errors import ParameterError

_MARKS = [  # the longer first: UTF-32's begins with UTF-16's
    (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"),
]  # fmt: skip
_CANDIDATES = ["gb18030", "big5", "shift_jis", "euc_jp", "euc_kr", "cp1251", "cp1252"]


def text_argument(text: str, encoding: str | None = None) -> str:
    """An argument as text; "-" is standard input. Arguments that are no UTF-8 arrive as escapes: they are detected too.

    Raises ParameterError when the encoding cannot be told.
    """
    if text == "-":
        return decode(sys.stdin.buffer.read(), "standard input", encoding)
    return decode(os.fsencode(text), "the argument", encoding) if _escaped(text) else text


def typed_line(text: str) -> str:
    """A line of a conversation as text, whatever its encoding. Raises ParameterError when that cannot be told."""
    if _escaped(text):
        return decode(text.encode(sys.stdin.encoding, "surrogateescape"), "the line", hint="send UTF-8")
    return text


def _escaped(text: str) -> bool:
    """Whether it holds bytes that were no text in the encoding it was read with (PEP 383)."""
    return any("\udc80" <= c <= "\udcff" for c in text)


def text_file(path: Path, encoding: str | None = None) -> str:
    """A file's whole text. Raises ParameterError when it cannot be read or its encoding not be told."""
    try:
        return decode(path.read_bytes(), str(path), encoding)
    except OSError as error:
        raise ParameterError(f"{path} cannot be read: {error.strerror}") from error


def decode(data: bytes, what: str, encoding: str | None = None, *, hint: str = "say it with --encoding") -> str:
    """Bytes as text: by the encoding that is named, by a byte order mark, as UTF-8, or as detected, with a warning.

    hint: what to do when the wrong one is detected, or none.
    """
    if encoding is not None:
        return _strict(data, encoding, what)
    for mark, name in _MARKS:
        if data.startswith(mark):
            if name != "utf-8":
                warn(f"{what} was read as {name.upper()}, by its byte order mark")
            return _strict(data[len(mark) :], name, what)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return _detected(data, what, hint)
    return _detected(data, what, hint) if _wide(data) else text


def _strict(data: bytes, encoding: str, what: str) -> str:
    try:
        codecs.lookup(encoding)
        return data.decode(encoding)
    except LookupError:
        raise ParameterError(f"there is no encoding {encoding!r}", hint="for instance utf-8, utf-16, gb18030") from None
    except UnicodeDecodeError as error:
        raise ParameterError(f"{what} is no {encoding}: {error.reason} at byte {error.start}") from None


def _wide(data: bytes) -> str | None:
    """UTF-16 without its mark, told by NUL bytes on one side of nearly every pair (ASCII among the text does it)."""
    pairs = len(data) // 2
    if len(data) % 2 or not pairs:
        return None
    low, high = data[0::2].count(0), data[1::2].count(0)
    if high > 0.3 * pairs and not low:
        return "utf-16-le"
    return "utf-16-be" if low > 0.3 * pairs and not high else None


def _chinese(data: bytes) -> bool:
    """Whether few bytes are all common GB 2312 characters and marks: too few for statistics, which then guess Big5."""
    high = [b for b in data if b >= 0x80]
    if not 0 < len(high) < 24:
        return False
    try:
        codes = [c.encode("gb2312") for c in data.decode("gb18030") if ord(c) >= 0x80]
    except UnicodeError:
        return False
    return all(0xA1 <= c[0] <= 0xA9 or 0xB0 <= c[0] <= 0xD7 for c in codes)


def _detected(data: bytes, what: str, hint: str) -> str:
    import charset_normalizer

    name = _wide(data) or ("gb18030" if _chinese(data) else None)
    if name is None:
        best = charset_normalizer.from_bytes(data, cp_isolation=_CANDIDATES).best()
        name = best.encoding if best else None
    if name is None:
        raise ParameterError(f"{what} is not UTF-8, and what it is cannot be told", hint=hint)
    warn(f"{what} is not UTF-8 and was read as {name.upper().replace('_', '-')}; if that is wrong, {hint}")
    return _strict(data, name, what)
