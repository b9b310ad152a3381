from __future__ import annotations

from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cutaway.cache import GroupSize, PageTables

SIZE = 4


def run(tables: PageTables, request: int, tokens: Sequence[int], *, key: object = None, chunk: int = 1000) -> int:
    """Open a request and write all its tokens. Returns what the prefix covered."""
    covered = at = tables.open(request, tokens, key=key)
    while at < len(tokens):
        count = tables.room(request, min(chunk, len(tokens) - at))
        assert count
        tables.extend(request, count)
        tables.written(request, tokens)
        tables.check()
        at += count
    return covered


def test_a_table_grows_by_pages() -> None:
    tables = PageTables([GroupSize(None, 8)], SIZE)
    assert run(tables, 1, range(5)) == 0
    assert list(tables.table(1, 0)) == [0, 1]
    assert tables.need(1, 8) == (0,) and tables.need(1, 9) == (1,)
    assert tables.room(1, 100) == 32 - 5
    tables.close(1)
    assert tables.available == (8,)


def test_window_pages_go_back_as_soon_as_no_later_token_sees_them() -> None:
    tables = PageTables([GroupSize(None, 8), GroupSize(6, 4)], SIZE)
    tokens = list(range(20))
    tables.open(1, tokens)
    for length in range(1, 21):
        tables.extend(1, 1)
        tables.written(1, tokens)
        tables.check()
        seen = {position // SIZE for position in range(max(0, length - 6 + 1), length)}
        table = tables.table(1, 1)
        assert {i for i, page in enumerate(table) if page != -1} == seen
    assert -1 not in tables.table(1, 0)


def test_what_was_written_for_nothing_goes_back_and_is_never_found() -> None:
    tables = PageTables([GroupSize(None, 8), GroupSize(6, 4)], SIZE)
    tokens = [1, 2, 3, 4, 5, 6, 7]
    tables.open(1, tokens)
    tables.extend(1, 13)  # six more than there are
    tables.written(1, tokens, 7)
    tables.check()
    assert tables.length(1) == 7
    assert [len(tables.table(1, group)) for group in (0, 1)] == [2, 2]
    assert -1 not in tables.table(1, 1)  # the window lost nothing to positions that do not count
    tables.close(1, tokens)
    assert tables.open(2, [*tokens, 8, 9]) == 7
    tables.close(2)
    assert tables.open(3, [1, 2, 3, 4, 5, 6, 9]) == 4  # its second page was taken for something else


def test_capacity_is_that_of_the_full_group_when_the_window_group_can_turn_over() -> None:
    assert PageTables([GroupSize(None, 8), GroupSize(6, 4)], SIZE).capacity == 32
    assert PageTables([GroupSize(None, 8), GroupSize(6, 3)], SIZE).capacity == 32  # 5 others: 2 pages or 3
    assert PageTables([GroupSize(None, 8), GroupSize(6, 2)], SIZE).capacity == 8
    assert PageTables([GroupSize(6, 4)], SIZE).capacity > 10**9


def test_room_counts_pages_of_every_group() -> None:
    tables = PageTables([GroupSize(None, 8), GroupSize(6, 3)], SIZE)
    tables.open(1, range(30))
    assert tables.room(1, 30) == 12
    tables.extend(1, 12)
    tables.written(1, range(30))
    assert tables.room(1, 30) == 4  # one page of three left the window


def test_a_prefix_is_found_again_but_for_the_last_token() -> None:
    tables = PageTables([GroupSize(None, 8)], SIZE)
    assert run(tables, 1, range(12)) == 0
    first = list(tables.table(1, 0))
    tables.close(1)
    assert run(tables, 2, range(12)) == 8  # a full hit computes its last page again
    assert list(tables.table(2, 0))[:2] == first[:2]
    assert run(tables, 3, range(13)) == 12
    assert run(tables, 4, [0, 1, 2, 3, 9, 5, 6, 7, 8]) == 4
    tables.check()


def test_equal_pages_become_one_even_when_both_were_computed() -> None:
    tables = PageTables([GroupSize(None, 8)], SIZE)
    tokens = list(range(9))
    for request in (1, 2):
        assert tables.open(request, tokens) == 0
    for request in (1, 2):
        tables.extend(request, 9)
        tables.written(request, tokens)
        tables.check()
    assert list(tables.table(1, 0))[:2] == list(tables.table(2, 0))[:2]
    assert tables.pools[0].held == 4


def test_same_tokens_after_another_prefix_are_another_prefix() -> None:
    tables = PageTables([GroupSize(None, 16)], SIZE)
    run(tables, 1, [1, 1, 1, 1, 5, 5, 5, 5, 0])
    assert run(tables, 2, [2, 2, 2, 2, 5, 5, 5, 5, 0]) == 0
    assert run(tables, 3, [2, 2, 2, 2, 5, 5, 5, 5, 1]) == 8


def test_the_key_separates_prefixes() -> None:
    tables = PageTables([GroupSize(None, 16)], SIZE)
    run(tables, 1, range(9), key="base")
    assert run(tables, 2, range(9), key="adapter") == 0
    assert run(tables, 3, range(9), key="base") == 8


def test_nothing_is_found_before_it_is_written() -> None:
    tables = PageTables([GroupSize(None, 16)], SIZE)
    tables.open(1, range(9))
    tables.extend(1, 9)
    assert tables.open(2, range(9)) == 0
    tables.close(1)  # cancelled during its step: nothing of it may be found
    assert tables.open(3, range(9)) == 0
    assert tables.pools[0].cached == 0


def test_a_limit_keeps_positions_to_be_computed() -> None:
    tables = PageTables([GroupSize(None, 16)], SIZE)
    run(tables, 1, range(16))
    assert tables.open(2, range(16), limit=7) == 4
    assert tables.open(3, range(16), limit=0) == 0


def test_a_window_group_needs_only_its_window_for_a_hit() -> None:
    tables = PageTables([GroupSize(None, 32), GroupSize(4, 3)], SIZE)
    tokens = list(range(16))
    run(tables, 1, tokens, chunk=4)
    tables.close(1)
    assert tables.pools[1].cached == 3  # one of the four pages was taken for another
    assert run(tables, 2, [*tokens, 99], chunk=4) == 16
    tables.close(2)
    run(tables, 3, [50] * 12, chunk=4)  # takes every page of the window group
    tables.close(3)
    assert run(tables, 4, [*tokens, 99], chunk=4) == 0  # the full group has all of it, the window group nothing


def test_the_next_turn_goes_on_in_the_part_filled_page() -> None:
    tables = PageTables([GroupSize(None, 8), GroupSize(3, 8)], SIZE)
    history = list(range(11))
    run(tables, 1, history)
    last = [tables.table(1, group)[2] for group in range(2)]
    tables.close(1, history)
    tables.check()
    assert run(tables, 2, [*history, 50, 51]) == 11
    assert [tables.table(2, group)[2] for group in range(2)] == last
    assert run(tables, 3, [*history, 60]) == 8  # one taker only: the other computes those three anew


def test_a_tail_serves_as_far_as_it_is_the_same() -> None:
    tables = PageTables([GroupSize(None, 8)], SIZE)
    run(tables, 1, range(7))
    tables.close(1, range(7))
    assert run(tables, 2, [0, 1, 2, 3, 4, 9, 9, 9]) == 5
    tables.close(2, [0, 1, 2, 3, 4, 9, 9, 9])
    assert run(tables, 3, [0, 1, 2, 3, 4, 5, 6, 7]) == 4  # what was written over is gone
    assert run(tables, 4, [0, 1, 2, 3, 4, 9, 9, 9, 9]) == 8


def test_only_what_was_written_becomes_a_tail_and_the_last_token_is_computed() -> None:
    tables = PageTables([GroupSize(None, 8)], SIZE)
    tables.open(1, range(4))
    tables.extend(1, 2)
    tables.written(1, range(4))
    tables.extend(1, 1)  # cancelled during its step
    tables.close(1, range(4))
    assert tables.open(2, range(4)) == 2
    tables.close(2, range(4))
    assert tables.open(3, range(2)) == 1


def test_tails_are_evicted_like_other_pages() -> None:
    tables = PageTables([GroupSize(None, 3)], SIZE)
    run(tables, 1, [1, 2])
    tables.close(1, [1, 2])
    run(tables, 2, range(10, 22))
    tables.check()
    tables.close(2, range(10, 22))
    assert tables.open(3, [1, 2, 3]) == 0


def test_a_tail_that_lost_a_page_in_one_group_is_not_taken() -> None:
    tables = PageTables([GroupSize(None, 16), GroupSize(3, 2)], SIZE)
    run(tables, 1, [1, 2])
    tables.close(1, [1, 2])
    run(tables, 2, range(10, 18), chunk=4)  # needs both pages of the window group
    assert tables.open(3, [1, 2, 3]) == 0
    tables.check()


def test_without_sharing_nothing_is_kept() -> None:
    tables = PageTables([GroupSize(None, 8)], SIZE, sharing=False)
    run(tables, 1, range(9))
    tables.close(1, range(9))
    assert run(tables, 2, range(9)) == 0
    assert tables.pools[0].cached == 0


def test_forgetting_keeps_what_is_held() -> None:
    tables = PageTables([GroupSize(None, 8)], SIZE)
    run(tables, 1, range(8))
    run(tables, 2, range(100, 106))
    tables.close(1)
    tables.forget()
    tables.check()
    assert tables.pools[0].cached == 0 and tables.pools[0].held == 2
    assert tables.open(3, range(9)) == 0


class Ledger(RuleBasedStateMachine):
    """Random requests over few tokens and few pages. What a page holds is tracked beside the ledger: every page that a
    request is given, or finds, must hold exactly the request's own tokens, and all the tokens before them."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = PageTables([GroupSize(None, 10), GroupSize(5, 6), GroupSize(1, 4)], 2)
        self.contents: list[dict[int, tuple[int, ...]]] = [{} for _ in self.tables.groups]
        self.live: dict[int, list[int]] = {}
        self.computed: dict[int, int] = {}
        self.next = 0

    @rule(tokens=st.lists(st.integers(0, 1), min_size=1, max_size=12), key=st.sampled_from("ab"))
    def open(self, tokens: list[int], key: str) -> None:
        self.next += 1
        self.live[self.next] = [ord(key), *tokens]  # the key as a first token, so that contents tell it apart
        self.computed[self.next] = self.tables.open(self.next, self.live[self.next], key=key)
        assert self.computed[self.next] < len(self.live[self.next])

    @precondition(lambda self: self.live)
    @rule(data=st.data(), limit=st.integers(1, 6))
    def compute(self, data: st.DataObject, limit: int) -> None:
        request = data.draw(st.sampled_from(sorted(self.live)))
        tokens, computed = self.live[request], self.computed[request]
        count = self.tables.room(request, min(limit, len(tokens) - computed))
        if count <= 0:
            return
        self.tables.extend(request, count)
        end = computed + data.draw(st.integers(1, count))  # the rest of it was drafted, and wrong
        for group in range(len(self.tables.groups)):
            for index in range(computed // 2, (end - 1) // 2 + 1):
                page = self.tables.table(request, group)[index]
                self.contents[group][page] = tuple(tokens[: min(end, 2 * index + 2)])
        self.tables.written(request, tokens, end)
        self.computed[request] = end

    @precondition(lambda self: self.live)
    @rule(data=st.data(), token=st.integers(0, 1))
    def append(self, data: st.DataObject, token: int) -> None:
        self.live[data.draw(st.sampled_from(sorted(self.live)))].append(token)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(sorted(self.live)))
        self.tables.close(request, self.live[request] if data.draw(st.booleans()) else ())
        del self.live[request], self.computed[request]

    @rule()
    def forget(self) -> None:
        self.tables.forget()

    @invariant()
    def ledgers_balance(self) -> None:
        self.tables.check()

    @invariant()
    def the_map_shows_what_each_page_holds(self) -> None:
        shot = self.tables.snapshot(pages=True)
        for group, (pages, contents) in enumerate(zip(shot.maps, self.contents, strict=True)):
            pool, known = self.tables.pools[group], pages.published
            assert set(known.page) == {page for page in range(pool.total) if pool.is_published(page)}
            assert list(pages.references) == [pool.references(page) for page in range(pool.total)]
            assert len(pages.victims) == pool.cached
            assert [moment for _, moment in pages.victims] == sorted(moment for _, moment in pages.victims)
            for page, start, count, owner in zip(known.page, known.position, known.tokens, known.owner, strict=True):
                assert start + count == len(contents[page]) or count < 2, "a tail may be shorter than what was written"
                assert contents[page][0] == ord(pages.keys[owner])

    @invariant()
    def what_a_later_token_sees_is_what_was_written(self) -> None:
        for request, tokens in self.live.items():
            computed = self.computed[request]
            for group, size in enumerate(self.tables.groups):
                first = 0 if size.window is None else max(0, computed - size.window + 1)
                for position in range(first, computed):
                    page = self.tables.table(request, group)[position // 2]
                    written = self.contents[group][page]
                    assert written[: position + 1] == tuple(tokens[: position + 1])


TestLedger = Ledger.TestCase
TestLedger.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
