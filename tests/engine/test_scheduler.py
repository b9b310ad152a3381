from __future__ import annotations

import ast
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import cutaway.engine.scheduler
from cutaway.cache import GroupSize, PageTables
from cutaway.engine.cost import CostModel
from cutaway.engine.scheduler import Limits, Scheduler
from cutaway.engine.step_plan import Plan, Work

FAST = CostModel(1_000, 10, 0.0)


def scheduler(
    pages: int = 64, limits: Limits | None = None, cost: CostModel = FAST, window: int | None = None
) -> Scheduler:
    tables = PageTables([GroupSize(window, pages)], 4)
    return Scheduler(tables, cost, limits or Limits(max_requests=4, max_tokens=32, max_rows=8))


def work(id: int, length: int, rows_from: int | None = None, base: int = 100) -> Work:
    tokens = [base * id + i for i in range(length)]
    return Work(id, tokens, length - 1 if rows_from is None else rows_from)


def shape(plan: Plan) -> list[tuple[int, int, int, int]]:
    return [(c.work.id, c.start, c.count, c.rows) for c in plan.chunks]


def settle(s: Scheduler, plan: Plan) -> None:
    """As if the step ran: a request that was computed to its end gets one more token."""
    for chunk in plan.chunks:
        s.advance(chunk)
        if not chunk.work.due:
            chunk.work.tokens.append(7)
    s.pages.check()


def test_it_knows_no_arrays() -> None:
    tree = ast.parse(Path(cutaway.engine.scheduler.__file__).read_text())
    names = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    names |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module}
    assert not {name for name in names if "numpy" in name or "ops" in name or "sampling" in name}
    assert len(Path(cutaway.engine.scheduler.__file__).read_text().splitlines()) <= 200


def test_a_prompt_is_cut_into_chunks_and_its_last_token_has_the_only_row() -> None:
    s = scheduler()
    s.add(work(1, 70))
    for expected in ([(1, 0, 32, 0)], [(1, 32, 32, 0)], [(1, 64, 6, 1)], [(1, 70, 1, 1)], [(1, 71, 1, 1)]):
        plan = s.plan()
        assert shape(plan) == expected
        settle(s, plan)


def test_running_answers_come_first_then_the_prompt_that_has_least_left() -> None:
    s = scheduler()
    s.add(work(1, 3))
    settle(s, s.plan())
    s.add(work(2, 40))
    s.add(work(3, 40))
    assert shape(s.plan()) == [(1, 3, 1, 1), (2, 0, 30, 0), (3, 0, 1, 0)]


def test_a_newcomer_gets_its_share_beside_a_long_prompt() -> None:
    s = scheduler()
    s.add(work(1, 100))
    settle(s, s.plan())
    s.add(work(2, 5))
    assert shape(s.plan()) == [(1, 32, 27, 0), (2, 0, 5, 1)]


def test_the_budget_is_predicted_time() -> None:
    slow = CostModel(1_000, 10_000, 0.0)
    limits = Limits(max_requests=4, max_tokens=512, max_rows=8, step_us=41_000, long_us=81_000)
    s = scheduler(limits=limits, cost=slow)
    s.add(work(1, 100))
    assert shape(s.plan()) == [(1, 0, 8, 0)]  # (81 - 1) ms of 10 ms tokens
    s = scheduler(limits=limits, cost=slow)
    s.add(work(1, 100))
    s.add(work(2, 100))
    assert shape(s.plan()) == [(1, 0, 8, 0)]  # a single token would cost more than it would in a chunk


def test_a_step_never_spends_less_on_tokens_than_on_reading_the_weights() -> None:
    s = scheduler(limits=Limits(max_requests=4, max_tokens=512, max_rows=8), cost=CostModel(400_000, 10_000, 0.0))
    s.add(work(1, 100))
    s.add(work(2, 100))
    assert sum(c.count for c in s.plan().chunks) == 82  # for each prompt what a token takes alone: 410 ms


SLOW = CostModel(20_000, 1_000, 0.0)
STEPS = Limits(max_requests=16, max_tokens=512, max_rows=64, step_us=50_000, long_us=125_000)


def predicted(plan: Plan) -> int:
    return SLOW.predict(plan.tokens, 0)


