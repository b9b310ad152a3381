"""What the engine answers, over a fake model that notices every wrong page."""

from __future__ import annotations

import time

import numpy as np
import pytest

from cutaway.cache import PrefixBreak
from cutaway.engine import Finished, Limits, TokenChosen
from cutaway.errors import ContextExceededError, ParameterError
from cutaway.ops.protocol import KVLayout
from cutaway.sampling import SamplingParams
from cutaway.trace import MemoryRecorder, PrefixRecord, StepRecord, TokenRecord
from engine.driving import FULL, GREEDY, LIMITS, WINDOWS, answers, checked_step, core, drain, last, oracle
from engine.fake_model import VOCAB, FakeModel, layout


@pytest.mark.parametrize("kv", [FULL, WINDOWS])
def test_one_request_equals_the_oracle(kv: KVLayout) -> None:
    model = FakeModel(kv)
    engine = core(model, kv)
    stream = engine.submit([3, 1, 4, 1, 5], GREEDY)
    drain(engine, model)
    assert answers(stream) == [oracle(kv).answer([3, 1, 4, 1, 5], GREEDY, seed=0)]


def test_end_tokens_end_and_seeds_repeat() -> None:
    params = SamplingParams(temperature=1.5, seed=11)
    model = FakeModel(FULL)
    engine = core(model, FULL)
    streams = [engine.submit([2, 7], params) for _ in range(2)] + [engine.submit([2, 7], params, seed=12)]
    drain(engine, model)
    first, second, other = (answers(stream)[0] for stream in streams)
    assert first == second == oracle(FULL).answer([2, 7], params, seed=11)
    assert other == oracle(FULL).answer([2, 7], params, seed=12) != first


def test_choices_differ_share_their_prompt_and_each_equals_the_oracle() -> None:
    params = SamplingParams(temperature=1.0, seed=5, n=3, max_tokens=6)
    prompt = list(range(1, 18))
    model = FakeModel(WINDOWS)
    engine = core(model, WINDOWS)
    stream = engine.submit(prompt, params)
    drain(engine, model)
    assert answers(stream) == [oracle(WINDOWS).answer(prompt, params, seed=5, choice=i) for i in range(3)]
    computed = sum(len(step.tokens) for step in model.steps)
    assert computed < 2 * len(prompt) + 3 * 6, "the prompt was computed anew for each choice"


def test_a_second_turn_computes_only_what_is_new() -> None:
    model = FakeModel(WINDOWS)
    engine = core(model, WINDOWS)
    first = engine.submit(list(range(1, 20)), GREEDY)
    drain(engine, model)
    history = [*range(1, 20), *answers(first)[0].tokens]
    second = engine.submit([*history, 9, 8, 7], GREEDY)
    model.steps.clear()
    drain(engine, model)
    events = list(second)
    assert isinstance(events[-1], Finished) and events[-1].usage.cached_tokens == len(history) - 1
    assert sum(len(step.tokens) for step in model.steps) == 1 + 3 + 7  # the last token of an answer is never computed
    assert [e.token for e in events[:-1]] == list(oracle(WINDOWS).answer([*history, 9, 8, 7], GREEDY, seed=0).tokens)


def test_an_identical_prompt_computes_its_last_page_again() -> None:  # case C57
    model = FakeModel(FULL)
    engine = core(model, FULL)
    results = []
    for _ in range(2):
        stream = engine.submit(list(range(1, 13)), GREEDY.replace(logprobs=2))
        drain(engine, model)
        results.append([event for event in stream if isinstance(event, TokenChosen)])
    assert [(e.token, e.logprob) for e in results[0]] == [(e.token, e.logprob) for e in results[1]]


