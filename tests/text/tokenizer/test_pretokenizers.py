"""Every pattern is accepted by the library and cuts as its family does; nothing in the text is lost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway.errors import UnsupportedError
from cutaway.text.tokenizer.pretokenizers import PRE_TOKENIZERS, pre_tokenizer
from cutaway.text.tokenizer.vocabulary import read_byte_level

TEXT = "I'LL see 12345 \u65e5\u672c\u8a9e!!\n\n  \tDon't e\u0301 helloWorld"


def cut(name: str, text: str) -> list[bytes]:
    return [read_byte_level(word) for word, _ in PRE_TOKENIZERS[name].build().pre_tokenize_str(text)]


def words(name: str, text: str) -> list[str]:
    return [word.decode() for word in cut(name, text)]


@pytest.mark.parametrize("name", sorted(PRE_TOKENIZERS))
def test_nothing_is_lost(name: str) -> None:
    assert "".join(words(name, TEXT)) == TEXT
    assert "".join(words(name, "a" * 2000 + " " * 2000 + "A" * 2000)) == "a" * 2000 + " " * 2000 + "A" * 2000


@settings(deadline=None)
@given(st.sampled_from(sorted(PRE_TOKENIZERS)), st.text())
def test_no_text_is_lost(name: str, text: str) -> None:
    # Falcon looks for digits among the spelled bytes, so it may cut inside a character.
    assert b"".join(cut(name, text)) == text.encode()


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("gpt-2", "I'LL see 12345 !!\n\n  a", ["I", "'", "LL", " see", " 12345", " !!", "\n\n ", " a"]),
        ("smollm", " 123 a", [" ", "1", "2", "3", " a"]),
        ("falcon", "x 12345, y", ["x", " ", "123", "45", ",", " y"]),
        ("llama-bpe", "I'LL 12345", ["I", "'LL", " ", "123", "45"]),
        ("qwen2", "I'LL 123\n\n", ["I", "'LL", " ", "1", "2", "3", "\n\n"]),
        ("qwen2", "e\u0301x", ["e", "\u0301x"]),
        ("qwen35", "e\u0301x", ["e\u0301x"]),
        ("gpt-4o", "helloWorld's 1234", ["hello", "World's", " ", "123", "4"]),
        ("tekken", "helloWorld's 12", ["hello", "World", "'s", " ", "1", "2"]),
        ("deepseek-llm", "ab\u65e5\u672c 12\n", ["ab", "\u65e5\u672c", " ", "12", "\n"]),
        ("deepseek-coder", "ab\u65e5 12", ["ab", "\u65e5", " ", "1", "2"]),
        ("deepseek-v3", "a\u65e5\u672cb 1234", ["a", "\u65e5\u672c", "b", " ", "123", "4"]),
        ("bloom", "a (b), c", ["a", " (", "b", "),", " c"]),
        ("command-r", "x12", ["x", "1", "2"]),
        ("kimi-k2", "ab\u65e5\u672cCd", ["ab", "\u65e5\u672c", "Cd"]),
        ("tiny_aya", "1234567", ["1", "234", "567"]),
    ],
)
def test_cuts_of_the_families(name: str, text: str, expected: list[str]) -> None:
    assert words(name, text) == expected


def test_an_unknown_name_is_refused_and_the_known_ones_listed() -> None:
    with pytest.raises(UnsupportedError, match="'made-up'") as caught:
        pre_tokenizer("made-up")
    assert "qwen2" in caught.value.hint