def test_a_short_prompt_beside_a_long_one_is_read_at_once_in_a_short_step() -> None:
    """A newcomer waits for the step that runs (125 ms at most), and its own is as short as it can be."""
    s = scheduler(4096, STEPS, SLOW)
    s.add(work(1, 4000, base=10_000))
    plan = s.plan()
    assert shape(plan) == [(1, 0, 105, 0)] and predicted(plan) == STEPS.long_us
    settle(s, plan)
    s.add(work(2, 20))
    plan = s.plan()
    assert shape(plan) == [(1, 105, 22, 0), (2, 0, 20, 1)]  # 42 ms for two prompts: 21 ms is a token alone
    settle(s, plan)
    plan = s.plan()  # its answer beside the long prompt: only the long one waits for a first token
    assert shape(plan) == [(1, 127, 104, 0), (2, 20, 1, 1)] and predicted(plan) == STEPS.long_us


def test_a_long_prompt_goes_on_however_many_newcomers_there_are() -> None:
    s = scheduler(65_536, STEPS, SLOW)
    long = work(0, 400)
    s.add(long)
    for step in range(1, 40):
        s.add(work(step, 60))  # each would fill a step
        plan = s.plan()
        settle(s, plan)
        if len(long.tokens) > long.prompt:
            break
        for chunk in plan.chunks:
            if chunk.work is not long and len(chunk.work.tokens) > chunk.work.prompt:
                s.remove(chunk.work)
    assert len(long.tokens) > long.prompt, "the long prompt starves"


def test_half_of_a_step_goes_to_the_prompt_whose_turn_it_is_and_the_rest_to_the_shortest() -> None:
    s = scheduler(4096, STEPS, SLOW)
    first = work(1, 300, base=10_000)
    s.add(first)
    settle(s, s.plan())
    for i in range(2, 5):
        s.add(work(i, 250, base=10_000))
    assert shape(s.plan()) == [(1, 105, 105, 0)]  # turn 300, the others' 105 + 250; least due as well
    s = scheduler(4096, STEPS, SLOW)
    s.add(work(1, 200, base=10_000))
    settle(s, s.plan())
    for i in range(2, 9):
        s.add(work(i, 160, base=10_000))
    s.add(work(9, 99, base=10_000))
    counts = {c.work.id: c.count for c in s.plan().chunks}
    assert counts == {1: 95, 9: 94}, "9 x 21 ms: half for the first, the rest for the shortest"


def test_beside_many_answers_a_prompt_has_what_a_token_takes_alone() -> None:
    s = scheduler(4096, STEPS, SLOW)
    for i in range(1, 16):
        s.add(work(i, 1, base=10_000))
    while any(w.reads for w in s.running) or s.waiting:
        settle(s, s.plan())
    s.add(work(16, 500, base=10_000))
    plan = s.plan()
    assert len(plan.chunks) == 16 and plan.chunks[-1].count == 90  # what 125 ms leave is more
    crowded = scheduler(4096, Limits(16, 512, 64, step_us=10_000, long_us=30_000), SLOW)
    for i in range(1, 16):
        crowded.add(work(i, 1, base=10_000))
    while any(w.reads for w in crowded.running) or crowded.waiting:
        settle(crowded, crowded.plan())
    crowded.add(work(16, 500, base=10_000))
    assert crowded.plan().chunks[-1].count == 21


def test_equal_prompts_are_read_one_after_another() -> None:
    """Shared in equal parts, all would have their first token when the last one has."""
    s = scheduler(4096, STEPS, SLOW)
    works = [work(i, 100, base=1000) for i in range(1, 9)]
    for w in works:
        s.add(w)
    first: dict[int, int] = {}
    time = 0
    while len(first) < len(works):
        plan = s.plan()
        time += predicted(plan)
        settle(s, plan)
        first |= {w.id: time for w in works if len(w.tokens) > w.prompt and w.id not in first}
    assert list(first) == [w.id for w in works]
    assert sum(first.values()) / len(first) < 0.65 * time


def test_rows_for_prompt_logprobs_are_bounded_per_step() -> None:
    s = scheduler(limits=Limits(max_requests=2, max_tokens=32, max_rows=5))
    s.add(work(1, 12, rows_from=0))
    s.add(work(2, 4))
    seen: list[tuple[int, int, int, int]] = []
    for _ in range(4):
        plan = s.plan()
        assert sum(c.rows for c in plan.chunks) <= 5
        seen += [c for c in shape(plan) if c[0] == 1]
        settle(s, plan)
    assert seen == [(1, 0, 4, 4), (1, 4, 4, 4), (1, 8, 4, 4), (1, 12, 1, 1)]


