from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway.errors import TokenizerError
from cutaway.text.tokenizer.vocabulary import Vocabulary, as_types, byte_alphabet, is_structural, read_byte_level


def test_byte_alphabet_spells_every_byte_once_and_visibly() -> None:
    alphabet = byte_alphabet()
    assert len(set(alphabet)) == 256
    assert alphabet[ord(" ")] == "\u0120"
    assert alphabet[ord("\n")] == "\u010a"
    assert not any(character.isspace() for character in alphabet)


@given(st.binary())
def test_byte_level_spelling_is_read_back(data: bytes) -> None:
    alphabet = byte_alphabet()
    assert read_byte_level("".join(alphabet[byte] for byte in data)) == data


def test_spelling_outside_the_alphabet_is_plain_text() -> None:
    assert read_byte_level("\u65e5\u672c") == "\u65e5\u672c".encode()


@pytest.mark.parametrize(
    ("text", "structural"),
    [
        ("<tool_call>", True),
        ("<think>", True),
        ("<|fim_prefix|>", True),
        ("[multimodal]", True),
        ("<start_of_image>", True),
        ("<table>", False),
        ("</h1>", False),
        ("\n\n", False),
        ("    ", False),
        ("word", False),
    ],
)
def test_markers_are_told_from_text_kept_whole(text: str, structural: bool) -> None:
    assert is_structural(text) is structural


def test_token_types_must_fit_the_tokens() -> None:
    assert as_types(None, 2).tolist() == [1, 1]
    with pytest.raises(TokenizerError, match="3 entries for 2 tokens"):
        as_types(np.array([1, 1, 1]), 2)
    with pytest.raises(TokenizerError, match=r"outside 0\.\.6"):
        as_types(np.array([1, 9]), 2)


def test_an_id_outside_the_vocabulary_is_an_error() -> None:
    vocabulary = Vocabulary(["a"], as_types(None, 1), "byte_level")
    for id in (-1, 1):
        with pytest.raises(TokenizerError, match=f"token id {id} is outside"):
            vocabulary.spelled_bytes(id)
