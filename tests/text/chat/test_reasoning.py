from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway.errors import ParameterError
from cutaway.text.chat.reasoning import (
    ReasoningFormat,
    ReasoningParser,
    ReasoningPiece,
    continued_reasoning,
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
        ("<think>\n<think>\nwell</think>Yes", False, "well", "Yes"),
        ("<think>\nwell</think>Yes", True, "well", "Yes"),  # the template had opened it
        ("a <think>b</think>Yes", True, "a b", "Yes"),
        ("a</think>\n</think>\nYes</think>", True, "a", "Yes</think>"),
        ("<think>a</think>\n<think>\nb</think>Yes", False, "a\n\nb", "Yes"),
        ("<think></think><think>b</think>Yes", False, "b", "Yes"),
        ("a</think> <th", True, "a", "<th"),
        ("a</think><b>", True, "a", "<b>"),
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


def test_a_cut_leaves_out_half_a_marker() -> None:
    whole = "<think>\nwell\n</think>\nYes."
    for length in range(len(whole) + 1):
        parser = ReasoningParser(THINK)
        pieces = [parser.push(whole[:length]), parser.finish(cut=True)]
        reasoning, content = ("".join(getattr(p, name) for p in pieces) for name in ("reasoning", "content"))
        assert "well".startswith(reasoning) and "Yes.".startswith(content)
        closing = len("<think>\nwell\n")
        inside = 0 < length < len("<think>") or closing < length < closing + len("</think>")
        assert bool(parser.warnings) == inside


def test_a_repeated_marker_is_warned_of_once() -> None:
    parser = ReasoningParser(THINK, open=True)
    parser.push("<think>a<think>b</think></think>Yes")
    assert [w.split("'")[1] for w in parser.warnings] == ["<think>", "</think>"]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("<think>\nLet me", "open"), ("<think>a</think>b", "closed"), ("The", "closed"), (" ", "none"),
        ("a</think>b", "closed"), ("<think>a</think><think>b", "open"),
    ],
)  # fmt: skip
def test_a_message_that_is_continued(text: str, state: str) -> None:
    assert continued_reasoning(text, THINK) == state


def test_detection() -> None:
    assert detect_reasoning("{{ '<think>\\n' }}...</think>") == THINK
    assert detect_reasoning("[THINK] [/THINK]") == ReasoningFormat("[THINK]", "[/THINK]")
    assert detect_reasoning("plain") is None
    assert detect_reasoning(None) is None
    assert opens_reasoning("<|im_start|>assistant\n<think>\n", THINK)
    assert not opens_reasoning("<think>\n\n</think>\n\n", THINK)
    with pytest.raises(ParameterError):
        ReasoningFormat("", "x")
