"""Bodies that are not UTF-8: a guess of their encoding, and decoding of older Chinese encodings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cutaway.text.encodings import encoding_of

LOOKED_AT = 20_000  # bytes
_NAMES = {"gb18030": "GBK (GB18030)", "big5": "Big5", "cp1252": "Latin-1 (Windows-1252)", "cp1251": "Windows-1251"}
_ALIASES = {"gbk": "gb18030", "gb2312": "gb18030", "cp936": "gb18030", "big5-hkscs": "big5", "cp950": "big5"}


def is_taken(named: str, encodings: Sequence[str]) -> bool:
    """Whether a request names one of `encodings`. The bytes are then not tried as UTF-8 first, because two characters
    of GB 18030 may also be valid UTF-8."""
    return _ALIASES.get(named, named) in encodings


def decode_chinese(body: bytes, encodings: Sequence[str], named: str = "") -> tuple[str, str] | None:
    """The text and the name of its encoding, if it can be decoded with one of `encodings` ("gb18030", "big5").

    named: the encoding that the request names, if any; otherwise the one in which more of the text is common characters
    is used, or the first of two that are equal. Nearly every pair of bytes is a character in both, so there is no safer
    criterion.
    """
    named = _ALIASES.get(named, named)
    readings = []
    for encoding in [named] if named in encodings else encodings:
        try:
            text = body.decode("big5hkscs" if encoding == "big5" else encoding)
        except UnicodeDecodeError:
            continue
        readings.append((_usual_share(text, encoding), text, _NAMES[encoding]))
    if not readings:
        return None
    _, text, name = max(readings, key=lambda reading: reading[0])
    return text, name


def _usual_share(text: str, encoding: str) -> float:
    """The share of non-ASCII characters that belong to the standard's block of common characters."""
    wide = [character.encode("big5hkscs" if encoding == "big5" else encoding) for character in text if character > "~"]
    return sum(map(_IS_USUAL[encoding], wide)) / max(1, len(wide))


_IS_USUAL: dict[str, Callable[[bytes], bool]] = {
    # GB 2312: symbols in rows 1 to 9, common characters in rows 16 to 55.
    "gb18030": lambda c: len(c) == 2 and c[1] >= 0xA1 and (0xA1 <= c[0] <= 0xA9 or 0xB0 <= c[0] <= 0xD7),
    # Big5: symbols from A140 on, common characters from A440 to C67E.
    "big5": lambda c: len(c) == 2 and 0xA1 <= c[0] <= 0xC6,
}


def looks_like(body: bytes) -> str:
    """The probable encoding of the bytes, as text for people."""
    if body.startswith(b"\x1f\x8b"):
        return "it looks like gzip, and is not unpacked here"
    marked = body.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff"))
    if not marked and b"\0" in body[:2]:  # the first character of JSON is ASCII
        return "it looks like UTF-32" if body[:4].count(0) == 3 else "it looks like UTF-16"
    found = encoding_of(body[:LOOKED_AT])
    if found is None or found.by == "utf-8":
        return "it looks like no text encoding" if found is None else "it begins as UTF-8, and does not go on so"
    name = found.name.removesuffix("-le").removesuffix("-be")
    return f"it looks like {_NAMES.get(name, name.upper())}"
