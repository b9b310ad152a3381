from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway.errors import ParameterError
from cutaway.text.reasoning import (
    ReasoningFormat,
    ReasoningParser,
    ReasoningPiece,
    detect_reasoning,
    opens_reasoning,
    split_reasoning,
)

THINK = ReasoningFormat()


@pytest.mark.parametrize(
    ("text", "open", "reasoning", "content"),
    [
        ("<think>\nwell\n\n</think>\n\nYes.", False, "well", "Yes."),
        ("\n<think>a</think>b", False, "a", "b"),
        ("a  b\n</think>\n\nYes.\n", True, "a  b", "Yes.\n"),
        ("No thought", False, "", "No thought"),
        ("  <thin", False, "", "  <thin"),
        ("x <think>y</think>", False, "", "x <think>y</think>"),
        ("<think>cut </thi", False, "cut </thi", ""),
        ("cut \n", True, "cut", ""),
        ("<think></think>a<think>", False, "", "a<think>"),
        ("", False, "", ""),
    ],
)
def test_split_whatever_the_cut(text: str, open: bool, reasoning: str, content: str) -> None:
    assert split_reasoning(text, THINK, open=open) == ReasoningPiece(reasoning, content)
    for cuts in [[i] for i in range(len(text))] + [list(range(len(text)))]:
        assert streamed(text, cuts, open) == ReasoningPiece(reasoning, content)


def streamed(text: str, cuts: list[int], open: bool) -> ReasoningPiece:
    parser = ReasoningParser(THINK, open=open)
    pieces = [parser.push(text[a:b]) for a, b in pairwise(sorted({0, len(text), *cuts}))]
    pieces.append(parser.finish())
    return ReasoningPiece("".join(p.reasoning for p in pieces), "".join(p.content for p in pieces))


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "<", "/think>", " ", "\n", "a"])).map("".join),
    st.lists(st.integers(0, 40)),
    st.booleans(),
)
def test_any_cut(text: str, cuts: list[int], open: bool) -> None:
    assert streamed(text, [c for c in cuts if c <= len(text)], open) == split_reasoning(text, THINK, open=open)


def test_detection() -> None:
    assert detect_reasoning("{{ '<think>\\n' }}...</think>") == THINK
    assert detect_reasoning("[THINK] [/THINK]") == ReasoningFormat("[THINK]", "[/THINK]")
    assert detect_reasoning("plain") is None
    assert detect_reasoning(None) is None
    assert opens_reasoning("<|im_start|>assistant\n<think>\n", THINK)
    assert not opens_reasoning("<think>\n\n</think>\n\n", THINK)
    with pytest.raises(ParameterError):
        ReasoningFormat("", "x")
