"""Checks of a text file on its way to the model: its bytes, damage of earlier steps, the tokenizer, the console."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

from cutaway.text import TextLossWarning
from cutaway.text.encodings import Encoding, encoding_of
from cutaway.xray.doctor.diagnosis import Diagnosis
from cutaway.xray.doctor.subject import Subject

LONGEST = 2**26
_LOST = re.compile("\ufffd|锟斤拷")
"""What replaces characters that could not be decoded; the latter is two of them, read as GBK."""
_HALF = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")
TWICE = ("cp1252", "gb18030")
"""As what UTF-8 is read by mistake."""
FEWEST = 3
"""Characters that must come out right before a text counts as encoded twice: fewer may be chance."""


def source(subject: Subject) -> Iterator[Diagnosis]:
    """The bytes of the file."""
    if subject.file is None:
        return
    try:
        data = _read(subject.file)
    except OSError as error:
        yield Diagnosis("error", "file_unreadable", "the file cannot be read", f"{subject.file}: {error.strerror}")
        return
    found = encoding_of(data)
    if found is None or found.by == "detection":
        try:
            data.decode("utf-8")
            where = "NUL bytes in every pair"
        except UnicodeDecodeError as error:
            where = f"byte {error.start} is 0x{data[error.start]:02x}"
        yield Diagnosis(
            "error" if found is None else "warning", "encoding_unknown" if found is None else "not_utf8",
            "the file is not UTF-8", where + ("" if found is None else f"; it was detected as {found.name}"),
            "the program that wrote it used an older encoding",
            "name the encoding with --encoding" if found is None else f"iconv -f {found.name.upper()} -t UTF-8 FILE",
        )  # fmt: skip
    elif found.by == "mark":
        plain = found.name == "utf-8"
        yield Diagnosis(
            "note" if plain else "warning", "byte_order_mark", "the file begins with a byte order mark",
            f"{found.name}, {found.mark} bytes", "editors of Windows write it",
            "none is needed here; other programs take it for a character" if plain
            else "servers take UTF-8 only: iconv -f UTF-16 -t UTF-8 FILE",
        )  # fmt: skip


def damage(subject: Subject) -> Iterator[Diagnosis]:
    """What an earlier step has lost or encoded twice. The bytes are sound, so that no later step can see it."""
    text = _text(subject)
    lost = _LOST.search(text)
    if lost:
        yield Diagnosis(
            "warning", "characters_lost", "characters of the text were lost before it was written",
            f"{len(_LOST.findall(text))} times {lost[0]!r}, first at character {lost.start()}",
            "a program decoded it with a wrong encoding and replaced what it could not read",
            "make the file from its source again: what was replaced is gone",
        )  # fmt: skip
        return
    for encoding in TWICE:
        if (right := _undone(text, encoding)) is not None:
            yield Diagnosis(
                "warning", "encoded_twice", "the text seems to have been encoded twice",
                f"read as {encoding}, its bytes are UTF-8 for {right[:30]!r}", f"UTF-8 was once read as {encoding}",
                f"iconv -f UTF-8 -t {encoding.upper()} FILE gives the UTF-8 that it was",
            )  # fmt: skip
            return


def body(subject: Subject) -> Iterator[Diagnosis]:
    """What a request's body cannot hold."""
    if subject.file is not None and subject.file.suffix == ".json" and (half := _HALF.search(text := _text(subject))):
        yield Diagnosis(
            "error", "half_character", "the JSON has a half of a character, which servers refuse",
            f"{half[0]} at character {half.start()} of {len(text)}",
            "a text was cut between the two halves of an emoji",
            "cut at whole characters",
        )  # fmt: skip


def tokenizer(subject: Subject) -> Iterator[Diagnosis]:
    """What the model's vocabulary cannot express."""
    model = None if subject.opened is None else subject.opened.tokenizer
    if subject.file is None or model is None:
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.encode(_text(subject)[:100_000].encode("utf-8", "replace").decode())
    for one in caught:
        if issubclass(one.category, TextLossWarning):
            yield Diagnosis("warning", "text_lost", "a part of the text does not reach the model", str(one.message),
                            "the vocabulary has no tokens for it", "another model")  # fmt: skip


def console(subject: Subject) -> Iterator[Diagnosis]:
    """What standard output cannot show of it."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    missing = [c for c in dict.fromkeys(_text(subject)) if not _has(encoding, c)]
    if missing:
        yield Diagnosis(
            "warning", "console_lacks", "the console cannot show characters of the text",
            f"{encoding} lacks {len(missing)} of its characters, such as {missing[0]!a}",
            "the locale chooses the encoding",
            "export LC_ALL=C.UTF-8",
        )  # fmt: skip


def _has(encoding: str, character: str) -> bool:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return "\ud800" <= character <= "\udfff"
    return True


def _undone(text: str, encoding: str) -> str | None:
    """The text before UTF-8 was read in this encoding; None: it was not."""
    try:
        right = b"".join(_byte(c, encoding) for c in text).decode("utf-8")
    except UnicodeError:
        return None
    wide = [c for c in right if c > "~"]
    return right if len(wide) >= FEWEST and right != text else None


def _byte(character: str, encoding: str) -> bytes:
    """Windows-1252 has five holes, which programs fill with the byte itself."""
    if encoding == "cp1252" and "\x80" <= character <= "\x9f":
        return character.encode("latin-1")
    return character.encode(encoding)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LONGEST)


def _text(subject: Subject) -> str:
    """As it would be read; "" where it cannot be."""
    try:
        data = b"" if subject.file is None else _read(subject.file)
    except OSError:
        return ""
    found = encoding_of(data) or Encoding("utf-8", "utf-8")
    return data[found.mark :].decode(found.name, "ignore")
