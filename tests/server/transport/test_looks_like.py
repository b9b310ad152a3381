"""What a refused body looks like, in words, for every encoding that is recognized."""

from __future__ import annotations

import codecs

import pytest

from cutaway.server.transport.body_encodings import looks_like

BODY = '{"a": "naïve 中文字符很多很多"}'


@pytest.mark.parametrize(
    ("encoding", "name"),
    [
        ("utf-32", "UTF-32"), ("utf-32-le", "UTF-32"), ("utf-32-be", "UTF-32"), ("utf-16", "UTF-16"),
        ("utf-16-le", "UTF-16"), ("utf-16-be", "UTF-16"), ("gb18030", "GBK (GB18030)"), ("big5", "Big5"),
        ("cp1252", "Latin-1 (Windows-1252)"),
    ],
)  # fmt: skip
def test_the_encoding_is_named(encoding: str, name: str) -> None:
    assert looks_like(BODY.encode(encoding, "replace")) == f"it looks like {name}"


@pytest.mark.parametrize(
    ("mark", "name"),
    [(codecs.BOM_UTF32_BE, "UTF-32"), (codecs.BOM_UTF32_LE, "UTF-32"), (codecs.BOM_UTF16_BE, "UTF-16")],
)
def test_a_byte_order_mark_counts_whatever_follows(mark: bytes, name: str) -> None:
    assert looks_like(mark + b"\xff\xff") == f"it looks like {name}"


def test_what_breaks_later_and_what_is_packed() -> None:
    assert looks_like(b'{"a": "' + b"x" * 30_000 + b'\xff"}') == "it begins as UTF-8, and does not go on so"
    assert "gzip" in looks_like(b"\x1f\x8b\x08\x00")
