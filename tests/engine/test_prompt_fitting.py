"""What is left out of a chat or a text so that it fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from cutaway.engine import fitted, fitted_text

CHAT = [
    {"role": "system", "content": "s" * 5},
    {"role": "user", "content": "a" * 20},
    {"role": "assistant", "content": "b" * 20},
    {"role": "user", "content": "c" * 20},
    {"role": "assistant", "content": "d" * 20},
    {"role": "user", "content": "e" * 20},
]


def render(messages: Sequence[Mapping[str, Any]]) -> tuple[list[int], tuple[str, ...]]:
    return [ord(letter) for message in messages for letter in message["content"]], ()


def text_of(tokens: Sequence[int]) -> str:
    return "".join(map(chr, tokens))


@pytest.mark.parametrize(("context", "left"), [(200, "sabcde"), (90, "scde"), (60, "se"), (12, "se")])
def test_the_oldest_turns_go_and_the_system_message_and_the_last_turn_stay(context: int, left: str) -> None:
    fit = fitted(CHAT, render, context, 5)
    text = text_of(fit.tokens)
    assert list(dict.fromkeys(text)) == list(left) and text.startswith("sssss")
    if left == "sabcde":
        assert not fit.warnings
    else:
        gone = {"scde": 1, "se": 2}[left]
        assert f"the oldest {gone} turns ({2 * gone} messages, {40 * gone} tokens)" in fit.warnings[0]


@pytest.mark.parametrize("length", [30, 100, 1000])
def test_of_a_text_the_head_and_the_end_stay(length: int) -> None:
    tokens = list(range(length))
    fit = fitted_text(tokens, 64, 8)
    assert len(fit.tokens) <= 64 - 8 and fit.tokens[0] == 0 and fit.tokens[-1] == length - 1
    assert bool(fit.warnings) == (fit.tokens != tokens) == (length > 56)
