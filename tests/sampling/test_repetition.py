"""Loops are seen exactly, soon, and only where there are some."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway.errors import ParameterError
from cutaway.sampling import SamplingParams, StopChecker
from cutaway.sampling.repetition import EVERY, LONGEST, REPEATS, TOKENS, Loop, LoopDetector, repetition_score


def is_loop(tokens: Sequence[int]) -> bool:
    """The definition, spelled out."""
    for period in range(1, LONGEST + 1):
        length = max(REPEATS, -(-TOKENS // period)) * period
        if length <= len(tokens) and all(tokens[-i] == tokens[-i - period] for i in range(1, length - period + 1)):
            return True
    return False


def seen(tokens: Sequence[int]) -> list[bool]:
    detector = LoopDetector()
    return [detector.push(token) for token in tokens]


@given(
    st.lists(st.integers(0, 3), max_size=60), st.lists(st.integers(0, 2), min_size=1, max_size=40), st.integers(1, 330),
    st.lists(st.integers(0, 3), max_size=30),
)  # fmt: skip
def test_what_is_seen_is_a_loop_and_what_is_one_is_seen(
    head: list[int], period: list[int], count: int, tail: list[int]
) -> None:
    tokens = [*head, *itertools.islice(itertools.cycle(period), count), *tail]
    marks = seen(tokens)
    for end, mark in enumerate(marks, 1):
        if mark:
            assert is_loop(tokens[:end])
        elif end % EVERY == 0:
            assert not is_loop(tokens[:end])


@pytest.mark.parametrize("period", [1, 2, 3, 7, 19, 20, 21, 64, 255, 511, 512])
def test_each_period(period: int) -> None:
    tokens = [*range(1000, 1013), *(list(range(period)) * (max(REPEATS, TOKENS // period + 1) + EVERY + 1))]
    detector = LoopDetector()
    first = next(at for at, token in enumerate(tokens, 1) if detector.push(token)) - 13
    due = max(REPEATS, -(-TOKENS // period)) * period
    assert due <= first < due + EVERY
    for token in list(range(period)) * 2:
        detector.push(token)
    loop = detector.loop
    assert loop is not None and loop.period == period and loop.repeats * period >= due


def test_a_longer_period_is_not_seen_and_a_loop_ends() -> None:
    assert not any(seen(list(range(LONGEST + 1)) * 12))
    detector = LoopDetector()
    marks = [detector.push(token) for token in [*([1, 2] * 150), 9, 1, 2]]
    assert marks[299] and not any(marks[300:])
    assert detector.loop == Loop(2, 150) and "the same 2 tokens were written 150 times" in str(detector.loop)


def words(text: str) -> list[int]:
    """Tokens finer than a model's would be loops sooner: here every character is one."""
    return [ord(c) for c in text]


ORDINARY = {
    "list": "".join(f"{n}. Item number {n} of the list\n" for n in range(1, 300)),
    "table": "| name | count |\n|---|---|\n" + "".join(f"| row | {n * 7 % 100} |\n" for n in range(200)),
    "code": "".join(f"    if x == {n}:\n        return {n * n}\n" for n in range(200)),
    "csv": "".join(f"{n},0,0,0,0,0,0,0\n" for n in range(200)),
    "art": "\n".join(" " * (40 - n) + "*" * (2 * n + 1) for n in range(40)),
    "box": "+" + "-" * 78 + "+\n" + ("|" + " " * 78 + "|\n") * 8 + "+" + "-" * 78 + "+\n",
    "chorus": "".join(f"{n} green bottles hanging on the wall,\n" * 2 for n in range(99, 0, -1)),
    "ruler": "-" * 120 + "\n" + "=" * 120 + "\n",
    "chinese": "".join(f"第{n}行：今天天气很好。\n" for n in range(200)),
}


@pytest.mark.parametrize("kind", ORDINARY)
def test_no_alarm_in_what_people_want(kind: str) -> None:
    assert not any(seen(words(ORDINARY[kind])))


class Silent:
    def push(self, id: int) -> str:
        return "x"

    def flush(self) -> str:
        return ""


POLICIES: list[tuple[dict[str, Any], bool]] = [
    ({}, False), ({"stop_on_repetition": False}, False), ({"stop_on_repetition": True}, True),
    ({"on_repetition": "warn"}, False), ({"on_repetition": "cool"}, False), ({"on_repetition": "stop"}, True),
    ({"on_repetition": "stop", "stop_on_repetition": True}, True),
    ({"on_repetition": "cool", "stop_on_repetition": False}, False),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "ends"), POLICIES)
def test_only_who_asks_is_stopped(policy: dict[str, Any], ends: bool) -> None:
    checker = StopChecker(SamplingParams(**policy), frozenset(), Silent())
    reasons = []
    for token in [5, 6, 7] * 100:
        _, reason = checker.push(token)
        reasons.append(reason)
        if reason is not None:
            break
    assert [r.kind for r in reasons if r is not None] == (["repetition"] if ends else [])
    assert checker.loop is not None and checker.loop.period == 3
    assert len(reasons) == (208 if ends else 300)


@pytest.mark.parametrize(("policy", "stops"), [("warn", True), ("cool", True), ("stop", False)])
def test_two_policies_that_contradict_each_other(policy: Any, stops: bool) -> None:
    with pytest.raises(ParameterError, match=f"on_repetition is '{policy}' and stop_on_repetition is {stops}"):
        SamplingParams(on_repetition=policy, stop_on_repetition=stops)


@given(st.lists(st.integers(0, 3), max_size=60))
def test_the_score_is_the_share_of_runs_of_four_that_were_there_before(tokens: list[int]) -> None:
    runs = [tuple(tokens[at : at + 4]) for at in range(len(tokens) - 3)]
    again = sum(run in runs[:at] for at, run in enumerate(runs))
    assert repetition_score(tokens) == pytest.approx(again / len(runs) if runs else 0)


def test_scores_of_text_that_repeats_and_that_does_not() -> None:
    assert repetition_score(range(1000)) == 0 == repetition_score([5, 5, 5])
    assert repetition_score([1, 2, 3] * 100) == pytest.approx(1 - 3 / 297)
