from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway.errors import TemplateError
from cutaway.text.chat.guarded import Guard, GuardedText
from cutaway.text.tokenizer.special_tokens import Marker, Markers

MARKERS = Markers({text: Marker(id) for id, text in enumerate(["<|x|>", "</t>", "<t>"])})
GUARD = Guard(MARKERS)
N = GUARD.character
SENT = st.text(alphabet="<|x|>/t Ab\n", max_size=30)
PART = st.text(alphabet="<|x|>/t Ab", min_size=1, max_size=4) | st.sampled_from(["</t>", "<t>", "<|x|>"])


def plain(value: Any) -> Any:
    """`value` without noncharacters, made of exact `str`."""
    if isinstance(value, str):
        return GUARD.clean(value)
    return type(value)(map(plain, value)) if isinstance(value, list | tuple) else value


def safe(value: Any) -> bool:
    """Whether nothing in `value` can be read as a marker."""
    if isinstance(value, str):
        return not list(MARKERS.find(str.__str__(value)))
    return all(map(safe, value)) if isinstance(value, list | tuple) else True


def test_ordinary_text_is_left_alone() -> None:
    text = GUARD.protect({"a": ["b <", 1, None, True, 2.5]})
    assert text == {"a": ["b <", 1, None, True, 2.5]}
    assert type(GUARD.protect("ordinary")) is str


def test_every_string_is_broken_keys_too() -> None:
    value = GUARD.protect({"<|x|>": [{"deep": ("a<|X|>", "<t>")}]})
    assert plain(list(value)) == ["<|x|>"]
    assert json.dumps(value, ensure_ascii=False) == f'{{"<{N}|x|>": [{{"deep": ["a<{N}|X|>", "<{N}t>"]}}]}}'
    assert value["<|x|>"][0]["deep"][1] == "<t>"


def test_a_noncharacter_in_the_text_is_kept() -> None:
    guard = Guard(MARKERS, {"a": [N + "<t>"]})
    assert guard.character != N
    assert guard.clean(guard.protect(N + "<t>")) == N + "<t>"


def test_every_noncharacter_in_the_text_is_an_error() -> None:
    with pytest.raises(TemplateError, match="noncharacter"):
        Guard(MARKERS, "".join(map(chr, range(0xFDD0, 0xFDF0))))


QUESTIONS = ["startswith", "endswith", "find", "rfind", "count", "__contains__", "__eq__", "__ne__", "__lt__"]
CHANGES = ["split", "rsplit", "partition", "rpartition", "removeprefix", "removesuffix", "strip", "lstrip", "rstrip"]


@given(SENT, PART, st.sampled_from(QUESTIONS + CHANGES))
def test_methods_answer_as_the_text_that_was_sent(text: str, part: str, method: str) -> None:
    guarded = GUARD.protect(text)
    answer = getattr(guarded, method)(part)
    assert plain(answer) == getattr(text, method)(part)
    assert safe(answer)


@given(SENT, PART, st.integers(-1, 3))
def test_limited_splits_and_replacements(text: str, part: str, limit: int) -> None:
    guarded = GUARD.protect(text)
    assert plain(guarded.split(part, limit)) == text.split(part, limit)
    assert plain(guarded.rsplit(part, limit)) == text.rsplit(part, limit)
    assert plain(guarded.split(None, limit)) == text.split(None, limit)
    assert plain(guarded.replace(part, "-", limit)) == text.replace(part, "-", limit)
    assert safe(guarded.rsplit(part, limit))


@given(SENT, st.integers(-9, 9) | st.none(), st.integers(-9, 9) | st.none(), st.sampled_from([None, 1, 2, -1]))
def test_length_places_and_slices(text: str, start: int | None, stop: int | None, step: int | None) -> None:
    guarded = GUARD.protect(text)
    assert len(guarded) == len(text)
    assert bool(guarded) == bool(text)
    assert plain(list(guarded)) == list(text)
    assert plain(guarded[start:stop:step]) == text[start:stop:step]
    assert hash(guarded) == hash(text)


@given(SENT, st.sampled_from(["upper", "lower", "title", "capitalize", "swapcase", "casefold", "splitlines", "strip"]))
def test_changes_keep_what_was_broken(text: str, method: str) -> None:
    changed = getattr(GUARD.protect(text), method)()
    assert plain(changed) == getattr(text, method)()
    assert safe(changed)


def test_what_is_put_together_stays_guarded_and_the_templates_own_markers_stay_whole() -> None:
    text = GUARD.protect("a<t>")
    for whole in (
        "<|x|>" + text,
        text + "<|x|>",
        GUARD.join(["<|x|>", text]),
        GUARD.protect("<t>").join(["<|x|>", text]),
    ):
        assert isinstance(whole, GuardedText)
        assert [match.id for match in MARKERS.find(str.__str__(whole))] == [0]
        assert "<t>" in whole
