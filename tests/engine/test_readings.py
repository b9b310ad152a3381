"""A known text is read for its rows: the same rows as were drawn from, and what that costs the requests is bounded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cutaway.bench.virtual_time import Ask, Clock, Served
from cutaway.cache import GroupSize, PageTables
from cutaway.engine import CostModel, EngineCore, Limits
from cutaway.engine.readings import SHARE, Readings
from cutaway.engine.row_stream import AHEAD, RowStream
from cutaway.engine.scheduler import Scheduler
from cutaway.engine.step_plan import Chunk, Plan, Work
from cutaway.errors import ContextExceededError, EngineError, ParameterError
from cutaway.ops.protocol import F32, Step
from cutaway.ops.rows import Rows
from cutaway.sampling import SamplingParams
from engine.driving import FULL, GREEDY, WINDOWS, answers, checked_step, core, drain
from engine.fake_model import VOCAB, FakeModel, layout


class Listening(FakeModel):
    """Remembers its rows by (what was before, token's position) of the last token."""

    def __call__(self, step: Step) -> Rows:
        rows = super().__call__(step)
        self.last = [rows.row(i).copy() for i in range(len(rows))]
        return rows


def truth(kv: Any, tokens: list[int], first: int) -> list[F32]:
    """Each row by itself, with a fresh engine and nothing shared."""
    found = []
    for end in range(first + 1, len(tokens) + 1):
        model = Listening(kv)
        engine = core(model, kv, sharing=False)
        engine.submit(tokens[:end], GREEDY.replace(max_tokens=1))
        drain(engine, model)
        found.append(model.last[-1])
        engine.close()
    return found


def taken(engine: EngineCore, model: FakeModel, stream: RowStream) -> list[F32]:
    """All rows, with the engine driven from here: what lies there is taken after each step."""
    rows: list[F32] = []
    for _ in range(2_000):
        checked_step(engine, model)
        while stream._results.qsize():
            rows.append(next(stream))
        if len(rows) + stream.left == 0 or stream.left == 0:
            return rows
    raise AssertionError("the reading does not come to an end")


@pytest.mark.parametrize("kv", [FULL, WINDOWS])
@pytest.mark.parametrize("sharing", [True, False])
def test_the_rows_are_those_that_tokens_were_drawn_from(kv: Any, sharing: bool) -> None:
    model = FakeModel(kv)
    engine = core(model, kv, sharing=sharing)
    prompt = [3, 1, 4, 1, 5, 9, 2, 6]
    (answer,) = answers_of(engine, model, prompt, GREEDY.replace(max_tokens=12))
    tokens = [*prompt, *answer[:-1]]
    rows = taken(engine, model, engine.readings.open(tokens, len(prompt) - 1))
    assert [int(row.argmax()) for row in rows] == list(answer)
    expected = truth(kv, tokens, len(prompt) - 1)
    assert len(rows) == len(expected) and all(map(np.array_equal, rows, expected))
    assert not engine.readings.due


def answers_of(engine: EngineCore, model: FakeModel, prompt: list[int], params: SamplingParams) -> list[Any]:
    stream = engine.submit(prompt, params)
    drain(engine, model)
    return [answer.tokens for answer in answers(stream)]


def test_among_requests_that_take_its_pages_nobody_is_preempted_and_every_row_comes_once() -> None:
    """Requests that need all pages between them: the reading gives way, takes up what is left, and goes on."""
    kv = layout((None, 14))
    text = [1 + i % 7 for i in range(40)]
    expected = truth(kv, text, 9)
    model = FakeModel(kv)
    engine = core(model, kv)
    stream = engine.readings.open(text, 9)
    checked_step(engine, model)
    rows: list[F32] = []
    streams = []
    for round in range(60):
        if not round % 3:
            prompt = [1 + (round + i) % 11 for i in range(4)]
            streams.append(engine.submit(prompt, GREEDY.replace(max_tokens=20)))
        checked_step(engine, model)
        while stream._results.qsize():
            rows.append(next(stream))
    drain_with(engine, model, stream, rows)
    assert len(rows) == 31 and all(map(np.array_equal, rows, expected))
    lone = FakeModel(kv)
    alone = core(lone, kv)
    for at, one in enumerate(streams):
        prompt = [1 + (3 * at + i) % 11 for i in range(4)]
        (expected_answer,) = answers_of(alone, lone, prompt, GREEDY.replace(max_tokens=20))
        assert answers(one)[0].tokens == expected_answer


def drain_with(engine: EngineCore, model: FakeModel, stream: RowStream, rows: list[F32]) -> None:
    for _ in range(2_000):
        more = checked_step(engine, model)
        while stream._results.qsize():
            rows.append(next(stream))
        if not more and not stream.left:
            return
    raise AssertionError("the engine does not come to an end")


def test_prefixes_are_found_within_its_key_only() -> None:
    model = FakeModel(FULL)
    engine = core(model, FULL)
    prompt = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
    engine.submit(prompt, GREEDY.replace(max_tokens=1), key="mine")
    drain(engine, model)
    counts = {}
    for key in ("other", "mine"):
        stream = engine.readings.open(prompt, 11, key)
        taken(engine, model, stream)
        counts[key] = stream.tokens
    assert counts == {"other": 12, "mine": 4}  # a page holds 4, and the last token is computed in any case


def test_what_lies_there_is_bounded_and_steps_are_not_tiny() -> None:
    model = FakeModel(FULL)
    engine = core(model, FULL)
    stream = engine.readings.open([1 + i % 9 for i in range(40)], 0)
    while checked_step(engine, model):
        pass
    lies = stream._results.qsize()
    assert AHEAD // 2 < lies <= AHEAD and stream.left == 40 - lies
    assert len(model.steps) <= 6, "one row to see what it takes, then several a step"
    for _ in range(lies - AHEAD // 2 - 1):
        next(stream)
    assert not engine.readings.due
    next(stream)
    assert engine.readings.due


def test_who_looks_in_the_engine_may_fail_alone() -> None:
    def broken(row: F32) -> int:
        raise ValueError("odd")

    text = [1 + i % 9 for i in range(40)]
    with core(FakeModel(FULL), FULL).start() as engine:
        with pytest.raises(EngineError, match="odd"):
            next(engine.readings.open(text, 5, None, broken))
        seen = list(engine.readings.open(text, 5, None, lambda row: int(row.argmax())))
        assert len(seen) == 35 and len(set(seen)) > 3
        assert list(engine.submit(text, GREEDY.replace(max_tokens=2)))


def test_the_threaded_engine_sleeps_wakes_and_serves_several_readings() -> None:
    text = [1 + i % 9 for i in range(40)]
    with core(FakeModel(FULL), FULL).start() as engine:
        streams = [engine.readings.open(text, first) for first in (0, 20, 39)]
        assert [len(list(stream)) for stream in streams] == [40, 20, 1]
        with engine.readings.open(text, 5) as left:
            next(left)
        assert len(list(engine.readings.open(text, 38))) == 2
        assert list(left) == []


def test_texts_that_cannot_be_read_are_refused_and_an_engine_that_ends_says_so() -> None:
    engine = core(FakeModel(FULL), FULL)
    for tokens, first in (([], 0), ([1, VOCAB], 0), ([-1], 0), ([1, 2], 2), ([1], -1)):
        with pytest.raises(ParameterError):
            engine.readings.open(tokens, first)
    with pytest.raises(ContextExceededError):
        engine.readings.open([1] * (engine.context + 1), 0)
    stream = engine.readings.open([1, 2, 3], 0)
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        next(stream)
    assert list(stream) == []
    with pytest.raises(EngineError, match="no more"):
        engine.readings.open([1, 2, 3], 0)


def test_a_step_that_fails_ends_the_reading_and_the_engine_goes_on() -> None:
    class Failing(FakeModel):
        def __call__(self, step: Step) -> Any:
            if len(self.steps) == 1:
                self.steps.append(step)
                raise RuntimeError("no memory")
            return super().__call__(step)

    model = Failing(FULL)
    with core(model, FULL).start() as engine:
        stream = engine.readings.open([1 + i % 9 for i in range(40)], 0)
        with pytest.raises(EngineError, match="no memory"):
            list(stream)
        assert len(list(engine.readings.open([1, 2, 3], 0))) == 3


# --- what the others lose, in virtual time ------------------------------------------------------------------------
class Beside:
    """A scheduler and a reading beside it, as the engine's loop has them.

    row_us: microseconds that the asker takes for each row. spent: by which steps of requests were longer, both counted.
    """

    def __init__(self, limits: Limits, cost: CostModel, text: int, row_us: float) -> None:
        self.scheduler = Scheduler(PageTables([GroupSize(None, 4096)], 16), cost, limits)
        self.cost = self.scheduler.cost
        self.readings = Readings(self.scheduler, vocab=32, context=4096, wake=lambda: None)
        self.stream = self.readings.open([0] * text, text - 200)
        self.stream.put = self._put  # type: ignore[method-assign]
        self.stream.microseconds = self.row_us = row_us
        self.waiting, self.running = self.scheduler.waiting, self.scheduler.running
        self.add, self.remove = self.scheduler.add, self.scheduler.remove
        self.spent = 0.0
        self.plan_: Plan | None = None

    def _put(self, row: F32) -> int:
        self.stream.left -= 1
        return int(self.row_us)

    def plan(self) -> Plan:
        self.readings.make_way()
        plan = self.plan_ = self.readings.beside(self.scheduler.plan())
        if plan.reading is not None:
            one = replace(plan, reading=None)
            self.spent += self.cost.predict(plan.tokens, plan.pairs) - self.cost.predict(one.tokens, one.pairs)
            self.spent += plan.reading.rows * self.row_us
        return plan

    def advance(self, chunk: Chunk) -> None:
        self.scheduler.advance(chunk)
        if self.plan_ is not None:
            self.readings.settle(self.plan_, Blank(), 1.0)
            self.plan_ = None


class Blank:
    def __len__(self) -> int:
        return 64

    def row(self, index: int) -> F32:
        return np.zeros(32, np.float32)


ASKS = [Ask(60 + 37 * (i % 9), 20 + 11 * (i % 5)) for i in range(120)]
LIMITS = Limits(max_requests=16, max_tokens=512, max_rows=64, step_us=50_000, long_us=125_000)


def served(beside: bool, clients: int, row_us: float = 1.0) -> tuple[list[Served], Any]:
    scheduler: Any = Beside(LIMITS, CostModel(20_000, 1_000, 0.5), 900, row_us)
    scheduler = scheduler if beside else scheduler.scheduler
    clock = Clock(scheduler, ASKS, clients)
    return clock.run(), scheduler


@pytest.mark.parametrize("clients", [1, 4, 16])
def test_what_others_lose_is_bounded_and_first_tokens_come_when_they_did(clients: int) -> None:
    before, _ = served(False, clients)
    after, lane = served(True, clients)
    total = max(one.tokens[-1] for one in before)
    late = max(one.tokens[-1] for one in after)
    assert lane.stream.left == 0, "the reading came to its end beside them"
    assert 0 < lane.spent <= total / SHARE + LIMITS.step_us
    assert late <= total * (1 + 1 / SHARE)
    waits = [sorted(one.wait for one in run) for run in (before, after)]
    middle, worst = (waits[1][at] / waits[0][at] for at in (len(ASKS) // 2, -1))
    assert middle < 1.15 and worst < 1.15


def test_the_askers_time_counts_too() -> None:
    before, _ = served(False, 4)
    _, lane = served(True, 4, row_us=10_000)
    total = max(one.tokens[-1] for one in before)
    assert lane.spent <= total / SHARE + LIMITS.step_us
    assert lane.stream.left < 200, "it goes on, slower"


def test_a_newcomer_waits_for_no_more_than_one_short_step() -> None:
    lane = Beside(LIMITS, CostModel(20_000, 1_000, 0.5), 900, 1.0)
    plan = lane.readings.beside(Plan((), (), ()))
    assert plan.reading is not None and plan.reading.count > 1
    assert lane.cost.predict(plan.tokens, plan.pairs) <= LIMITS.step_us


def test_a_reading_rests_while_requests_wait() -> None:
    lane = Beside(replace(LIMITS, max_requests=1), CostModel(20_000, 1_000, 0.5), 900, 1.0)
    for number in (1, 2):
        lane.add(Work(number, [number] * 40, 39))
    for _ in range(200):
        assert lane.plan().reading is None
        lane.plan_ = None
