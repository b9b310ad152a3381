"""Every accepted request ends in exactly one final event, whatever happens."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from cutaway.engine import Limits
from cutaway.errors import EngineError
from cutaway.ops.protocol import F32, Step
from cutaway.ops.rows import HostRows
from engine.driving import FULL, GREEDY, WINDOWS, answers, core, drain, last, oracle
from engine.fake_model import VOCAB, FakeModel
from oracle import Answer


def poisoned(model: FakeModel, token: int) -> Callable[[Step], HostRows]:
    """NaN in the rows of every request that holds `token` in this step."""

    def step_function(step: Step) -> HostRows:
        logits = model(step)
        bad = set(step.request_of[step.tokens == token])
        logits.values[[i for i, row in enumerate(step.rows) if step.request_of[row] in bad]] = np.nan
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

    def fails_once(step: Step) -> HostRows:
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

    def slow(step: Step) -> HostRows:
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
