"""A request's time as stages, steps and ops: on a real model, and the arithmetic on steps that were made up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from cutaway import Engine, SamplingParams
from cutaway.errors import UnsupportedError
from cutaway.ops.native.recording import RecordedStep
from cutaway.xray.chrome_trace import chrome_trace
from cutaway.xray.course import Course, CourseStep, StepKeeper, recorded_course, run_course
from cutaway.xray.op_times import REPEATS, OpTimes, op_times
from cutaway.xray.record import Ending, Figures, PrefillChunk, RequestRecord, System
from cutaway.xray.trace import attention_parts, trace_of
from cutaway.xray.trace_json import trace_json

pytestmark = pytest.mark.models
CHAT = [{"role": "user", "content": "Erzähle mir etwas. 你好 " * 12}]
PARAMS = SamplingParams(max_tokens=10, temperature=0.7, seed=3, ignore_eos=True)


@pytest.fixture(scope="module")
def keeper() -> StepKeeper:
    return StepKeeper()


@pytest.fixture(scope="module")
def engine(smollm2_path: Path, keeper: StepKeeper) -> Iterator[Engine]:
    with Engine.load(smollm2_path, context=512, recorder=keeper, threads=1) as made:
        yield made


@pytest.fixture(scope="module")
def course(engine: Engine, keeper: StepKeeper) -> Course:
    return run_course(engine, keeper, CHAT, PARAMS)


@pytest.fixture(scope="module")
def ops(engine: Engine, course: Course) -> OpTimes:
    assert course.ids is not None and course.answer is not None
    return op_times(engine, course.ids, course.answer)


def test_the_course_is_the_request_from_end_to_end(engine: Engine, course: Course) -> None:
    assert course.ids == engine.token_ids(CHAT)
    assert list(course.answer or ()) == list(engine.generate([CHAT], PARAMS)[0].token_ids)
    reading = [step for step in course.steps if step.reads]
    assert [step.start for step in reading] == [sum(s.tokens for s in reading[:n]) for n in range(len(reading))]
    assert sum(step.tokens for step in reading) == course.prompt_tokens
    assert len(course.steps) - len(reading) == course.tokens - 1
    for before, after in pairwise(course.steps):
        assert before.began <= before.ended <= after.began
    for step in course.steps:
        assert {"plan", "batch", "forward", "sample", "hand_out"} == set(step.parts)
        assert sum(step.parts.values()) == pytest.approx(step.ended - step.began, rel=0.05, abs=2)
    assert course.steps[-1].began <= course.total


def test_a_step_in_parts_has_the_same_bits(engine: Engine) -> None:
    assert engine.inside is not None and isinstance(engine.inside.run, RecordedStep)
    whole = engine.generate([CHAT], PARAMS.replace(logprobs=3))[0]
    seen: list[Any] = []
    engine.inside.run.watcher = lambda step, marks: seen.append(marks)
    try:
        parts = engine.generate([CHAT], PARAMS.replace(logprobs=3))[0]
    finally:
        engine.inside.run.watcher = None
    assert (parts.token_ids, parts.logprobs) == (whole.token_ids, whole.logprobs)
    assert seen and all(list(marks) == sorted(marks) for marks in seen)


def test_every_op_of_the_prompt_and_of_places_in_the_answer(engine: Engine, course: Course, ops: OpTimes) -> None:
    assert ops.left_out == 0
    assert sum(step.tokens for step in ops.prompt) == course.prompt_tokens and ops.prompt[0].start == 0
    assert [a.context for a in ops.prompt[:-1]] == [b.start for b in ops.prompt[1:]]
    contexts = [step.context for step in ops.answer]
    assert contexts == sorted(contexts) and {step.tokens for step in ops.answer} == {1}
    assert course.prompt_tokens < contexts[0] and contexts[-1] <= course.prompt_tokens + course.tokens + REPEATS
    for step in (*ops.prompt, *ops.answer):
        assert [op.name for op in step.ops[:4]] == ["embed", "project", "rotate_store", "attend"]
        assert step.ops[-1].name == "logits" and step.ops[-1].layer is None and step.ops[0].layer is None
        assert {op.layer for op in step.ops[1:-1]} == set(range(engine.spec.layers))
        assert all(op.seconds >= 0 for op in step.ops)
    assert engine.inside is not None and engine.inside.run.watcher is None  # type: ignore[attr-defined]


def test_what_is_counted_of_attention_is_what_the_ops_are_counted_for(engine: Engine, ops: OpTimes) -> None:
    assert engine.inside is not None
    for step in ops.answer:
        attending = [op.cost for op in step.ops if op.name == "attend"]
        scores, softmax, values = attention_parts(step.context, engine.inside)
        assert scores.operations + values.operations == sum(sum(cost.operations.values()) for cost in attending)
        assert scores.bytes + values.bytes == sum(cost.bytes for cost in attending)
        assert softmax.operations == engine.spec.layers * engine.spec.heads * step.context


def test_others_go_on_beside_it_and_are_not_taken_for_ours(engine: Engine, course: Course) -> None:
    """Their answer has the same bits, and each step that counts is of one request."""
    other, params = "Count to ten:", SamplingParams(max_tokens=40, temperature=0.9, seed=5, ignore_eos=True)
    alone = engine.generate(other, params)[0].token_ids
    found: list[Any] = []
    thread = Thread(target=lambda: found.append(engine.generate(other, params)[0].token_ids))
    thread.start()
    assert course.ids is not None and course.answer is not None
    beside = op_times(engine, course.ids, course.answer, places=2)
    thread.join()
    assert found == [alone]
    for step in (*beside.prompt, *beside.answer):
        assert step.context <= course.prompt_tokens + course.tokens + REPEATS


def test_a_text_that_fills_the_context(engine: Engine) -> None:
    text = engine.tokenizer.encode("one two three four " * 300)[: engine.context - 1]
    found = op_times(engine, text, [], places=2)
    assert found.answer and found.answer[-1].context < engine.context


def test_a_backend_without_ops_says_so(smollm2_path: Path) -> None:
    with (
        Engine.load(smollm2_path, context=64, backend="reference") as engine,
        pytest.raises(UnsupportedError, match="native backend"),
    ):
        op_times(engine, [1, 2], [3])


# --- what is told -----------------------------------------------------------------------------------------------------
def test_stages_and_shares(engine: Engine, course: Course, ops: OpTimes) -> None:
    trace = trace_of(course, engine.inside, ops, 12.5)
    told = {stage.name: stage for stage in trace.stages if not stage.inside}
    assert list(told)[:3] == ["template", "tokenize", "queue"] and list(told)[-2:] == ["decode", "send"]
    assert all(stage.how == "measured" for stage in trace.stages)
    shares = [stage.share for stage in told.values() if stage.share is not None]
    assert 0.5 < sum(shares) < 1.05 and told["send"].share is None
    inside = sum(stage.ms or 0 for stage in trace.stages if stage.inside == "decode")
    assert inside == pytest.approx(told["decode"].ms, rel=0.1, abs=3)
    for rows in (trace.prompt_ops, trace.answer_ops):
        assert sum(row.share for row in rows) == pytest.approx(1) and {row.part for row in rows} == {
            "embed", "layers", "head",
        }  # fmt: skip
    sent = json.loads(json.dumps(trace_json(trace), allow_nan=False))
    assert sent["ops_ms"] == 12.5 and len(sent["steps"]) == len(course.steps) and sent["why_no_ops"] is None


def test_the_file_for_perfetto_keeps_the_formats_rules(course: Course, ops: OpTimes) -> None:
    """Complete events with all required fields, in order, inside each other or apart within a thread."""
    file = json.loads(json.dumps(chrome_trace(course, ops), allow_nan=False))
    assert file["displayTimeUnit"] == "ms"
    spans = [event for event in file["traceEvents"] if event["ph"] == "X"]
    named = [event for event in file["traceEvents"] if event["ph"] == "M"]
    assert {event["name"] for event in named} == {"process_name", "thread_name"}
    assert {event["pid"] for event in spans} == {event["pid"] for event in named} == {1, 2}
    for process in (1, 2):
        open_until: list[float] = []
        for event in (event for event in spans if event["pid"] == process):
            assert {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"} <= event.keys()
            begin, end = event["ts"], event["ts"] + event["dur"]
            assert begin >= 0 and event["dur"] >= 0
            while open_until and open_until[-1] <= begin + 1e-3:
                open_until.pop()
            assert not open_until or end <= open_until[-1] + 2e-3, event
            open_until.append(end)
    assert sum(event["cat"] == "op" for event in spans) == sum(len(s.ops) for s in (*ops.prompt, *ops.answer))


def record(**changes: Any) -> RequestRecord:
    system = System("smollm2", "", "0", "avx2", "native", "bf16", "bf16", 512)
    fields: dict[str, Any] = {
        "id": "0" * 16, "request": "r", "caller": "local", "began": 0.0, "path": "/v1/completions", "level": "contents",
        "system": system, "parameters": SamplingParams(), "seed": 1, "prompt_tokens": 40, "tokens": 3,
        "end": Ending("length"), "prompt_ids": tuple(range(40)), "token_ids": (7, 8, 9),
        "token_ms": (30.0, 38.0, 47.0), "chunks": (PrefillChunk(16, 20, 20.0), PrefillChunk(36, 4, 30.0)),
        "figures": Figures(queued_ms=5.0, prefill_ms=25.0, decode_ms=17.5, total_ms=47.5, cached=16),
    }  # fmt: skip
    return RequestRecord(**fields | changes)


def test_the_course_of_a_record() -> None:
    course = recorded_course(record())
    assert course.steps == (
        CourseStep(5.0, 20.0, 16, 20, True), CourseStep(20.0, 30.0, 36, 4, True),
        CourseStep(30.0, 38.0, 40, 1, False), CourseStep(38.0, 47.0, 41, 1, False),
    )  # fmt: skip
    trace = trace_of(course, why="no ids")
    told = {stage.name: stage for stage in trace.stages}
    assert (told["queue"].ms, told["prefill 2"].ms, told["decode"].ms) == (5.0, 10.0, 17.0)
    assert told["template"].how == told["forward"].how == told["send"].how == "unknown"
    assert told["template"].ms is None and trace_json(trace)["why_no_ops"] == "no ids"


def test_a_record_of_a_request_that_never_ran() -> None:
    empty = record(chunks=(), token_ms=(), tokens=0, token_ids=(), figures=Figures())
    course = recorded_course(empty)
    assert course.steps == () and course.total == 0
    assert all(stage.share is None or stage.share == 0 for stage in trace_of(course).stages)
    assert chrome_trace(course)["traceEvents"]
