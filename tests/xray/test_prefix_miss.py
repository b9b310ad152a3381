"""Why a prompt was not found further: the place, both sides in words, what it cost, what helps."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cutaway.xray.prefix_miss import Earlier, Miss, explain_miss

SYSTEM = list(range(100, 140))
ANSWER = list(range(500, 520))


def decode(tokens: Sequence[int]) -> str:
    return " ".join(map(str, tokens))


def miss(
    prompt: list[int], cached: int, broke_by: str | None, earlier: list[Earlier], *, off: bool = False,
    adapter: str | None = None,
) -> Miss | None:  # fmt: skip
    return explain_miss(
        prompt, cached, broke_by, earlier, decode, page_size=16, prefill_ms=100.0, off=off, adapter=adapter
    )


def test_a_clock_in_the_prompt() -> None:
    before = [*SYSTEM[:20], 2, 58, *SYSTEM[20:]]
    now = [*SYSTEM[:20], 3, 2, *SYSTEM[20:]]
    found = miss(now, 16, "prompt_changed", [Earlier([*before, *ANSWER], len(before))])
    assert found is not None and (found.at, found.cause) == (20, "changed")
    assert found.here.startswith("3 2 120") and found.there is not None and found.there.startswith("2 58 120")
    assert found.before == "114 115 116 117 118 119"
    assert found.lost == 4 + 20, "four of a page, and all that stayed the same behind the clock"
    assert found.price_ms == round(24 * 100 / (42 - 16), 1) and "behind" in found.avoid


def test_an_answer_that_came_back_as_other_tokens() -> None:
    turn = [*SYSTEM, *ANSWER]
    again = [*SYSTEM, *ANSWER[:3], 9, *ANSWER[4:], 77, 78]
    found = miss(again, 32, "prompt_changed", [Earlier(turn, len(SYSTEM))])
    assert found is not None and (found.at, found.cause) == (43, "template_rerendered")


def test_the_nearest_earlier_prompt_is_compared_and_the_latest_of_equals() -> None:
    latest, older, far = Earlier([1, 2, 3, 8], 4), Earlier([1, 2, 3, 9], 4), Earlier([1, 5], 2)
    found = miss([1, 2, 3, 4, 5], 0, "prompt_changed", [far, latest, older])
    assert found is not None and found.there == "8" and found.at == 3


@pytest.mark.parametrize(
    ("cached", "broke_by", "earlier", "cause", "lost"),
    [
        (0, "evicted", [Earlier([*SYSTEM, 1], 40)], "evicted", 39),
        (32, None, [Earlier([*SYSTEM[:38]], 38)], "partial_page", 6),
        (0, None, [Earlier([*SYSTEM, 1], 40)], "unknown", 39),
        (0, "never_seen", [], "new", 0),
        (0, "evicted", [], "evicted", None),
        (0, "prompt_changed", [], "changed", None),
        (0, "never_seen", [Earlier(SYSTEM, 40, adapter="other")], "other_adapter", 39),
    ],
)
def test_causes(cached: int, broke_by: str | None, earlier: list[Earlier], cause: str, lost: int | None) -> None:
    found = miss(SYSTEM, cached, broke_by, earlier)
    assert found is not None and found.cause == cause
    assert found.lost == lost and (found.price_ms is None) == (lost is None)


def test_what_was_asked_for_and_what_was_found_whole() -> None:
    found = miss(SYSTEM, 0, None, [Earlier(SYSTEM, 40)], off=True)
    assert found is not None and found.cause == "off" and "prompt_logprobs" in found.avoid
    assert miss(SYSTEM, 39, None, [Earlier(SYSTEM, 40)]) is None
    assert set(found.json()) >= {"at", "cause", "before", "here", "there", "lost", "price_ms", "avoid"}
