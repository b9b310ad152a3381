"""Locating and decoding strings must equal the plain loop, whatever the strings are."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway.errors import FormatError
from cutaway.formats import string_array
from cutaway.formats.string_array import StringArray, decode_strings, locate_strings

REGULAR = st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), min_size=1, max_size=20)
ODD = st.one_of(st.just(""), st.text(st.sampled_from("\0a"), max_size=30), st.integers(250, 520).map(lambda n: "z" * n))


def packed(strings: list[str]) -> bytes:
    return b"".join(struct.pack("<Q", len(text.encode())) + text.encode() for text in strings)


def as_array(content: bytes) -> np.ndarray:
    return np.frombuffer(content, np.uint8)


@given(
    strings=st.lists(st.one_of(REGULAR, REGULAR, REGULAR, ODD), max_size=300),
    before=st.integers(0, 9),
    after=st.one_of(st.binary(max_size=40), st.just(bytes(64))),
)
@settings(deadline=None)
def test_equals_the_loop(strings: list[str], before: int, after: bytes) -> None:
    data = as_array(bytes(before) + packed(strings) + after)
    expected = np.cumsum([before, *(8 + len(text.encode()) for text in strings)])
    offsets = locate_strings(data, before, len(strings), "field")
    assert offsets.tolist() == expected.tolist()
    assert decode_strings(data, offsets, "field") == strings


@pytest.mark.parametrize("window", [8, 9, 15, 16, 64])
def test_windows_meet_without_a_seam(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(string_array, "_FIRST_WINDOW", window)
    monkeypatch.setattr(string_array, "_LAST_WINDOW", 2 * window)
    monkeypatch.setattr(string_array, "_DECODED", window)
    strings = ["x" * (1 + i % 23) for i in range(500)]
    data = as_array(packed(strings))
    assert decode_strings(data, locate_strings(data, 0, 500, "field"), "field") == strings


@pytest.mark.parametrize("strings", [["ab"] * 3000, ["ab"] * 100 + [""] + ["ab"] * 100, ["\0" * 8] * 100])
def test_every_truncation_names_the_string(strings: list[str]) -> None:
    content = packed(strings)
    for length in [*range(300), *range(len(content) - 30, len(content))]:
        with pytest.raises(FormatError, match=r"field\[\d+\] at byte \d+: "):
            locate_strings(as_array(content[:length]), 0, len(strings), "field")


def test_the_string_that_runs_past_the_end_is_named() -> None:
    content = packed(["ab"] * 50) + struct.pack("<Q", 200) + b"c" * 9
    with pytest.raises(FormatError, match=r"field\[50\] at byte 500: a string of 200 bytes"):
        locate_strings(as_array(content), 0, 51, "field")


def test_the_string_that_is_not_utf8_is_named() -> None:
    content = packed(["ab", "cd"]) + struct.pack("<Q", 3) + b"e\xffg"
    data = as_array(content)
    with pytest.raises(FormatError, match=r"field\[2\] at byte 29: not UTF-8"):
        decode_strings(data, locate_strings(data, 0, 3, "field"), "field")


def test_the_string_is_named_by_its_place_in_the_whole_array() -> None:
    content = packed(["ab"] * 5000) + struct.pack("<Q", 1) + b"\xff" + packed(["cd"])
    data = as_array(content)
    with pytest.raises(FormatError, match=r"field\[5000\] at byte 50008: not UTF-8"):
        decode_strings(data, locate_strings(data, 0, 5002, "field"), "field")


def test_an_array_is_read_like_a_list() -> None:
    strings = ["a", "", "中文", "z" * 300]
    data = as_array(packed(strings))
    array = StringArray(data, locate_strings(data, 0, 4, "field"), "field")
    assert array == strings
    assert array != strings[:3]
    assert (len(array), array[2], array[-1], array[1:3]) == (4, "中文", "z" * 300, ["", "中文"])
    assert "中文" in array
    for place in (4, -5):
        with pytest.raises(IndexError):
            array[place]


def test_one_string_that_is_not_utf8_is_named() -> None:
    data = as_array(packed(["ab"]) + struct.pack("<Q", 3) + b"e\xffg")
    array = StringArray(data, locate_strings(data, 0, 2, "field"), "field")
    assert array[0] == "ab"
    with pytest.raises(FormatError, match=r"field\[1\] at byte 19: not UTF-8"):
        array[1]
