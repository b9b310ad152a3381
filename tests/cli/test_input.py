"""Text from outside, in the encodings that people really have."""

from __future__ import annotations

import codecs
import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway.cli.input import decode, text_argument, text_file
from cutaway.errors import ParameterError

CHINESE = "今天天气怎么样？请用三句话介绍一下北京。"


@pytest.mark.parametrize(
    ("text", "encoding", "said"),
    [
        (CHINESE, "gb18030", "GB18030"),
        ("你好", "gbk", "GB18030"),
        ("用中文写一个hello world程序", "gb18030", "GB18030"),
        ("請用三句話介紹一下臺北。", "big5", "BIG5"),
        ("今日の天気はどうですか。東京について教えてください。", "shift_jis", "SHIFT-JIS"),
        ("Привет, как дела? Расскажи о Москве.", "cp1251", "CP1251"),
        ("Où est la bibliothèque? Un café, naïve", "cp1252", "CP1252"),
        ("hello world", "utf-16-le", "UTF-16-LE"),
        ("hello 中文 world", "utf-16-be", "UTF-16-BE"),
        (CHINESE, "utf-16", "UTF-16-"),
        (CHINESE, "utf-32", "UTF-32-"),
    ],
)
def test_other_encodings_are_read_and_named(
    text: str, encoding: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert decode(text.encode(encoding), "the input") == text
    warning = capsys.readouterr().err
    assert "warning: the input" in warning and said in warning


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_utf8_is_read_as_it_is(text: str) -> None:
    if "\0" not in text and not text.startswith("\ufeff"):
        assert decode(text.encode(), "x") == text


def test_utf8_needs_no_warning(capsys: pytest.CaptureFixture[str]) -> None:
    assert decode(CHINESE.encode(), "x") == decode(codecs.BOM_UTF8 + CHINESE.encode(), "x") == CHINESE
    assert decode(b"one\0two", "x") == "one\0two"
    assert decode(b"", "x") == ""
    assert capsys.readouterr().err == ""


def test_a_named_encoding_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    assert decode("né".encode("latin-1"), "x", "latin-1") == "né"
    assert capsys.readouterr().err == ""
    with pytest.raises(ParameterError, match="no encoding 'klingon'"):
        decode(b"", "x", "klingon")
    with pytest.raises(ParameterError, match=r"is not valid utf-8: .* at byte 1"):
        decode(b"a\xff", "x", "utf-8")
    with pytest.raises(ParameterError, match="not valid utf-16-le"):
        decode(codecs.BOM_UTF16_LE + b"a", "x")


def test_where_text_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert text_argument("hello") == "hello"
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(CHINESE.encode("gb18030"))))
    assert text_argument("-") == CHINESE
    escaped = CHINESE.encode("gb18030").decode("utf-8", "surrogateescape")  # how Python hands over such an argument
    assert text_argument(escaped) == CHINESE
    path = tmp_path / "a.txt"
    path.write_text(CHINESE, encoding="utf-8")
    assert text_file(path) == CHINESE
    with pytest.raises(ParameterError, match="cannot be read"):
        text_file(tmp_path / "none.txt")
    assert "standard input" in capsys.readouterr().err