def test_prompt_logprobs_come_for_every_token_in_bounded_steps() -> None:
    prompt = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9]
    model = FakeModel(FULL)
    engine = core(model, FULL)
    engine.submit(prompt, GREEDY)
    drain(engine, model)  # its pages are there now, and may not be taken up: every row is wanted
    streams = [engine.submit(prompt, GREEDY.replace(max_tokens=0, prompt_logprobs=2)) for _ in range(2)]
    busy = engine.submit(prompt, GREEDY)
    drain(engine, model)
    assert answers(busy) == [oracle(FULL).answer(prompt, GREEDY, seed=0)]
    assert max(len(step.rows) for step in model.steps) <= LIMITS.max_rows
    rows = oracle(FULL).logits(prompt, rows=len(prompt)).astype(np.float64)
    truth = rows - np.log(np.exp(rows).sum(-1, keepdims=True))
    for stream in streams:
        event = last(stream)
        assert (event.stop.kind, event.usage.completion_tokens, event.usage.cached_tokens) == ("length", 0, 0)
        assert event.prompt_logprobs is not None and event.prompt_logprobs[0] is None
        told = [logprob for logprob in event.prompt_logprobs if logprob is not None]
        assert [t.token for t in told] == prompt[1:]
        for row, t in zip(truth, told, strict=False):
            assert t.logprob == pytest.approx(row[t.token], abs=1e-9)
            assert t.rank == 1 + (row > row[t.token]).sum()
            assert [i for i, _ in t.top] == list(np.lexsort((np.arange(VOCAB), -row))[:2])


def test_no_token_is_chosen_when_none_is_wanted() -> None:
    model = FakeModel(FULL)
    engine = core(model, FULL)
    stream = engine.submit([1, 2, 3], GREEDY.replace(max_tokens=0))
    drain(engine, model)
    assert answers(stream)[0].tokens == ()


def test_a_prompt_longer_than_the_context_is_refused_with_both_numbers() -> None:
    engine = core(FakeModel(FULL), FULL)
    with pytest.raises(ContextExceededError, match=r"maximum context length is 48 tokens.*49 tokens"):
        engine.submit([1] * 49, GREEDY)
    with pytest.raises(ContextExceededError, match=r"maximum context length is 48 tokens.*48 tokens"):
        engine.submit([1] * 48, GREEDY)
    assert engine.submit([1] * 48, GREEDY.replace(max_tokens=0)) is not None
    small = layout((None, 5))
    with pytest.raises(ContextExceededError, match=r"maximum context length is 20 tokens.*21 tokens"):
        core(FakeModel(small), small).submit([1] * 21, GREEDY)


def test_an_answer_ends_with_the_context_and_the_caller_was_warned() -> None:
    model = FakeModel(FULL)
    engine = core(model, FULL)
    streams = [engine.submit([1] * 44, GREEDY), engine.submit([1] * 44, GREEDY.replace(max_tokens=None))]
    drain(engine, model)
    for stream, warned in zip(streams, (True, False), strict=True):
        event = last(stream)
        assert (event.stop.kind, event.usage.completion_tokens) == ("context", 4)
        assert bool(event.warnings) == warned
        assert not warned or "4 of 48" in event.warnings[0]


