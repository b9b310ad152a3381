"""The engine against the naive one, over a fake model that notices every wrong page; and that every request ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from fake_model import VOCAB, FakeModel, LetterTokenizer, layout
from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway.engine import EngineCore, Event, Finished, Limits, Stream, TokenChosen
from cutaway.errors import ContextExceededError, EngineError, ParameterError
from cutaway.ops.protocol import F32, KVLayout, Step
from cutaway.sampling import SamplingParams
from cutaway.trace import MemoryRecorder, StepRecord, TokenRecord
from oracle import Answer, Oracle

CONTEXT = 48
GREEDY = SamplingParams(temperature=0.0, max_tokens=8, ignore_eos=True)
TOKENIZER: Any = LetterTokenizer()
LIMITS = Limits(max_requests=4, max_tokens=16, max_rows=6)


def core(model: Callable[[Step], F32], kv: KVLayout, **options: Any) -> EngineCore:
    return EngineCore(model, kv, TOKENIZER, vocab=VOCAB, **({"context": CONTEXT, "limits": LIMITS} | options))


def oracle(kv: KVLayout, context: int = CONTEXT) -> Oracle:
    whole = layout(*((group.window, CONTEXT) for group in kv.groups), page_size=kv.page_size)
    return Oracle(FakeModel(whole), whole, TOKENIZER, context=context)


def checked_step(engine: EngineCore, model: FakeModel) -> bool:
    """One step, the ledger checked and every page that nobody may read filled with nonsense after it."""
    more = engine.step()
    engine.pages.check()
    for group, pool in enumerate(engine.pages.pools):
        readable = {p for p in range(pool.total) if pool.references(p) or pool.is_published(p)}
        model.poison(group, set(range(pool.total)) - readable)
    return more


def drain(engine: EngineCore, model: FakeModel) -> None:
    for _ in range(5_000):
        if not checked_step(engine, model):
            return
    raise AssertionError("the engine does not come to an end")


def answers(stream: Stream) -> list[Answer]:
    events = list(stream)
    assert stream.events.empty()
    return collected(events)


def collected(events: list[Event]) -> list[Answer]:
    """What a finished stream told, per choice. Checks that events are in order and the last is the only `Finished`."""
    told: dict[int, list[Event]] = {}
    for event in events:
        told.setdefault(event.choice, []).append(event)
    result = []
    for _, (*tokens, last) in sorted(told.items()):
        assert isinstance(last, Finished)
        chosen = [event for event in tokens if isinstance(event, TokenChosen)]
        assert len(chosen) == len(tokens) and [event.index for event in chosen] == list(range(len(chosen)))
        assert last.usage.completion_tokens == len(chosen)
        text = "".join(event.text for event in chosen) + last.text
        result.append(Answer(tuple(event.token for event in chosen), text, last.stop))
    return result


def last(stream: Stream) -> Finished:
    return [event for event in stream if isinstance(event, Finished)][-1]


FULL = layout((None, 40))
WINDOWS = layout((None, 40), (6, 12), (1, 9), (None, 40), page_size=3)


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
    assert isinstance(events[-1], Finished) and events[-1].usage.cached_tokens >= len(history) - 3
    assert sum(len(step.tokens) for step in model.steps) <= 3 + 3 + 8
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
    with pytest.raises(ContextExceededError, match=r"49 tokens.*48"):
        engine.submit([1] * 49, GREEDY)
    with pytest.raises(ContextExceededError, match=r"48 tokens.*48"):
        engine.submit([1] * 48, GREEDY)
    assert engine.submit([1] * 48, GREEDY.replace(max_tokens=0)) is not None
    small = layout((None, 5))
    with pytest.raises(ContextExceededError, match=r"21 tokens.*20"):
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


def poisoned(model: FakeModel, token: int) -> Callable[[Step], F32]:
    """NaN in the rows of every request that holds `token` in this step."""

    def step_function(step: Step) -> F32:
        logits = model(step)
        bad = set(step.request_of[step.tokens == token])
        logits[[i for i, row in enumerate(step.rows) if step.request_of[row] in bad]] = np.nan
        return logits

    return step_function


def test_nan_ends_its_request_and_no_other() -> None:  # case C62
    model = FakeModel(FULL)
    engine = core(poisoned(model, 23), FULL)
    good = GREEDY.replace(banned_tokens=[23])
    streams = [engine.submit(prompt, good) for prompt in ([1, 2, 3], [1, 2, 23], [4])]
    scored = engine.submit([5, 23, 5], GREEDY.replace(prompt_logprobs=0))
    drain(engine, model)
    assert answers(streams[0]) == [oracle(FULL).answer([1, 2, 3], good, seed=0)]
    assert answers(streams[2]) == [oracle(FULL).answer([4], good, seed=0)]
    for bad in (streams[1], scored):
        end = last(bad)
        assert end.stop.kind == "error" and isinstance(end.error, EngineError)
    assert engine.pages.pools[0].held == 0


def test_a_stage_that_raises_ends_its_request_and_no_other() -> None:
    def broken(logits: F32, prompt: Sequence[int], generated: Sequence[int]) -> F32 | None:
        raise ZeroDivisionError("my stage")

    model = FakeModel(FULL)
    engine = core(model, FULL)
    bad, good = engine.submit([1], GREEDY.replace(stages=[broken])), engine.submit([1], GREEDY)
    drain(engine, model)
    assert "my stage" in str(last(bad).error)
    assert answers(good)[0].stop.kind == "length"


def test_a_model_that_raises_ends_the_requests_of_its_step_and_the_engine_goes_on() -> None:
    model = FakeModel(FULL)

    def fails_once(step: Step) -> F32:
        if len(model.steps) == 2:
            model.steps.append(step)
            raise RuntimeError("no memory in the kernel")
        return model(step)

    engine = core(fails_once, FULL, limits=Limits(max_requests=2, max_tokens=8, max_rows=2))
    streams = [engine.submit([1, 2, 3], GREEDY) for _ in range(3)]
    drain(engine, model)
    ends = [last(stream) for stream in streams]
    assert [end.stop.kind for end in ends] == ["error", "error", "length"]
    assert "no memory in the kernel" in str(ends[0].error)


def test_wrong_row_counts_are_an_error_not_a_hang() -> None:
    engine = core(lambda step: np.zeros((0, VOCAB), np.float32), FULL)
    stream = engine.submit([1], GREEDY)
    assert not engine.step()
    assert last(stream).stop.kind == "error"


def test_the_thread_serves_many_callers_and_closing_ends_the_rest() -> None:
    model = FakeModel(WINDOWS)
    prompts = [[1 + i, 2, 3, 4 + i] for i in range(6)]
    with core(model, WINDOWS).start() as engine:
        results: dict[int, list[Answer]] = {}

        def ask(i: int) -> None:
            results[i] = answers(engine.submit(prompts[i], GREEDY))

        callers = [threading.Thread(target=ask, args=(i,)) for i in range(6)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(30)
    naive = oracle(WINDOWS)
    assert results == {i: [naive.answer(prompt, GREEDY, seed=0)] for i, prompt in enumerate(prompts)}
    with pytest.raises(EngineError, match="closed"):
        engine.submit([1], GREEDY)


def test_closing_during_a_run_ends_running_and_queued_requests_once() -> None:
    model = FakeModel(FULL)
    started = threading.Event()

    def slow(step: Step) -> F32:
        started.set()
        time.sleep(0.01)
        return model(step)

    engine = core(slow, FULL, limits=Limits(max_requests=1, max_tokens=4, max_rows=1)).start()
    streams = [engine.submit([1, 2], GREEDY.replace(max_tokens=None)) for _ in range(3)]
    assert started.wait(10)
    engine.close()
    engine.close()
    assert [last(stream).stop.kind for stream in streams] == ["cancelled"] * 3
    assert all(stream.events.empty() for stream in streams)


def test_closing_an_engine_without_a_thread_ends_what_was_submitted() -> None:
    engine = core(FakeModel(FULL), FULL)
    stream = engine.submit([1], GREEDY)
    engine.close()
    assert last(stream).stop.kind == "cancelled"


def test_a_bug_of_ours_is_told_to_every_request(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = core(FakeModel(FULL), FULL)
    monkeypatch.setattr(engine.scheduler, "plan", lambda: 1 / 0)
    streams = [engine.submit([1], GREEDY) for _ in range(2)]
    engine.start()
    for stream in streams:
        end = last(stream)
        assert end.stop.kind == "error" and "ZeroDivisionError" in str(end.error)
    with pytest.raises(EngineError, match="ZeroDivisionError"):
        engine.submit([1], GREEDY)
    engine.close()


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


REQUEST = st.fixed_dictionaries(
    {
        "shared": st.integers(0, 14),  # tokens that many prompts begin with
        "own": st.lists(st.integers(1, 4), min_size=1, max_size=12),
        "max_tokens": st.integers(0, 14),
        "temperature": st.sampled_from([0.0, 1.0]),
        "n": st.sampled_from([1, 1, 1, 2, 3]),
        "arrives": st.integers(0, 12),
        "cancelled": st.none() | st.integers(0, 20),
        "prompt_logprobs": st.sampled_from([None, None, None, 1]),
    }
)


@settings(max_examples=120, deadline=None)
@given(
    requests=st.lists(REQUEST, min_size=1, max_size=8),
    groups=st.sampled_from([((None, 12),), ((None, 12), (5, 6)), ((7, 8), (1, 3)), ((None, 13), (3, 4), (None, 14))]),
    page_size=st.sampled_from([1, 3, 4]),
    limits=st.sampled_from([(1, 1, 1), (2, 3, 2), (4, 16, 5), (3, 64, 64)]),
    sharing=st.booleans(),
)
def test_whatever_happens_every_answer_is_the_oracles(
    requests: list[dict[str, Any]], groups: tuple[tuple[int | None, int], ...], page_size: int,
    limits: tuple[int, int, int], sharing: bool,
) -> None:
    """Random arrivals, cancels, shared prefixes, chunk sizes, windows, and pools so small that requests are preempted.
    An answer that was cancelled is the beginning of the oracle's."""
    kv = layout(*groups, page_size=page_size)
    model = FakeModel(kv)
    engine = core(model, kv, context=30, limits=Limits(*limits), sharing=sharing)
    naive = oracle(kv, engine.context)
    streams: list[tuple[Stream, list[int], SamplingParams, dict[str, Any]]] = []
    step = 0
    more = True
    while more or any(request["arrives"] >= step for request in requests):
        for request in requests:
            if request["arrives"] == step:
                prompt = [1 + i % 3 for i in range(request["shared"])] + request["own"]
                params = SamplingParams(
                    temperature=request["temperature"], max_tokens=request["max_tokens"], n=request["n"], seed=9,
                    prompt_logprobs=request["prompt_logprobs"],
                )
                try:
                    streams.append((engine.submit(prompt, params), prompt, params, request))
                except ContextExceededError:
                    assert len(prompt) > engine.context or (len(prompt) == engine.context and request["max_tokens"])
        for stream, _, _, request in streams:
            if request["cancelled"] is not None and request["arrives"] + request["cancelled"] == step:
                stream.cancel()
        more = checked_step(engine, model)
        step += 1
        assert step < 5_000
    assert all(pool.held == 0 for pool in engine.pages.pools)
    for stream, prompt, params, _ in streams:
        events = list(stream)
        for event in events:
            if isinstance(event, Finished) and event.choice == 0 and event.stop.kind != "cancelled":
                told = event.prompt_logprobs
                assert (None if told is None else len(told)) == (params.prompt_logprobs and len(prompt))
        for choice, answer in enumerate(collected(events)):
            if params.max_tokens == 0:
                assert (answer.tokens, answer.stop.kind) in {((), "length"), ((), "cancelled")}
                continue
            truth = naive.answer(prompt, params, seed=9, choice=choice)
            if answer.stop.kind == "cancelled":
                assert answer.tokens == truth.tokens[: len(answer.tokens)]
            else:
                assert answer == truth
