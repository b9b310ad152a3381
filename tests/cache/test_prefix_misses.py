"""Why a prefix was not found further than it was."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway.cache import BREAK_REASONS, GroupSize, PageTables, PrefixBreak, prefixes
from cutaway.cache.prefix_misses import COMPARED, Evicted, find_break

SIZE = 4


def tables_of(pages: int = 16, *windows: int) -> PageTables:
    return PageTables([GroupSize(None, pages), *(GroupSize(window, pages) for window in windows)], SIZE)


def serve(tables: PageTables, request: int, tokens: Sequence[int], key: object = None) -> PrefixBreak | None:
    """A whole request. Returns what broke its match."""
    covered = tables.open(request, tokens, key=key)
    broke = tables.broke(request)
    assert broke is None or covered <= broke.at < len(tokens)
    tables.extend(request, len(tokens) - covered)
    tables.written(request, tokens)
    tables.close(request, tokens)
    tables.check()
    return broke


def test_nothing_like_it_was_seen() -> None:
    tables = tables_of()
    assert serve(tables, 1, [1, 2, 3, 4, 5]) == PrefixBreak(0, 1, "never_seen")
    assert serve(tables, 2, [9, 2, 3, 4, 5]) == PrefixBreak(0, 9, "never_seen")  # others began otherwise: no change


def test_the_prompt_changed() -> None:
    tables = tables_of()
    serve(tables, 1, range(1, 10))
    assert serve(tables, 2, [1, 2, 3, 4, 5, 6, 0, 8, 9]) == PrefixBreak(6, 0, "prompt_changed", (7,))
    assert serve(tables, 3, [1, 2, 3, 4, 7, 6, 0, 8, 9]) == PrefixBreak(4, 7, "prompt_changed", (5,))
    assert serve(tables, 4, [1, 0, 3, 4, 5]) == PrefixBreak(1, 0, "prompt_changed", (2,))
    assert serve(tables, 5, [1, 2, 3, 4, 5, 6, 1, 8, 9]) == PrefixBreak(6, 1, "prompt_changed", (0, 7))


def test_a_change_in_a_part_filled_page() -> None:
    tables = tables_of()
    serve(tables, 1, [1, 2, 3, 4, 5, 6, 7])
    assert serve(tables, 2, [1, 2, 3, 4, 5, 9, 9]) == PrefixBreak(5, 9, "prompt_changed", (6,))


def test_all_that_may_be_found_was_found() -> None:
    tables = tables_of()
    serve(tables, 1, range(12))
    assert serve(tables, 2, range(12)) is None
    assert serve(tables, 3, range(11)) is None  # its last page is the beginning of a known one
    assert serve(tables, 4, range(8)) is None
    assert tables.open(5, range(50, 60), limit=0) == 0
    assert tables.broke(5) is None  # nothing was looked up


def test_the_next_turn_goes_on_where_nothing_was() -> None:
    tables = tables_of()
    serve(tables, 1, range(6))
    assert serve(tables, 2, range(14)) == PrefixBreak(6, 6, "never_seen")
    assert serve(tables, 3, range(14)) is None


def test_evicted() -> None:
    tables = tables_of(6)
    serve(tables, 1, range(12))
    serve(tables, 2, range(50, 66))  # takes the later pages
    assert serve(tables, 3, range(13)) == PrefixBreak(8, 8, "evicted")
    serve(tables, 4, range(50, 74))  # takes everything
    assert serve(tables, 5, range(12)) == PrefixBreak(0, 0, "evicted")
    serve(tables, 6, range(50, 74))
    assert serve(tables, 7, [0, 1, 9, 9, 9]) == PrefixBreak(2, 9, "prompt_changed", (2,))  # gone, and changed as well


def test_a_page_that_a_window_lacks_is_evicted() -> None:
    tables = PageTables([GroupSize(None, 32), GroupSize(4, 3)], SIZE)
    for request, tokens in ((1, range(16)), (2, [50] * 12)):
        at = tables.open(request, tokens)
        while at < len(tokens):
            tables.extend(request, 4)
            tables.written(request, tokens)
            at += 4
        tables.close(request)
    assert tables.open(3, [*range(16), 99]) == 0
    assert tables.broke(3) == PrefixBreak(0, 0, "evicted")


def test_a_tail_that_another_goes_on_in_is_evicted() -> None:
    tables = tables_of()
    serve(tables, 1, [1, 2, 3, 4, 5, 6])
    tables.open(2, [1, 2, 3, 4, 5, 9])
    assert serve(tables, 3, [1, 2, 3, 4, 5, 6, 7]) == PrefixBreak(4, 5, "evicted")


def test_what_is_forgotten_was_never_seen() -> None:
    tables = tables_of()
    serve(tables, 1, range(12))
    tables.forget()
    assert serve(tables, 2, range(12)) == PrefixBreak(0, 0, "never_seen")


def test_keys_know_nothing_of_one_another_and_leave_nothing_behind() -> None:
    tables = tables_of(4)
    serve(tables, 1, range(8), key="a")
    assert serve(tables, 2, range(8), key="b") == PrefixBreak(0, 0, "never_seen")
    for salt in range(100):
        serve(tables, 10 + salt, range(8), key=salt)
    gc.collect()
    assert len(tables._tree._roots) <= 4  # four pages


def test_without_sharing_there_is_nothing_to_break() -> None:
    tables = PageTables([GroupSize(None, 8)], SIZE, sharing=False)
    assert serve(tables, 1, range(8)) is None


def test_the_memory_is_bounded() -> None:
    memory = Evicted(most=3)
    for name in range(3):
        memory.add(("key", name), (1,))
    memory.add(("key", 0), (1,))  # again: the latest now
    memory.add(("key", 2), (2,))
    assert [list(memory.after(("key", name))) for name in range(3)] == [[(1,)], [], [(2,), (1,)]]
    memory.clear()
    assert not list(memory.after(("key", 0)))


def test_nothing_of_one_key_is_told_to_another_whatever_the_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Live, as a tail, evicted; also where hashes of different prefixes are equal."""
    monkeypatch.setattr(prefixes, "hash", lambda _: 7, raising=False)
    tables = tables_of(4)
    secret = [1, 2, 3, 4, 5, 6, 7]
    serve(tables, 1, secret, key="victim")
    guesses = [[*secret[:at], 99, 98, 97, 96, 95] for at in range(7)]
    for number, guess in enumerate(guesses):
        assert serve(tables, 10 + number, guess, key=f"attacker {number}") == PrefixBreak(0, guess[0], "never_seen")
    for number in range(8):  # what was the victim's is evicted now
        serve(tables, 20 + number, range(50 + number, 62 + number), key="third")
    assert serve(tables, 30, secret, key="victim") == PrefixBreak(0, 1, "evicted")
    for number, guess in enumerate(guesses):
        assert serve(tables, 40 + number, guess, key=f"late {number}") == PrefixBreak(0, guess[0], "never_seen")


