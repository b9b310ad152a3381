from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway.text.tokenizer.string_index import StringIndex, count_spaces, is_byte_level
from cutaway.text.tokenizer.vocabulary import BYTE_OF, byte_alphabet
from text.packed import Packed

# Few characters: many equal strings, and many that share their first and last eight bytes.
STRINGS = st.lists(st.one_of(st.text("ab中", max_size=20), st.text("a", max_size=40)), max_size=60)


@given(strings=STRINGS, others=STRINGS)
def test_finds_the_last_of_equal_strings_and_nothing_else(strings: list[str], others: list[str]) -> None:
    index = StringIndex(Packed(strings))
    places = {text: place for place, text in enumerate(strings)}
    for text in {*strings, *others}:
        assert index.find(text.encode()) == places.get(text)


@pytest.mark.parametrize("middle", ["x", "xy"])
def test_strings_of_one_key_are_told_apart(middle: str) -> None:
    strings = [f"aaaaaaaa{middle}bbbbbbbb", f"aaaaaaaa{middle.upper()}bbbbbbbb"]
    index = StringIndex(Packed(strings))
    assert [index.find(text.encode()) for text in strings] == [0, 1]
    assert index.find(f"aaaaaaaa{'z' * len(middle)}bbbbbbbb".encode()) is None


@given(strings=st.lists(st.text(st.sampled_from([*byte_alphabet(), " ", "\0", "\u0144", "\u00ad", "中"])), max_size=6))
def test_byte_level_is_what_the_alphabet_says(strings: list[str]) -> None:
    assert is_byte_level(Packed(strings)) == (set("".join(strings)) <= BYTE_OF.keys())


def test_every_character_is_judged_right() -> None:
    for code in [*range(0x250), 0x3B1, 0x4E2D, 0xFFFD, 0x1F642]:
        assert is_byte_level(Packed(["a" + chr(code)])) == (chr(code) in BYTE_OF), hex(code)


@pytest.mark.parametrize("data", [b"\xc3", b"\xa9", b"\xc3a", b"\xc3\xc3\xa9", b"\xff"])
def test_what_is_not_utf8_is_not_byte_level(data: bytes) -> None:
    strings = Packed(["ab", "x" * len(data), "cd"])
    broken = strings.data.copy()
    broken[21 : 21 + len(data)] = list(data)
    strings.data = broken
    assert not is_byte_level(strings)


def test_spaces_are_counted_in_the_strings_only() -> None:
    assert count_spaces(Packed(["a b", " " * 3, "x" * 32, ""])) == 4
