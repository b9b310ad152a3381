"""Input text from an argument, a file or standard input. Encodings other than UTF-8 are detected, with a warning."""

from __future__ import annotations

import codecs
import os
import sys
from pathlib import Path

from cutaway.cli.terminal import warn
from cutaway.errors import ParameterError

_MARKS = [  # longer marks first: that of UTF-32 begins with that of UTF-16
    (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"),
]  # fmt: skip
_CANDIDATES = ["gb18030", "big5", "shift_jis", "euc_jp", "euc_kr", "cp1251", "cp1252"]


def text_argument(text: str, encoding: str | None = None) -> str:
    """An argument as text; "-" is standard input. An argument that is not UTF-8 arrives as escapes and is detected too.

    Raises ParameterError if the encoding cannot be detected.
    """
    if text == "-":
        return decode(sys.stdin.buffer.read(), "standard input", encoding)
    return decode(os.fsencode(text), "the argument", encoding) if _escaped(text) else text


def typed_line(text: str) -> str:
    """A typed line as text, in any encoding. Raises ParameterError if the encoding cannot be detected."""
    if _escaped(text):
        return decode(text.encode(sys.stdin.encoding, "surrogateescape"), "the line", hint="send UTF-8")
    return text


def _escaped(text: str) -> bool:
    """Whether the text contains bytes that could not be decoded (PEP 383)."""
    return any("\udc80" <= c <= "\udcff" for c in text)


def text_file(path: Path, encoding: str | None = None) -> str:
    """The text of a file. Raises ParameterError if it cannot be read or its encoding cannot be detected."""
    try:
        return decode(path.read_bytes(), str(path), encoding)
    except OSError as error:
        raise ParameterError(f"{path} cannot be read: {error.strerror}") from error


def decode(data: bytes, what: str, encoding: str | None = None, *, hint: str = "use --encoding") -> str:
    """Bytes as text, by the given encoding, a byte order mark, UTF-8, or detection, which adds a warning.

    hint: what to do if the detected encoding is wrong or none is detected.
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
        raise ParameterError(f"{what} is not valid {encoding}: {error.reason} at byte {error.start}") from None


def _wide(data: bytes) -> str | None:
    """The kind of UTF-16 without a byte order mark, recognized by NUL bytes on one side of many pairs (from ASCII)."""
    pairs = len(data) // 2
    if len(data) % 2 or not pairs:
        return None
    low, high = data[0::2].count(0), data[1::2].count(0)
    if high > 0.3 * pairs and not low:
        return "utf-16-le"
    return "utf-16-be" if low > 0.3 * pairs and not high else None


def _chinese(data: bytes) -> bool:
    """Whether a short text is all common GB 2312 characters. Statistics on so few bytes would guess Big5."""
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
        raise ParameterError(f"{what} is not UTF-8, and its encoding cannot be detected", hint=hint)
    warn(f"{what} is not UTF-8 and was read as {name.upper().replace('_', '-')}; if that is wrong, {hint}")
    return _strict(data, name, what)