def test_requests_beyond_the_limit_wait_in_order() -> None:
    s = scheduler(limits=Limits(max_requests=2, max_tokens=32, max_rows=8))
    works = [work(i, 3) for i in range(1, 5)]
    for w in works:
        s.add(w)
    assert [w.id for w in s.plan().admitted] == [1, 2]
    s.remove(works[0])
    assert [w.id for w in s.plan().admitted] == [3]


def test_a_request_is_admitted_only_when_its_prompt_fits_beside_what_the_others_are_due() -> None:
    s = scheduler(pages=8)
    s.add(work(1, 17))  # five pages
    s.add(work(2, 13))  # four
    assert [w.id for w in s.plan().admitted] == [1]


def test_the_youngest_gives_its_pages_to_the_oldest_and_comes_back_first() -> None:
    s = scheduler(pages=4)
    old, young, new = work(1, 7), work(2, 8), work(3, 1)
    s.add(old)
    s.add(young)
    settle(s, s.plan())  # two pages each; both end their prompts
    s.add(new)
    plan = s.plan()  # young needs a third page and there is none: it waits, the old one goes on
    assert shape(plan) == [(1, 7, 1, 1)] and not plan.preempted
    settle(s, plan)
    plan = s.plan()  # the old one needs a third page
    assert plan.preempted == (young,) and shape(plan) == [(1, 8, 1, 1)]
    assert (young.computed, list(s.waiting)) == (0, [young, new])
    settle(s, plan)
    s.remove(old)
    plan = s.plan()
    assert [w.id for w in plan.admitted] == [2, 3]
    assert shape(plan) == [(2, 4, 5, 1), (3, 0, 1, 1)]  # its first page was still written


def test_a_request_waits_while_another_computes_its_prefix_and_takes_up_the_pages() -> None:
    s = scheduler()
    first, twin, other = work(1, 60), Work(2, list(work(1, 60).tokens), 59), work(3, 2)
    for w in (first, twin, other):
        s.add(w)
    plan = s.plan()
    assert [w.id for w in plan.admitted] == [1, 3]
    while twin in s.waiting:
        settle(s, plan)
        plan = s.plan()
    assert first.computed >= 56 - 4  # it waits for what is left as long as that is two pages
    assert next(c for c in plan.chunks if c.work is twin).start >= 48


def test_a_request_waits_for_nobody_who_ended_or_is_of_another_key() -> None:
    s = scheduler()
    first = work(1, 60)
    s.add(first)
    s.add(Work(2, list(first.tokens), 59))
    s.add(Work(3, list(first.tokens), 59, key="adapter"))
    assert [w.id for w in s.plan().admitted] == [1, 3]
    s.remove(first)
    assert [w.id for w in s.plan().admitted] == [2]


def test_a_request_whose_prompt_rows_are_wanted_waits_for_nobody() -> None:
    s = scheduler()
    s.add(work(1, 60))
    s.add(Work(2, list(work(1, 60).tokens), 0))
    assert [w.id for w in s.plan().admitted] == [1, 2]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 8), st.integers(0, 5)), min_size=1, max_size=12),
    st.integers(10, 16), st.sampled_from([None, 6]),
)
def test_every_request_ends_and_every_plan_keeps_the_limits(
    requests: list[tuple[int, int, int]], pages: int, window: int | None
) -> None:
    """requests: prompt length, answer length, step of arrival."""
    limits = Limits(max_requests=3, max_tokens=9, max_rows=4)
    s = scheduler(pages, limits, window=window)
    length = {i: prompt + answer for i, (prompt, answer, _) in enumerate(requests) if prompt + answer <= 4 * pages}
    works = {i: work(i, requests[i][0], base=0) for i in length}
    ended, step = set[int](), 0
    while len(ended) < len(works):
        for i, w in works.items():
            if requests[i][2] == step:
                s.add(w)
        plan = s.plan()
        assert plan.chunks or not (s.running or s.waiting)
        assert plan.tokens <= limits.max_tokens and len(plan.chunks) <= limits.max_requests
        assert sum(c.rows for c in plan.chunks) <= limits.max_rows
        settle(s, plan)
        for c in plan.chunks:
            if len(c.work.tokens) > length[c.work.id]:
                s.remove(c.work)
                ended.add(c.work.id)
        s.pages.check()
        step += 1
        assert step < 2_000, "the schedule does not end"
    assert s.pages.available == (pages,)
