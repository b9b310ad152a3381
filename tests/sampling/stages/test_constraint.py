"""A constraint after reasoning, and the reasoning's budget."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway.errors import ParameterError
from cutaway.sampling import Sampler, SamplingParams
from cutaway.sampling.stages.constraint import GRACE
from cutaway.text.chat.reasoning import ReasoningFormat, split_reasoning
from sampling.generating import answer
from sampling.small_tokenizer import marker, small_tokenizer

THINK = ReasoningFormat()
WORDS = ReasoningFormat("<reasoning>", "</reasoning>")  # not tokens of their own


def greedy(params: SamplingParams, wishes: list[str]) -> list[str]:
    """The tokens that come out when the model wishes for these, one after the other."""
    tokenizer = small_tokenizer()
    sampler = Sampler(params.replace(temperature=0), seed=0, end_ids=tokenizer.end_ids, tokenizer=tokenizer)
    out = []
    for wish in wishes:
        row = np.zeros(tokenizer.vocab_size, np.float32)
        row[marker(wish)] = 5
        out.append(tokenizer.piece(sampler.choose(row).token))
    return out


def test_the_budget_forces_the_closing_marker() -> None:
    params = SamplingParams(reasoning=THINK, reasoning_open=True, reasoning_budget=3)
    assert greedy(params, list("abcdefg")) == ["a", "b", "c", "</think>", "e", "f", "g"]
    assert greedy(params.replace(reasoning_budget=0), list("ab")) == ["</think>", "b"]
    assert greedy(params, ["a", "</think>", "b", "c", "d", "e"]) == ["a", "</think>", "b", "c", "d", "e"]


@given(st.text(min_size=1, max_size=8))
def test_the_budget_cuts_no_character(text: str) -> None:
    """Whatever the cut: tokens are single bytes here, so that characters of up to four tokens are cut everywhere."""
    tokens = [token for char in text for token in small_tokenizer().encode(char, add_special=False)]
    wishes = [small_tokenizer().piece(token) for token in tokens]
    for budget in range(len(wishes) + 1):
        params = SamplingParams(reasoning=THINK, reasoning_open=True, reasoning_budget=budget)
        out = greedy(params, [*wishes, "z", "z", "z", "z"])
        assert out.count("</think>") == 1
        said = out[: out.index("</think>")]
        assert budget <= len(said) <= budget + GRACE
        written = b"".join(small_tokenizer().token_bytes(marker(piece)) for piece in said)
        assert (text + "zzzz").startswith(written.decode())


def test_bytes_that_never_become_a_character_get_no_more_than_the_grace() -> None:
    params = SamplingParams(reasoning=THINK, reasoning_open=True, reasoning_budget=2)
    begins = small_tokenizer().piece(small_tokenizer().encode("\U0001f642", add_special=False)[0])
    assert greedy(params, ["a", *[begins] * 9])[: 2 + GRACE + 1] == ["a", *[begins] * (1 + GRACE), "</think>"]


def test_the_budget_counts_from_the_opening_marker() -> None:
    params = SamplingParams(reasoning=THINK, reasoning_budget=1)
    assert greedy(params, ["<think>", "a", "b", "c"]) == ["<think>", "a", "</think>", "c"]
    assert greedy(params, ["\u010a", "<think>", "a", "b"]) == ["\u010a", "<think>", "a", "</think>"]
    assert greedy(params, list("abcd")) == list("abcd")


def test_a_marker_of_many_tokens_is_forced_whole() -> None:
    params = SamplingParams(reasoning=WORDS, reasoning_open=True, reasoning_budget=2)
    out = greedy(params, ["a", "b", *"c" * 12, "d"])
    assert "".join(out) == "ab</reasoning>d"


def test_the_constraint_speaks_of_the_answer() -> None:
    params = SamplingParams(choice=["yes", "no"], reasoning=THINK, reasoning_open=True)
    assert greedy(params, ["a", "<|im_end|>", "</think>", "z", "n", "z"])[:1] == ["a"]
    out = greedy(params, ["a", "</think>", "n", "x", "x"])
    assert out[:3] == ["a", "</think>", "n"]
    assert out[3] == "o"
    assert out[4] in ("<|im_end|>", "<|endoftext|>")
    inside = greedy(params, ["a", "<|im_end|>"])
    assert inside[1] != "<|im_end|>"


def test_the_reasoning_may_be_opened_or_left_out() -> None:
    params = SamplingParams(choice=["yes", "no"], reasoning=THINK)
    assert greedy(params, ["<think>", "a", "</think>", "y"]) == ["<think>", "a", "</think>", "y"]
    assert greedy(params, ["n", "x"]) == ["n", "o"]
    assert greedy(params, ["a"])[0] in ("y", "n", "<think>")


@pytest.mark.parametrize("budget", [0, 1, 7])
def test_random_answers_keep_the_form(budget: int) -> None:
    for seed in range(10):
        params = SamplingParams(choice=["yes", "no"], reasoning=THINK, reasoning_open=True, reasoning_budget=budget)
        text = answer(params, seed=seed)
        assert text is not None
        assert split_reasoning(text, THINK, open=True).content in ("yes", "no")


def test_parameters() -> None:
    with pytest.raises(ParameterError, match="need reasoning"):
        SamplingParams(reasoning_budget=3)
    with pytest.raises(ParameterError, match="ReasoningFormat"):
        SamplingParams(reasoning="<think>")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="tokenizer"):
        Sampler(SamplingParams(reasoning=THINK, reasoning_budget=3), seed=0)