@given(st.lists(st.tuples(st.integers(2, 3), st.lists(st.integers(1, 2), min_size=1, max_size=13)), max_size=25))
def test_against_all_that_was_ever_asked(asked: list[tuple[int, list[int]]]) -> None:
    """A pool of five pages, prompts of few different tokens: each reason says something that history must confirm."""
    tables = tables_of(5)
    before: list[list[int]] = []
    for number, (first, rest) in enumerate(asked):
        tokens = [first, *rest]
        covered = tables.open(number, tokens)
        broke = tables.broke(number)
        alike = [old for old in before if broke and old[: broke.at] == tokens[: broke.at]]
        if broke is None:
            assert len(tokens) == 1 or any(old[: len(tokens) - 1] == tokens[:-1] for old in before)
        elif broke.reason == "never_seen":
            assert broke.at == 0 or not any(len(old) > broke.at for old in alike)
        elif broke.reason == "evicted":
            assert any(old[broke.at : broke.at + 1] == [broke.token] for old in alike)
        else:
            assert broke.token not in broke.expected
            assert {old[broke.at] for old in alike if len(old) > broke.at} == set(broke.expected)
        assert broke is None or (covered <= broke.at and broke.token == tokens[broke.at])
        tables.extend(number, len(tokens) - covered)
        tables.written(number, tokens)
        tables.close(number, tokens)
        before.append(tokens)


@pytest.mark.parametrize("reason", BREAK_REASONS)
def test_a_diagnosis_costs_nothing_beside_a_step(reason: str) -> None:
    """At the worst: as many continuations as are compared, alike almost to the end. A step takes 20 ms and more."""
    begun = tuple(range(15))
    live = [(*begun, 100 + i) for i in range(COMPARED)]
    last = {"prompt_changed": 99, "evicted": 98, "never_seen": -1}[reason]
    evicted = [(*begun, 98)] if reason == "evicted" else []
    tokens = [*begun, last] if reason != "never_seen" else [200, *begun]
    times = []
    for _ in range(20):
        began = time.perf_counter()
        broke = find_break(tokens, 0, live, evicted, 16)
        times.append(time.perf_counter() - began)
    assert broke is not None and broke.reason == reason
    assert min(times) < 1e-3
