from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutaway.text import Detokenizer, Tokenizer

ALL = {"skip_special": False}


def joined(tokenizer: Tokenizer, ids: list[int], **options: Any) -> str:
    detokenizer = tokenizer.detokenizer(**options)
    return "".join([*map(detokenizer.push, ids), detokenizer.flush()])


@pytest.mark.parametrize("scheme", ["byte_level_metadata", "sentencepiece_metadata"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_joined_pieces_equal_the_whole_decode(
    data: st.DataObject, scheme: str, load: Callable[..., Tokenizer], request: pytest.FixtureRequest
) -> None:
    tokenizer = load(request.getfixturevalue(scheme)())
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1)))
    for skip in (False, True):
        assert joined(tokenizer, ids, skip_special=skip) == tokenizer.decode(ids, skip_special=skip)


@given(st.lists(st.binary(max_size=3)))
def test_no_half_character_and_nothing_lost(parts: list[bytes]) -> None:
    detokenizer = Detokenizer(parts.__getitem__)
    pieces = [detokenizer.push(place) for place in range(len(parts))]
    rest = detokenizer.flush()
    assert "".join([*pieces, rest]) == b"".join(parts).decode("utf-8", "replace")
    assert len(rest) <= 2  # ED A0 could begin a character for Python, and then is two wrong bytes


def test_a_character_in_three_tokens_comes_whole_and_a_cut_one_is_flushed_once() -> None:
    emoji = "\U0001f680".encode()
    detokenizer = Detokenizer([emoji[:2], emoji[2:3], emoji[3:]].__getitem__)
    assert [detokenizer.push(part) for part in (0, 1, 2)] == ["", "", "\U0001f680"]
    assert detokenizer.flush() == ""
    assert [detokenizer.push(part) for part in (0, 1)] == ["", ""]
    assert detokenizer.flush() == "\ufffd"
    assert detokenizer.flush() == ""


def test_only_the_very_first_space_is_the_prefix() -> None:
    detokenizer = Detokenizer([b"", b" ", b" a"].__getitem__, strip_space=True)
    assert [detokenizer.push(part) for part in (0, 1, 2, 2)] == ["", "", " a", " a"]
    detokenizer = Detokenizer([b"a", b" b"].__getitem__, strip_space=True)
    assert [detokenizer.push(part) for part in (0, 1)] == ["a", " b"]
