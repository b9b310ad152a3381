"""The encoding of bytes: by a byte order mark, UTF-8, NUL bytes on one side of pairs, or statistics."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Literal

_MARKS = [  # longer marks first: that of UTF-32 begins with that of UTF-16
    (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"),
]  # fmt: skip
_CANDIDATES = ["gb18030", "big5", "shift_jis", "euc_jp", "euc_kr", "cp1251", "cp1252"]


@dataclass(frozen=True, slots=True)
class Encoding:
    """name: as Python knows it. by: what shows it. mark: bytes of its byte order mark, which are no text."""

    name: str
    by: Literal["mark", "utf-8", "detection"]
    mark: int = 0


def encoding_of(data: bytes) -> Encoding | None:
    """None: it cannot be detected."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return Encoding(name, "mark", len(mark))
    wide = _wide(data)
    try:
        data.decode("utf-8")
        if wide is None:
            return Encoding("utf-8", "utf-8")
    except UnicodeDecodeError:
        pass
    name = wide or ("gb18030" if _chinese(data) else _by_statistics(data)) or ""
    return Encoding(name, "detection") if name else None


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


def _by_statistics(data: bytes) -> str | None:
    import charset_normalizer

    best = charset_normalizer.from_bytes(data, cp_isolation=_CANDIDATES).best()
    return best.encoding if best else None
