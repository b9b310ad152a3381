"""Input text from an argument, a file or standard input. Encodings other than UTF-8 are detected, with a warning."""

from __future__ import annotations

import codecs
import os
import sys
from pathlib import Path

from cutaway.cli.terminal import warn
from cutaway.errors import ParameterError


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
    from cutaway.text.encodings import encoding_of

    if encoding is not None:
        return _strict(data, encoding, what)
    found = encoding_of(data)
    if found is None:
        raise ParameterError(f"{what} is not UTF-8, and its encoding cannot be detected", hint=hint)
    if found.by == "mark" and found.name != "utf-8":
        warn(f"{what} was read as {found.name.upper()}, by its byte order mark")
    if found.by == "detection":
        name = found.name.upper().replace("_", "-")
        warn(f"{what} is not UTF-8 and was read as {name}; if that is wrong, {hint}")
    return _strict(data[found.mark :], found.name, what)


def _strict(data: bytes, encoding: str, what: str) -> str:
    try:
        codecs.lookup(encoding)
        return data.decode(encoding)
    except LookupError:
        raise ParameterError(f"there is no encoding {encoding!r}", hint="for instance utf-8, utf-16, gb18030") from None
    except UnicodeDecodeError as error:
        raise ParameterError(f"{what} is not valid {encoding}: {error.reason} at byte {error.start}") from None
