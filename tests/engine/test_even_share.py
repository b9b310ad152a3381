"""The even share beside a naive one that gives each prompt its tokens one by one, and what the order promises."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutaway.cache import GroupSize, PageTables
from cutaway.engine.cost import CostModel
from cutaway.engine.even_share import EvenShare
from cutaway.engine.scheduler import Limits, Scheduler
from cutaway.engine.step_plan import Work


class Naive:
    """Rounds: every unfinished prompt gets one token, for as long as there is one for each."""

    def __init__(self) -> None:
        self.left: dict[int, int] = {}
        self.rest = 0

    def spend(self, tokens: int) -> list[int]:
        tokens += self.rest
        ended = []
        while self.left and tokens >= len(self.left):
            tokens -= len(self.left)
            self.left = {name: due - 1 for name, due in self.left.items()}
            ended += [name for name, due in self.left.items() if not due]
            self.left = {name: due for name, due in self.left.items() if due}
        self.rest = tokens if self.left else 0
        return ended


@given(st.lists(st.one_of(st.tuples(st.just("enter"), st.integers(1, 50)),
                          st.tuples(st.just("spend"), st.integers(0, 80)),
                          st.tuples(st.just("leave"), st.integers(0, 5))), max_size=60))  # fmt: skip
def test_it_counts_as_one_that_deals_token_by_token(events: list[tuple[str, int]]) -> None:
    share, naive = EvenShare(1_000), Naive()
    ends: dict[int, int] = {}
    for name, (kind, value) in enumerate(events):
        if kind == "enter":
            ends[name] = share.enter(value)
            naive.left[name] = value
        elif kind == "spend":
            share.spend(value)
            ended = naive.spend(value)
            assert all(ends[one] <= share.clock for one in ended)
            assert ended == sorted(ended, key=lambda one: (ends[one], one))
        elif naive.left:
            one = list(naive.left)[value % len(naive.left)]
            share.leave(ends[one])
            del naive.left[one]
        assert share.prompts == len(naive.left)
        assert {one: end - share.clock for one, end in ends.items() if one in naive.left} == naive.left


def test_what_was_given_in_advance_does_not_stop_the_clock() -> None:
    share = EvenShare(4)
    for _ in range(1_000):  # read in advance while others were, and those others left
        share.enter(10_000)
    end = share.enter(100)
    share.spend(4 * 100)
    assert share.clock == end


@st.composite
def arrivals(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Step of arrival, prompt, answer."""
    return draw(
        st.lists(st.tuples(st.integers(0, 40), st.integers(1, 300), st.integers(1, 30)), min_size=1, max_size=8)
    )


@given(arrivals(), st.sampled_from([(1_000, 10, 0.0), (20_000, 5_000, 0.5), (200_000, 40_000, 1.0)]))
def test_no_prompt_waits_for_more_than_its_part_and_nothing_is_read_twice(
    requests: list[tuple[int, int, int]], cost: tuple[float, float, float]
) -> None:
    """Half of what is read goes to the prompt whose turn it is: until a prompt of n tokens has been read, no more than
    twice n tokens are read for each that an even share reads beside it (and what a step holds)."""
    limits = Limits(max_requests=8, max_tokens=64, max_rows=64, step_us=50_000, long_us=125_000)
    s = Scheduler(PageTables([GroupSize(None, 4096)], 16), CostModel(*cost), limits)
    works = {i: Work(i, list(range(10_000 * i, 10_000 * i + prompt)), prompt - 1) for i, (_, prompt, _) in
             enumerate(requests)}  # fmt: skip
    step, read, begun, total = 0, 0, dict[int, int](), 0
    while len(begun) < len(works) or s.running or s.waiting:
        for i, (at, *_) in enumerate(requests):
            if at == step:
                s.add(works[i])
                begun[i] = read
        plan = s.plan()
        spent = sum(chunk.count for chunk in plan.chunks if chunk.work.reads)
        read += spent
        for chunk in plan.chunks:
            work = chunk.work
            reads, (_, prompt, answer) = work.reads, requests[work.id]
            s.advance(chunk)
            if work.due:
                continue
            if reads:
                total += prompt
                assert read - begun[work.id] <= 2 * len(works) * prompt + limits.max_tokens
            work.tokens.append(7)
            if len(work.tokens) == prompt + answer:
                s.remove(work)
        step += 1
        assert step < 50_000, "somebody starves"
    assert total == read == sum(prompt for _, prompt, _ in requests), "tokens were read twice, or not at all"