@pytest.mark.parametrize(
    ("prompt", "params", "message"),
    [
        ([], GREEDY, "no tokens"),
        ([1, VOCAB], GREEDY, f"token {VOCAB}.*0 to {VOCAB - 1}"),
        ([-1], GREEDY, "token -1"),
        ([1], GREEDY.replace(logit_bias={VOCAB: 1.0}), f"{VOCAB}"),
        ([1], GREEDY.replace(n=10**6), "n is 1000000"),
    ],
)
def test_what_cannot_be_is_refused_at_the_door(prompt: list[int], params: SamplingParams, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        core(FakeModel(FULL), FULL).submit(prompt, params)


def test_cancelling_gives_pages_back_at_the_next_step_also_when_queued() -> None:
    model = FakeModel(FULL)
    engine = core(model, FULL, limits=Limits(max_requests=1, max_tokens=4, max_rows=1))
    running, queued = (engine.submit([i] * 20, GREEDY) for i in (1, 2))
    checked_step(engine, model)
    running.cancel()
    queued.cancel()
    running.cancel()
    assert not checked_step(engine, model)
    assert engine.pages.pools[0].held == 0
    assert [last(stream).stop.kind for stream in (running, queued)] == ["cancelled", "cancelled"]
    assert all(set(step.tokens) == {1} for step in model.steps)
    assert running.events.empty() and queued.events.empty()
    again = engine.submit([1] * 20, GREEDY)  # aborted during its prompt, then sent again
    drain(engine, model)
    assert answers(again) == [oracle(FULL).answer([1] * 20, GREEDY, seed=0)]


def test_time_runs_out_for_running_and_queued_requests() -> None:
    model = FakeModel(FULL)
    engine = core(model, FULL, limits=Limits(max_requests=1, max_tokens=8, max_rows=1))
    streams = [engine.submit([1, 2], GREEDY.replace(max_tokens=None, time_limit=0.05)) for _ in range(2)]
    for _ in range(3):
        checked_step(engine, model)
    time.sleep(0.06)
    drain(engine, model)
    ends = [last(stream) for stream in streams]
    assert [end.stop.kind for end in ends] == ["time", "time"]
    assert [end.usage.completion_tokens for end in ends] == [3, 0]


def test_records_are_made_when_somebody_looks() -> None:
    model, recorder = FakeModel(FULL), MemoryRecorder()
    engine = core(model, FULL, recorder=recorder)
    stream = engine.submit([1, 2, 3], GREEDY)
    drain(engine, model)
    tokens = [record for record in recorder.records if isinstance(record, TokenRecord)]
    steps = [record for record in recorder.records if isinstance(record, StepRecord)]
    assert [record.id for record in tokens] == list(answers(stream)[0].tokens)
    assert [record.position for record in tokens] == list(range(8))
    assert [(record.step, record.tokens, record.rows) for record in steps[:2]] == [(1, 3, 1), (2, 1, 1)]
    assert set(steps[0].milliseconds) == {"plan", "batch", "forward", "sample"}


def test_what_broke_the_match_of_a_prefix_is_told() -> None:
    model, recorder = FakeModel(FULL), MemoryRecorder()
    engine = core(model, FULL, recorder=recorder)
    size = engine.pages.page_size
    prompt = [1 + i % 5 for i in range(2 * size + 1)]
    changed = [*prompt[:-2], 6, prompt[-1]]
    ends = []
    for tokens in (prompt, changed, prompt):
        stream = engine.submit(tokens, GREEDY)
        drain(engine, model)
        ends.append(last(stream))
    at = 2 * size - 1
    assert [end.broke for end in ends] == [
        PrefixBreak(0, 1, "never_seen"), PrefixBreak(at, 6, "prompt_changed", (prompt[at],)), None,
    ]  # fmt: skip
    records = [record for record in recorder.records if isinstance(record, PrefixRecord)]
    assert [(r.tokens, r.cached, r.at, r.reason) for r in records] == [
        (len(prompt), 0, 0, "never_seen"),
        (len(prompt), size, at, "prompt_changed"),
        (len(prompt), 2 * size, None, None),
    ]
    assert records[0].step == 1 and records[1].expected == (prompt[at],)


def test_a_recorder_that_fails_fails_nobody() -> None:
    class FullDisk(MemoryRecorder):
        def record(self, record: object) -> None:
            raise OSError("no space left")

    model = FakeModel(FULL)
    engine = core(model, FULL, recorder=FullDisk())
    stream = engine.submit([1, 2, 3], GREEDY)
    drain(engine, model)
    end = last(stream)
    assert end.stop.kind == "length" and "no space left" in end.warnings[0]


def test_timings_add_up() -> None:
    model = FakeModel(FULL)
    engine = core(model, FULL)
    stream = engine.submit([1, 2, 3], GREEDY)
    drain(engine, model)
    times = last(stream).timings
    assert min(times.queued, times.prefill, times.decode) >= 0
    assert times.queued + times.prefill + times.decode == pytest.approx(times.total)
    assert times.ttft == pytest.approx(times.queued + times.prefill)
